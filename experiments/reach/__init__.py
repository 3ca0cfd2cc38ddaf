"""Reach of exact ordering: sizes of the graphs that are proved, and times."""
