"""TFLite's `.tflite`: read as the graph that TFLite Micro plans, and a plan put back into it.

`model` says what a file holds, `graph` what of it the arena holds and when, `scratch` what kernels
need beside, `apply` writes a plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from optsched.errors import FormatError
from optsched.formats.format import Content, Format, Source
from optsched.formats.recorded import CHOSEN
from optsched.formats.tflite.apply import apply_tflite
from optsched.formats.tflite.graph import ALIGNMENT, read_tflite
from optsched.formats.tflite.model import IDENTIFIER, read_model
from optsched.model.graph import Graph
from optsched.model.plan import Plan


def _read(source: Source, dims: Mapping[str, int] | None = None) -> Graph:
    return read_tflite(source.data, source.name, dims).graph


def _orders(source: Source) -> dict[str, tuple[int, ...]]:
    """Return the order of the file, which TFLite Micro and LiteRT follow."""
    order = tuple(range(len(_read(source).ops)))
    return dict.fromkeys((CHOSEN, "tflm", "litert"), order)


def _apply(source: Source, graph: Graph, plan: Plan) -> bytes:
    for tensor in read_model(source.data).tensors:
        if any(size < 0 for size in tensor.shape):
            raise FormatError(
                f"tensor {tensor.name!r} has no known shape in the file: nothing runs it so"
            )
    made = read_tflite(source.data, source.name)
    return apply_tflite(source.data, made, plan)


FORMAT = Format(
    "tflite",
    Content.GRAPH,
    sniff=lambda source: source.data[4:8] == IDENTIFIER,
    read=_read,
    options=("dims",),
    orders=_orders,
    apply=_apply,
    binary=True,
    extra="tflite",
    alignment=ALIGNMENT,
)
