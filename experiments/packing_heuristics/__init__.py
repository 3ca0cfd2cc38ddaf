"""Slabs and running times of the packers."""
