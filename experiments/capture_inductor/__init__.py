"""Study: the graphs that TorchInductor schedules for well-known models."""
