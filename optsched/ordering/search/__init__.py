"""Exact search for an order within a budget."""
