"""The independent checker of plans: replays a plan step by step in plain integers.

It reads the graph's ops and buffers and nothing that a solver or the flat arrays computed, so that
an error there shows here. A plan is turned into facts (:mod:`optsched.check.facts`), each rule is
checked on these facts (:mod:`optsched.check.rules`), and the measurements are compared with the
claims of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optsched.check.facts import OrderFacts, PlanFacts
from optsched.check.peak import peak_of
from optsched.check.rules import RULES
from optsched.check.rules.capacities import check_capacities
from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.plan import HasPlan, Plan, graph_with_plan
from optsched.model.question import Question
from optsched.runtime.collector import paused_collector
from optsched.runtime.keywords import keywords


@dataclass(frozen=True, slots=True)
class Checked:
    """Measured bytes of a valid plan."""

    peak: int
    """Maximum number of live bytes over the steps, of all pools together; on several streams, the
    largest total size of buffers that may pairwise be in use at once."""
    slabs: dict[str, int]
    """The slab of each pool that a buffer with an offset lies in."""

    @property
    def slab(self) -> int:
        """Bytes of all slabs together."""
        return sum(self.slabs.values())


@keywords
def check_plan(
    graph: Graph | HasPlan,
    plan: Plan | HasPlan | None = None,
    *,
    peak: int | None = None,
    slab: int | None = None,
    slabs: Mapping[str, int] | None = None,
    capacities: Mapping[str, int] | None = None,
) -> Checked:
    """Replay a plan and return its true peak and slabs.

    Parameters
    ----------
    graph, plan
        The graph, and a plan for it; or a result, which has both.
    peak, slab, slabs
        Bytes that the plan claims; compared if given. `slab` is the sum over all pools.
    capacities
        Maximum slab of some pools in bytes.

    Raises
    ------
    PlanError
        On the first broken rule, naming op, buffer and bytes.

    Examples
    --------
    >>> from optsched import GraphBuilder, Plan, check_plan
    >>> build = GraphBuilder("pair")
    >>> build.op("load", writes={"x": 8})
    >>> build.op("scale", reads=["x"], writes={"y": 4})
    >>> build.output("y")
    >>> graph = build.build()
    >>> check_plan(graph, Plan(order=(0, 1), offsets=(0, 8)))
    Checked(peak=12, slabs={'': 12})
    >>> check_plan(graph, Plan(order=(1, 0), offsets=(0, 8)))
    Traceback (most recent call last):
        ...
    optsched.errors.PlanError: op 'scale' (step 0) runs before 'load', which it needs
    """
    subject, given = graph_with_plan("check_plan", graph, plan)
    assert given is not None
    claims = {"peak": peak, "slab": slab, "slabs": slabs, "capacities": capacities}
    return check_answer(Question(subject), given, claims)


@paused_collector()
def check_answer(question: Question, plan: Plan, claims: Mapping[str, Any]) -> Checked:
    """Check that a plan answers a question, and the numbers that it claims.

    Raise `PlanError` on the first broken rule, naming op, buffer and bytes.

    `question`, `plan`: the question, and a plan for its graph. `claims`: any of `peak`, `slab`,
    `slabs` and `capacities`, as for :func:`check_plan`.
    """
    facts = PlanFacts.of(question, plan)
    for rule in RULES:
        rule.check(facts)
    measured = Checked(peak_of(facts), facts.slabs)
    _check_numbers(measured, claims)
    return measured


@paused_collector()
def check_order(graph: Graph, order: Sequence[int]) -> int:
    """Replay an order without offsets and return its peak memory in bytes."""
    return peak_of(OrderFacts.of_order(graph, order))


def _check_numbers(measured: Checked, claims: Mapping[str, Any]) -> None:
    """Compare claimed bytes with the measured ones; None stands for a number without a claim."""
    rows = [
        ("peak", claims.get("peak"), measured.peak),
        ("slab", claims.get("slab"), measured.slab),
    ]
    for pool, claim in (claims.get("slabs") or {}).items():
        # A pool that holds nothing has a slab of 0 bytes.
        rows.append((f"slab in pool {pool!r}", claim, measured.slabs.get(pool, 0)))
    for what, claimed, found in rows:
        if claimed is not None and claimed != found:
            raise PlanError(f"plan claims a {what} of {claimed} bytes, the replay gives {found}")
    check_capacities(measured.slabs, claims.get("capacities") or {})
