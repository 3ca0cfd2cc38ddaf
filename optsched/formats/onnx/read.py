"""Reader of ONNX models as graphs, in ONNX Runtime's memory model.

Graph inputs and constants belong to the caller and the session, and are not counted. Graph outputs
live to the end and have separate bytes, so an op that makes one does not rename or overwrite its
input. A named output is allocated even if it is never read. Model files do not record the workspace
of kernels: :mod:`optsched.formats.onnx.rules` has what is known of it, and of subgraphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from optsched.formats.format import Source
from optsched.formats.onnx.bake import can_fix, state_shapes
from optsched.formats.onnx.contrib import stand_in
from optsched.formats.onnx.dims import open_dimensions, set_dimensions
from optsched.formats.onnx.model import (
    captures,
    drop_weights,
    find_constants,
    initializers,
    light_copy,
    name_graph,
    operation_nodes,
    opset_of,
    parse_model,
    subgraphs,
)
from optsched.formats.onnx.order import default_order
from optsched.formats.onnx.profile import profiled_order, profiled_types, read_profile
from optsched.formats.onnx.reasons import unknown_size
from optsched.formats.onnx.rules import (
    BLOCK,
    IN_FLOATS,
    body_workspace,
    is_view,
    overwritten_inputs,
    runs_as_floats,
    scratch_bytes,
)
from optsched.formats.onnx.sizes import TensorType, Types, branch_of, infer_types, set_shapes
from optsched.formats.onnx.suggest import refuse_open, require_input_shapes
from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.memory_model import MemoryModel
from optsched.runtime.text import listed

MEMORY_MODEL: Final = "onnxruntime; inputs excluded, outputs live to the end"


def read_onnx(
    source: Source, *, dims: Mapping[str, int] | None = None, profile: str | Path | None = None
) -> Graph:
    """Return the graph of an ONNX model; weights are not needed, and only the profile is opened.

    `dims` are values of dimensions that the model leaves open, by their name in the file, or by
    `INPUT.AXIS` if unnamed. Ops write in place where ONNX Runtime's kernels do. `profile` is ONNX
    Runtime's profile of a run, with shapes that inference cannot determine. `FormatError` is raised
    if the file is not a model or the size of a value is unknown, and `UsageError` if the model does
    not have a given dimension.
    """
    known = _known(source, dims or {}, profile, must_be_closed=True)
    model, constants = known.model, known.constants
    parts = (known.types, model.graph, opset_of(model), known.types.sized)
    reader = _ModelReader(model.graph, constants, *parts)
    graph = reader.build(source.name)
    if graph.ops and not any(graph.buffers[b].size for op in graph.ops for b in op.writes):
        # A model does not compute nothing: its zeros are sizes that the exporter did not know.
        refuse_open(model, open_dimensions(model.graph, constants), dims or {})
    return graph.with_inplace()


def read_as_it_is(source: Source, profile: str | Path) -> Graph:
    """Return the graph of a model that is run without optimizations: each node is an op.

    `profile` is of such a run.
    """
    known = _known(source, {}, profile)
    constants = set(initializers(known.model.graph))
    graph = known.model.graph
    opset = opset_of(known.model)
    reader = _ModelReader(graph, constants, known.types, graph, opset, optimized=False)
    return reader.build(source.name).with_inplace()


def read_orders(
    source: Source, *, profile: str | Path | None = None, dims: Mapping[str, int] | None = None
) -> dict[str, tuple[int, ...]]:
    """Return the order in which ONNX Runtime runs a model's ops, as `ort`.

    It is the order of a profiled run, or without a profile the one that the runtime chooses if the
    session asks for no other. The file's order is that of the graph's ops and needs no name.
    """
    known = _known(source, dims or {}, profile)
    nodes = operation_nodes(known.model.graph, known.constants)
    if profile is None:
        return {"ort": default_order([node for _, node in nodes])}
    return {"ort": profiled_order(read_profile(profile), {x: v for v, (x, _) in enumerate(nodes)})}


@dataclass(frozen=True, slots=True)
class _Known:
    """A model with dimensions in place, its constants and types."""

    model: Any
    constants: set[str]
    types: Types


def _known(
    source: Source,
    dims: Mapping[str, int],
    profile: str | Path | None,
    *,
    must_be_closed: bool = False,
) -> _Known:
    """Return what is known of a model; it is worked out once for the graph and its orders."""
    key = repr((sorted(dims.items()), profile))
    if key not in source.kept:
        source.kept[key] = _work_out(source, dims, profile, must_be_closed)
    found: _Known = source.kept[key]
    return found


def _work_out(
    source: Source, dims: Mapping[str, int], profile: str | Path | None, must_be_closed: bool
) -> _Known:
    model = parse_model(source.data)
    given = light_copy(model) if dims and not can_fix(model.graph) else model
    set_dimensions(model, dims)
    types: dict[str, TensorType] = {}
    if profile is not None:
        types = profiled_types(profile, model.graph)
    elif must_be_closed:
        require_input_shapes(model, find_constants(model.graph), dims)
    if dims and given is model:
        # The planned file has these sizes, and states no others.
        state_shapes(model)
    is_open = given is not model or open_dimensions(model.graph, find_constants(model.graph))
    loaded = _without_weights(given) if is_open else None
    inferred = _without_weights(model)
    set_shapes(inferred.graph.input, types)
    found = infer_types(inferred, types, loaded)
    return _Known(model, find_constants(model.graph, sized=found.sized), found)


def _without_weights(model: Any) -> Any:
    """Return a copy of a ModelProto for inference, whose own weights are dropped."""
    # No shape depends on them, and a copy takes time.
    drop_weights(model.graph)
    made = type(model)()
    made.CopyFrom(model)
    # Only the copy is changed: the graph is made of the model as it is.
    stand_in(made.graph)
    return made


@dataclass
class _ModelReader:
    """Builder of the graph of a GraphProto."""

    graph: Any
    constants: set[str]
    found: Types
    whole: Any
    opset: int
    sized: Collection[str] = ()
    optimized: bool = True
    given: dict[str, None] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    uses: Counter[str] = field(default_factory=Counter)
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """Words for half floats that the runtime casts to floats; empty without any."""
        nodes = operation_nodes(self.graph, self.constants)
        cast = {x.op_type: None for _, x in nodes if runs_as_floats(x, self.found.halves)}
        if not cast:
            return ""
        return f"; {listed(list(cast), 2)} {IN_FLOATS}"

    @property
    def types(self) -> Mapping[str, TensorType]:
        return self.found.by_name

    @cached_property
    def inputs(self) -> list[str]:
        names = dict.fromkeys(value.name for value in self.graph.input)
        return [name for name in names if name not in self.constants]

    @cached_property
    def outputs(self) -> list[str]:
        made = {name for node in self.graph.node for name in node.output}
        names = dict.fromkeys(value.name for value in self.graph.output)
        # An output that is an input has no bytes of its own.
        return [name for name in names if name in made and name not in self.constants]

    @cached_property
    def copied(self) -> list[str]:
        """Weights that are outputs: the caller gets copies, made before the first op runs."""
        names = dict.fromkeys(value.name for value in self.graph.output)
        return [x for x in names if x in self.constants and x in self.types]

    @cached_property
    def read(self) -> set[str]:
        names = {x for node in self.graph.node for x in (*node.input, *captures(node))}
        return {*names, *self.outputs}

    def build(
        self,
        name: str,
        captured: Sequence[str] = (),
        policy: OutputPolicy = OutputPolicy.LIVE,
        apart: Sequence[str] = (),
    ) -> Graph:
        """Return the graph.

        `captured` are values of enclosing graphs, which hold their bytes, and `apart` are outputs
        with bytes elsewhere.
        """
        build = GraphBuilder(name_graph(self.graph, name), MEMORY_MODEL + self.note, BLOCK)
        self.given.update(dict.fromkeys((*self.inputs, *captured)))
        for value in self.given:
            # Values that are not counted may be of unknown size.
            size = self.types[value].size if value in self.types else 0
            build.input(value, size, InputPolicy.EXCLUDED)
        for value in () if policy is OutputPolicy.OWN else self.copied:
            build.input(value, self.types[value].size, InputPolicy.KEPT)
        roots = {"": "", **{value: value for value in self.given}}
        for op, node in operation_nodes(self.graph, self.constants):
            self._add(build, op, node, roots)
        build.output(*self.outputs, policy=policy)
        build.output(*(x for x in apart if x in self.outputs), policy=OutputPolicy.OWN)
        # ONNX Runtime releases a block after the last op that reads it. A result that always
        # overwrites its operand has that operand's block.
        build.output(*(x for x in self.unread if self.uses[roots[self.sources.get(x, "")]] != 1))
        return build.build()

    def _add(self, build: GraphBuilder, op: str, node: Any, roots: dict[str, str]) -> None:
        reads = [x for x in (*node.input, *captures(node)) if x and x not in self.constants]
        written = [x for x in node.output if x]
        views: dict[str, str] = {}
        if self._renames(node):
            # The mask of a removed Dropout has no producer.
            views, written = {node.output[0]: node.input[0]}, [node.output[0]]
        roots.update({x: roots[views[x]] if x in views else x for x in written})
        writes = {x: self._size(x, op, node) for x in written if x not in views}
        if self._is_view(node) and node.input[0] in self.constants:
            # Another name for a weight, whose bytes the session holds and no kernel overwrites.
            writes[node.output[0]] = 0
            self.given[node.output[0]] = None
        workspace = scratch_bytes(node, self.types, self.opset) + self._body_bytes(op, node)
        build.op(
            op, reads=reads, writes=writes, views=views, workspace=workspace, kind=node.op_type
        )
        # Uses of the bytes, not of the name: a view of them is one more.
        uses = Counter(roots[x] for x in reads)
        if not views:
            self.uses.update(uses)
        for number in overwritten_inputs(node):
            if number < len(node.input) and self._overwrites(node, node.input[number], uses, roots):
                build.inplace(op, node.output[0], node.input[number])
                self.sources[node.output[0]] = node.input[number]
        self.unread += [x for x in writes if x not in self.read]

    def _body_bytes(self, op: str, node: Any) -> int:
        """Return the workspace that the largest subgraph of a node asks for."""
        policy = OutputPolicy.LIVE if node.op_type == "Loop" else OutputPolicy.OWN
        found = 0
        for body in self._run_bodies(node):
            # The shapes of a loop's state are not known before a run.
            sized = self.sized if node.op_type == "If" else ()
            constants = find_constants(body, self.constants, sized)
            known = (self.found, self.whole, self.opset, sized, self.optimized)
            reader = _ModelReader(body, constants, *known)
            outer = [x for x in captures(node) if x not in self.constants]
            # The condition of a loop has a block that is counted with the loop.
            apart = [x.name for x in body.output[:1]] if node.op_type == "Loop" else ()
            inside = reader.build(f"body of {op}", outer, policy, apart).with_inplace()
            # In the file's order, which is that of a subgraph.
            rounded = MemoryModel(align=BLOCK).apply(inside)
            peak = peak_memory(rounded, tuple(range(len(inside.ops))))
            found = max(found, body_workspace(node, body, peak, self.types, op))
        return found

    def _run_bodies(self, node: Any) -> list[Any]:
        """Return the subgraphs that a node may run: one of an If whose condition is known."""
        chosen = self.found.branches.get(node.output[0], "") if node.output else ""
        return [branch_of(node, chosen)] if chosen else list(subgraphs(node))

    def _renames(self, node: Any) -> bool:
        return self._is_view(node) and node.input[0] not in self.constants

    def _is_view(self, node: Any) -> bool:
        if not is_view(node, self.constants, self.optimized):
            return False
        first, *others = node.output
        # A graph output has bytes of its own, so it is copied instead of renamed.
        return first not in self.outputs and not any(x in self.read for x in others)

    def _overwrites(
        self, node: Any, source: str, uses: Mapping[str, int], roots: Mapping[str, str]
    ) -> bool:
        """Return True if the kernel may overwrite this input: read once, same shape, not kept."""
        root = roots.get(source)
        if root is None or root in self.given or uses[root] != 1:
            return False
        if root in self.outputs or node.output[0] in self.outputs:
            return False
        # Same shape and type: the kernel writes element by element.
        shapes = [self.found.loaded.get(x) for x in (source, node.output[0])]
        kinds = [self.types.get(x) for x in (source, node.output[0])]
        return shapes[0] is not None and shapes[0] == shapes[1] and kinds[0] == kinds[1]

    def _size(self, value: str, op: str, node: Any) -> int:
        if value not in self.types:
            raise unknown_size(op, node, value, self.found, self.whole)
        return self.types[value].size
