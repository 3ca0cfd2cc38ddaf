"""Pools with capacities: which buffers go to a later pool."""
