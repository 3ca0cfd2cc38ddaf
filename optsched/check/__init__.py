"""The independent checker of plans, packings and certificates, in plain integers."""
