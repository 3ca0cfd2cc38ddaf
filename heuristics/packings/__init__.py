"""Heuristic packings: one module each, all of the form `packing(problem) -> offsets`."""
