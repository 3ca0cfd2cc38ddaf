"""Smaller ordering problems with the same least peak."""
