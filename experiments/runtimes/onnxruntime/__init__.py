"""ONNX Runtime: kernels that write in place, and bytes of a run beside planned bytes."""
