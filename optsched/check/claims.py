"""Claims of a plan file: rejected if they are impossible, and listed if nothing proves them.

A plan file holds more than an order and offsets. Peak and slab are replayed. The rest is a bound on
each of the two, its kind of proof, a graph's name, an objective, a memory model and how
the numbers moved. These can be refuted without a solver: any valid plan is above every lower
bound, so this plan refutes a bound above its own numbers, and so does the plan that runs the ops as
the graph lists them and puts no two buffers at one address. Other claims may be true; without a
certificate they are not proved, and the answer says so.

Example: a plan has a slab of 10 bytes. A claimed bound of 12 is refused, since the plan itself is
below it. A claimed bound of 8 is listed as unverified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optsched.check.plan import Checked, check_answer, check_order
from optsched.check.rules.near import count_moved
from optsched.check.rules.order import check_order_rules
from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.question import Question, contents_digest, restriction_words, rules_of_record
from optsched.runtime.limits import Objective, Proof
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.model.plan import Plan

UNNAMED = "stdin"
"""The name of a graph that was read from a pipe and does not have a name."""


@dataclass(frozen=True, slots=True)
class Unverified:
    """A lower bound that a plan file claims and that nothing has shown so far."""

    what: str
    """"peak", "slab" or "moves"; another quantity has words of its own."""
    bound: int
    """Bytes; ops, of moves."""
    proof: str | None = None
    """The kind of proof that the file names; None if it names none."""
    words: str = ""
    """The whole claim."""

    def __str__(self) -> str:
        if self.words:
            return self.words
        if self.what == "moves":
            return f"no plan as good moves fewer than {counted(self.bound, 'op')}"
        proof = "" if self.proof is None else f" by {Proof(self.proof).with_code}"
        return f"no {self.what} below {self.bound:,} bytes{proof}"


def check_claims(question: Question, plan: Plan, claims: Mapping[str, Any]) -> Checked:
    """Replay a plan and refuse each claim of its file that can be shown to be wrong.

    Raise `PlanError` on a plan that does not answer the question, or the first claim that is
    refuted.

    `question`, `plan`: the question, which never comes from the plan's file, and a plan for its
    graph. `claims`: the fields of an `optsched-plan/1` document except order and offsets.

    Return measured bytes of the plan.
    """
    graph = question.graph
    check_words(graph, claims)
    # Replayed first: claims are compared with measured numbers.
    checked = check_answer(question, plan, claims)
    known = {"peak": checked.peak, "slab": checked.slab}
    check_stated(graph, plan, known, claims)
    # A slab at the peak bound is what a joint bound means, for a single pool.
    placed = plan.placed(graph)
    if claims.get("slab_proof") == Proof.JOINT and len({b.pool for b in placed.buffers}) < 2:
        bound = claims.get("peak_bound", checked.slab)
        if bound != checked.slab:
            text = f"the slab of {checked.slab} bytes is proved by a peak bound of {bound}"
            raise PlanError(f"plan claims that {text}")
    return checked


def check_stated(
    graph: Graph, plan: Plan, known: Mapping[str, int], claims: Mapping[str, Any]
) -> None:
    """Refuse what a file states of the order, bounds and search of a valid plan, if it is wrong.

    `known` has the measured `peak` and `slab`.
    """
    rules = claims.get("order_rules", {})
    _check_order(rules, [graph.ops[v].name for v in plan.order])
    # A plan that needs no solver, and that no bound may exceed.
    simple = _simple_plan(plan.placed(graph), rules)
    for what, value in known.items():
        check_bound(what, value, simple.get(what, value), claims)
    if not plan.pools:
        # A plan that spills was found after what its trace tells of.
        _check_trace(known, claims)


def unverified(
    claims: Mapping[str, Any], bound: int = 0, graph: Graph | None = None
) -> list[Unverified]:
    """Return the claims of a plan file that are still open: not verified, and not refuted.

    `claims`: the fields of the plan file, which :func:`check_claims` did not refuse. `bound`: a
    verified bound on every peak. No slab is smaller than the peak of its order, so the same bound
    holds of both. `graph`: the graph, with which sizes of dimensions were compared.
    """
    claimed = {what: claims.get(f"{what}_bound", 0) for what in ("peak", "slab")}
    found = [Unverified(x, claimed[x], claims.get(f"{x}_proof")) for x in claimed]
    found = [claim for claim in found if claim.bound > bound]
    if moves := claims.get("order_rules", {}).get("moved_bound", 0):
        found.append(Unverified("moves", moves, None))
    what = claims.get("objective", Objective.SLAB)
    least = min((x["incumbent"] or 0 for x in claims.get("trace", ()) if x["incumbent"]), default=0)
    if least and least < claims[what]:
        # A search that had a better plan would have written it.
        found.append(
            Unverified("trace", least, words=f"a plan of {counted(least, 'byte')} in the trace")
        )
    most = max((event["bound"] for event in claims.get("trace", ())), default=0)
    if most > max(bound, claimed[what]):
        found.append(Unverified(f"{what} in the trace", most))
    if graph is not None and not graph.dims:
        # The graph's file has no open dimensions, so that only its sizes can be compared.
        rows = claims.get("dims", {}).items()
        found += [Unverified(f"dimension {x}", n, words=f"dimension {x}={n}") for x, n in rows]
    return found


def claimed_restriction(graph: Graph, plan: Plan, claims: Mapping[str, Any]) -> str:
    """Return in words among which plans the bounds of a plan's file are claimed; empty for all."""
    rules = claims.get("order_rules", {})
    # A buffer without an offset lies in no pool; one with a capacity may be empty.
    places = zip(plan.pools, plan.offsets, strict=bool(plan.pools))
    used = [pool for pool, offset in places if offset is not None]
    pools = tuple(dict.fromkeys([*used, *claims.get("capacities", {})]))
    of = (rules_of_record(rules), rules.get("max_moved"), pools, graph.streams, graph.variant)
    return restriction_words(*of)


def check_graph(graph: Graph, name: str, contents: object) -> None:
    """Check that a plan file is of a graph: by its name, or by its contents if it was renamed."""
    if name in (graph.name, UNNAMED) or graph.name == UNNAMED:
        return
    if contents != contents_digest(graph):
        raise PlanError(f"plan is of graph {name[:200]!r}, this is {graph.name!r}")


def check_words(graph: Graph, claims: Mapping[str, Any]) -> None:
    """Check the names that a plan file uses."""
    check_graph(graph, claims.get("graph", graph.name), claims.get("contents"))
    model = claims.get("memory_model", graph.memory_model)
    if model not in (graph.memory_model, graph.model_name):
        raise PlanError(f"plan has the memory model {model!r}, the graph {graph.model_name!r}")
    dims = claims.get("dims", {})
    if graph.dims and dims and dims != dict(graph.dims):
        made = " ".join(f"{name}={size}" for name, size in dims.items())
        raise PlanError(f"the plan is for {made}, the graph has {dict(graph.dims)}")
    words = {"objective": Objective, "peak_proof": Proof, "slab_proof": Proof}
    for key, known in words.items():
        if key in claims and claims[key] not in list(known):
            listed = ", ".join(known)
            raise PlanError(f"plan claims the {key} {claims[key]!r}, which is not one of {listed}")


def check_bound(what: str, value: int, simple: int, claims: Mapping[str, Any]) -> None:
    """Check a bound against two plans, and that a proof has a bound that meets the value."""
    bound, proof = claims.get(f"{what}_bound"), claims.get(f"{what}_proof")
    # The plan itself refutes a bound above its own value.
    if bound is not None and bound > value:
        raise PlanError(f"plan claims that no {what} is below {bound} bytes, its own is {value}")
    if bound is not None and bound > simple:
        text = f"that of the ops as they are listed is {simple}"
        raise PlanError(f"plan claims that no {what} is below {bound} bytes, {text}")
    # A proof means that bound and value meet.
    if proof not in (None, Proof.CLAIMED) and bound != value:
        text = "no bound" if bound is None else f"a bound of {bound}"
        raise PlanError(
            f"plan claims {Proof(proof).with_code} for its {what} of {value} bytes, with {text}"
        )


def _check_order(rules: Mapping[str, Any], order: Sequence[str]) -> None:
    """Check an order against the rules it was chosen by, and how many ops it moves."""
    check_order_rules(order, **{key: rules.get(key, ()) for key in ("first", "last", "groups")})
    if "baseline" not in rules:
        return
    moved = count_moved(order, rules["baseline"])
    if rules.get("moved", moved) != moved:
        claimed = counted(rules["moved"], "op")
        raise PlanError(f"plan claims to move {claimed} of its baseline, it is {moved}")
    if rules.get("max_moved", moved) < moved:
        moves = f"{counted(moved, 'op')} of its baseline"
        raise PlanError(f"plan moves {moves}, at most {rules['max_moved']}")
    if rules.get("moved_bound", 0) > moved:
        fewest = counted(rules["moved_bound"], "op")
        raise PlanError(f"plan claims that none moves fewer than {fewest}, it moves {moved}")


def _simple_plan(graph: Graph, rules: Mapping[str, Any]) -> dict[str, int]:
    """Return peak and slab of the listed order with buffers side by side, if that is valid."""
    # Pins may overlap in the listed order, so nothing is known about it.
    if any(buffer.pin is not None for buffer in graph.buffers):
        return {}
    listed = {key: value for key, value in rules.items() if not key.startswith("moved")}
    try:
        _check_order(listed, [op.name for op in graph.ops])
        peak = check_order(graph, range(len(graph.ops)))
    except PlanError:
        return {}
    ends: dict[str, int] = {}
    for buffer in graph.buffers:
        if buffer.alias_of is None and not buffer.external:
            start = -(-ends.get(buffer.pool, 0) // buffer.alignment) * buffer.alignment
            ends[buffer.pool] = start + buffer.size
    return {"peak": peak, "slab": sum(ends.values())}


def _check_trace(known: Mapping[str, int], claims: Mapping[str, Any]) -> None:
    """Check that a trace has no bound above this plan and no plan below the bound."""
    objective = claims.get("objective", Objective.SLAB)
    value, bound = known[objective], claims.get(f"{objective}_bound", 0)
    trace: Sequence[Mapping[str, Any]] = claims.get("trace", ())
    for number, event in enumerate(trace):
        if event["bound"] > value:
            text = f"a bound of {event['bound']} bytes, this plan has {value}"
            raise PlanError(f"trace event number {number}: {text}")
        # A trace may not tell of a plan below the bound that the file claims.
        if event["incumbent"] is not None and event["incumbent"] < bound:
            text = f"a plan of {event['incumbent']} bytes, below the bound of {bound}"
            raise PlanError(f"trace event number {number}: {text}")
