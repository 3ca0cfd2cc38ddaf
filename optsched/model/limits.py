"""Upper limits of addresses: "buffer x ends at or below byte A".

In a graph, a pinned input without bytes that no op uses is a *mark*. It takes no room, and a buffer
that is kept apart from it ends at or below its offset, whichever pool the buffer lies in. Marks are
plain data of the graph: digests, files and copies of it carry them as they carry pins and pairs,
and every rule that pairs switch off is off for limits, too. An output with a limit is not written
in place, since pairs forbid that.

In a packing problem, limits are the column `below`. Pushing a packing down keeps them, so bounds
and searches that rely on packings pushed down stay valid, and a bound without limits is one with
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import SupportsIndex, TypeVar

import numpy as np

from optsched.errors import GraphError, UsageError
from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_ADDRESS, MAX_TOTAL_BYTES, Buffer, InputPolicy
from optsched.model.graph import Graph
from optsched.model.packing_buffers import PackingBuffers
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.text import free_name

Problem = TypeVar("Problem", bound=PackingBuffers)


def marks_of(graph: Graph) -> dict[int, int]:
    """Return the marks of a graph: ids of inputs that are limits, with the bytes of each."""
    found: dict[int, int] = {}
    for b in np.flatnonzero(graph.arrays.size == 0).tolist() if graph.keep_apart else ():
        buffer, is_live = graph.buffers[b], graph.kept[b] or len(graph.arrays.user.row(b))
        if buffer.input is not None and buffer.pin is not None and not (buffer.size or is_live):
            found[b] = buffer.pin
    return found


def buffer_count(graph: Graph) -> int:
    """Return the number of buffers of a graph, without marks."""
    return len(graph.buffers) - len(marks_of(graph))


def upper_limits(graph: Graph) -> IntArray:
    """Return the upper limit of each buffer in bytes, 2**63 - 1 without one."""
    found = np.full(len(graph.buffers), MAX_ADDRESS, np.int64)
    marks = marks_of(graph)
    if not marks:
        return found
    mark = found.copy()
    mark[list(marks)] = list(marks.values())
    pairs = np.array(graph.keep_apart, np.int64)
    for one, other in (pairs.T, pairs.T[::-1]):
        np.minimum.at(found, one, mark[other])
    return found


def refuse_limits(graph: Graph, what: str) -> None:
    """Raise `UsageError` if a buffer has an upper limit; `what` names the method without them."""
    limits = upper_limits(graph)
    if (limits < MAX_ADDRESS).any():
        name = graph.buffers[int(np.argmin(limits))].name
        raise UsageError(f"buffer {name!r} has an upper limit, which {what} do not support")


def limited(graph: Graph, below: Mapping[str, int | str | SupportsIndex]) -> Graph:
    """Return the graph with upper limits in bytes by name of buffer; a view names its root.

    Raise `UsageError` if a name is unknown, and `GraphError` if a buffer lies outside the slab or
    cannot end that low, alone or with others of one op.
    """
    buffers, pairs, taken = list(graph.buffers), list(graph.keep_apart), set(graph.buffer_ids)
    marks: dict[tuple[str, int], int] = {}
    for name, value in below.items():
        graph.buffer(name)
        b, limit = graph.roots[graph.buffer_ids[name]], _limit(name, value)
        buffer = buffers[b]
        if b in graph.outside:
            raise GraphError(f"buffer {name!r} lies outside the slab: it has no upper limit")
        _refuse_low(name, buffer.pin, buffer.size, limit)
        if (buffer.pool, limit) not in marks:
            marks[buffer.pool, limit] = len(buffers)
            mark = Buffer(free_name(f"limit {limit}", taken), 0, InputPolicy.FREED)
            taken.add(mark.name)
            buffers.append(replace(mark, pool=buffer.pool, pin=limit))
        pairs.append((b, marks[buffer.pool, limit]))
    tied = {b for b, _ in pairs}
    made = replace(
        graph,
        buffers=tuple(buffers),
        keep_apart=tuple(pairs),
        # What pairs keep apart is not written in place.
        inplace=tuple(pair for pair in graph.inplace if pair[1] not in tied),
    )
    _refuse_full(made)
    return made


def _refuse_full(graph: Graph) -> None:
    """Raise `GraphError` if an op needs more bytes below an address than there are.

    Buffers that one op needs are live together in every order.
    """
    limits = upper_limits(graph).tolist()
    for op in graph.ops:
        needed = {graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)}
        for b in (b for b in needed if limits[b] < MAX_ADDRESS):
            pool, limit = graph.buffers[b].pool, limits[b]
            low = [x for x in needed if limits[x] <= limit and graph.buffers[x].pool == pool]
            total = sum(graph.buffers[x].size for x in low)
            if total > limit:
                raise GraphError(f"op {op.name!r} needs {total} bytes that end at or below {limit}")


def limited_packing(problem: Problem, below: Mapping[str, int | str | SupportsIndex]) -> Problem:
    """Return the problem with upper limits in bytes by name of buffer.

    Raise `UsageError` if a name is unknown, and `GraphError` if a buffer cannot end that low.
    """
    column, ids = problem.below.copy(), {name: i for i, name in enumerate(problem.names)}
    for name, value in below.items():
        if name not in ids:
            raise UsageError(f"buffer {name!r} is not in {problem.name!r}: it has no upper limit")
        i, limit = ids[name], _limit(name, value)
        pin = int(problem.pin[i])
        _refuse_low(name, None if pin < 0 else pin, int(problem.size[i]), limit)
        column[i] = min(limit, column[i])
    return replace(problem, below=column)


def parse_limits(texts: Iterable[str], capacity: int | None = None) -> dict[str, int]:
    """Return the limits in bytes of texts such as 'x=4096' or 'x=4KiB', by name.

    Raise `UsageError` if a text has another form, a name occurs twice, or a limit is not below the
    capacity, which is one for every buffer.
    """
    found: dict[str, int] = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"--below wants NAME=BYTES, got {text!r}")
        if name in found:
            raise UsageError(f"--below gives {name!r} twice")
        found[name] = _limit(name, size)
        if capacity is not None and found[name] >= capacity:
            raise UsageError(f"--below {text} has no effect: the capacity is {capacity} bytes")
    return found


def _limit(name: str, value: int | str | SupportsIndex) -> int:
    limit = parse_bytes(value)
    if limit > MAX_TOTAL_BYTES:
        raise UsageError(f"the upper limit of {name!r} must be at most 2**62 bytes, got {value}")
    return limit


def _refuse_low(name: str, pin: int | None, size: int, limit: int) -> None:
    if pin is not None and pin + size > limit:
        raise GraphError(
            f"buffer {name!r}: pinned to {pin} it ends at {pin + size}, above its limit of {limit}"
        )
    if size > limit:
        raise GraphError(f"buffer {name!r} of {size} bytes does not fit below {limit}")
