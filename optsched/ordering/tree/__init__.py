"""Precedence branching, for hard random graphs."""
