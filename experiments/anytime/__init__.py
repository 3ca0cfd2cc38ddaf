"""Whether a time limit and Ctrl-C are heeded on large graphs."""
