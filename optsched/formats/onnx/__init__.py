"""ONNX models: read as graphs in ONNX Runtime's memory model, written back in a plan's order.

References
----------
https://onnx.ai/onnx/repo-docs/IR.html and onnxruntime/core/framework/allocation_planner.cc; where
the two leave a question open, ONNX Runtime was measured (`experiments/runtimes/onnxruntime`).
"""

from __future__ import annotations

from optsched.formats.onnx.read import FORMAT, read_onnx
from optsched.formats.onnx.reorder import reorder_onnx

__all__ = ["FORMAT", "read_onnx", "reorder_onnx"]
