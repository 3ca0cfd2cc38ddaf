"""Cuts of Inductor's fused nodes that lower the simulated peak of a graph.

The parts of the nodes are read (:mod:`optsched.plugins.inductor.cuts.parts`), the split of least
peak is searched (:mod:`optsched.solver.fusion`), the nodes are rebuilt and ordered, and the wrapper
is simulated. Cuts are taken only if the simulated peak falls by the minimum gain. If anything
fails, Inductor's fused nodes stay.

Example: recomputed layers were fused across layers, so that one kernel waits for a large buffer of
each. Cut into one kernel per layer, each buffer is freed before the next one is made.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from optsched.model.fused import FusedGraph
from optsched.plugins.gain import MinGain, worth_it
from optsched.plugins.inductor.cuts.parts import FusedParts, read_parts
from optsched.plugins.inductor.cuts.rebuild import rebuilt
from optsched.plugins.inductor.earlier import Earlier
from optsched.plugins.inductor.orders.candidates import Decision
from optsched.plugins.inductor.reading.planning import prepare
from optsched.plugins.inductor.sizes.kernels import KernelMemory
from optsched.plugins.inductor.wrapper.facts import WrapperFacts
from optsched.runtime.bytes import format_bytes
from optsched.runtime.clock import Clock
from optsched.runtime.text import counted, listed
from optsched.solver.fusion.front import Price, best_within, cheapest_within, find_front
from optsched.solver.fusion.price import why_cut
from optsched.solver.fusion.result import Point
from optsched.solver.fusion.search import search_fusion

SPLITS = ("auto", "peak", False)
"""Settings: cuts that cost little, cuts at any price, and none."""
SPLIT_SHARE = 0.7
"""Part of the remaining time for the search of a split; the rest orders the nodes after it."""
SEARCH_SHARE = 0.5
"""Part of the search's time in which a split of least peak is sought; the rest finds few cuts."""


class FoundCuts(NamedTuple):
    """The split of fused nodes that was found, every node whole, and a bound on all splits."""

    point: Point
    whole: Point
    bound: int


EARLIER_CUTS = Earlier[FoundCuts](most=16)
"""Splits with which graphs fit a budget."""

Decide = Callable[[Sequence[Any], float], tuple[WrapperFacts, Decision]]
"""Reads the facts of nodes, and chooses their order within some seconds."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Nodes of the scheduler after cuts, and the decision on their order."""

    nodes: list[Any]
    facts: WrapperFacts
    """`nodes` and `facts`: the nodes to run, and their facts."""
    decision: Decision
    """The order of these nodes."""
    found: FoundCuts
    """The split that was taken."""
    text: str
    """The nodes that were cut, why, and what each cut saves."""


def find_cuts(
    nodes: Sequence[Any],
    facts: WrapperFacts,
    decision: Decision,
    kernels: Mapping[str, KernelMemory],
    decide: Decide,
    *,
    split: str,
    clock: Clock,
    min_gain: MinGain,
    name: str,
    must_fit: bool = False,
    earlier: bool = False,
) -> Cuts | None:
    """Return cuts that lower the simulated peak of a graph; None if no cut is worth it.

    Raise `KeyboardInterrupt` if the search was interrupted.

    Parameters
    ----------
    nodes, facts, decision
        The fused nodes, their facts, and the choice of their order.
    kernels
        Memory of the extern kernels.
    decide
        Chooses the order of other nodes.
    split
        `"auto"` or `"peak"`.
    clock
        Limit of the graph, which search, price, and the order after cuts share.
    min_gain
        Least saving beside that of the order.
    name
        Name of the graph.
    must_fit
        True to take cuts at any price if those that `split` allows save less than `min_gain`.
    earlier
        True to take cuts that were found earlier if they save enough, at any price.
    """
    parts = read_parts(nodes, kernels, name, facts)
    if not parts.fused.nodes:
        return None
    before = decision.best if decision.gains else decision.own
    wanted = max(1, min_gain.size, int(min_gain.share * before.peak))
    key = parts.digest
    found = EARLIER_CUTS.get(key) if earlier else None
    if found is None or found.whole.peak - found.point.peak < wanted:
        # The order may have taken all the time; cuts that are known need none.
        if clock.expired():
            return None
        most = before.peak - wanted if must_fit else 0
        found = _search(parts.fused, clock.share(SPLIT_SHARE), wanted, split, most)
    if found is None:
        return None
    try:
        made = rebuilt(parts, found.point.groups)
        prepare(made)
        made_facts, after = decide(made, clock.left() or 0.0)
        if after.best.needs_no_more(before) and worth_it(before.peak, after.best.peak, min_gain):
            EARLIER_CUTS.keep(key, found)
            return Cuts(made, made_facts, after, found, _text(parts, found))
    except BaseException:
        prepare(nodes)
        raise
    prepare(nodes)
    return None


def _search(
    fused: FusedGraph, clock: Clock, wanted: int, split: str, must_fit: int
) -> FoundCuts | None:
    """Return a split that saves the wanted bytes; None if none was found.

    Or one within `must_fit` bytes, at any price, unless that is 0.
    """
    result = search_fusion(fused, clock.share(SEARCH_SHARE), wanted=wanted)
    result.stop_reason.raise_if_interrupted()
    # The wrapper may hold more with whole nodes than the graph of ops tells.
    most = max(result.whole.peak - wanted, must_fit)
    if result.whole.peak - result.saved > most:
        return None
    # At any price, only the peak that must be reached counts; cheap cuts are chosen from several.
    peaks = [most] if must_fit else [] if split == "auto" else [result.best.peak]
    front = find_front(result, clock, peaks)
    front.stop_reason.raise_if_interrupted()
    price = Price() if split == "auto" and not must_fit else None
    point = best_within(front.points, result.whole, price)
    if must_fit:
        point = cheapest_within(front.points, most) or point
    return FoundCuts(point, result.whole, result.bound) if point.peak <= most else None


def _text(parts: FusedParts, found: FoundCuts) -> str:
    """Return a sentence per node that is cut, and the price of all."""
    point, whole, least = found
    fused, rows = parts.fused, point.cut_nodes(parts.fused)
    said = [
        f"{parts.origin[k].get_name()} into {len(groups)} ({_reason(parts, point, k)})"
        for k, groups in rows.items()
    ]
    more = point.kernels - whole.kernels
    extra = 100 * (point.traffic - whole.traffic) / max(1, whole.traffic)
    price = f"{counted(more, 'kernel')} and {extra:.2f} % traffic more"
    bound = f"no cuts below {least:,} bytes in the graph of ops"
    kept = "".join(f"; {name} left whole: {why}" for name, why in fused.whole[:3])
    return f"cut {listed(said, 4)}; {price}; {bound}{kept}"


def _reason(parts: FusedParts, point: Point, k: int) -> str:
    """Return what a cut saves beside the others, and the buffers that the whole node holds."""
    saved, held = why_cut(parts.fused, point, k)
    tensors = [parts.fused.graph.buffers[b].name for b in held]
    names = listed([parts.inputs.get(name, name) for name in tensors], 2)
    tied = f", whole it holds {names}" if held else ""
    return f"saves {format_bytes(saved)}{tied}"
