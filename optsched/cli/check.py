"""The command check: verify a plan and a certificate with the independent checker."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from optsched.cli import common
from optsched.cli.module import check_module, minimal, note_unverified
from optsched.cli.options import GRAPH_MODEL, NEAR, ORDER_RULES, Command, flag, option
from optsched.cli.recompute import COST_OPTIONS, check_repeats
from optsched.cli.saving import add_checked_saving, add_packed
from optsched.errors import PlanError, UsageError
from optsched.runtime.limits import Proof
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optsched.model.graph import Graph
    from optsched.model.order_rules import OrderRules
    from optsched.model.question import Question


def _check(args: argparse.Namespace) -> int:
    from optsched.cli.unfuse import check_split_file
    from optsched.formats import Content, read_packing, sniff_file
    from optsched.formats.fused import read_split

    try:
        if args.plan is None:
            # A packing file holds its own offsets, so there is nothing else to give.
            if sniff_file(args.graph).holds is not Content.PACKING:
                raise UsageError("check needs a graph and a plan, or one packing with offsets")
            common.refuse_graph_options(args, args.graph)
            return _check_packing(args, read_packing(args.graph))
        if (split := read_split(args.plan)) is not None:
            return check_split_file(args, split)
        if sniff_file(args.plan).holds is Content.MODULE_PLAN:
            return check_module(args)
        return _check_plan(args)
    # A plan that fails the check is the answer of this command, not an error of its use.
    except PlanError as error:
        if args.json:
            common.print_json(args, {"valid": False, "error": str(error)})
        return common.fail(str(error), common.CHECK_FAILED)


def _check_plan(args: argparse.Namespace) -> int:
    from optsched.check.claims import check_claims, claimed_restriction
    from optsched.formats import read_plan_claims
    from optsched.formats.runs import recompute_claims
    from optsched.model.question import rules_of_record

    graph = common.read_graph(args, args.graph, ordered=False)
    if (repeated := recompute_claims(args.plan)) is not None:
        return check_repeats(args, graph, repeated)
    if unused := common.given(args, "cost", "costs"):
        raise UsageError(f"{unused[0]} is about repeats of ops, and {args.plan} has none")
    plan, claims = read_plan_claims(args.plan, graph)
    # Without --inplace the same plan would fail in a way that nobody understands.
    if claims["inplace"] and not graph.in_place and not args.inplace:
        raise UsageError(f"{args.plan}: an in-place plan: check it with --inplace")
    asked = _question(args, graph)
    checked = check_claims(asked, plan, claims)
    replayed = proved = None
    if args.replay:
        from optsched.check.executions import replay_executions
        from optsched.check.replay import replay_plan

        replayed = (replay_executions if graph.on_streams else replay_plan)(graph, plan)
    if args.certificate is not None:
        own = rules_of_record(claims.get("order_rules", {}))
        proved = _check_bound(asked, own, args.certificate, checked.peak)
    record: dict[str, Any] = {"valid": True, "graph": graph.name}
    record |= {"peak": checked.peak, "slab": checked.slab}
    record["memory_model"] = graph.model_name
    record |= {key: claims[key] for key in ("order_rules",) if key in claims}
    made_among = claimed_restriction(plan, claims)
    text = f"valid: peak {counted(checked.peak, 'byte')}, slab {counted(checked.slab, 'byte')}"
    if graph.in_place:
        text += " (in-place)"
    if len(checked.slabs) > 1 or plan.pools:
        record["slabs"] = checked.slabs
        text += " in " + ", ".join(f"{pool!r} {slab:,}" for pool, slab in checked.slabs.items())
    if graph.on_streams:
        record["streams"] = list(graph.streams)
        count = len(graph.streams)
        text += f"\n{counted(count, 'stream')}: no slab of these orders is below the peak, verified"
    if replayed is not None:
        record["replayed"] = asdict(replayed)
        text += f"\n{replayed}"
    if made_among:
        record["made_among"] = made_among
        text += f"\nmade among {made_among}"
    known = 0
    if proved is not None:
        text += f"\n{_note_bound(record, asked, proved)}"
        known = proved.bound if proved.about.covers(replace(asked, rules=own)) else 0
    text += note_unverified(record, claims, None if proved is None else known, made_among)
    covers = proved is not None and proved.about.covers(asked)
    text = add_checked_saving(
        graph,
        record,
        text,
        bound=proved.bound if proved and covers else None,
        among=proved.about.restriction if proved and covers else "",
    )
    common.print_result(args, record, text)
    return common.OK


def _question(args: argparse.Namespace, graph: Graph) -> Question:
    """Return the question of the command line: its order rules and baseline, not the plan's."""
    from optsched.formats import read_plan
    from optsched.model.order_rules import Baseline
    from optsched.model.question import Question

    near: Sequence[int] = range(len(graph.ops))
    if args.baseline is not None:
        near = read_plan(args.baseline, graph).order
    rules = common.reading(args).order_rules(graph, near)
    return Question(graph, rules, Baseline(tuple(near), args.max_moved))


class _Proved(NamedTuple):
    """A bound on the peak with a valid certificate, and the question that it is about."""

    about: Question
    bound: int
    rung: str


def _check_bound(asked: Question, own: OrderRules, path: str, peak: int) -> _Proved:
    """Check a certificate: for the question asked, or else for the rules that the files state.

    `own` are the rules of the plan's file; certificates of older versions do not state rules. A
    certificate made under rules may hold without them, and is then about all orders.
    """
    from optsched.check.certificate import check_certificate
    from optsched.formats import read_certificate

    certificate = read_certificate(path, asked.graph)
    refused = None
    # The question asked comes first: if it is proved, weaker statements do not matter.
    for rules in dict.fromkeys((asked.rules, certificate.rules, own)):
        about = replace(asked, rules=rules, near=None)
        try:
            rung = check_certificate(about.planned, certificate)
        except PlanError as error:
            # The first refusal is reported: it is about the question asked.
            refused = refused or PlanError(f"{path}: {error}")
            continue
        # Either the checker or a file is wrong, so this is never passed over.
        if certificate.bound > peak and about.covers(asked):
            raise PlanError(
                f"{path}: bound {certificate.bound} is above the peak {peak} of an order"
            )
        return _Proved(about, certificate.bound, rung)
    assert refused is not None
    raise refused


def _note_bound(record: dict[str, Any], asked: Question, proved: _Proved) -> str:
    """Add a proved bound to the record if it is about the question asked; return it in words."""
    about, bound, rung = proved
    among = f" among {about.restriction}" if about.rules else ""
    text = f"proved by {Proof(rung).with_code}: no order below {bound:,} bytes{among}, "
    if not about.covers(asked):
        fields = {"bound": bound, "bound_proof": rung, "among": about.restriction}
        record["restricted_bound"] = fields
        return f"{text}which says nothing about other orders"
    record |= {"bound": bound, "bound_proof": rung}
    return text + minimal(record, bound) + (" among them" if among else "")


def _check_packing(args: argparse.Namespace, packing: Any) -> int:
    from optsched.check.packing import check_packing

    if packing.offsets is None and len(packing.problem):
        raise PlanError(f"{args.graph}: not every buffer has an offset")
    offsets = [] if packing.offsets is None else packing.offsets.tolist()
    if any(packing.pools or ()):
        from optsched.solver.spill.pack import check_pools

        slab = check_pools(packing.problem, packing.pools, offsets)
    else:
        slab = check_packing(packing.problem, offsets, capacity=packing.problem.capacity)
    record: dict[str, Any] = {"valid": True, "graph": packing.problem.name, "slab": slab}
    text = f"valid: slab {counted(slab, 'byte')}"
    if args.replay:
        from optsched.check.replay import replay_packing

        replayed = replay_packing(packing.problem, offsets, packing.pools or ())
        text += f"\n{replayed}"
        record["replayed"] = asdict(replayed)
    text = add_packed(packing, record, text)
    common.print_result(args, record, text)
    return common.OK


CHECK = Command(
    "verify a plan, and a certificate, with the independent checker",
    (
        option("graph", help="graph file, or a packing with offsets"),
        option("plan", nargs="?", help="plan file"),
        option("certificate", nargs="?", help="certificate of the bound on the peak"),
        flag(
            "--replay",
            "also execute the plan on a slab of patterns that must survive until each read",
        ),
        *COST_OPTIONS,
        *NEAR,
        *ORDER_RULES,
        *GRAPH_MODEL,
    ),
    _check,
)
