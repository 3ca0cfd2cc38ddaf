"""What tuning a fleet costs, what faults cost, and how it grows."""
