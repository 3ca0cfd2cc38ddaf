"""What every engine runs on: limits, interrupts, compiled kernels."""
