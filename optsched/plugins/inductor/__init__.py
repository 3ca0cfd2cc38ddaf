"""The parts of the TorchInductor plugins that import torch; nothing here is public."""
