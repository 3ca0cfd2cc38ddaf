"""Heuristic packings, all of the form `packing(problem) -> offsets`."""
