"""XLA: what a module allocates by scheduler."""
