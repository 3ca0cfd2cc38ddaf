"""From a program of PyTorch to a graph, in the memory model of its eager interpreter.

A tensor's storage is a buffer, all tensors in it are names of it. What the caller holds (inputs,
parameters, buffers) is not counted, outputs live to the end, everything else lives from the node
that makes it to the last that uses it. What an operator needs inside is in no program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.fx.aliases import is_misrecorded, shared_with, whole_copy
from optsched.formats.fx.costs import COST_UNIT, node_flops
from optsched.formats.fx.operators import OVERWRITES, draws_numbers
from optsched.formats.fx.program import FxNode, FxProgram, TensorValue
from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory

MEMORY_MODEL: Final = "fx: storages; inputs and constants excluded, outputs live to the end"
RANDOM_STATE: Final = "random state"

_RUN_ONCE = ("cond", "invoke_subgraph", "run_const_graph", "tag_activation_checkpoint")
_WRAPPERS = ("wrap", "strict_mode", "hints_wrapper")


def build_graph(
    program: FxProgram, name: str, policy: OutputPolicy = OutputPolicy.LIVE, model: str = ""
) -> Graph:
    """Make the graph of a program; op `v` is its node `v`.

    `policy` is what happens to its outputs, `model` the name of the memory model where another
    policy of the inputs makes it another one. It raises `FormatError` if a tensor is used that
    nothing makes, or a node runs graphs in a way that is not known, `GraphError` if names are used
    twice.
    """
    return _FxGraphMaker(program).make(name, policy, model or MEMORY_MODEL)


@dataclass
class _FxGraphMaker:
    """Names of storages, kept up to date while the nodes are visited in order.

    `values` are the tensors as they are at run time, `root` is the first name of each tensor's
    storage, `current` the name under which a storage's present bytes are known, `version` how often
    they were overwritten before a tensor was named.
    """

    program: FxProgram
    values: dict[str, TensorValue] = field(default_factory=dict)
    root: dict[str, str] = field(default_factory=dict)
    maker: dict[str, str] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    version: dict[str, int] = field(default_factory=dict)
    scalars: dict[str, str] = field(default_factory=dict)

    def make(self, name: str, policy: OutputPolicy, model: str) -> Graph:
        # All storages first: an output's view may be named before its base is returned.
        self._find_roots()
        build = GraphBuilder(name, model, cost_unit=COST_UNIT)
        self._add_inputs(build)
        for node in self.program.nodes:
            self._add(build, node)
        # An output that is a view keeps its whole storage alive.
        for root in dict.fromkeys(
            self.root[x] for x in self._known(self.program.outputs, "output")
        ):
            if root not in self.program.inputs:
                build.output(root, policy=policy)
            elif self.program.inputs[root] is InputPolicy.FREED:
                build.output(root)
        self._place(build)
        return build.build()

    def _find_roots(self) -> None:
        """Find the storage that each tensor lies in."""
        self.values = dict(self.program.values)
        storages = dict[object, str]()

        def settle(name: str, base: str | None, key: object) -> None:
            # Live tensors name their storage; in a file only the operators tell.
            known = storages.setdefault(key, name) if key is not None else name
            self.root[name] = self.root[base] if base is not None else self.root.get(known, name)

        for name in self.program.inputs:
            settle(name, None, self.values[name].storage)
        for node in self.program.nodes:
            self._known(node.reads, f"op {show(node.name)}")
            for name in node.outputs:
                base = shared_with(node, name, self.values)
                settle(name, base, self._recorded_storage(node, name))
                self.maker[name] = node.name
                # Where PyTorch traces a copy, as for dropout that drops nothing, the strides on
                # record are those of the copy; a later reshape depends on them.
                if base is not None and is_misrecorded(node, self.values[base], self.values[name]):
                    self.values[name] = self.values[base]
                elif base is None and (first := node.first) is not None:
                    given, whole = self.values[first], self.values[self.root[first]]
                    self.values[name] = whole_copy(node, given, whole, self.values[name])

    def _recorded_storage(self, node: FxNode, name: str) -> object:
        """Return the key of the storage of an output, None if the trace went another way."""
        first = node.first
        if first is not None and self.values[first] is not self.program.values[first]:
            # The operator was traced with a copy of its argument, so their keys tell nothing.
            return None
        return self.values[name].storage

    def _known(self, names: tuple[str, ...], what: str) -> tuple[str, ...]:
        for name in names:
            if name not in self.root:
                raise FormatError(f"{what} reads tensor {show(name)} before anything makes it")
        return names

    def _add_inputs(self, build: GraphBuilder) -> None:
        # A buffer of the module that the program changes is not constant: a read before and a read
        # after differ.
        written = {self.root[x] for node in self.program.nodes for x in node.overwrites}
        for name, policy in self.program.inputs.items():
            if self.root[name] != name:
                continue
            is_state = policy is InputPolicy.CONSTANT and name in written
            kind = InputPolicy.EXCLUDED if is_state else policy
            build.input(name, self.program.values[name].nbytes, kind)
            self.current[name] = name

    def _add(self, build: GraphBuilder, node: FxNode) -> None:
        reads = [self._present(x) for x in node.reads]
        control = self._waits(node)
        mutates = self._overwrite(node)
        writes, views = self._name_results(node, mutates)
        build.op(
            node.name,
            reads=reads,
            writes=writes,
            views=views,
            mutates=mutates,
            control=control,
            workspace=_body_bytes(node),
            kind=node.operator,
            cost=node_flops(node, self.program.values),
            once=_runs_once(node),
        )
        if target := self._overwritable(node):
            # With `_` the operator would overwrite; the planner may decide to do so.
            build.inplace(node.name, node.outputs[0], target)

    def _waits(self, node: FxNode) -> list[str]:
        """Return the ops that a node waits for other than by the bytes it reads.

        These are the makers of views under whose names it reads, of sizes and flags, and who drew
        random numbers before it does.
        """
        # The random state is handled like a value: who draws waits for who drew before.
        given = [RANDOM_STATE] if draws_numbers(node.base, node.settings) else []
        found = [self.maker[x] for x in node.reads if x in self.maker]
        found += [self.scalars[x] for x in (*node.takes, *given) if x in self.scalars]
        self.scalars.update(dict.fromkeys((*node.gives, *given), node.name))
        return [x for x in dict.fromkeys(found) if x != node.name]

    def _overwrite(self, node: FxNode) -> dict[str, str]:
        """Give each storage that a node writes to a new name; return the old ones by the new."""
        found: dict[str, str] = {}
        for root in dict.fromkeys(self.root[x] for x in node.overwrites):
            self.times[root] = self.times.get(root, 0) + 1
            named = [x for x in node.outputs if self.root[x] == root]
            # The op may return what it changed; otherwise the new bytes have a name of their own.
            new = named[0] if named else f"{root} after {node.name}"
            found[new], self.current[root] = self.current[root], new
        return found

    def _name_results(
        self, node: FxNode, mutates: Mapping[str, str]
    ) -> tuple[dict[str, int], dict[str, str]]:
        """Return the bytes of new storages, and the names of old ones by their views."""
        writes: dict[str, int] = {}
        views: dict[str, str] = {}
        for name in node.outputs:
            root = self.root[name]
            if root == name:
                writes[name] = self.values[name].nbytes
                self.current[name] = name
            elif name not in mutates:
                views[name] = self.current[root]
            self.version[name] = self.times.get(root, 0)
        return writes, views

    def _present(self, name: str) -> str:
        """Return the present name of a tensor's bytes, which get a new one with each write."""
        # An input may be a view of another input.
        root = self.root[name]
        if root in self.program.inputs and name != root and name in self.program.inputs:
            name = root
        # Bytes that were overwritten since this tensor was named are known by another name.
        is_stale = self.version.get(name, 0) != self.times.get(root, 0)
        return self.current[root] if is_stale else name

    def _overwritable(self, node: FxNode) -> str | None:
        """Return the operand that the in-place form (`add_` of `add`) would overwrite, or None."""
        if node.base not in OVERWRITES or not node.operator.startswith("aten."):
            return None
        if len(node.outputs) != 1 or node.first is None or node.overwrites:
            return None
        source, root = node.first, self.root[node.first]
        given, made = self.values[source], self.values[node.outputs[0]]
        is_whole = given.offset == 0 and given.span == self.values[root].nbytes
        # `a + a` reads the operand twice, and a write would destroy the second read.
        alone = sum(self.root[x] == root for x in node.reads) == 1
        if root in self.program.inputs or not (alone and is_whole and given.is_like(made)):
            return None
        return self._present(source)

    def _place(self, build: GraphBuilder) -> None:
        """Give each device a pool, where there are several."""
        values = self.program.values
        roots = list(dict.fromkeys(self.root.values()))
        if len({values[root].device for root in roots}) > 1:
            for root in roots:
                build.place(root, pool=values[root].device)


def _runs_once(node: FxNode) -> bool:
    """Return True if a second run of a node could compute or do something else."""
    communicates = node.operator.startswith(("_c10d_functional", "c10d", "_dtensor", "dist"))
    # Attention is marked as random whether or not it drops anything.
    marked = node.draws and "scaled_dot_product" not in node.base
    draws = marked or draws_numbers(node.base, node.settings)
    return draws or communicates or bool(node.overwrites or node.bodies)


def _body_bytes(node: FxNode) -> int:
    """Return what the programs that a node runs hold beside its own outputs."""
    if not node.bodies:
        return 0
    kind = node.base
    peaks = [_peak(body, node.name) for body in node.bodies]
    if kind == "while_loop":
        # An iteration holds the old state while it makes the new one.
        body = node.bodies[-1]
        return sum(body.values[name].nbytes for name in body.outputs) + max(peaks)
    if kind in _RUN_ONCE or kind.startswith(_WRAPPERS):
        return max(peaks)
    raise FormatError(f"op {show(node.name)}: what {show(kind)} holds while it runs is not known")


def _peak(body: FxProgram, name: str) -> int:
    inside = build_graph(body, f"body of {name}", OutputPolicy.OWN)
    return peak_memory(inside, tuple(range(len(inside.ops))))
