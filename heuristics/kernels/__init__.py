"""Kernels: loops over flat arrays, each a readable Python twin and a compiled form."""
