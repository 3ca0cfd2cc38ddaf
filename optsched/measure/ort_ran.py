"""The ops that a session of ONNX Runtime ran, and the scratch that each of them took.

A session may change a model when it loads it, and kernels take scratch that no file shows. Both are
measured here. The session writes the model that it ran, and a profile with its order and shapes. In
a further session of that model a mark stands before each op: a copy of an input, whose size no
other block has. A block that is taken and returned between two marks is scratch of the op there.

Example: between two marks a kernel takes 640 bytes and 128, and returns the 640. It makes a result
of 128 bytes and holds 640 bytes of scratch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from optsched.errors import FormatError
from optsched.formats.format import Source
from optsched.formats.onnx.model import node_names, parse_model, subgraphs
from optsched.formats.onnx.order import HASTY
from optsched.formats.onnx.profile import read_profile
from optsched.formats.onnx.read import read_as_it_is
from optsched.formats.onnx.rules import BLOCK
from optsched.formats.onnx.session import IN_ORDER
from optsched.measure.ort_names import name_nodes, show_hidden
from optsched.model.graph import Graph
from optsched.model.liveness import running_by_op
from optsched.model.memory_model import MemoryModel

Run = Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
_AS_WRITTEN: Final = {**IN_ORDER, "graph_optimization_level": "ORT_DISABLE_ALL"}
_Event = tuple[str, str]
_MOST_TRIES: Final = 100_000
_MARK: Final = "optsched.mark"
_MARK_BYTES: Final = 1_009 * BLOCK
"""An odd number of blocks, which no buffer has by chance."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Ops that a session ran."""

    graph: Graph
    """Graph of the model that ran, with sizes as the allocator rounds them up."""
    order: tuple[int, ...]
    """Order in which its ops ran."""
    scratch: tuple[int, ...]
    """Bytes that each op held beside its operands and results, by op id."""

    @property
    def tensors(self) -> int:
        """Most bytes of tensors, and of scratch that follows from shapes, live at once."""
        return int(running_by_op(_as_ordered(self.graph, self.order), self.order).max(initial=0))

    @property
    def held(self) -> int:
        """Most bytes of tensors and measured scratch live at once."""
        running = running_by_op(_as_ordered(self.graph, self.order), self.order)
        # Measured instead of estimated.
        return int((running - np.array(self.known) + np.array(self.scratch)).max(initial=0))

    @property
    def known(self) -> tuple[int, ...]:
        """Bytes of scratch that the reader expects of each op, by op id."""
        ids = (op.workspace for op in self.graph.ops)
        return tuple(0 if b is None else self.graph.buffers[b].size for b in ids)


def _as_ordered(graph: Graph, order: Sequence[int]) -> Graph:
    """Return a graph in which results that no op reads and that overwrite an operand are freed.

    A graph is for all orders, so such a result lives to the end in it, as it does where the operand
    has a later reader.
    """
    step = {v: at for at, v in enumerate(order)}
    buffers = list(graph.buffers)
    for v, made, source in graph.inplace_candidates:
        names = [b for b in range(len(buffers)) if graph.roots[b] == graph.roots[source]]
        readers = [u for u, op in enumerate(graph.ops) if u != v and set(names) & set(op.reads)]
        read = any(made in op.reads for op in graph.ops)
        if not read and all(step[u] < step[v] for u in readers):
            buffers[made] = replace(buffers[made], output=None)
    return replace(graph, buffers=tuple(buffers))


def what_ran(run: Run, asked: Mapping[str, Any], folder: str) -> Ran:
    """Return the ops that a session runs, with their scratch.

    `run` runs sessions as :func:`optsched.measure.onnxruntime.run_all` does. `FormatError` is
    raised if that cannot be measured.
    """
    import onnx

    ran, marked = Path(folder, "ran.onnx"), str(Path(folder, "marked.onnx"))
    named = Path(asked["path"]).with_suffix(".named.onnx")
    given = onnx.load_model_from_string(Path(asked["path"]).read_bytes())
    name_nodes(given.graph)
    named.write_bytes(given.SerializeToString())
    asked = {**asked, "path": str(named)}
    prefix = {"enable_profiling": True, "profile_file_prefix": str(Path(folder, "profile"))}
    settings = {**asked["settings"], **prefix, "optimized_model_filepath": str(ran)}
    (first,) = run([{**asked, "settings": settings}])
    if "error" in first:
        raise FormatError(f"ONNX Runtime does not write what it runs: {first['error']}")
    written = onnx.load_model_from_string(ran.read_bytes())
    show_hidden(written.graph)
    model = parse_model(written.SerializeToString())
    events = _events(first["profile"])
    inner = read_profile(first["profile"], bodies=True)
    _sort_bodies(model.graph, {name: step for step, name in enumerate(inner)})
    unnamed = {i for i, node in enumerate(model.graph.node) if not node.name}
    for node, name in zip(model.graph.node, node_names(model.graph), strict=True):
        node.name = name
    data = model.SerializeToString()
    mark = _add_marks(model)
    Path(marked).write_bytes(model.SerializeToString())
    inputs = [*asked["inputs"], _mark_input(mark)]
    again = {**asked, "path": marked, "settings": {**_AS_WRITTEN, **prefix}, "inputs": inputs}
    (second,) = run([again])
    if "error" in second:
        raise FormatError(f"ONNX Runtime does not run it with marks: {second['error']}")
    graph = read_as_it_is(Source(data), second["profile"])
    scratch = scratch_between(second["blocks"], second["steps"], mark, _hasty(model.graph))
    if len(scratch) != len(graph.ops):
        raise FormatError("the ops that ran cannot be told apart")
    order = _order_of(graph, unnamed, events, _events(second["profile"]))
    return Ran(MemoryModel(align=BLOCK).apply(graph), order, tuple(scratch))


def _events(profile: str) -> dict[str, _Event]:
    """Return op type and results of each op in a profile, in the order in which they ran."""
    events = read_profile(profile, bodies=False)
    return {x: (e.text("op_name"), repr(e.items("output_type_shape"))) for x, e in events.items()}


def _sort_bodies(graph: Any, steps: Mapping[str, int]) -> None:
    """Put the nodes of bodies in the order in which they ran; a branch may not have run."""
    for node in graph.node:
        for body in subgraphs(node):
            _sort_bodies(body, steps)
            if all(inner.name in steps for inner in body.node):
                nodes = sorted(map(deepcopy, body.node), key=lambda inner: steps[inner.name])
                del body.node[:]
                body.node.extend(nodes)


def _order_of(
    graph: Graph, unnamed: Collection[int], ran: Mapping[str, _Event], known: Mapping[str, _Event]
) -> tuple[int, ...]:
    """Return the order of the ops in a profile, in which ONNX Runtime named those without names.

    Such an op is one of its kind and results that could run, the one that is needed first.
    """
    ids = {op.name: v for v, op in enumerate(graph.ops) if v not in unnamed}
    at = {ids[name]: step for step, name in enumerate(ran) if name in ids}
    needed = [at.get(v, len(ran)) for v in range(len(graph.ops))]
    for v in reversed(range(len(graph.ops))):
        for u in graph.predecessors[v]:
            needed[u] = min(needed[u], needed[v])
    kinds = set(known.values())
    steps = [name for name in ran if name in ids or ran[name] in kinds]

    def choices(name: str, order: Collection[int]) -> list[int]:
        """Return the ops that an event may be, the best last."""
        if name in ids:
            return [ids[name]]
        same = (v for v in unnamed if v not in order and known.get(graph.ops[v].name) == ran[name])
        ready = (v for v in same if all(u in order for u in graph.predecessors[v]))
        return sorted(ready, key=lambda v: (-needed[v], -v))

    order = dict[int, None]()
    left: list[list[int]] = []
    tried = 0
    # Depth first: an event without an op takes back the last choice among ops that are alike.
    while len(order) < len(graph.ops) and tried < _MOST_TRIES:
        tried += 1
        if len(left) == len(order):
            left.append(choices(steps[len(order)], order) if len(order) < len(steps) else [])
        if left[-1]:
            order[left[-1].pop()] = None
        else:
            left.pop()
            if not order:
                break
            order.popitem()
    if len(order) != len(graph.ops):
        raise FormatError("the order of the ops that ran is not known")
    return tuple(order)


def _add_marks(model: Any) -> int:
    """Put a mark before each node of a ModelProto, and one at the end; return a mark's bytes."""
    from onnx import TensorProto, helper

    nodes = [deepcopy(node) for node in model.graph.node]
    names = [f"{_MARK}.{i}" for i in range(len(nodes) + 1)]
    copies = [helper.make_node("Identity", [_MARK], [name], name) for name in names]
    del model.graph.node[:]
    model.graph.node.extend(x for pair in zip(copies, nodes, strict=False) for x in pair)
    model.graph.node.append(copies[-1])
    shape = [_MARK_BYTES // 4]
    model.graph.input.append(helper.make_tensor_value_info(_MARK, TensorProto.FLOAT, shape))
    for name in names:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return _MARK_BYTES


def _mark_input(size: int) -> dict[str, Any]:
    """Return the description of the input that marks are copies of."""
    shape = [size // 4]
    return {"name": _MARK, "type": "float32", "shape": shape, "value": 1, "fixed": False}


def _hasty(graph: Any) -> list[int]:
    """Return the number of ops that run at once after each op, before the next mark."""
    read = Counter(node.input[0] for node in graph.node if node.op_type in HASTY)
    nodes = (node for node in graph.node if not node.name.startswith(_MARK))
    return [sum(read[name] for name in node.output if name) for node in nodes]


def scratch_between(
    sizes: Sequence[int], steps: Sequence[int], mark: int, hasty: Sequence[int]
) -> list[int]:
    """Return the bytes held between marks of a size beyond those that stay and those before.

    Block `n` of `sizes` is taken at the step `n + 1` and returned at `-(n + 1)`. `hasty` ops run
    last between two marks, and their results count for none.
    """
    taken: dict[int, int] = {}
    found: list[int] = []
    live = most = start = 0
    for step in steps:
        number = abs(step) - 1
        size = sizes[number]
        if size == mark:
            if step > 0:
                # Before the first mark there are copies of weights.
                late = hasty[len(found) - 1] if 0 < len(found) <= len(hasty) else 0
                stay = list(taken.values())[: len(taken) - late]
                found.append(max(0, most - start - sum(stay)))
                taken, start, most = {}, live, live
            continue
        live += size if step > 0 else -size
        most = max(most, live)
        if step > 0:
            taken[number] = size
        else:
            taken.pop(number, None)
    return found[1:]
