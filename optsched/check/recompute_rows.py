"""Rows that every sequence within a peak satisfies, made from the graph for the checker.

They hold while some op v runs for the first time. The variables lie between 0 and 1:

    r(u)  1 if u runs more than once        d(u)  1 if u has run before
    x(u)  1 if u runs now or later          l(b)  1 if the bytes of buffer b are live

    again  r(u) - x(u) - d(u) >= -1         a run before and one after are two runs
    first  x(u) + d(u) >= 1                 each op runs at some time
    down   d(p) - d(u) >= 0                 p is needed by u
    live   l(b) - x(w) + x(p) >= 0          w reads what only p makes
    fit    - sum of size * l >= bytes that v uses - peak
    order  d(w, u) - d(v, u) - d(w, v) >= -1      what has run at v has run at w, if v is first
    after  x(v, u) - x(w, u) - d(w, v) >= -1      what runs later than w runs later than v
    either d(v, w) + d(w, v) >= 1            one of two moments comes first
    round  sum of f(size) * (1 - l) >= f(N)  if "fit" says that N bytes must be released; storages
           of few bytes are taken as released, and f(a) = F * floor(a / q) + min(F, a mod q) for
           F = N - q * (ceil(N / q) - 1) grows with a and f(a + b) <= f(a) + f(b)

`x` and `d` of an op are numbers where the graph says so: what v needs has run, what needs v has
not, and an op that must not run again has `x = 1 - d`. A graph output is live once it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.runs import runs_once

KINDS = {
    "again": 1,
    "first": 1,
    "either": 1,
    "down": 2,
    "order": 2,
    "after": 2,
    "live": 2,
    "fit": 0,
    "round": 2,
}
"""Kinds of rows, and how many ids follow the op; "round" has two numbers of bytes instead."""


@dataclass(frozen=True, slots=True)
class RowUse:
    """A row of op `op` and its multiplier; `ids` are ops, or a buffer and an op for "live"."""

    kind: str
    op: int
    ids: tuple[int, ...]
    multiplier: int


Variable: TypeAlias = tuple[str, int, int]
Terms: TypeAlias = dict[Variable, int]
"""Coefficients of variables; the key "" has the constant."""
CONSTANT: Variable = ("", 0, 0)


@dataclass(slots=True)
class Rows:
    """Rows of a graph under a peak."""

    graph: Graph
    peak: int
    forward: frozenset[int]
    above: tuple[int, ...] = field(init=False)
    once: dict[int, str] = field(init=False)
    users: dict[int, set[int]] = field(init=False)
    """Ops that use a root or a view of it, except its maker."""

    def __post_init__(self) -> None:
        self.above, self.once = _ancestors(self.graph), runs_once(self.graph)
        self.users = {}
        for v, op in enumerate(self.graph.ops):
            for b in (*op.reads, *op.uses, *op.writes):
                self.users.setdefault(self.graph.roots[b], set()).add(v)

    def row(self, use: RowUse) -> Terms:
        """Return a row as `terms + constant >= 0`."""
        # The number of ids is checked before they are passed on.
        if KINDS.get(use.kind) != len(use.ids):
            raise PlanError(f"unknown row {use.kind!r} with {len(use.ids)} ids")
        makers: dict[str, Callable[..., Terms]] = {
            "fit": self._fit,
            "round": self._round,
            "live": self._live_row,
            "down": self._down,
            "order": self._order,
            "after": self._after,
            "either": self._either,
            "first": self._first,
            "again": self._again,
        }
        return makers[use.kind](use.op, *use.ids)

    def _first(self, v: int, u: int) -> Terms:
        return add_up((1, self.later(v, u)), (1, self.has_run(v, u)), constant=-1)

    def _again(self, v: int, u: int) -> Terms:
        if not self.may_repeat(u):
            raise PlanError(f"row 'again': {self._name(u)} must not run again")
        repeats: Terms = {("r", -1, u): 1}
        return add_up((1, repeats), (-1, self.later(v, u)), (-1, self.has_run(v, u)), constant=1)

    def _down(self, v: int, p: int, u: int) -> Terms:
        # Any ancestor will do, not only a direct predecessor.
        if not self.above[u] >> p & 1:
            raise PlanError(f"row 'down': {self._name(u)} does not need {self._name(p)}")
        return add_up((1, self.has_run(v, p)), (-1, self.has_run(v, u)))

    def _order(self, v: int, w: int, u: int) -> Terms:
        first = self.has_run(w, v)
        return add_up((1, self.has_run(w, u)), (-1, self.has_run(v, u)), (-1, first), constant=1)

    def _after(self, v: int, w: int, u: int) -> Terms:
        first = self.has_run(w, v)
        return add_up((1, self.later(v, u)), (-1, self.later(w, u)), (-1, first), constant=1)

    def _either(self, v: int, w: int) -> Terms:
        if v == w:
            raise PlanError(f"row 'either' names {self._name(v)} twice")
        return add_up((1, self.has_run(v, w)), (1, self.has_run(w, v)), constant=-1)

    def _live_row(self, v: int, b: int, w: int) -> Terms:
        # The reader must not be the op itself, which needs the bytes anyway.
        if self.graph.roots[b] != b or w == v or w not in self._readers(b):
            raise PlanError(
                f"row 'live': {self._name(w)} does not read {self.graph.buffers[b].name!r} then"
            )
        return add_up((1, self._live(v, b)), (-1, self.later(v, w)), (1, self._made_later(v, b)))

    def _fit(self, v: int) -> Terms:
        op = self.graph.ops[v]
        used = {self.graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)}
        # Buffers that this op allocates for another one fill bytes while it runs.
        used |= {b for b, x in enumerate(self.graph.buffers) if x.birth == v}
        found: Terms = {CONSTANT: self.peak}
        for b, buffer in enumerate(self.graph.buffers):
            if self.graph.roots[b] != b or buffer.external or not buffer.size:
                continue
            # Inputs that are kept are live in every sequence.
            always = buffer.input is not None and self.graph.kept[b]
            live = {CONSTANT: 1} if always or b in used else self._live(v, b)
            for variable, coefficient in live.items():
                found[variable] = found.get(variable, 0) - buffer.size * coefficient
        return found

    def _round(self, v: int, q: int, least: int) -> Terms:
        """Return the row of rounded bytes, without variables of fewer than `least` bytes."""
        if q < 1:
            raise PlanError(f"row 'round' divides by {q}")
        fit = self._fit(v)
        room = fit.pop(CONSTANT)
        sizes = {variable: -x for variable, x in fit.items() if -x >= least}
        need = sum(sizes.values()) - room
        # The row "fit" asks for no release, so there is nothing to round.
        if need <= 0:
            return {CONSTANT: 0}
        rest = need - q * (-(-need // q) - 1)

        def rounded(size: int) -> int:
            return rest * (size // q) + min(rest, size % q)

        found: Terms = {variable: -rounded(size) for variable, size in sizes.items()}
        found[CONSTANT] = -sum(found.values()) - rest * -(-need // q)
        return found

    def _live(self, v: int, b: int) -> Terms:
        """Return `l` of a buffer that v does not use: a number where that is certain."""
        made = self._made_later(v, b)
        if self.graph.kept[b] and self.graph.buffers[b].input is None:
            return self.has_run(v, self._born(b))
        # Made later in any case, so that the present copy is not the last one.
        if made == {CONSTANT: 1}:
            return {}
        later = [self.later(v, w) for w in self._readers(b)]
        # Certainly made by now and certainly read later.
        if not made and {CONSTANT: 1} in later:
            return {CONSTANT: 1}
        return {("l", v, b): 1} if any(later) else {}

    def _readers(self, b: int) -> set[int]:
        """Return the ops that need the bytes after the op that allocates them."""
        # A maker for which another op allocates the bytes needs them like a reader.
        given = self.graph.buffers[b].input is not None
        return self.users.get(b, set()) - (set() if given else {self._born(b)})

    def _born(self, b: int) -> int:
        birth, maker = self.graph.buffers[b].birth, self.graph.producers[b]
        assert maker is not None
        return maker if birth is None else birth

    def _made_later(self, v: int, b: int) -> Terms:
        if self.graph.buffers[b].input is not None:
            return {}
        return self.later(v, self._born(b))

    def has_run(self, v: int, u: int) -> Terms:
        """Return `d` of an op u when v runs first."""
        if self.above[v] >> u & 1:
            return {CONSTANT: 1}
        # The graph decides: the op itself, and all ops that need it, run later.
        if u == v or self.above[u] >> v & 1:
            return {}
        return {("d", v, u): 1}

    def later(self, v: int, u: int) -> Terms:
        """Return `x` of an op u when v runs first."""
        has_run = self.has_run(v, u)
        # An op without a run so far runs later, as each op runs at some time.
        if not has_run:
            return {CONSTANT: 1}
        if self.may_repeat(u):
            return {("x", v, u): 1}
        return add_up((-1, has_run), constant=1)

    def may_repeat(self, u: int) -> bool:
        """Return True if an op may run more than once."""
        return u in self.forward and u not in self.once

    def _name(self, v: int) -> str:
        return f"op {self.graph.ops[v].name!r}"


def _ancestors(graph: Graph) -> tuple[int, ...]:
    """Return by op all ops that it needs, directly or not, as bit masks."""
    masks: dict[int, int] = {}
    # A stack in place of recursion: graphs may be deeper than Python's limit.
    for start in range(len(graph.ops)):
        waiting = [start]
        while waiting:
            before = graph.predecessors[waiting[-1]]
            missing = [u for u in before if u not in masks]
            waiting += missing
            if not missing:
                v = waiting.pop()
                masks[v] = 0
                for u in before:
                    masks[v] |= masks[u] | 1 << u
    return tuple(masks[v] for v in range(len(graph.ops)))


def add_up(*parts: tuple[int, Terms], constant: int = 0) -> Terms:
    """Return a sum of multiplied terms without zeros."""
    found: Terms = {CONSTANT: constant}
    for number, terms in parts:
        for variable, coefficient in terms.items():
            found[variable] = found.get(variable, 0) + number * coefficient
    return {variable: x for variable, x in found.items() if x}
