"""The command compare: methods against the optimum, on one graph or many."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from optsched.cli import common
from optsched.cli.folders import graph_files
from optsched.cli.options import (
    ALLOW_FAILED,
    DIMS_FILE,
    GRAPH_MODEL,
    GRAPHS,
    JOBS,
    ORDER_RULES,
    SOLVER,
    STUDY_FILES,
    Command,
    flag,
    option,
    repeated,
    top,
)
from optsched.errors import UsageError
from optsched.reports.progress import StudyProgress
from optsched.reports.terminal import console
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.compare import Journal, Method, Study
    from optsched.fleet import Fleet

_METHODS = """\
methods, separated by commas: orderings (lpmf), packings of the best order (greedy_by_size), both
(lpmf+greedy_by_size), recorded orders (recorded:bfs), solvers with seconds (optsched:60), plans
(plan:PATH), patterns ('xla_*'), or groups: all, all-orderings, all-packings, all-pairs,
all-recorded, all-solvers (default: all orderings, all packings and our own plan)"""


def _compare(args: argparse.Namespace) -> int:
    from tempfile import TemporaryDirectory

    from optsched.compare import Journal, StudySettings, compare_files, parse_methods
    from optsched.compare.saving import own_methods
    from optsched.solver.schedule import Engine

    if args.unfuse:
        from optsched.cli.unfuse import compare_unfused, refuse_others

        refuse_others(args)
        return compare_unfused(args)
    # All outputs are tested before any method runs.
    files = graph_files(args.graph)
    common.protect(
        [args.csv, args.markdown, args.report, args.resume], *(path for path, _ in files)
    )
    # A plan in a table of methods needs a name.
    if bare := next((plan for plan in args.plan if "=" not in plan), None):
        raise UsageError(f"--plan wants NAME=PATH, got {bare!r}")
    lists = args.methods or (["all"] if not args.plan else [])
    names = [name for text in lists for name in text.split(",")] + args.plan
    if not args.methods:
        # The framework's own methods are added, so that the first line can compare with them.
        names += own_methods(path for path, given in files if given or Path(path).is_file())
    if args.retry_failed and not args.resume:
        raise UsageError("--retry-failed needs --resume")
    settings = StudySettings(
        parse_methods(names),
        common.limits(args),
        Engine(args.engine),
        common.reading_of_files(args, [path for path, _ in files]),
        args.jobs,
    )
    shown = _columns(args, settings.methods)
    with (
        # Pipes are copied, as worker processes read the file again.
        TemporaryDirectory() as folder,
        Journal(args.resume, retry=args.retry_failed) if args.resume else nullcontext() as journal,
        StudyProgress() as progress,
    ):
        study = compare_files(
            common.regular_files(files, folder),
            settings,
            named=[named for _, named in files],
            journal=journal,
            on_progress=progress.show,
        )
    try:
        written = write_study(args, study)
    finally:
        # Printed even if a file could not be written, for example on a full disk.
        _show_summary(args, study, shown, journal)
    show_files(args, written)
    return _exit_code(study, args.allow_failed or 0)


def write_study(
    args: argparse.Namespace, study: Study, fleet: Fleet | None = None, since: str = ""
) -> list[str]:
    """Write the files that the options ask for; return the names of the options.

    `since` is the page's part on what changed since an earlier run, in HTML.
    """
    from optsched.formats import write_bytes
    from optsched.reports.fleet import fleet_csv
    from optsched.reports.study_files import study_csv, study_markdown
    from optsched.reports.study_page import study_html

    if args.csv:
        text = study_csv(study) if fleet is None else fleet_csv(fleet)
        write_bytes(args.csv, text.encode())
    if args.markdown:
        write_bytes(args.markdown, study_markdown(study, fleet=fleet is not None).encode())
    if args.report and study.comparisons:
        write_bytes(args.report, study_html(study, fleet=fleet, since=since).encode())
    # A page of no graphs is not written.
    named = ("csv", "markdown", *(["report"] if study.comparisons else []))
    return [name for name in named if getattr(args, name)]


def show_files(args: argparse.Namespace, written: Sequence[str]) -> None:
    """Print the path of each file that was written, by the name of its option."""
    notes = sys.stderr if args.json or common.printed_files(args) else sys.stdout
    for name in written:
        common.show(f"{name}: {getattr(args, name)}", notes)


def _columns(args: argparse.Namespace, methods: Sequence[Method]) -> list[str] | None:
    """Return the columns given by --columns, or None."""
    if args.columns is None:
        return None
    shown = [name.strip() for name in args.columns.split(",")]
    known = [method.name for method in methods]
    for name in shown:
        if name not in known:
            raise UsageError(f"--columns: {name!r} is not one of the methods: {', '.join(known)}")
    return shown


def _show_summary(
    args: argparse.Namespace, study: Study, shown: list[str] | None, journal: Journal | None
) -> None:
    from optsched.reports.study_files import study_record
    from optsched.reports.study_tables import MOST_COLUMNS, print_study

    if args.json:
        common.print_json(args, study_record(study))
    else:
        # Columns that a user names are shown in every width.
        fixed = bool(shown) or (bool(args.methods) and len(study.methods) <= MOST_COLUMNS)
        to = console(stderr=bool(common.printed_files(args)))
        print_study(study, to, top=args.top, shown=shown, fixed=fixed)
    notes = sys.stderr if args.json or common.printed_files(args) else sys.stdout
    if journal is not None:
        lost = f"; {counted(journal.damaged, 'damaged line')} ignored" if journal.damaged else ""
        rows = counted(study.reused, "row")
        common.show(f"journal: {args.resume}, {rows} there before{lost}", notes)
    if journal is not None and journal.trouble:
        common.show(
            f"optsched: error: {journal.trouble}; rows since then are not in it", sys.stderr
        )
    for skipped in (row for row in study.skipped if not row.cut_off):
        level = "error: " if skipped.bad else "passed over: "
        common.show(f"optsched: {level}{skipped}", sys.stderr)
    if study.interrupted:
        again = "; repeat the command to resume" if args.resume else ""
        cut_off = sum(row.cut_off for row in study.skipped)
        left = f", {counted(cut_off, 'graph')} left without figures" if cut_off else ""
        common.show(f"optsched: interrupted{left}{again}", sys.stderr)


def _exit_code(study: Study, allow_failed: int) -> int:
    from optsched.compare import Trouble

    if study.interrupted:
        return common.INTERRUPTED
    failed = sum(skipped.bad for skipped in study.skipped)
    if failed > allow_failed or not study.comparisons:
        return common.BAD_INPUT
    # A plan that the checker refused is worse than a method that failed.
    if any(f.trouble is Trouble.REFUSED for c in study.comparisons for f in c.failed):
        return common.CHECK_FAILED
    # Without a plan of our own a graph has no useful bound.
    ours = all(c.result.plan is not None for c in study.comparisons)
    return common.OK if ours else common.NOTHING_FOUND


COMPARE = Command(
    "compare methods with the optimum",
    (
        GRAPHS,
        repeated("--methods", "LIST", _METHODS),
        repeated(
            "--plan",
            "NAME=PATH",
            "plan from a file, or from a folder with a plan per graph",
        ),
        *SOLVER,
        JOBS,
        option(
            "--resume",
            metavar="FILE",
            help="journal of finished rows: add new ones, and do not repeat those in it",
        ),
        flag("--retry-failed", "with --resume: repeat rows that failed"),
        top("excess"),
        ALLOW_FAILED,
        DIMS_FILE,
        flag(
            "--unfuse",
            "compare whole fused nodes with the best split of captured graphs",
        ),
        option("--columns", metavar="LIST", help="methods to show in the printed table of graphs"),
        *STUDY_FILES,
        *ORDER_RULES,
        *GRAPH_MODEL,
    ),
    _compare,
)
