"""Allocations and releases of buffers: those that a plan implies, compared with those observed.

An observation belongs to a moment, such as a step of a replay or a line of a compiled program.
Within a moment the sequence is free. The first buffer whose life differs is named.

Example: a plan releases `a` after step 3. If the run still holds `a` at step 4, the error says that
`a` is still held there, and which release was planned before.

References
----------
PyTorch pull request 159569: `config.test_configs.track_memory_lifecycle`, which holds allocations
and releases of a compiled graph against Inductor's own estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from optsched.check.lives import maker, touched
from optsched.errors import PlanError
from optsched.model.graph import Graph


class LifecycleError(PlanError):
    """Raised if a buffer lives longer or shorter than planned."""


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """The planned allocation or release of a buffer."""

    name: str
    """Name of the buffer."""
    size: int
    """Bytes."""
    born: bool
    """True for an allocation, False for a release."""

    def __str__(self) -> str:
        verb = "allocates" if self.born else "releases"
        return f"{verb} {self.name!r} of {self.size:,} bytes"


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An observed allocation or release; `names` are all names that the bytes have had."""

    names: Collection[str]
    born: bool

    def __str__(self) -> str:
        return f"{min(self.names)!r} is {'allocated' if self.born else 'released'}"


@dataclass
class LifecycleCheck:
    """Comparison of planned and observed events, moment by moment."""

    planned: Sequence[LifeEvent]
    """Events in the order in which they happen."""
    what: str = "the plan"
    """Name of the plan in messages."""
    seen: int = 0

    def see(self, events: Collection[SeenEvent], where: str) -> None:
        """Compare the events of one moment, in any order, with the next planned ones.

        Raise `LifecycleError` if they differ, naming the first buffer whose life differs.
        """
        # As many planned events as were seen; their sequence within a moment is free.
        strange, missing = _match(events, self.left[: len(events)])
        if strange:
            raise LifecycleError(_difference(strange, missing, where, self.what))
        self.seen += len(events)

    def finish(self) -> None:
        """Raise an error if a planned event was not observed."""
        if self.left:
            raise LifecycleError(_difference([], self.left[:1], "at the end", self.what))

    @property
    def left(self) -> Sequence[LifeEvent]:
        """Planned events that were not observed yet."""
        return self.planned[self.seen :]

    def expects(self, name: str) -> bool:
        """Return True if the next planned event is the allocation of this buffer."""
        return bool(self.left) and self.left[0].born and self.left[0].name == name


def _match(
    events: Iterable[SeenEvent], due: Iterable[LifeEvent]
) -> tuple[list[SeenEvent], list[LifeEvent]]:
    """Return the observed events that are not due, and the due events that were not observed."""
    missing, strange = list(due), []
    for event in events:
        same = (p for p in missing if p.born == event.born and p.name in event.names)
        match = next(same, None)
        if match is None:
            strange.append(event)
        else:
            missing.remove(match)
    return strange, missing


def _difference(
    strange: Sequence[SeenEvent], missing: Sequence[LifeEvent], where: str, what: str
) -> str:
    # A missing release is named first: the usual fault is a buffer that lives too long.
    late = next(iter(missing), None)
    if late is not None and not late.born:
        return f"buffer {late.name!r} is still held {where}: {what} {late} before"
    strange = sorted(strange, key=lambda event: event.born)
    if strange:
        due = f"{missing[0]} next" if missing else "has that at another time"
        return f"buffer {strange[0]} {where}: {what} {due}"
    return f"buffer {missing[0].name!r} is not there {where}: {what} {missing[0]} before"


def plan_lifecycle(graph: Graph, order: Sequence[int]) -> list[list[LifeEvent]]:
    """Return the allocations and then the releases of each step; inputs exist before the first.

    Buffers without bytes of their own (views, what the caller owns, size 0) are left out, and so
    are buffers that no op makes or reads.

    `graph`: any graph. `order`: a valid order of its ops.
    """
    steps: list[list[LifeEvent]] = [[] for _ in order]
    users = touched(graph)
    left = Counter(root for roots in users for root in roots)
    born: list[list[int]] = [[] for _ in graph.ops]
    for b in range(len(graph.buffers)):
        op = maker(graph, b)
        # Buffers that no op touches are never allocated.
        if op is not None and left[b] and _counts(graph, b):
            born[op].append(b)
    for at, v in enumerate(order):
        left.subtract(users[v])
        steps[at] += (_event(graph, b, born=True) for b in born[v])
        # Sorted, so that messages do not depend on the order of a set.
        gone = (b for b in sorted(users[v]) if not left[b] and not graph.kept[b])
        steps[at] += (_event(graph, b, born=False) for b in gone if _counts(graph, b))
    return steps


def _counts(graph: Graph, b: int) -> bool:
    buffer = graph.buffers[b]
    return bool(buffer.size) and buffer.alias_of is None and not buffer.external


def _event(graph: Graph, b: int, *, born: bool) -> LifeEvent:
    return LifeEvent(graph.buffers[b].name, graph.buffers[b].size, born)


def check_lifecycle(
    graph: Graph,
    order: Sequence[int],
    steps: Iterable[tuple[Collection[str], Collection[str]]],
) -> None:
    """Compare the allocations and releases of a run, step by step, with those of an order.

    `graph`, `order`: the plan. `steps`: for each step of the run, the names of the buffers that
    were allocated in it, and of those that were released.

    Raises
    ------
    LifecycleError
        Naming step, op and the first buffer whose life differs.

    Examples
    --------
    >>> from optsched.model.elements import Buffer, Op
    >>> graph = Graph("g", (Op("f", writes=(0,)), Op("g", reads=(0,))), (Buffer("x", 8),))
    >>> check_lifecycle(graph, (0, 1), [(["x"], []), ([], ["x"])])
    >>> try:
    ...     check_lifecycle(graph, (0, 1), [(["x"], []), ([], [])])
    ... except LifecycleError as error:
    ...     print(str(error)[:45])
    buffer 'x' is still held after step 1 (op 'g'
    """
    planned = plan_lifecycle(graph, order)
    seen = list(steps)
    if len(seen) != len(planned):
        raise LifecycleError(f"{len(seen)} steps were seen, the plan has {len(planned)}")
    for at, (due, (allocated, released)) in enumerate(zip(planned, seen, strict=True)):
        events = [SeenEvent((name,), born=True) for name in allocated]
        events += [SeenEvent((name,), born=False) for name in released]
        strange, missing = _match(events, due)
        if strange or missing:
            where = f"after step {at} (op {graph.ops[order[at]].name!r})"
            raise LifecycleError(_difference(strange, missing, where, "the plan"))
