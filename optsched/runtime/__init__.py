"""Infrastructure of all engines: limits, interrupts, compiled kernels, worker processes."""
