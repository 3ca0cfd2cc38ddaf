"""Costs of tuning a fleet, costs of faults, and growth with workers."""
