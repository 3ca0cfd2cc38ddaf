"""How far exact ordering reaches: which graphs are proved, how large and how fast."""
