"""Kernels of precedence branching."""
