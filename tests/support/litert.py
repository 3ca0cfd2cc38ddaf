"""Real addresses of a model's tensors in LiteRT's arena, as a packing with offsets.

LiteRT runs the operators in the file's order. The addresses are those that its own interpreter has
after it allocated, with no delegate; what kernels ask for beside (temporaries) is measured, but no
operator is known for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optsched.formats.tflite.graph import TfliteGraph, read_tflite
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges
from optsched.model.packing_problem import PackingProblem

KEPT = "litert: inputs kept, tensors of the file, sizes as they are, offsets in 64 bytes"


@dataclass(frozen=True)
class Recorded:
    """A packing that LiteRT chose."""

    problem: PackingProblem
    """The tensors that lie in the arena, live as the file's order has them, inputs throughout."""
    offsets: np.ndarray
    """Their first bytes in it, shape `(k,)`."""
    arena: int
    """Bytes from the first to the last of all that is in the arena, temporaries included."""
    shared: tuple[tuple[str, str], ...]
    """Pairs of an operator's output and input at one address: it worked in place."""
    absent: int
    """Tensors that have no address before the model runs, as their shape is not known."""

    @property
    def slab(self) -> int:
        """Bytes up to the end of the last tensor of the file."""
        return int((self.offsets + self.problem.size).max(initial=0))


def record(path: Path) -> Recorded:
    """Let LiteRT allocate a model, and read where its tensors are."""
    data = path.read_bytes()
    made = read_tflite(data, path.stem)
    interpreter = _interpreter(data)
    known = {
        name: place
        for name, number in made.tensors.items()
        if (place := _place(interpreter, number)) is not None
    }
    # Only those that the interpreter lists: to ask for the address of another ends the process.
    numbers = (int(row["index"]) for row in interpreter.get_tensor_details())
    others = [number for number in numbers if number >= len(made.model.tensors)]
    temporaries = [place for i in others if (place := _place(interpreter, i)) is not None]
    base = min(start for start, _ in known.values())
    end = max(start + size for start, size in (*known.values(), *temporaries))
    return _recorded(made, {k: (a - base, n) for k, (a, n) in known.items()}, end - base)


def _recorded(made: TfliteGraph, known: dict[str, tuple[int, int]], arena: int) -> Recorded:
    graph = made.graph
    ranges = _live(graph)
    shared = tuple(_shared(graph, known))
    for output, source in shared:
        # The output has the bytes to itself from the next step on.
        ranges[output] = (max(ranges[output][0], ranges[source][1]), ranges[output][1])
    rows = [name for name in ranges if name in known and ranges[name][1] > ranges[name][0]]
    problem = PackingProblem(
        names=tuple(rows),
        start=[ranges[name][0] for name in rows],
        end=[ranges[name][1] for name in rows],
        size=[known[name][1] for name in rows],
        alignment=[64] * len(rows),
        name=graph.name,
        memory_model=KEPT,
    )
    offsets = np.array([known[name][0] for name in rows], np.int64)
    return Recorded(problem, offsets, arena, shared, len(made.tensors) - len(known))


def _live(graph: Graph) -> dict[str, tuple[int, int]]:
    ends = len(graph.ops)
    ranges = live_ranges(graph, range(ends)).tolist()
    found = {}
    for buffer, (start, end) in zip(graph.buffers, ranges, strict=True):
        found[buffer.name] = (0, ends) if buffer.input is InputPolicy.FREED else (start, end)
    return found


def _shared(graph: Graph, known: dict[str, tuple[int, int]]) -> Iterator[tuple[str, str]]:
    for op in graph.ops:
        for written in op.writes:
            output = graph.buffers[written].name
            for read in dict.fromkeys(op.reads):
                source = graph.buffers[read].name
                if output in known and source in known and known[output][0] == known[source][0]:
                    yield output, source


def _interpreter(data: bytes) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = Interpreter(model_content=data, experimental_op_resolver_type=plain)
    made.allocate_tensors()
    return made


def _place(interpreter: Any, number: int) -> tuple[int, int] | None:
    """Return address and bytes of a tensor; None where it has none."""
    try:
        view = interpreter.tensor(number)()
    except ValueError:
        return None
    return int(view.__array_interface__["data"][0]), int(view.nbytes)


def outputs(data: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return what a model makes of inputs in its own sequence."""
    interpreter = _interpreter(data)
    for details, values in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], values)
    interpreter.invoke()
    return [interpreter.get_tensor(x["index"]) for x in interpreter.get_output_details()]
