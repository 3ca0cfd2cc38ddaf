"""Slabs that IREE's compiler prints, and their layout."""
