"""Data classes of an explanation, and their JSON form."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from optsched.explanation.words import Reason, explain_text
from optsched.model.graph import Graph
from optsched.model.inplace import Pair
from optsched.ordering.bound.order_bound import OrderBound
from optsched.runtime.shown import Told


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A buffer that is live at the bottleneck."""

    buffer: int
    size: int
    producer: int | None
    """Id of the op that writes the buffer; None for a graph input."""
    holders: tuple[int, ...]
    """Ids of its unfinished users: the bottleneck itself or later ops."""
    output: bool
    """True if the buffer stays live until the end."""
    forced: bool
    """True if the buffer is live at the bottleneck in every order; otherwise an order can free it
    first, but only by running ops that make at least as many other bytes live."""


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of making one buffer smaller."""

    buffer: int
    smaller_by: int
    """Bytes to remove; removing more does not lower the bound further."""
    bound: int
    """Resulting bound over all ops, and over the sets evaluated if a set gives the bound."""
    op: int | None
    """Op that then forces the bound; None if inputs or outputs do."""
    by_set: bool = False
    """True if the op does so as the last or first op of a set."""


@dataclass(frozen=True, slots=True)
class Implied:
    """A precedence: op `first` runs before `second` in every order below the bound.

    Otherwise op `at`, one of the two, would force `forced` bytes, which is not below the bound.
    """

    first: int
    second: int
    at: int
    forced: int


@dataclass(frozen=True, slots=True)
class Searched:
    """The work by which the engine proved the bound."""

    by: str
    """Last step that raised the bound: a search of all orders below, precedences, or a set of ops
    in a graph with merged ops."""
    states: int
    branches: int
    """Number of cases with assumed precedences; `states` is the number of states expanded."""
    step: int
    """Step of the best order at which its peak occurs."""


@dataclass(frozen=True, slots=True)
class Explanation(Told):
    """The reason why no order has a peak below the bound; `str()` gives several lines of text."""

    graph: Graph
    """Explained graph."""
    bound: int
    """Proved lower bound on the peak, in bytes."""
    peak: int
    """Peak of the best order known; the bound is attained if both are equal."""
    op: int | None
    """Op at the bottleneck; None if the start or the end of the graph forces the bound."""
    at: str
    """`"op"`, `"start"` or `"end"`."""
    forced: int
    """Bytes live at the bottleneck."""
    buffers: tuple[LiveBuffer, ...]
    """All buffers live at the bottleneck, largest first. Their sizes add up to `forced`, except for
    outputs that share the memory of inputs."""
    shared: tuple[Pair, ...]
    """Outputs of the op, each with the input that it may then overwrite, in an in-place graph."""
    op_bound: int
    op_bound_at: int | None
    """`op_bound` and `op_bound_at`: most bytes that a single op forces, and this op; None as for
    `op`."""
    changes: tuple[Change, ...] = ()
    """Effect of shrinking each of the largest live buffers, the most helpful first; empty if the
    bound does not come from one op or set."""
    untried: int = 0
    """Number of these buffers that were not tried because of the time limit or an interrupt."""
    by: OrderBound | None = None
    """Bound of several ops, such as the last of a set, if the bottleneck is one of them."""
    precedences: tuple[Implied, ...] = ()
    """Precedences that every order below the bound would have to keep; each follows from the
    earlier ones."""
    searched: Searched | None = None
    """Work of the engine, if no simpler reason is known."""
    interrupted: bool = False
    """True if an interrupt ended the work, so that more might have been proved or tried."""

    @property
    def reason(self) -> str:
        """Kind of reason: one of `Reason`, or the name of a bound of several ops, such as `set`."""
        if self.searched is not None:
            return Reason.SEARCH
        if self.precedences:
            return Reason.PRECEDENCES
        if self.by is not None:
            return self.by.name
        return Reason.ENDS if self.op is None else Reason.OP

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain numbers and names, ready for JSON."""
        ops = [op.name for op in self.graph.ops]
        buffers = [buffer.name for buffer in self.graph.buffers]

        def named(v: int | None) -> str | None:
            return None if v is None else ops[v]

        record: dict[str, Any] = {
            "graph": self.graph.name,
            "memory_model": self.graph.model_name,
            "variant": self.graph.variant,
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
        if self.by is not None:
            record[self.by.name] = self.by.record(ops)
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
