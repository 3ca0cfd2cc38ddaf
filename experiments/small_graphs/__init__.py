"""Graphs of a few ops that a reader solves by hand, with their answers."""
