"""Plans with repeats as whole modules that run again: `torch.utils.checkpoint` of some modules.

Names of ops tell their module: `blocks.0.mlp/addmm` belongs to `blocks.0.mlp`, and to `blocks.0`.
A checkpoint runs the forward ops of a module again right before the module's backward pass, all of
them that it needs. A plan chooses single ops and times, so that something is lost; how much is
measured by the checker, in the order in which the program was traced.

Example: a plan repeats 3 of 4 ops of `blocks.0`, and 1 of 4 of `blocks.1`. As regions it is the
checkpoint of `blocks.0`; the fourth op runs again as well, and the repeat in `blocks.1` is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optsched.check.runs import check_runs
from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.runs import runs_once
from optsched.model.training import find_ops, forward_ops

SHARES = (0.01, 0.25, 0.5, 0.75)
"""Shares of a module's cost that a plan must repeat for the module to run again as a whole."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Modules that run again as a whole."""

    modules: tuple[str, ...]
    """Their names in the model."""
    peak: int
    extra: int
    """`peak` and `extra`: bytes and cost of the repeats, in the traced order, as the checker counts
    them."""
    lost: tuple[str, ...]
    """Ops that the plan runs again outside of the modules."""
    added: tuple[str, ...]
    """Ops of the modules that run again though the plan runs them once."""


def checkpoints(graph: Graph, loss: Sequence[str], sequence: Sequence[int]) -> Checkpoints | None:
    """Return the modules that come nearest to a plan; None if no checkpoint saves bytes."""
    forward = forward_ops(graph, find_ops(graph, loss))
    repeated = {v for v, count in Counter(sequence).items() if count > 1}
    if not repeated or not any("/" in op.name for op in graph.ops):
        return None
    deepest = max(_module(graph, v).count(".") + 1 for v in forward)
    candidates = {
        tuple(_chosen(graph, forward, repeated, share, depth))
        for share in SHARES
        for depth in range(1, deepest + 1)
    }
    # A module whose backward pass needs its inputs alone saves nothing by a checkpoint.
    own = check_runs(graph, range(len(graph.ops))).peak
    found = []
    for chosen in sorted(candidates - {()}):
        # Some modules cannot run again, as where results are written over.
        try:
            found.append(_measured(graph, forward, repeated, chosen))
        except PlanError:
            continue
    smaller = (x for x in found if x.peak < own)
    return min(smaller, key=lambda x: (x.peak, x.extra), default=None)


def _module(graph: Graph, v: int) -> str:
    return graph.ops[v].name.rpartition("/")[0]


def _inside(module: str, of: str) -> bool:
    return module == of or module.startswith(f"{of}.")


def _chosen(
    graph: Graph, forward: frozenset[int], repeated: set[int], share: float, depth: int
) -> Iterator[str]:
    """Yield the modules of a depth, or above without parts, that a plan repeats to this share."""
    names = {_module(graph, v) for v in forward} - {""}
    cut = {".".join(name.split(".")[:depth]) for name in names}
    for module in sorted(cut):
        if any(_inside(other, module) and other != module for other in cut):
            continue
        ops = [v for v in forward if _inside(_module(graph, v), module)]
        cost = sum(graph.ops[v].cost for v in ops)
        again = sum(graph.ops[v].cost for v in ops if v in repeated)
        if again and again >= share * cost:
            yield module


def _measured(
    graph: Graph, forward: frozenset[int], repeated: set[int], modules: tuple[str, ...]
) -> Checkpoints:
    sequence, again = _sequence(graph, forward, modules)
    measured = check_runs(graph, sequence)
    lost = tuple(graph.ops[v].name for v in sorted(repeated - again) if graph.ops[v].cost)
    added = tuple(graph.ops[v].name for v in sorted(again - repeated) if graph.ops[v].cost)
    return Checkpoints(modules, measured.peak, measured.extra, lost, added)


def _sequence(
    graph: Graph, forward: frozenset[int], modules: tuple[str, ...]
) -> tuple[list[int], set[int]]:
    """Return the runs: each module again before the first backward op of it."""
    once, done, sequence = runs_once(graph), set[str](), list[int]()
    again: set[int] = set()
    for v in range(len(graph.ops)):
        own = None if v in forward else _region(_module(graph, v), modules)
        if own is not None and own not in done:
            done.add(own)
            needed = _needed(graph, forward, own) - {*once}
            sequence += sorted(needed)
            again |= needed
        sequence.append(v)
    return sequence, again


def _region(module: str, modules: tuple[str, ...]) -> str | None:
    return next((x for x in modules if _inside(module, x)), None)


def _needed(graph: Graph, forward: frozenset[int], module: str) -> set[int]:
    """Return the forward ops of a module that its backward ops need."""
    inside = {v for v in forward if _inside(_module(graph, v), module)}
    outside = [
        v for v in range(len(graph.ops)) if v not in forward and _inside(_module(graph, v), module)
    ]
    found: set[int] = set()
    ahead = [u for v in outside for u in graph.predecessors[v]]
    while ahead:
        v = ahead.pop()
        if v in inside and v not in found:
            found.add(v)
            ahead += graph.predecessors[v]
    return found
