"""Exactness of the packing engine."""
