"""ExecuTorch: arenas by planner."""
