"""ONNX Runtime: which kernels write in place, and what a run holds beside what was planned."""
