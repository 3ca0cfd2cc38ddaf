"""Smaller ordering problems with the same minimum peak."""
