"""The tail of tiled models: a sum over ops for searches, and the exact bytes of a written file."""

from __future__ import annotations

from collections import Counter

from optsched.formats.tflite.graph import ALIGNMENT, TfliteGraph
from optsched.formats.tflite.model import Operator, read_model
from optsched.formats.tflite.rows import RESHAPED
from optsched.formats.tflite.tail import alignment_bytes, arena_tail, operator_bytes, tensor_bytes
from optsched.formats.tflite.tiled import write_tiled
from optsched.model.plan import Plan
from optsched.model.rows import Tail
from optsched.model.tiled import TiledGraph


def tail_of(made: TfliteGraph, data: bytes, pointer: int) -> Tail:
    """Return the tail of a model, and the bytes of each thing that tiling adds to it.

    A sum is that of :func:`arena_tail` for the tiled file, or less: up to 30 bytes of alignments,
    and constants that several operators share.

    `made`, `data`: the untiled model, and its file. `pointer`: bytes of a pointer: 4 on
    microcontrollers, 8 in the Python package's interpreter.
    """
    model, entry = made.model, tensor_bytes(pointer)

    def bytes_of(op: Operator | None) -> int:
        if op is None:
            return 0
        # A constant of its own says how many rows a band makes.
        return operator_bytes(op, model.tensors, pointer) + entry * (op.kind in RESHAPED)

    def exact(tiled: TiledGraph, plan: Plan) -> int:
        return arena_tail(read_model(write_tiled(data, made, tiled, plan)), pointer).tail

    first, left = _operands(made, entry)
    slice_, join = (
        operator_bytes(Operator(0, kind, (), ()), (), pointer)
        for kind in ("SLICE", "CONCATENATION")
    )
    return Tail(
        # Without the alignment of the first kernel's data, so that no sum is too large.
        arena_tail(model, pointer).tail - alignment_bytes(model, pointer),
        tuple(map(bytes_of, made.operators)),
        tensor=entry,
        # Its first row and their number are constants.
        slice=slice_ + 2 * entry,
        join=join,
        name=f"tail with pointers of {pointer} bytes",
        first=first,
        slack=2 * ALIGNMENT - 2 + left,
        exact=exact,
    )


def _operands(made: TfliteGraph, entry: int) -> tuple[tuple[int, ...], int]:
    """Return by op what the constant that says its rows adds if it stays in the file.

    It goes if all operators that share it run in bands; each then saves a part of its entry. The
    second value is the most bytes by which these parts are too much.
    """
    model = made.model
    named = [(op, RESHAPED[op.kind]) for op in made.operators if op and op.kind in RESHAPED]
    says_rows = Counter(op.inputs[i] for op, i in named if i < len(op.inputs))
    uses = Counter(t for op in model.operators for t in op.inputs)
    parts = {
        t: -(-entry // count)
        for t, count in says_rows.items()
        if uses[t] == count and t not in model.outputs
    }
    first = [0] * len(made.operators)
    for v, op in enumerate(made.operators):
        if op and op.kind in RESHAPED and RESHAPED[op.kind] < len(op.inputs):
            first[v] = entry - parts.get(op.inputs[RESHAPED[op.kind]], 0)
    left = sum((says_rows[t] - 1) * part for t, part in parts.items())
    return tuple(first), left
