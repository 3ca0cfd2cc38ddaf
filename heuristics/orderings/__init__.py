"""Heuristic orders, all of the form `order(graph, seed) -> op ids`."""
