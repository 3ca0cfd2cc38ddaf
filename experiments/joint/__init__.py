"""Number of graphs planned jointly optimally: slab equal to the proved minimum peak."""
