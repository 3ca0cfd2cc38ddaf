"""What ops on several streams cost in memory, and what of it is proved."""
