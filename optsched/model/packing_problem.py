"""The packing problem: buffers with given live ranges that need offsets in a slab."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex

import numpy as np

from optsched.errors import GraphError
from optsched.model.arrays import IntArray, Integers, Rows
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs
from optsched.model.joined import Joined, join
from optsched.model.order_columns import order_columns
from optsched.model.packing_buffers import COLUMNS, DEFAULTS, PackingBuffers
from optsched.model.packing_checks import check_numbers
from optsched.model.parts import Gap, Parts, fullest
from optsched.model.sharing import check_groups, make_groups, make_pairs
from optsched.model.steps import Order
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.keywords import keywords
from optsched.runtime.text import counted

__all__ = ["Gap", "Joined", "PackingProblem", "Parts", "packing_problem"]


@keywords
@dataclass(frozen=True, init=False)
class PackingProblem(PackingBuffers):
    """Buffers to pack: live ranges, sizes and constraints on their offsets.

    All arrays but `keep_apart` have shape `(k,)`, int64; sequences of integers are converted to
    them.

    Parameters
    ----------
    names
        Unique names (default: `b0`, `b1`, and so on).
    start, end
        Half-open live ranges, in steps.
    size
        Sizes in bytes.
    alignment
        Offsets are multiples of it (default: 1).
    pin
        Required offset, or -1 for any (default: -1).
    below
        Upper limit in bytes at or below which the buffer ends, if it is ever live (default: 2**63 -
        1, the largest address).
    gaps
        Gaps of each buffer, ascending and disjoint; empty if no buffer has any.
    capacity
        Maximum size of the slab in bytes, or None.
    name
        Name shown in tables.
    uses
        Row `i` lists the steps at which an op reads or writes buffer `i`, each once; None if only
        live ranges are known.
    keep_apart
        Pairs of buffers, by position or name, that must not share any byte even if their live
        ranges do not overlap; stored as ascending positions, shape `(p, 2)`. A pair with a buffer
        that is never live or has no bytes has no effect, also not on other members of that buffer's
        group.
    must_share
        Groups of buffers, by position or name, that start at the same offset. Together they are one
        buffer of the largest size, which is live whenever one of them is.
    is_widened
        True if live ranges are longer than the buffers live. Every packing is then valid for the
        real live ranges, but a lower bound for these packings need not be.

    Raises
    ------
    GraphError
        On a reversed range, a negative size, a gap outside its range, arrays of different lengths,
        a limit below a pin or the size, or pairs and groups that contradict each other or the pins.

    Examples
    --------
    >>> from optsched import PackingProblem
    >>> problem = PackingProblem(size=[8, 4], start=[0, 2], end=[4, 6])
    >>> problem.max_load, problem.slab_size([0, 8])
    (12, 12)
    """

    # Written out, because callers may pass more types than those of the fields.
    def __init__(
        self,
        names: Iterable[str] = (),
        start: Integers = (),
        end: Integers = (),
        size: Integers = (),
        alignment: Integers = (),
        pin: Integers = (),
        gaps: Iterable[Iterable[Gap]] = (),
        capacity: SupportsIndex | str | None = None,
        name: str = "packing",
        memory_model: str = "given live ranges",
        uses: Rows | None = None,
        keep_apart: IntArray | Iterable[Iterable[int | str]] = (),
        must_share: Iterable[Iterable[int | str]] = (),
        is_widened: bool = False,
        below: Integers = (),
    ) -> None:
        given = {"size": size, "start": start, "end": end, "alignment": alignment, "pin": pin}
        given["below"] = below
        values = {what: integers(what, given[what]) for what in COLUMNS}
        count = len(values["size"])
        # An empty column means the default for every buffer.
        for what, default in DEFAULTS.items():
            if not len(values[what]):
                values[what] = np.full(count, default, np.int64)
        known = unique_names(names, count)
        rows = tuple(map(tuple, gaps))
        fields: dict[str, object] = {"names": known, **values, "gaps": rows, "name": name}
        fields |= {"memory_model": memory_model, "uses": uses, "is_widened": is_widened}
        fields["capacity"] = None if capacity is None else parse_bytes(capacity)
        for what, value in fields.items():
            object.__setattr__(self, what, value)
        # Numbers first: pairs and groups are checked against them.
        check_numbers(self)
        object.__setattr__(self, "keep_apart", make_pairs(keep_apart, known))
        object.__setattr__(self, "must_share", make_groups(must_share, known))
        if self.must_share:
            check_groups(self.must_share, self.keep_apart, known, self.pin, self.alignment)

    def __repr__(self) -> str:
        size = int(self.size.sum())
        return (
            f"PackingProblem({self.name!r}, {counted(len(self), 'buffer')}, {size:,} bytes in all)"
        )

    def clashing_pins(self) -> tuple[int, int] | None:
        """Return two pinned buffers that overlap while both are live, or None."""
        # Members of a group share bytes by intent; only the groups' own pins can clash.
        if self.must_share:
            clash = self.joined.problem.clashing_pins()
            place = self.joined.place.tolist()
            return None if clash is None else (place.index(clash[0]), place.index(clash[1]))
        live = self.solid
        pinned = np.flatnonzero(self.pin[live.owner] >= 0)
        pinned = pinned[np.argsort(live.start[pinned], kind="stable")]
        owner = live.owner[pinned]
        low, high = self.pin[owner] + live.low[pinned], self.pin[owner] + live.high[pinned]
        # Parts are sorted by start: those that start before part k ends directly follow it.
        until = np.searchsorted(live.start[pinned], live.end[pinned])
        for k in range(len(pinned)):
            here = slice(k + 1, int(until[k]))
            meets = (low[here] < high[k]) & (low[k] < high[here]) & (owner[here] != owner[k])
            if meets.any():
                return int(owner[k]), int(owner[k + 1 + int(np.argmax(meets))])
        return None

    def refuse_clashing_pins(self) -> None:
        """Raise an error if two pinned buffers overlap, so that no packing is valid."""
        clash = self.clashing_pins()
        if clash is not None:
            a, b = (f"{self.names[i]!r} (at {self.pin[i]})" for i in clash)
            raise GraphError(f"{self.name}: buffers {a} and {b} are pinned onto each other")

    @cached_property
    def peak(self) -> int:
        """Bytes live at the fullest step; a group counts as its one buffer."""
        return fullest(self.joined.problem.parts)

    @cached_property
    def max_load(self) -> int:
        """Bytes of the fullest step or of a heavier set to keep apart: a bound on the slab."""
        return fullest(self.joined.problem.solid)

    @property
    def slab_bound(self) -> int:
        """Lower bound on the slab in bytes: :attr:`max_load` or the highest end of a buffer.

        For a buffer without a pin, the second bound matters if gaps leave less than its size at
        every step.
        """
        ends = (np.maximum(self.pin, 0) + self.size)[self.end > self.start]
        return max(self.max_load, int(ends.max(initial=0)))

    @cached_property
    def joined(self) -> Joined[PackingProblem]:
        """The problem in which each group is one buffer, and the positions of the buffers in it."""
        return join(self)


def packing_problem(
    graph: Graph, order: Order, chosen: Pairs = ()
) -> tuple[PackingProblem, IntArray]:
    """Return the packing problem of an order, and the graph's id of each of its buffers.

    Only roots that are counted, have bytes, and are live at some step are packed. If ops run on
    several streams, steps are depths, and pairs that conflict without overlapping are kept apart;
    if there are too many such pairs, live ranges are widened until these buffers overlap
    (:mod:`optsched.model.order_columns`). The outputs of the in-place pairs `chosen`, a choice of
    :func:`optsched.model.inplace_choice.pair_choices`, are part of the buffers into which they are
    written. :func:`optsched.model.plan.placed_plan` turns offsets into a plan.
    """
    columns, ids = order_columns(graph, order, chosen)
    return PackingProblem(**columns), ids


def integers(what: str, given: Integers) -> IntArray:
    """Return a column as an array, shape `(k,)`; `what` names it in error messages.

    Raise `GraphError` if the column is not a list of integers of at most 64 bits.
    """
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise GraphError(f"{what}: expected a list of integers: {error}") from None
    if values.ndim != 1:
        raise GraphError(f"{what}: expected a list of integers, got shape {values.shape}")
    if values.dtype.kind not in "iu" and len(values):
        raise GraphError(f"{what}: expected integers of at most 64 bits, got {values.dtype}")
    # Values above 2**63 - 1 would turn negative here; those above the limit of their column are
    # refused with the rest of the problem.
    if values.dtype.kind == "u" and values.max(initial=0) >= 2**63:
        limit = "2**63 - 1" if what == "pin" else "2**62"
        raise GraphError(f"{what}: {values.max()} is above the limit of {limit}")
    return values.astype(np.int64, copy=False)


def unique_names(given: Iterable[str], count: int) -> tuple[str, ...]:
    """Return unique names of `count` buffers, by default `b0`, `b1`, and so on.

    Raise `GraphError` if a name is given twice, or the number of names is not `count`.
    """
    # A single string is a sequence of letters.
    if isinstance(given, str):
        raise GraphError(f"names must be a list of names: write [{given!r}]")
    names = tuple(given) or tuple(f"b{i}" for i in range(count))
    if len(names) != count:
        raise GraphError(f"expected {count} names, one per size, got {len(names)}")
    if len(set(names)) != count:
        twice = next(x for i, x in enumerate(names) if x in names[:i])
        raise GraphError(f"buffer {twice!r} is defined twice")
    return names
