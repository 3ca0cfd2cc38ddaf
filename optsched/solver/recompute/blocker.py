"""The op that makes a peak impossible, in words."""

from __future__ import annotations

from collections.abc import Collection

from optsched.solver.recompute.problem import RecomputeProblem
from optsched.solver.recompute.runs import Schedule


def name_blocker(
    problem: RecomputeProblem, base: Schedule, moments: Collection[int], peak: int
) -> str:
    """Return a message that names the op which makes a peak impossible.

    Parameters
    ----------
    problem, base
        The problem, and its schedule of least peak without repeats.
    moments
        Nodes whose rows are part of the proof.
    peak
        Bytes.
    """
    worst = max(range(len(problem.ops)), key=problem.own_bytes)
    name, own = problem.name(worst), problem.own_bytes(worst)
    if own > peak:
        return f"op {name!r} alone reads and writes {own:,} bytes"
    at = max(
        moments,
        key=lambda v: base.running[base.nodes.index(v)],
        default=worst,
    )
    held = problem.own_bytes(at)
    text = f"op {problem.name(at)!r} reads and writes {held:,} bytes"
    once = _held_by_once(problem, at)
    if once:
        text += f", and ops that run only once hold bytes beside it: {once}"
    return f"{text}; even if all others run again, they need more than the rest"


def _held_by_once(problem: RecomputeProblem, v: int) -> str:
    rows = []
    for storage in problem.storages:
        maker = storage.maker
        if maker < 0 or maker in problem.again or not problem.above[v] >> maker & 1:
            continue
        is_read_later = any(not problem.above[v] >> w & 1 for w in storage.readers)
        if storage.kept or is_read_later:
            rows.append((storage.size, problem.name(maker)))
    return ", ".join(f"{name!r} ({size:,} bytes)" for size, name in sorted(rows)[:-4:-1])
