"""Recompute under a peak: joint graphs, fronts against PyTorch's budgets, compiled steps."""
