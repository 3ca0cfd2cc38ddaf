"""Kernels of the heuristics: loops over flat arrays that run as Python or compiled."""
