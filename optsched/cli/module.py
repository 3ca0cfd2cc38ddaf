"""The command solve for a module: a file with computations that call each other."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.saving import add_saving
from optsched.errors import UsageError
from optsched.reports.progress import ProgressLine

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
