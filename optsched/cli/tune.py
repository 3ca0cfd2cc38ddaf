"""The command tune: plan a fleet of graphs, and keep the plans in a store."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from optsched.cli import common
from optsched.cli.compare import show_files, write_study
from optsched.cli.folders import graph_files
from optsched.cli.options import (
    ALLOW_FAILED,
    DIMS_FILE,
    GRAPH_MODEL,
    GRAPHS,
    JOBS,
    OBJECTIVE,
    SEED,
    STUDY_FILES,
    Command,
    choice,
    natural,
    number,
    option,
    top,
)
from optsched.errors import UsageError
from optsched.reports.terminal import console
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.fleet import Fleet, FleetSettings
    from optsched.fleet.since import Change, Earlier
    from optsched.runtime.limits import Objective

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def parse_duration(text: str) -> float:
    """Return the seconds of `90`, `90s`, `30m`, `2h`, `1h30m` or `2d`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)
    # The whole text must consist of such parts, so that 1h30 is refused.
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    raise argparse.ArgumentTypeError(f"expected a time such as 90s, 30m, 2h or 1h30m, got {text!r}")


def _tune(args: argparse.Namespace) -> int:
    from optsched.fleet import tune
    from optsched.fleet.since import changes_since
    from optsched.reports.fleet import FleetProgress

    files = graph_files(args.graph)
    common.refuse_pipes(path for path, given in files if given)
    outputs = [args.csv, args.markdown, args.report]
    # The log and the store are outputs too.
    common.protect([*outputs, args.log, args.store], args.weights, *(path for path, _ in files))
    settings = _settings(args, [path for path, _ in files])
    earlier = None if args.diff is None else _earlier(args, settings.objective)
    paths = [path for path, _ in files]
    weights = _weights(args.weights, paths)
    with FleetProgress() as progress:
        fleet = tune(
            paths,
            args.store,
            settings=settings,
            weights=weights,
            engine=args.engine,
            jobs=args.jobs,
            address=args.address,
            log=args.log,
            named=[named for _, named in files],
            on_progress=progress.show,
        )
    changes = None if earlier is None else changes_since(earlier, fleet.graphs, settings.objective)
    _show_summary(args, fleet, changes)
    if any(outputs):
        from optsched.fleet.study import fleet_study

        study = fleet_study(fleet, args.store)
        show_files(args, write_study(args, study, fleet, _since_section(args, fleet, changes)))
    return _exit_code(fleet, args.allow_failed)


def _earlier(args: argparse.Namespace, objective: Objective) -> Earlier:
    """Read the earlier run before this one writes to the same file."""
    from optsched.fleet.since import read_earlier

    # On the first night there is nothing yet; any other file that is missing is a mistake.
    if args.diff not in (args.store, args.report) and not Path(args.diff).is_file():
        raise UsageError(f"--diff: no such file: {args.diff}")
    return read_earlier(args.diff, objective)


def _since_section(args: argparse.Namespace, fleet: Fleet, changes: Sequence[Change] | None) -> str:
    """Return the page's part on what changed."""
    if changes is None:
        return ""
    from optsched.reports.fleet import changes_table, changes_text
    from optsched.reports.tables import as_html, safe

    text = changes_text(fleet, changes, args.diff)
    table = ""
    if changes:
        table = as_html(changes_table(changes, fleet.settings.objective), "What changed")
    return f"<h2>What changed</h2><p>{safe(text, 1000)}</p>{table}"


def _weights(file: str | None, paths: Sequence[str]) -> dict[str, float]:
    """Read weights, and print a note about names that are not of a graph."""
    from optsched.fleet import read_weights, unused_weights

    weights = read_weights(file) if file else {}
    unused = unused_weights(paths, weights)
    # Only a note: weights may be kept for more graphs than these.
    if unused:
        more = f" and {len(unused) - 3:,} more" if len(unused) > 3 else ""
        names = ", ".join(map(repr, unused[:3]))
        common.show(f"{file}: no graph is named {names}{more}", sys.stderr)
    return weights


def _settings(args: argparse.Namespace, paths: Sequence[str]) -> FleetSettings:
    from optsched.fleet import FleetSettings
    from optsched.runtime.limits import Objective

    args.objective = args.objective or "slab"
    # Without a limit the run would go on until the hardest graph is proved.
    if args.budget is None and args.work is None:
        raise UsageError("give --budget (2h for the full fleet) or --work (N units per graph)")
    return FleetSettings(
        budget=args.budget,
        work=args.work,
        seed=args.seed,
        objective=Objective(args.objective),
        reading=common.reading_of_files(args, paths),
        memory=None if args.memory is None else parse_bytes(args.memory),
    )


def _show_summary(args: argparse.Namespace, fleet: Fleet, changes: Sequence[Change] | None) -> None:
    from optsched.reports.fleet import changes_table, changes_text, fleet_record, print_fleet
    from optsched.reports.tables import print_line, print_table

    to = console(stderr=bool(common.printed_files(args)))
    if args.json:
        record = fleet_record(fleet)
        if changes is not None:
            record["since"] = {"file": args.diff, "changes": [asdict(x) for x in changes]}
        common.print_json(args, record)
    else:
        print_fleet(fleet, to, top=args.top)
    if changes is not None and not args.json:
        print_line(to, changes_text(fleet, changes, args.diff))
        if first := changes[: args.top or None]:
            print_table(to, changes_table(first, fleet.settings.objective), "--report has them")
        if len(first) < len(changes):
            more = counted(len(changes) - len(first), "more change")
            print_line(to, f"{more}: --report has them, --top 0 prints them")
    if fleet.interrupted:
        common.show("optsched: interrupted; repeat the command to resume", sys.stderr)


def _exit_code(fleet: Fleet, allow_failed: int | None) -> int:
    from optsched.fleet import FleetState

    if fleet.interrupted:
        return common.INTERRUPTED
    if fleet.count(FleetState.SKIPPED) == len(fleet.graphs):
        return common.BAD_INPUT
    if fleet.count(FleetState.FAILED) > (allow_failed or 0):
        return common.BAD_INPUT
    # A nightly run that may leave files out may also leave proofs to the next night.
    if allow_failed is not None:
        return common.OK
    left = any(graph.state in (FleetState.WAITING, FleetState.OPEN) for graph in fleet.graphs)
    return common.UNPROVED if left else common.OK


TUNE = Command(
    "plan many graphs, each as long as it pays, and keep the plans in a store",
    (
        GRAPHS,
        option("--store", required=True, metavar="FILE", help="store of plans; created if missing"),
        option(
            "--budget",
            type=parse_duration,
            metavar="TIME",
            help="time for all graphs together: 90s, 30m, 2h",
        ),
        number(
            "--work",
            natural,
            "units of work per graph instead: gives the same table on every machine",
        ),
        choice(
            "--engine",
            ("local", "dask"),
            "where to run: processes of this machine or a Dask cluster",
        ),
        JOBS,
        option("--address", metavar="ADDRESS", help="address of a Dask scheduler"),
        option("--weights", metavar="FILE", help="weights of graphs: lines 'graph weight'"),
        option(
            "--diff",
            metavar="FILE",
            help="say what changed since: a store (that of --store: since the last run), or the "
            "page of an earlier --report",
        ),
        option("--memory", metavar="BYTES", help="limit on the memory of a search"),
        OBJECTIVE,
        SEED,
        option("--log", metavar="FILE", help="append events to FILE, one JSON object per line"),
        top("gap"),
        ALLOW_FAILED,
        DIMS_FILE,
        *STUDY_FILES,
        *GRAPH_MODEL,
    ),
    _tune,
)
