"""What in-place is worth on real graphs, and whether its optima are true."""
