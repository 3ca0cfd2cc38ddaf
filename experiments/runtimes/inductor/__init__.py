"""Training steps compiled by TorchInductor, in its order and in ours."""
