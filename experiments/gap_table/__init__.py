"""The gap table of the README and its picture of a packed slab."""
