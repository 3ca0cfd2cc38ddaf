"""How long the first run waits for compiled code."""
