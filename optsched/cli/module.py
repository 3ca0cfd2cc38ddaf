"""The commands solve and check for a module: a file with computations that call each other."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.saving import add_checked_saving, add_saving
from optsched.errors import PlanError, UsageError
from optsched.reports.progress import ProgressLine
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.model.module import Module
    from optsched.solver.module_result import ModuleResult


def solve_module(args: argparse.Namespace, module: Module) -> int:
    """Plan all computations of a module; print the result and write the plan."""
    from optsched.compare.saving import figures_of
    from optsched.formats import write_module_plan
    from optsched.reports.module import module_claims, module_record, module_text
    from optsched.solver import module as solver

    # Options that name ops of one graph have no meaning for several computations.
    _refuse(args, module, "pool", "warm_start", "keep_trace")
    common.protect([args.output, args.certificate], args.graph)
    with ProgressLine(seconds=common.limits(args).seconds) as show:
        found = solver.solve_module(
            module,
            objective=args.objective,
            capacity=common.capacity(args),
            engine=args.engine,
            limits=common.clock(args),
            on_event=show,
        )
    record = module_record(found)
    text = add_saving(module, record, module_text(found, record), **figures_of(found))
    try:
        # Written inside the try block, and printed in any case: the result must not be lost.
        if args.output:
            if module.results_inside:
                raise UsageError(f"{args.output}: {module.name} has orders only, and no offsets")
            if found.plans is not None:
                write_module_plan(found.plans, args.output, module, module_claims(found))
        if args.certificate:
            note = record["certificate"] = _certify(args, found)
            text += f"\n  certificate: no orders below {note['bound']:,} bytes"
    finally:
        common.print_result(args, record, text)
    return common.exit_code(found.status, found.entry.stop_reason)


def check_module(args: argparse.Namespace) -> int:
    """Replay the plan of a module; its errors are handled by the caller."""
    from optsched.check.module import check_module_certificate, check_module_claims, replay_module
    from optsched.formats import read_module_certificate, read_module_plan

    module = common.read_module(args, args.graph)
    _refuse(args, module)
    plans, claims = read_module_plan(args.plan, module)
    made_in_place = any(claim["inplace"] for claim in claims.values())
    if made_in_place and not args.inplace:
        raise UsageError(f"{args.plan}: an in-place plan: check it with --inplace")
    checked = check_module_claims(module, plans, claims)
    peak, slab = checked.peaks[module.entry], checked.slabs[module.entry]
    record: dict[str, Any] = {"valid": True, "graph": module.name, "peak": peak, "slab": slab}
    record["computations"] = {
        name: {"peak": checked.peaks[name], "slab": checked.slabs[name]} for name in checked.peaks
    }
    count = len(module.graphs)
    text = f"valid: peak {peak:,} bytes, slab {slab:,} bytes in {counted(count, 'computation')}"
    if args.replay:
        record["replayed"] = asdict(replay_module(module, plans))
        text += f"\nreplayed: {record['replayed']['reads']:,} reads found the bytes written"
    bound = None
    if args.certificate is not None:
        bounds = check_module_certificate(module, read_module_certificate(args.certificate, module))
        bound = record["bound"] = bounds[module.entry]
        if bound > peak:
            raise PlanError(f"{args.certificate}: bound {bound} is above the peak {peak} of orders")
        text += f"\nproved: no orders below {bound:,} bytes, {minimal(record, bound)}"
    text += note_unverified(record, claims[module.entry], bound)
    text = add_checked_saving(module, record, text, bound=bound)
    common.print_result(args, record, text)
    return common.OK


def minimal(record: Mapping[str, Any], bound: int) -> str:
    """Return words for the numbers of a plan that equal a proved bound on the peak."""
    met = [f"the {what} is minimal" for what in ("peak", "slab") if record[what] == bound]
    return ", ".join(met) or "which leaves the peak of this plan open"


def note_unverified(
    record: dict[str, Any], claims: Mapping[str, Any], bound: int | None, among: str = ""
) -> str:
    """Add the bounds that a plan's file claims without proof to the record; return them in words.

    `among` describes the plans that the file makes its claims about; empty for all plans.
    """
    from optsched.check.claims import unverified

    open_ = unverified(claims, bound or 0)
    if not open_:
        # An old plan may claim more than its certificate shows.
        return ""
    record["unverified"] = {x.what: {"bound": x.bound, "proof": x.proof} for x in open_}
    needed = "that takes a certificate" if bound is None else "the certificate shows less"
    of = f" among {among}" if among else ""
    return f"\nclaimed, not verified: {', '.join(map(str, open_))}{of}; {needed}"


def _certify(args: argparse.Namespace, found: ModuleResult) -> dict[str, Any]:
    """Write certificates of the bounds on the peaks; print a note if one proves less."""
    from optsched.certificate import certify_module
    from optsched.formats import write_module_certificate

    limits = common.certificate_clock(args, found.entry.stop_reason)
    written = certify_module(found.module, found.orders, found.peak_bounds, limits=limits)
    for name, row in written.items():
        if row.missing:
            common.show(f"optsched: certificate of {name}: {row.missing}", sys.stderr)
    certificates = {name: row.certificate for name, row in written.items()}
    write_module_certificate(certificates, args.certificate, found.module)
    return {"bound": certificates[found.module.entry].bound}


def _refuse(args: argparse.Namespace, module: Module, *options: str) -> None:
    """Raise UsageError for options that name ops or pools of a single graph."""
    of_order = (
        "first",
        "last",
        "keep_order",
        "baseline",
        "max_moved",
        "fewest_moves",
        "independent",
    )
    if found := common.given(args, *of_order, *options):
        raise UsageError(f"{module.name} is a module of computations: no {found[0]} for it")
