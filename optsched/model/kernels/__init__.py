"""Kernels of the model: searches for sets of buffers that conflict."""
