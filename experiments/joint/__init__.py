"""How many graphs are planned jointly optimally: slab equal to the proved least peak."""
