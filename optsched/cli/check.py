"""The command check: verify a plan and a certificate with the independent checker."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.options import GRAPH_MODEL, NEAR, ORDER_RULES, Command, flag, option
from optsched.cli.recompute import COST_OPTIONS, LOSS, priced
from optsched.cli.saving import add_checked_saving, add_packed
from optsched.errors import PlanError, UsageError
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.formats.answers import Answer, Asked


def _check(args: argparse.Namespace) -> int:
    from optsched.formats import Content, read_packing, sniff_file
    from optsched.formats.answers import open_answer

    try:
        if args.plan is None:
            # A packing file holds its own offsets, so there is nothing else to give.
            if sniff_file(args.graph).holds is not Content.PACKING:
                raise UsageError("check needs a graph and a plan, or one packing with offsets")
            common.refuse_graph_options(args, args.graph)
            return _check_packing(args, read_packing(args.graph))
        return _check_answer(args, open_answer(args.plan, asked(args)))
    # A plan that fails the check is the answer of this command, not an error of its use.
    except PlanError as error:
        if args.json:
            common.print_json(args, {"valid": False, "error": str(error)})
        return common.fail(str(error), common.CHECK_FAILED)


def asked(args: argparse.Namespace) -> Asked:
    """Return the question that the options ask: the plan's file has no say in it."""
    from optsched.formats.answers import Asked

    if args.costs is not None and args.cost is not None:
        raise UsageError("give either --cost or --costs, not both")
    return Asked(
        args.graph,
        common.reading(args),
        near=args.baseline,
        max_moved=args.max_moved,
        loss=tuple(args.loss),
        peak=None if args.peak is None else parse_bytes(args.peak),
        price=lambda graph: priced(args, graph),
        given=common.question_options(args),
    )


def _check_answer(args: argparse.Namespace, answer: Answer) -> int:
    """Print the verified figures of a plan, and the bound of its certificate if one is given."""
    record: dict[str, Any] = {"valid": True, **answer.record}
    record |= {key: answer.claims[key] for key in ("order_rules",) if key in answer.claims}
    lines = [f"valid: {answer.lines[0]}", *answer.lines[1:]]
    if args.replay:
        replayed = answer.replay()
        record["replayed"] = asdict(replayed)
        lines.append(str(replayed))
    if answer.restriction:
        record["made_among"] = answer.restriction
        lines.append(f"made among {answer.restriction}")
    proved = None
    if args.certificate is not None:
        proved = answer.prove(args.certificate)
        record |= proved.record()
        lines.append(proved.words)
    if claims := answer.unverified(proved):
        record["unverified"] = {x.what: {"bound": x.bound, "proof": x.proof} for x in claims}
        needed = "that takes a certificate" if proved is None else "the certificate shows less"
        among = f" among {answer.restriction}" if answer.restriction else ""
        lines.append(f"claimed, not verified: {', '.join(map(str, claims))}{among}; {needed}")
    common.print_result(args, record, add_checked_saving(answer, proved, record, lines))
    return common.OK


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
        option("certificate", nargs="?", help="certificate of its bound"),
        flag(
            "--replay",
            "also execute the plan on a slab of patterns that must survive until each read",
        ),
        option("--peak", metavar="BYTES", help="most live bytes that a plan with repeats may need"),
        *COST_OPTIONS,
        LOSS,
        *NEAR,
        *ORDER_RULES,
        *GRAPH_MODEL,
    ),
    _check,
)
