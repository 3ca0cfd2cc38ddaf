"""Small graphs on which heuristics lose, found by search and proved by exhaustion."""
