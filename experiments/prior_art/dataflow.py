"""A traced training step as MODeL reads it: which tensors count, and which ops must run early.

MODeL (Steiner et al. 2023) traces model, loss, backward and optimizer into one graph of ATen ops
and simplifies it before it plans. The rules below follow what its published importer does, so that
a peak means the same bytes. Where its authors' program and their paper differ, this is the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph

SAME_BYTES = frozenset(
    {"relu_", "silu_", "hardtanh_", "bernoulli_", "fill_", "div_", "t", "transpose", "permute"}
    | {"_reshape_alias", "view", "_unsafe_view", "expand", "split", "slice", "squeeze", "unsqueeze"}
    | {"as_strided"}
)
"""Kinds of ops whose result lies in the bytes of what they read: written in place, or a view."""

WITH_WEIGHTS = frozenset({"native_batch_norm", "native_layer_norm", "addmm", "convolution"})
"""Kinds of ops whose weights are taken together, as one."""


def kind(name: str) -> str:
    """Return what an op of the trace does: its name without the number at its end."""
    return re.sub(r"_\d+$", "", name)


@dataclass(eq=False)
class Tensor:
    """Bytes that one op makes and others read; no bytes where it only says who goes first."""

    source: str
    sinks: list[str]
    size: int


@dataclass
class Dataflow:
    """Ops in the order of the trace, and the tensors that are read by any of them."""

    ops: list[str] = field(default_factory=list)
    """Names; graph inputs and weights are ops without inputs."""
    tensors: list[Tensor] = field(default_factory=list)
    """In the order of their makers."""
    weights: set[str] = field(default_factory=set)
    """Names of ops that stand for weights: their tensors are live throughout."""

    def reads(self, op: str) -> list[Tensor]:
        """Tensors that an op reads."""
        return [tensor for tensor in self.tensors if op in tensor.sinks]

    def writes(self, op: str) -> list[Tensor]:
        """Tensors that an op makes."""
        return [tensor for tensor in self.tensors if tensor.source == op]

    def remove(self, op: str) -> None:
        """Take out an op, what it makes, and what nobody else reads."""
        self.ops.remove(op)
        # A tensor that only this op reads has no purpose without it.
        kept = [tensor for tensor in self.tensors if tensor.source != op and tensor.sinks != [op]]
        for tensor in kept:
            tensor.sinks = [sink for sink in tensor.sinks if sink != op]
        self.tensors = kept

    def simplify(self) -> None:
        """Apply MODeL's rules for values that are traced but are not tensors of their own."""
        for op in [op for op in self.ops if kind(op) == "getitem"]:
            self._skip_getitem(op)
        for op in [op for op in self.ops if kind(op) in SAME_BYTES]:
            # The op adds no bytes: its readers read the bytes of its operand.
            [source] = self.reads(op)
            source.sinks += [sink for out in self.writes(op) for sink in out.sinks]
            self.remove(op)
        for op in [op for op in self.ops if kind(op) in WITH_WEIGHTS]:
            self._merge_weights(op)

    def _skip_getitem(self, op: str) -> None:
        """Let an op with several outputs make each of them; they have no bytes together."""
        [whole] = self.reads(op)
        # If the whole has bytes, the item is an op like others.
        if whole.size:
            return
        found = self.writes(op)
        self.tensors += [Tensor(whole.source, out.sinks, out.size) for out in found]
        self.remove(op)

    def _merge_weights(self, op: str) -> None:
        """Take the weights of an op as one tensor, and their updates as one op where they match."""
        held = [tensor for tensor in self.reads(op) if tensor.source in self.weights]
        if len(held) < 2:
            return
        first, *others = held
        known = list(first.sinks)
        for other in others:
            first.size += other.size
            added = [sink for sink in other.sinks if sink not in first.sinks]
            first.sinks += added
            self.ops.remove(other.source)
            self.weights.discard(other.source)
            self.tensors.remove(other)
            for sink in added:
                self._merge_update(sink, known)

    def _merge_update(self, op: str, candidates: Iterable[str]) -> None:
        """Drop an update whose gradient comes from where that of another update comes from."""
        mine = self.reads(op)
        for other in candidates:
            theirs = self.reads(other)
            if len(theirs) != len(mine):
                continue
            pairs = [(a, next((b for b in theirs if b.source == a.source), None)) for a in mine]
            if any(b is None for _, b in pairs):
                continue
            for a, b in pairs:
                if b is not None and a is not b:
                    b.size += a.size
            self.remove(op)
            return

    def early_updates(self) -> None:
        """Make each update of a weight run before an op further on, as MODeL does."""
        # Computed before anything is added: updates must not push each other further on.
        ahead = self._levels(forward=True)
        behind = self._levels(forward=False)
        added = []
        for op in self.ops:
            read = self.reads(op)
            if op in self.weights or self.writes(op):
                continue
            if not any(tensor.source in self.weights for tensor in read):
                continue
            anchor = self._anchor(op, ahead, behind)
            if anchor is not None:
                added.append(Tensor(op, [anchor], 0))
        self.tensors += added

    def _anchor(self, op: str, ahead: dict[str, int], behind: dict[str, int]) -> str | None:
        """Find the op with the longest way to the end that lies beyond `op`, near its sources."""
        seen: dict[str, tuple[str | None, int]] = {}

        def look(source: str) -> tuple[str | None, int]:
            if source not in seen:
                best: tuple[str | None, int] = (None, -1)
                for sink in (sink for tensor in self.writes(source) for sink in tensor.sinks):
                    if behind[sink] <= best[1]:
                        continue
                    beyond = ahead[sink] > ahead[op]
                    found = (sink, behind[sink]) if beyond else look(sink)
                    best = max(best, found, key=lambda pair: pair[1])
                seen[source] = best
            return seen[source]

        sources = {op}
        while sources:
            sources = {t.source for v in sources for t in self.reads(v)} - self.weights
            found = max((look(v) for v in sources), key=lambda pair: pair[1], default=(None, 0))
            if found[0] is not None and found[1] > 0:
                return found[0]
        return None

    def _levels(self, *, forward: bool) -> dict[str, int]:
        """Ops on the longest way to an op from the start, or to the end."""
        level = dict.fromkeys(self.ops, 0)
        # The trace is an order that works, so one pass over it is enough.
        for op in self.ops if forward else reversed(self.ops):
            near = (
                [tensor.source for tensor in self.reads(op)]
                if forward
                else [sink for tensor in self.writes(op) for sink in tensor.sinks]
            )
            level[op] = max((level[v] + 1 for v in near), default=0)
        return level

    def longest_path(self) -> int:
        """Ops on the longest way through the graph."""
        return 1 + max(self._levels(forward=True).values(), default=-1)

    def as_graph(self, name: str) -> Graph:
        """Return the graph to be planned: weights are kept, what only orders is a control edge."""
        build = GraphBuilder(name)
        sized = [tensor for tensor in self.tensors if tensor.size]
        label = {id(tensor): f"{tensor.source}:{i}" for i, tensor in enumerate(sized)}
        for tensor in sized:
            if tensor.source in self.weights:
                # Weights are there before the step and after it.
                build.input(label[id(tensor)], tensor.size, InputPolicy.KEPT)
        for op in self.ops:
            if op in self.weights:
                continue
            read = self.reads(op)
            build.op(
                op,
                reads=[label[id(tensor)] for tensor in read if tensor.size],
                writes={label[id(t)]: t.size for t in self.writes(op) if t.size},
                control=[t.source for t in read if not t.size and t.source not in self.weights],
            )
        return build.build()


def program_order(graph: Graph, names: Sequence[str]) -> list[int]:
    """Ids of the ops in the order of the trace."""
    ids = {op.name: v for v, op in enumerate(graph.ops)}
    return [ids[name] for name in names if name in ids]
