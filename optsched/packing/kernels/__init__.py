"""Compiled parts of the packing engine; each kernel called as it is runs as plain Python."""
