"""Kernels of the exact ordering engine."""
