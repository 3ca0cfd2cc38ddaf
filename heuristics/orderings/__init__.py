"""Heuristic orders: one module each, all of the form `order(graph, seed) -> op ids`."""
