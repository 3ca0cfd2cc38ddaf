"""XLA on the CPU: small modules, and what XLA itself says of their live ranges and offsets."""
