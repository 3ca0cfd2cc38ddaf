"""Certificates of a module: one a computation, in which what it calls has its proved bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optsched.certificate.write import Written, certify_peak
from optsched.model.module import Module
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits


def certify_module(
    module: Module,
    orders: Mapping[str, Sequence[int]],
    bounds: Mapping[str, int],
    *,
    limits: Limits | Clock,
) -> dict[str, Written]:
    """Return certificates that no orders have less live bytes than the bounds, by computation.

    Where one falls short of its bound, those of its callers build on what it does show.

    Parameters
    ----------
    module
        What was planned.
    orders, bounds
        Of each computation an order, if one is known, and the bound on its peak, all that it
        calls included.
    limits
        For all of them together.
    """
    clock = Clock.of(limits)
    shown: dict[str, int] = {}
    made: dict[str, Written] = {}
    for number, name in enumerate(module.computations):
        graph = module.with_blocks(name, shown)
        part = clock.share(1 / (len(module.computations) - number))
        order = orders.get(name, range(len(graph.ops)))
        made[name] = certify_peak(graph, order, bounds[name], limits=part)
        shown[name] = made[name].certificate.bound
    return made
