"""Replay of the plans of a module: every computation alone, with its callees as blocks.

The blocks are made by :mod:`optsched.model.module`, which solvers use as well; so they are measured
here once more, in plain integers, against the replay of the computations that lie in them.

Example: `main` has an op `while` that runs `body`, and gives it a block of 32 bytes. The plan of
`body` needs a slab of 40 bytes, so the plan of `main` is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from math import lcm
from typing import TYPE_CHECKING, Any

from optsched.check.certificate import Certificate, check_certificate
from optsched.check.claims import check_stated, check_words
from optsched.check.plan import check_order, check_plan
from optsched.check.replay import Replayed, replay_plan
from optsched.errors import PlanError
from optsched.model.elements import Buffer
from optsched.model.graph import Graph
from optsched.model.module import Call, Module
from optsched.runtime.collector import paused_collector
from optsched.runtime.keywords import keywords

if TYPE_CHECKING:
    from optsched.model.plan import Plan


@dataclass(frozen=True, slots=True)
class ModuleChecked:
    """Measurements of the replay, in bytes by computation, including its calls."""

    peaks: dict[str, int]
    slabs: dict[str, int]


def check_schedule(
    module: Module,
    orders: Mapping[str, Sequence[int]],
    claims: Mapping[str, int | None] | None = None,
) -> dict[str, int]:
    """Replay an order of each computation and return the peaks, those of callees included.

    Raise `PlanError` if a computation has no order, an order is of none, or it misses an op, has
    one twice or before one that it needs; with the name of the computation.

    `orders`: op ids, first to run first, by computation. `claims`: peaks by computation that are
    compared where given.
    """
    _check_names(module, orders, "order")
    return replay_orders(module, orders, claims or {})


def replay_orders(
    module: Module, orders: Mapping[str, Sequence[int]], claims: Mapping[str, int | None]
) -> dict[str, int]:
    """Return the peaks of some computations and all that these call; compare the claimed ones."""
    peaks: dict[str, int] = {}
    alignments = _alignments(module)
    for name in filter(orders.__contains__, module.computations):
        with _naming(name):
            peaks[name] = check_order(_with_blocks(module, name, peaks, alignments), orders[name])
            _check_claim("peak", claims.get(name), peaks[name])
    return peaks


@keywords
def check_module(
    module: Module,
    plans: Mapping[str, Plan],
    claims: Mapping[str, Mapping[str, Any]] | None = None,
) -> ModuleChecked:
    """Replay a plan of each computation, in whose slab every called one has its block.

    Parameters
    ----------
    module, plans
        The module, and a plan by computation. A plan is of the graph with its blocks
        (:meth:`Module.with_blocks` with the slabs of these plans).
    claims
        Bytes by computation, `peak` and `slab`, that are compared where given.

    Raises
    ------
    PlanError
        On the first broken rule, naming computation, op, buffer and bytes.

    Examples
    --------
    >>> from optsched import Call, GraphBuilder, Module, check_module, solve_module
    >>> body, main = GraphBuilder("body"), GraphBuilder("main")
    >>> body.op("step", workspace=40)
    >>> main.op("while", writes={"y": 8})
    >>> graphs = {"body": body.build(), "main": main.build()}
    >>> module = Module("loop", graphs, "main", (Call("main", "while", ("body",)),))
    >>> check_module(module, solve_module(module).plans).slabs
    {'body': 40, 'main': 48}
    """
    _check_names(module, plans, "plan")
    # Results that lie inside a called computation have no offsets of their own to check.
    if module.results_inside:
        raise PlanError(f"module {module.name!r} has no offsets: results lie inside what is called")
    peaks: dict[str, int] = {}
    slabs: dict[str, int] = {}
    alignments = _alignments(module)
    for name in module.computations:
        with _naming(name):
            graph = _with_blocks(module, name, slabs, alignments)
            checked = check_plan(graph, plans[name])
            peaks[name], slabs[name] = checked.peak, checked.slab
            # Mostly blocks are as large by peak as by slab, and one replay tells both.
            differ = any(peaks[callee] != slabs[callee] for callee in module.callees_of(name))
            if differ or plans[name].pools:
                live = _with_blocks(module, name, peaks, alignments)
                peaks[name] = check_order(live, plans[name].order)
            for what, found in (("peak", peaks[name]), ("slab", slabs[name])):
                _check_claim(what, (claims or {}).get(name, {}).get(what), found)
    return ModuleChecked(peaks, slabs)


def check_module_claims(
    module: Module, plans: Mapping[str, Plan], claims: Mapping[str, Mapping[str, Any]]
) -> ModuleChecked:
    """Replay a plan, and reject claims of its file that can be proved wrong.

    Raise `PlanError` on a plan that is not valid, or the first claim that is refuted.

    `module`, `plans`: as for :func:`check_module`. `claims`: the fields of the plan file, by
    computation, beside order and offsets.
    """
    checked = check_module(module, plans, claims)
    alignments = _alignments(module)
    # Names of computations are checked by then.
    for name, claim in claims.items():
        with _naming(name):
            check_words(module.graphs[name], claim)
            graph = _with_blocks(module, name, checked.slabs, alignments)
            known = {"peak": checked.peaks[name], "slab": checked.slabs[name]}
            check_stated(graph, plans[name], known, claim)
    return checked


def check_module_certificate(
    module: Module, certificates: Mapping[str, Certificate]
) -> dict[str, int]:
    """Return the bounds that certificates prove, by computation with all that it calls.

    Each is of its computation's graph in which every block has the bound of what is called.

    Raise `PlanError` if a computation has none, or on the first that does not hold.
    """
    _check_names(module, certificates, "certificate")
    bounds: dict[str, int] = {}
    alignments = _alignments(module)
    for name in module.computations:
        with _naming(name):
            check_certificate(_with_blocks(module, name, bounds, alignments), certificates[name])
        bounds[name] = certificates[name].bound
    return bounds


def replay_module(module: Module, plans: Mapping[str, Plan]) -> Replayed:
    """Execute the plan of each computation on a slab of its own, blocks as one buffer each.

    The contents of a block are executed with the computation that they belong to.
    """
    slabs: dict[str, int] = {}
    alignments = _alignments(module)
    runs = []
    for name in module.computations:
        graph = _with_blocks(module, name, slabs, alignments)
        runs.append(replay_plan(graph, plans[name]))
        slabs[name] = check_plan(graph, plans[name]).slab
    totals = (sum(getattr(run, key) for run in runs) for key in ("steps", "reads", "cells"))
    return Replayed(*totals)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Prefix errors about a computation with its name."""
    try:
        yield
    except PlanError as error:
        raise PlanError(f"computation {name!r}: {error}") from None


def _check_claim(what: str, claimed: int | None, found: int) -> None:
    if claimed not in (None, found):
        raise PlanError(f"plan claims a {what} of {claimed} bytes, the replay gives {found}")


def _check_names(module: Module, given: Mapping[str, object], what: str) -> None:
    for name in module.graphs:
        if name not in given:
            raise PlanError(f"computation {name!r} has no {what}")
    for name in given:
        if name not in module.graphs:
            raise PlanError(
                f"{what} of computation {name!r}, which is not in module {module.name!r}"
            )


@paused_collector()
def _with_blocks(
    module: Module, name: str, sizes: Mapping[str, int], alignments: Mapping[str, int]
) -> Graph:
    """Return a computation's graph with its blocks, which are measured again."""
    own = module.graphs[name]
    if not module.calls_of(name):
        return own
    graph = module.with_blocks(name, sizes)
    # The rest of the graph must not differ, or another graph would be checked.
    if not _is_same_but_for_blocks(own, graph):
        raise PlanError("it is planned as another graph than it is")
    calls = {own.op_ids[call.op]: call for call in module.calls_of(name)}
    blocks = range(len(own.buffers), len(graph.buffers))
    for v, (op, planned) in enumerate(zip(own.ops, graph.ops, strict=True)):
        needed = _needed(module, calls[v], own, sizes) if v in calls else 0
        held = planned.writes[len(op.writes) :]
        # Exactly one block of the needed size, and none where nothing is needed.
        if [graph.buffers[b].size for b in held if b in blocks] != [needed] * (needed > 0):
            raise PlanError(f"op {op.name!r} calls for {needed} bytes, its block has others")
        for b in held:
            _check_block(calls[v], graph.buffers[b], alignments)
    return graph


def _is_same_but_for_blocks(own: Graph, graph: Graph) -> bool:
    """Return True if a graph without the blocks of its calling ops is the computation's own."""
    ops = tuple(
        planned
        if planned == op
        else replace(planned, writes=planned.writes[: len(op.writes)], workspace=op.workspace)
        for op, planned in zip(own.ops, graph.ops, strict=False)
    )
    same = [
        getattr(graph, each.name) == getattr(own, each.name)
        for each in fields(Graph)
        if each.compare and each.name not in ("ops", "buffers")
    ]
    buffers = graph.buffers[: len(own.buffers)]
    return all(same) and buffers == own.buffers and ops == own.ops


def _needed(module: Module, call: Call, graph: Graph, sizes: Mapping[str, int]) -> int:
    """Return the bytes of the block of an op that calls."""
    for callee in call.callees:
        if callee not in sizes:
            raise PlanError(f"op {call.op!r} calls {callee!r}, which does not come before")
    needed = max(sizes[callee] for callee in call.callees)
    if call.results_inside:
        # The block adds only what its results do not have already.
        written = [graph.buffers[b] for b in graph.ops[graph.op_ids[call.op]].writes]
        needed -= sum(buffer.size for buffer in written if not buffer.external)
    return max(0, needed)


def _check_block(call: Call, block: Buffer, alignments: Mapping[str, int]) -> None:
    """Check that a block is nothing but bytes, and aligns its contents."""
    # Pins, pools or views would tie the block to something that the callee does not know.
    if replace(block, name="", size=0, alignment=1) != Buffer("", 0):
        raise PlanError(f"the block of op {call.op!r} is not a plain buffer")
    for callee in call.callees:
        if block.alignment % alignments[callee]:
            raise PlanError(
                f"op {call.op!r}: its block is aligned to {block.alignment} bytes, "
                f"buffers of {callee!r} need {alignments[callee]}"
            )


def _alignments(module: Module) -> dict[str, int]:
    """Return the alignment of each computation's block, which aligns all buffers in it."""
    found: dict[str, int] = {}
    for name in module.computations:
        own = [buffer.alignment for buffer in module.graphs[name].buffers]
        inner = [found[c] for call in module.calls_of(name) for c in call.callees if c in found]
        found[name] = lcm(*own, *inner)
    return found
