"""ONNX models: read as graphs in ONNX Runtime's memory model, written back in a plan's order.

References
----------
https://onnx.ai/onnx/repo-docs/IR.html and onnxruntime/core/framework/allocation_planner.cc; where
the two leave a question open, ONNX Runtime was measured (`experiments/runtimes/onnxruntime`).
"""
