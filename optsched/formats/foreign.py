"""Formats of other tools that are recognised by content but have no reader: what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable

from optsched.formats.format import Content, Format, Source

_ADVICE = (
    "build its graph with GraphBuilder or from_networkx, write it as optsched-graph/1 JSON, "
    "or register a reader with register_format"
)
_CAPTURE = (
    "run the model under torch.compile and capture the graph that TorchInductor schedules, "
    "its export_graph_for_simulator JSON"
)
_NO_GRAPH = "it holds weights and no graph of ops; the model's own file is wanted"

_MLIR = re.compile(r"\s*(?://[^\n]*\n\s*)*(?:#\w+ = |(?:builtin\.)?module\b|func\.func\b)")


def _starts(*heads: bytes) -> Callable[[Source], bool]:
    return lambda source: source.data.startswith(heads)


def _at_four(*tags: bytes) -> Callable[[Source], bool]:
    """Return a test for the identifier of a flatbuffer, behind its first offset."""
    return lambda source: source.data[4:8].startswith(tags)


def _is_torch_archive(source: Source) -> bool:
    marks = (b"data.pkl", b"archive_format", b"models/", b"serialized_exported_program")
    return source.data.startswith(b"PK\x03\x04") and any(mark in source.data for mark in marks)


def _is_pickle(source: Source) -> bool:
    return re.match(rb"\x80[\x02-\x05]", source.data) is not None and source.data.endswith(b".")


def _is_safetensors(source: Source) -> bool:
    length = int.from_bytes(source.data[:8], "little")
    return source.data[8:9] == b"{" and 2 <= length <= len(source.data) - 8


def _row(name: str, title: str, sniff: Callable[[Source], bool], advice: str = _ADVICE) -> Format:
    return Format(name, Content.GRAPH, sniff, title=title, advice=advice)


ROWS = (
    _row("executorch", "an ExecuTorch program", _at_four(b"ET1"), _CAPTURE),
    _row("mlir", "MLIR text", lambda source: _MLIR.match(source.text) is not None),
    _row("mlir-bytecode", "MLIR bytecode", _starts(b"ML\xefR")),
    _row("torch", "a PyTorch archive (.pt, .pt2)", _is_torch_archive, _CAPTURE),
    _row(
        "pickle",
        "a Python pickle",
        _is_pickle,
        "to open one runs whatever code it holds, so it is never opened; " + _CAPTURE,
    ),
    _row("safetensors", "a safetensors file", _is_safetensors, _NO_GRAPH),
    _row("gguf", "a GGUF file", _starts(b"GGUF"), _NO_GRAPH),
    _row("hdf5", "an HDF5 file", _starts(b"\x89HDF\r\n\x1a\n"), _NO_GRAPH),
    _row(
        "chrome-trace",
        "a profiler's trace",
        lambda source: "traceEvents" in source.document,
        "it says what ran and not what depends on what; the model's own file is wanted",
    ),
    _row("zip", "a zip archive", _starts(b"PK\x03\x04"), "unpack it and name a file inside"),
)
"""Looked at after every format that has a reader, in this order."""
