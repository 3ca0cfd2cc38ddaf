"""File formats: each module reads one into a graph or writes a plan back."""
