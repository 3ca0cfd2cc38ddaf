"""Compiled exhaustion of tiny graphs and packings."""
