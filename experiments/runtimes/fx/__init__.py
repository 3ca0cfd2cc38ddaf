"""Small exported programs of PyTorch."""
