"""Study: what fusion does to the least peak."""
