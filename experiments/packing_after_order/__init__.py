"""Whether pack() beats solve() on the order of its own plan."""
