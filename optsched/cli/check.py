"""Replay a plan, and check a certificate, with the independent checker."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.module import check_module, minimal, note_unverified
from optsched.cli.options import GRAPH_MODEL, NEAR, ORDER_RULES, Command, flag, option
from optsched.errors import PlanError, UsageError
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optsched.model.graph import Graph
    from optsched.model.order_rules import OrderRules
    from optsched.model.plan import Plan


def _check(args: argparse.Namespace) -> int:
    from optsched.formats import Content, read_packing, sniff_file

    try:
        if args.plan is None:
            if sniff_file(args.graph).holds is not Content.PACKING:
                raise UsageError("check needs a graph and a plan, or one packing with offsets")
            return _check_packing(args, read_packing(args.graph))
        if sniff_file(args.plan).holds is Content.MODULE_PLAN:
            return check_module(args)
        return _check_plan(args)
    except PlanError as error:
        if args.json:
            common.print_json(args, {"valid": False, "error": str(error)})
        return common.fail(str(error), common.CHECK_FAILED)


def _check_plan(args: argparse.Namespace) -> int:
    from optsched.check.claims import check_claims
    from optsched.formats import read_plan_claims

    graph = common.read_graph(args, args.graph, ordered=False)
    plan, claims = read_plan_claims(args.plan, graph)
    if claims["inplace"] and not args.inplace:
        raise UsageError(f"{args.plan}: an in-place plan: check it with --inplace")
    _check_order(args, graph, plan)
    checked = check_claims(graph, plan, claims)
    replayed = proved = None
    if args.replay:
        from optsched.check.executions import replay_executions
        from optsched.check.replay import replay_plan

        replayed = (replay_executions if graph.on_streams else replay_plan)(graph, plan)
    if args.certificate is not None:
        # It is of the orders that keep the rules that the plan was made by.
        rules = _rules_claimed(claims) or common.reading(args).order_rules(graph)
        proved = _check_bound(rules.apply(graph), args.certificate, checked.peak)
    record: dict[str, Any] = {"valid": True, "peak": checked.peak, "slab": checked.slab}
    record["memory_model"] = graph.model_name
    record |= {key: claims[key] for key in ("order_rules",) if key in claims}
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
    if proved is not None:
        bound, rung = proved
        record |= {"bound": bound, "bound_proof": rung}
        text += f"\nproved ({rung}): no order below {bound:,} bytes, {minimal(record, bound)}"
    text += note_unverified(record, claims, None if proved is None else proved[0])
    common.print_result(args, record, text)
    return common.OK


def _rules_claimed(claims: Mapping[str, Any]) -> OrderRules:
    from optsched.model.order_rules import OrderRules

    rules = claims.get("order_rules", {})
    first, last = tuple(rules.get("first", ())), tuple(rules.get("last", ()))
    return OrderRules(first, last, tuple(map(tuple, rules.get("groups", ()))))


def _check_order(args: argparse.Namespace, graph: Graph, plan: Plan) -> None:
    """Check an order against the rules and the baseline that the command line gives."""
    from optsched.check.order_rules import check_order_rules, count_moved
    from optsched.formats import read_plan

    near: Sequence[int] = range(len(graph.ops))
    if args.baseline is not None:
        near = read_plan(args.baseline, graph).order
    rules = common.reading(args).order_rules(graph, near)
    order = [graph.ops[v].name for v in plan.order]
    check_order_rules(order, first=rules.first, last=rules.last, groups=rules.groups)
    if args.max_moved is not None:
        moved = count_moved(order, [graph.ops[v].name for v in near])
        if moved > args.max_moved:
            moves = f"{counted(moved, 'op')} of the baseline"
            raise PlanError(f"plan moves {moves}, more than {args.max_moved}")


def _check_bound(graph: Graph, path: str, peak: int) -> tuple[int, str]:
    """Check a certificate; return the bound it proves and its rung."""
    from optsched.check.certificate import check_certificate
    from optsched.formats import read_certificate

    certificate = read_certificate(path, graph)
    try:
        rung = check_certificate(graph, certificate)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    if certificate.bound > peak:
        raise PlanError(f"{path}: bound {certificate.bound} is above the peak {peak} of an order")
    return certificate.bound, rung


def _check_packing(args: argparse.Namespace, packing: Any) -> int:
    from optsched.check.plan import check_packing

    if packing.offsets is None:
        raise PlanError(f"{args.graph}: not every buffer has an offset")
    offsets = packing.offsets.tolist()
    if any(packing.pools or ()):
        from optsched.solver.spill.pack import check_pools

        slab = check_pools(packing.problem, packing.pools, offsets)
    else:
        slab = check_packing(packing.problem, offsets, capacity=packing.problem.capacity)
    record: dict[str, Any] = {"valid": True, "slab": slab}
    text = f"valid: slab {counted(slab, 'byte')}"
    if args.replay:
        from optsched.check.replay import replay_packing

        replayed = replay_packing(packing.problem, offsets, packing.pools or ())
        text += f"\n{replayed}"
        record["replayed"] = asdict(replayed)
    common.print_result(args, record, text)
    return common.OK


CHECK = Command(
    "replay a plan with the independent checker",
    (
        option("graph", help="graph file, or a packing with offsets"),
        option("plan", nargs="?", help="plan file"),
        option("certificate", nargs="?", help="certificate of the bound on its peak"),
        flag(
            "--replay",
            "also execute the plan on a slab of patterns, which must survive until each read",
        ),
        *NEAR,
        *ORDER_RULES,
        *GRAPH_MODEL,
    ),
    _check,
)
