"""Compiled kernels of the packing engine; each also runs as plain Python if called directly."""
