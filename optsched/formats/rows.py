"""Table of built-in formats: how each is recognized, read and written.

Readers and writers are named by module and function, and imported on first use, so that a command
loads only the formats of its files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from optsched.formats.fields import json_bytes
from optsched.formats.format import Content, Format, Source, Stock
from optsched.formats.minimalloc import looks_like

Sniff = Callable[[Source], bool]

_ONNX: Final = re.compile(rb"\x08[\x01-\x14][\x12\x1a\x22\x28\x32\x3a\x42]", re.DOTALL)
"""Field 1 of a ModelProto, a small version; then one of the fields that may come next."""
_IREE: Final = re.compile(r"=\s{1,99}stream\.resource\.pack\b")
_MEMREF: Final = re.compile(r"=\s{1,99}\"?memref\.alloc\b")
_STREAM: Final = re.compile(r"\bstream\.(?:executable|resource|cmd|tensor|async)\b")
_MLIR: Final = re.compile(r"\s*(?://[^\n]*\n\s*)*(?:#\w+ = |(?:builtin\.)?module\b|func\.func\b)")
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")
_ZIP: Final = b"PK\x03\x04"

_ADVICE: Final = (
    "build its graph with GraphBuilder or from_networkx, write it as optsched-graph/1 JSON, "
    "or register a reader with register_format"
)
_CAPTURE: Final = (
    "run the model under torch.compile and capture the graph that TorchInductor schedules, "
    "its export_graph_for_simulator JSON"
)
_BESIDE: Final = (
    (
        "optsched-recompute-certificate",
        Content.REPEATS_CERTIFICATE,
        "a bound on extra compute",
        "give it to `optsched check` with the graph and its plan with repeats",
    ),
    (
        "optsched-tiling-certificate",
        Content.TILED_CERTIFICATE,
        "a bound on the head of all tilings in rows",
        "give it to `optsched check` with the model and its plan in row bands",
    ),
    (
        "optsched-fusion-certificate",
        Content.UNFUSED_CERTIFICATE,
        "a bound on all splits of fused nodes",
        "give it to `optsched check` with the captured graph and a split",
    ),
    (
        "optsched-split",
        Content.UNFUSED,
        "a split of fused nodes",
        "give it to `optsched check` with its graph",
    ),
    ("optsched-costs", Content.COSTS, "costs of ops", "give it to `optsched recompute --costs`"),
)
"""Name, content, title and advice of formats that :mod:`optsched.formats.answers` reads."""
_NO_GRAPH: Final = "it has weights but no graph of ops; use the model's own file"


def later(module: str, function: str) -> Callable[..., Any]:
    """Return a proxy of a function in this package, which imports its module on the first call."""

    def call(*things: Any, **options: Any) -> Any:
        return getattr(import_module(f"{__package__}.{module}"), function)(*things, **options)

    return call


def _document(module: str, function: str) -> Callable[..., Any]:
    """Return a reader that takes a graph or module first, and then a file's document."""
    read = later(module, function)
    return lambda source, **about: read(*about.values(), source.document)


def _json(module: str, function: str) -> Callable[..., bytes]:
    """Return a writer of the document that a function creates."""
    make = later(module, function)
    return lambda *things: json_bytes(make(*things))


def _tagged(name: str) -> Sniff:
    return lambda source: source.is_tagged(name)


def _starts(*heads: str) -> Sniff:
    return lambda source: source.text.lstrip().startswith(heads)


def _bytes(*heads: bytes, at: int = 0) -> Sniff:
    """Return a test for bytes at the start, or at an offset as in flatbuffers."""
    return lambda source: source.data.startswith(heads, at)


def _is_simulator_file(source: Source) -> bool:
    keys = source.document.keys()
    # A simulator file has no format key, so its two keys decide.
    return "format" not in keys and {"nodes", "buffers"} <= keys


def _is_trace(source: Source) -> bool:
    return "traceEvents" in source.document


def _is_pickle(source: Source) -> bool:
    return _PICKLE.match(source.data) is not None


def _is_snapshot(source: Source) -> bool:
    # `torch.cuda.memory_snapshot` returns the segments alone.
    kinds = ((b"device_traces", b"segments"), (b"total_size", b"blocks"))
    return _is_pickle(source) and any(all(x in source.data for x in parts) for parts in kinds)


def _is_mlir(source: Source) -> bool:
    return _MLIR.match(source.text) is not None


def _is_archive_of(*marks: bytes) -> Sniff:
    """Return a test for a zip archive with a member name that contains one of the marks."""
    # Names of members stand uncompressed in an archive's directory.
    return lambda x: x.data.startswith(_ZIP) and any(mark in x.data for mark in marks)


def _is_safetensors(source: Source) -> bool:
    # The header's length, in eight bytes, and then JSON.
    length = int.from_bytes(source.data[:8], "little")
    return source.data[8:9] == b"{" and 2 <= length <= len(source.data) - 8


def _foreign(name: str, title: str, sniff: Sniff, advice: str = _ADVICE) -> Format:
    """Return the row of a format without a reader, with advice for its users."""
    return Format(name, Content.GRAPH, sniff, title=title, advice=advice)


ROWS: Final = (
    Format(
        "optsched-graph",
        Content.GRAPH,
        _tagged("optsched-graph"),
        later("native", "read_native"),
        write=_json("native", "graph_document"),
        endings=(".json",),
    ),
    Format(
        "optsched-plan",
        Content.PLAN,
        _tagged("optsched-plan"),
        _document("native_plan", "read_plan_document"),
        options=("graph",),
        write=_json("native_plan", "plan_document"),
    ),
    Format(
        "optsched-module",
        Content.GRAPH,
        _tagged("optsched-module"),
        later("native_module", "read_native_entry"),
        modules=later("native_module", "read_native_module"),
        title="a module of graphs that call each other",
    ),
    Format(
        "optsched-module-plan",
        Content.MODULE_PLAN,
        _tagged("optsched-module-plan"),
        _document("native_module", "read_module_plan"),
        options=("module",),
        write=_json("native_module", "module_plan_document"),
    ),
    Format(
        "optsched-module-certificate",
        Content.MODULE_CERTIFICATE,
        _tagged("optsched-module-certificate"),
        _document("native_module", "read_module_certificate"),
        options=("module",),
        write=_json("native_module", "module_certificate_document"),
    ),
    Format(
        "optsched-packing",
        Content.PACKING,
        _tagged("optsched-packing"),
        later("native_packing", "read_native_packing"),
        options=("pins",),
        write=_json("native_packing", "packing_document"),
    ),
    Format(
        "optsched-certificate",
        Content.CERTIFICATE,
        _tagged("optsched-certificate"),
        _document("certificate", "read_certificate_document"),
        options=("graph",),
        write=later("certificate", "write_certificate"),
    ),
    *(
        # Read only beside the graph that they are about.
        Format(name, holds, _tagged(name), title=title, advice=advice)
        for name, holds, title, advice in _BESIDE
    ),
    Format(
        "inductor",
        Content.GRAPH,
        _is_simulator_file,
        later("inductor", "read_simulator_file"),
        options=("input_bytes",),
        orders=later("inductor", "read_orders"),
        write=later("inductor_write", "write_inductor"),
        alignment=64,  # torch/_inductor/codegen/memory_planning.py, ALIGN_BYTES
        stock=Stock(
            "Inductor's own order",
            ("recorded", "inductor"),
            "peak",
            peak_only=True,
            order_title="Inductor's own order",
            orders=("chosen",),
        ),
    ),
    Format(
        "minimalloc",
        Content.PACKING,
        lambda source: looks_like(source.text),
        later("minimalloc", "read_csv"),
        options=("pins",),
        write=later("minimalloc", "write_csv"),
    ),
    Format(
        "onnx",
        Content.GRAPH,
        lambda source: _ONNX.match(source.data) is not None,
        later("onnx.read", "read_onnx"),
        options=("dims", "profile"),
        orders=later("onnx.read", "read_orders"),
        order_options=("dims", "profile"),
        describe=later("onnx.describe", "describe"),
        apply=later("onnx.order", "reorder"),
        companions=later("onnx.model", "external_files"),
        session=later("onnx.session", "session_of"),
        load="""Load with:
import onnxruntime

options = onnxruntime.SessionOptions()
options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
options.enable_mem_reuse = False
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
session = onnxruntime.InferenceSession({output!r}, options)""",
        binary=True,
        extra="onnx",
        title="an ONNX model",
        stock=Stock(
            "ONNX Runtime's own order and memory pattern",
            ("ort+best_fit_start",),
            "arena",
            counts="in-place as ONNX Runtime does; kernel scratch not counted",
            counts_apart="nothing in place, unlike ONNX Runtime; kernel scratch not counted",
            order_title="ONNX Runtime's own order",
            orders=("ort",),
            measured_title="a default session of ONNX Runtime, measured",
            measured_counts=" in the plan (optsched measure tells)",
            block=64,
        ),
        endings=(".onnx",),
    ),
    Format(
        "hlo",
        Content.GRAPH,
        _starts("HloModule "),
        later("hlo.read", "read_hlo"),
        orders=later("hlo.read", "read_orders"),
        modules=later("hlo.read", "read_hlo_module"),
        held=later("hlo.allocation.assignment", "held"),
        writes_in_place=True,
        alignment=64,  # of offsets in the temporary buffer of XLA for CPUs
        title="a module of XLA's HLO text",
        stock=Stock(
            "XLA's own schedule and heap",
            ("xla", "xla_default"),
            counts="in-place as XLA does",
            counts_apart="nothing in place, unlike XLA: --inplace",
            order_title="XLA's own schedule",
            orders=("xla",),
        ),
        endings=(".hlo", ".txt"),
    ),
    Format(
        "xla-buffers",
        Content.PLAN,
        _starts("BufferAssignment:"),
        later("hlo.buffer_assignment", "read_buffer_assignment"),
        options=("graph",),
        title="XLA's buffer assignment",
    ),
    Format(
        "tflite",
        Content.GRAPH,
        _bytes(b"TFL3", at=4),
        later("tflite.graph", "read"),
        options=("dims",),
        orders=later("tflite.graph", "read_orders"),
        order_options=("dims",),
        held=later("tflite.graph", "held"),
        tails=later("tflite.tail", "tails"),
        describe=later("tflite.model", "describe"),
        apply=later("tflite.apply", "apply"),
        load="Flash this file",
        binary=True,
        extra="tflite",
        alignment=16,
        stock=Stock(
            "TFLite Micro's own planner",
            ("tflm+tflm_greedy",),
            "arena",
            order_title="TFLite Micro's own order",
        ),
        endings=(".tflite",),
    ),
    Format(
        "pt2",
        Content.GRAPH,
        _is_archive_of(b"models/", b"serialized_exported_program.json"),
        later("fx.pt2", "read_pt2"),
        options=("dims",),
        orders=later("fx.pt2", "read_orders"),
        binary=True,
        alignment=64,  # of PyTorch's allocator for the CPU, c10/core/alignment.h
        title="an exported program of PyTorch (.pt2)",
        stock=Stock(
            "program order", ("program",), "peak", peak_only=True, order_title="program order"
        ),
        endings=(".pt2",),
    ),
    Format(
        "iree",
        Content.PACKING,
        lambda source: _IREE.search(source.text) is not None,
        later("iree", "read_iree"),
        title="a print of IREE's slabs (stream.resource.pack)",
    ),
    Format(
        "memref",
        Content.PACKING,
        lambda source: _MEMREF.search(source.text) is not None and _is_mlir(source),
        later("memref", "read_memref"),
        title="MLIR with allocations (memref.alloc, memref.dealloc)",
    ),
    Format(
        "torch-profile",
        Content.PACKING,
        lambda source: _is_trace(source) and "[memory]" in source.text,
        later("torch_profile", "read_torch_profile"),
    ),
    Format(
        "torch-snapshot",
        Content.PACKING,
        _is_snapshot,
        later("torch_snapshot", "read_torch_snapshot"),
        binary=True,
        alignment=512,  # c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize
    ),
    Format(
        "torchscript",
        Content.GRAPH,
        _starts("graph(%"),
        later("torchscript", "read"),
        alignment=64,  # torch/csrc/jit/runtime/static, MemoryPlanner::computeAlignedTensorSize
    ),
    _foreign("executorch", "an ExecuTorch program", _bytes(b"ET1", at=4), _CAPTURE),
    _foreign(
        "iree-stream",
        "a module of IREE's stream dialect, whose slabs are laid out already",
        lambda source: _STREAM.search(source.text) is not None and _is_mlir(source),
        "read is what the compiler prints with "
        "--mlir-print-ir-after=iree-stream-schedule-allocation, on standard error",
    ),
    _foreign("mlir", "MLIR text", _is_mlir),
    _foreign("mlir-bytecode", "MLIR bytecode", _bytes(b"ML\xefR")),
    _foreign(
        "torch",
        "a PyTorch archive (.pt, .pt2)",
        _is_archive_of(b"data.pkl", b"archive_format", b"models/", b"serialized_exported_program"),
        _CAPTURE,
    ),
    _foreign(
        "pickle",
        "a Python pickle",
        lambda source: _is_pickle(source) and source.data.endswith(b"."),
        "opening one can run arbitrary code, so it is never opened; " + _CAPTURE,
    ),
    _foreign("safetensors", "a safetensors file", _is_safetensors, _NO_GRAPH),
    _foreign("gguf", "a GGUF file", _bytes(b"GGUF"), _NO_GRAPH),
    _foreign("hdf5", "an HDF5 file", _bytes(b"\x89HDF\r\n\x1a\n"), _NO_GRAPH),
    _foreign(
        "chrome-trace",
        "a profiler's trace",
        _is_trace,
        "it records execution but no dependencies; use the model's own file",
    ),
    _foreign("zip", "a zip archive", _bytes(_ZIP), "unpack it and name a file inside"),
)
"""Built-in formats; the first that recognizes a file is used; those without a reader come last."""
