"""The op that makes a peak impossible, in words.

While an op runs, every schedule holds what it reads and makes. Beside that it holds inputs that are
kept, outputs that are made by then, and what ops that run only once have made for later readers.
Each byte counts once.

Example: an op reads 60 bytes and makes 4, and the loss of 4 bytes, which exists by then, is an
output. So 68 bytes are live in every schedule, however often other ops run again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from optsched.runtime.text import counted
from optsched.solver.recompute.problem import RecomputeProblem
from optsched.solver.recompute.runs import Schedule

SHOWN = 3
"""Buffers held beside an op that are named."""


def name_blocker(
    problem: RecomputeProblem, base: Schedule, moments: Collection[int], peak: int
) -> str:
    """Return a message that names the op which makes a peak impossible.

    `problem`, `base`: the problem, and its schedule of least peak without repeats. `moments`: nodes
    whose rows are part of the proof. `peak`: bytes.
    """
    nodes = range(len(problem.ops))
    if not nodes:
        return f"inputs that are kept hold {counted(problem.fixed, 'byte')}"
    widest = max(nodes, key=lambda v: _bytes(problem, _used(problem, v)))
    needs = {v: _Need.of(problem, v) for v in sorted({widest, *moments})}
    if needs[widest].own > peak:
        return f"op {needs[widest].name!r} alone reads and writes {needs[widest].own:,} bytes"
    worst = max(needs.values(), key=lambda need: need.total)
    if worst.total > peak:
        return f"{worst}, {worst.total:,} in all"
    # No op alone is enough, so the proof compares several moments: the fullest one is named.
    at = max(moments, key=lambda v: base.running[base.nodes.index(v)], default=widest)
    return f"{needs[at]}; even if all others run again, they need more than the rest"


@dataclass(frozen=True, slots=True)
class _Need:
    """Bytes that are live in every schedule while an op runs."""

    name: str
    own: int
    """Bytes that it reads and makes."""
    beside: tuple[tuple[int, str], ...]
    """Sizes and names of further buffers, the largest first."""

    @classmethod
    def of(cls, problem: RecomputeProblem, v: int) -> _Need:
        graph, used = problem.graph, _used(problem, v)
        held = {
            b
            for b, buffer in enumerate(graph.buffers)
            if buffer.input is not None and graph.kept[b] and graph.roots[b] == b
        }
        again = frozenset(problem.again)
        others = (x for x in problem.storages if x.maker not in again)
        held |= {x.buffer for x in others if _is_held(problem, v, x.maker, x.readers)}
        held |= {x.buffer for x in problem.storages if x.kept and _is_before(problem, x.maker, v)}
        rows = [(_bytes(problem, [b]), graph.buffers[b].name) for b in held - used]
        beside = sorted((row for row in rows if row[0]), key=lambda row: (-row[0], row[1]))
        return cls(problem.name(v), _bytes(problem, used), tuple(beside))

    @property
    def total(self) -> int:
        return self.own + sum(size for size, _ in self.beside)

    def __str__(self) -> str:
        text = f"op {self.name!r} reads and writes {self.own:,} bytes"
        if not self.beside:
            return text
        rows = [f"{name!r} ({size:,} bytes)" for size, name in self.beside[:SHOWN]]
        rows += [f"{len(self.beside) - SHOWN} more"] if len(self.beside) > SHOWN else []
        held = self.total - self.own
        return f"{text}, and {held:,} more are held beside it in every schedule: {', '.join(rows)}"


def _used(problem: RecomputeProblem, v: int) -> set[int]:
    """Return the storages that an op reads, makes, or allocates for another op, as buffers."""
    graph, op = problem.graph, problem.graph.ops[problem.ops[v]]
    used = {graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)}
    return used | {problem.storages[s].buffer for s in problem.makes[v]}


def _bytes(problem: RecomputeProblem, buffers: Iterable[int]) -> int:
    found = (problem.graph.buffers[b] for b in buffers)
    return sum(buffer.size for buffer in found if not buffer.external)


def _is_before(problem: RecomputeProblem, maker: int, v: int) -> bool:
    return maker >= 0 and bool(problem.ancestors(v)[maker])


def _is_held(problem: RecomputeProblem, v: int, maker: int, readers: Collection[int]) -> bool:
    """Return True if bytes that no op makes again are there, and certainly read after v."""
    after = problem.descendants(v)
    return (maker < 0 or _is_before(problem, maker, v)) and any(after[w] for w in readers)
