"""Heuristic orderings and packings: warm starts, upper bounds, and what is compared."""
