"""The driver: stages, the best plan so far, and the result."""
