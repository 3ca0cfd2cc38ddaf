"""What an explanation says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from optsched.explanation.words import Reason, explain_text
from optsched.model.graph import Graph
from optsched.model.inplace import Pair


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A buffer that is live at the bottleneck."""

    buffer: int
    size: int
    producer: int | None
    """Id of the op that makes it; None for a graph input."""
    holders: tuple[int, ...]
    """Ids of the ops that use it and have not ended: the bottleneck itself or later ones."""
    output: bool
    """Whether it stays live to the end."""
    forced: bool
    """Whether it is live then in every order; otherwise an order may free it before, but only by
    running ops that make as many bytes live in its stead."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a smaller buffer would bring."""

    buffer: int
    smaller_by: int
    """Bytes to take away; taking more brings nothing further."""
    bound: int
    """The bound then, over all ops, and all sets looked at if a set gives the bound."""
    op: int | None
    """The op that holds it then; None if inputs or outputs do."""
    by_set: bool = False
    """Whether it does so as the last or first op of a set."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ops, ascending, of which one runs last (or first, unless `last`).

    `candidates` are `(op, bytes)`: each that may be the last, and what it then forces; fewest bytes
    first.
    """

    ops: tuple[int, ...]
    last: bool
    candidates: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Implied:
    """Op `first` runs before `second` in every order below the bound.

    Otherwise the op `at`, one of the two, would force so many bytes: not below the bound.
    """

    first: int
    second: int
    at: int
    forced: int


@dataclass(frozen=True, slots=True)
class Searched:
    """What the engine did to prove the bound."""

    by: str
    """What raised the bound last: a search of all orders below, precedences or a set of ops in a
    graph in which ops were merged."""
    states: int
    branches: int
    """States expanded; cases of assumed precedences."""
    step: int
    """Of the best order: where its peak is."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why no order has a smaller peak than the bound; printed, it is a text of several lines.

    Parameters
    ----------
    graph
        What is explained, as it was given.
    bound
        Bytes.
    peak
        Of the best order known: the bound is met if it equals it.
    op
        The op at the bottleneck; None if the start or the end of the graph forces the bound.
    at
        `"op"`, `"start"` or `"end"`.
    forced
        Bytes that are live at the bottleneck.
    buffers
        All that is live then, largest first; the sizes add up to `forced`, but for outputs that
        lie in inputs.
    shared
        Outputs of the op and the inputs that it may write them into then, in an in-place graph.
    op_bound, op_bound_at
        The most that a single op forces, and this op; None as `op`.
    changes
        For the largest of the buffers, those that help most first; none where it is not one op or
        set that gives the bound.
    untried
        So many of these buffers were not tried for want of time, or after an interrupt.
    group
        The set that the bottleneck is the last or first op of, where that is what forces the bound.
    precedences
        What every order below the bound would have to keep, each by those before it.
    searched
        What was done where nothing simpler is known to force the bound.
    interrupted
        Whether an interrupt ended the work: more might have been proved, or tried.
    """

    graph: Graph
    bound: int
    peak: int
    op: int | None
    at: str
    forced: int
    buffers: tuple[LiveBuffer, ...]
    shared: tuple[Pair, ...]
    op_bound: int
    op_bound_at: int | None
    changes: tuple[Change, ...] = ()
    untried: int = 0
    group: Group | None = None
    precedences: tuple[Implied, ...] = ()
    searched: Searched | None = None
    interrupted: bool = False

    @property
    def reason(self) -> Reason:
        """What kind of explanation this is."""
        if self.searched is not None:
            return Reason.SEARCH
        if self.precedences:
            return Reason.PRECEDENCES
        if self.group is not None:
            return Reason.SET
        return Reason.ENDS if self.op is None else Reason.OP

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain numbers and names, ready for JSON."""
        ops = [op.name for op in self.graph.ops]
        buffers = [buffer.name for buffer in self.graph.buffers]

        def named(v: int | None) -> str | None:
            return None if v is None else ops[v]

        record: dict[str, Any] = {
            "instance": self.graph.name,
            "memory_model": self.graph.model_name,
            "bound": self.bound,
            "peak": self.peak,
            "reason": str(self.reason),
            "interrupted": self.interrupted,
            "at": self.at,
            "op": named(self.op),
            "forced": self.forced,
            "written_in_place": [
                {
                    "output": buffers[output],
                    "input": buffers[source],
                    "saves": self.graph.buffers[output].size,
                }
                for output, source in self.shared
            ],
            "op_bound": {"bytes": self.op_bound, "op": named(self.op_bound_at)},
            "buffers": [
                {
                    "name": buffers[row.buffer],
                    "size": row.size,
                    "producer": named(row.producer),
                    "held_by": [ops[v] for v in row.holders],
                    "output": row.output,
                    "in_every_order": row.forced,
                }
                for row in self.buffers
            ],
            "changes": [
                asdict(change) | {"buffer": buffers[change.buffer], "op": named(change.op)}
                for change in self.changes
            ],
            "changes_untried": self.untried,
        }
        if self.group is not None:
            record["set"] = {
                "runs": "last" if self.group.last else "first",
                "ops": [ops[v] for v in self.group.ops],
                "candidates": [{"op": ops[v], "bytes": b} for v, b in self.group.candidates],
            }
        if self.precedences:
            record["precedences"] = [
                {
                    "first": ops[row.first],
                    "second": ops[row.second],
                    "else": {"op": ops[row.at], "bytes": row.forced},
                }
                for row in self.precedences
            ]
        if self.searched is not None:
            record["search"] = asdict(self.searched)
        return record

    def __str__(self) -> str:
        return explain_text(self.to_dict())

    def __repr__(self) -> str:
        return f"Explanation({self.graph.name!r}, bound {self.bound:,} bytes, {self.reason})"
