"""The command store: list, show, exchange, check and clean up stored plans."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.options import GRAPH_MODEL, Command, Option, flag, option, repeated
from optsched.cli.saving import add_saving
from optsched.cli.tune import parse_duration
from optsched.errors import OptschedError, UsageError
from optsched.reports.terminal import console
from optsched.runtime.limits import Objective
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.store import PlanStore, StoredRecord, Taken


def _open(path: str, *, make: bool = False) -> PlanStore:
    from optsched.store import PlanStore

    store = PlanStore(path)
    if not make and not store.path.exists():
        raise UsageError(f"{path}: no such store")
    if make:
        # Before the work, not after an hour of checking.
        store.require_writable()
    return store


def _ls(args: argparse.Namespace) -> int:
    from optsched.reports.stored import record_dict, records_legend, records_table

    records = _open(args.store).records()
    shown: dict[str, Any] = {"records": [record_dict(record) for record in records]}
    first = _total(records, shown)
    if args.json:
        common.print_json(args, shown)
        return common.OK
    from optsched.reports.tables import print_table

    common.show(first)
    print_table(console(), records_table(records), "--json has them")
    proved = sum(record.is_proved for record in records)
    graphs = len({record.key for record in records})
    # Equal graphs share a record, so that a store may have fewer than a fleet has files.
    of = counted(graphs, "different graph")
    common.show(f"{counted(len(records), 'record')} of {of}, {proved:,} proved")
    if legend := records_legend(records):
        common.show(legend)
    return common.OK


def _total(records: Sequence[StoredRecord], shown: dict[str, Any]) -> str:
    """Put the sum of the records' savings into what is shown, and return it in words."""
    from optsched.compare.saving import total_saving
    from optsched.store.savings import record_savings

    found = record_savings(records)
    total = total_saving(found)
    if total is None:
        return f"saved bytes unknown: {counted(len(records), 'record')} without a framework's plan"
    shown["saving"] = total.to_dict()
    # Records without a framework's plan have no saving, so the sum may be of fewer.
    of = "" if len(found) == len(records) else f" of {len(records):,}"
    return f"{total} ({counted(len(found), 'record')}{of})"


def _chosen(args: argparse.Namespace, store: PlanStore) -> list[StoredRecord]:
    """Return the records chosen by number, by beginning of the key, or by graph file."""
    records = store.records()
    found = []
    for which in args.which:
        # Eight digits or more may be the beginning of a key.
        if which.isdecimal() and len(which) < 8:
            matching = [record for record in records if record.number == int(which)]
        elif Path(which).exists():
            from optsched.store import graph_key

            key = graph_key(common.read_graph(args, which))
            matching = [record for record in records if record.key == key]
        else:
            matching = [record for record in records if record.key.startswith(which)]
        if not matching:
            raise UsageError(f"{args.store} has no record {which!r}")
        found += matching
    return found


def _show(args: argparse.Namespace) -> int:
    from optsched.reports.stored import change_dict, record_dict, record_lines

    store = _open(args.store)
    found = [(record, store.history(record.number)) for record in _chosen(args, store)]
    if args.plan is not None:
        _write_plan(args, store)
    record = [{**record_dict(r), "history": [change_dict(c) for c in cs]} for r, cs in found]
    text = "\n\n".join(record_lines(*pair) for pair in found)
    shown: dict[str, Any] = {"records": record}
    common.print_result(args, shown, _add_savings(args, [r for r, _ in found], shown, text))
    return common.OK


def _add_savings(
    args: argparse.Namespace, records: Sequence[StoredRecord], shown: dict[str, Any], text: str
) -> str:
    """Put the saving into a record and before its text.

    With a graph its framework's own plan is computed again, otherwise the recorded bytes are shown.
    """
    from optsched.store import objective_bound

    if len(args.which) != 1 or not Path(args.which[0]).exists() or not records:
        return f"{_total(records, shown)}\n{text}"
    # A record with a plan before one without, a slab before a peak.
    best = min(records, key=lambda x: (x.value is None, x.objective))
    return add_saving(
        common.read_graph(args, args.which[0]),
        shown,
        text,
        peak=best.peak,
        slab=best.slab,
        bounds=(
            objective_bound(best.bounds, Objective.PEAK).value,
            objective_bound(best.bounds, Objective.SLAB).value,
        ),
        objective=best.objective,
        among=best.among,
    )


def _write_plan(args: argparse.Namespace, store: PlanStore) -> None:
    """Write the stored plan of the given graph file."""
    from optsched.formats import write_plan
    from optsched.model.question import Question

    files = [which for which in args.which if Path(which).exists()]
    if len(args.which) != 1 or not files:
        raise UsageError("--plan needs one graph file, whose ops and buffers the plan names")
    common.protect([args.plan], args.store, *files)
    graph = common.read_graph(args, files[0])
    planned = [record for record in _chosen(args, store) if record.value is not None]
    objective = planned[0].objective if planned else Objective.SLAB
    capacity = planned[0].capacity if planned else None
    found = store.get(Question(graph, objective=objective, capacity=capacity))
    if found is None or found.plan is None:
        raise UsageError(f"{args.store} has no plan of {files[0]}")
    claims = {"objective": objective, f"{objective}_bound": found.bound}
    write_plan(found.plan, args.plan, graph, claims)


def _export(args: argparse.Namespace) -> int:
    from optsched.store import export_store

    common.protect([args.output], args.store)
    store = _open(args.store)
    numbers = {record.number for record in _chosen(args, store)} if args.which else None
    count, troubles = export_store(store, args.output, numbers)
    return _end(args, {"exported": count}, f"{args.output}: {counted(count, 'record')}", troubles)


def _import(args: argparse.Namespace) -> int:
    from optsched.store import import_store

    return _take(args, lambda store, path: import_store(store, path, trust=args.trust))


def _merge(args: argparse.Namespace) -> int:
    from optsched.store import merge

    return _take(args, lambda store, path: merge(store, _open(path), trust=args.trust))


def _take(args: argparse.Namespace, bring: Callable[[PlanStore, str], Taken]) -> int:
    """Add the records of several files to a store; a file that cannot be read is skipped."""
    is_new = not Path(args.store).exists()
    store, troubles = _open(args.store, make=True), []
    counts = dict.fromkeys(("new", "known", "refused"), 0)
    for path in args.files:
        try:
            taken = bring(store, path)
        except OptschedError as error:
            troubles.append(str(error))
            # The other files are still taken.
            continue
        for name in counts:
            counts[name] += getattr(taken, name)
        troubles += [f"{path}: {text}" for text in taken.troubles]
    # Nothing could be read: the store is not made.
    if is_new and len(store) == 0:
        store.path.unlink()
        raise OptschedError("; ".join(troubles[:3]) or f"{', '.join(args.files)}: no records")
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return _end(args, counts, f"{args.store}: {text}", troubles)


def _verify(args: argparse.Namespace) -> int:
    from optsched.store import verify

    store = _open(args.store)
    try:
        troubles = verify(store)
    except OptschedError as error:
        # A file that cannot be opened is a finding, not an error of the command.
        troubles = [str(error)]
    text = f"{args.store}: {'sound' if not troubles else counted(len(troubles), 'trouble')}"
    return _end(args, {"sound": not troubles}, text, troubles)


def _gc(args: argparse.Namespace) -> int:
    from optsched.store import collect_garbage

    store = _open(args.store)
    counts = collect_garbage(store, args.older_than)
    singular = {"searches": "search"}
    texts = (counted(n, singular.get(name, name[:-1])) for name, n in counts.items())
    text = ", ".join(texts)
    return _end(args, counts, f"{args.store}: deleted {text}", [])


def _revoke(args: argparse.Namespace) -> int:
    from optsched.store import read_rule, revoke

    rule = read_rule(args.engine)
    count = revoke(_open(args.store), rule)
    text = f"{counted(count, 'bound')} withdrawn"
    # A rule that fits nothing is most likely misspelled.
    text += "" if count else ": no bound has such a version and kind of proof"
    return _end(args, {"rule": str(rule), "withdrawn": count}, text, [])


def _end(
    args: argparse.Namespace, record: dict[str, Any], text: str, troubles: Sequence[str]
) -> int:
    """Print the result after the saving, and the problems found; return the exit code."""
    shown = {**record, "troubles": list(troubles)}
    lines = [text, *troubles[:50]]
    # A damaged store has no savings to show, and says so already.
    with suppress(OptschedError):
        lines.insert(0, _total(_open(args.store).records(), shown))
    common.print_result(args, shown, "\n".join(lines))
    return common.CHECK_FAILED if troubles else common.OK


def _action(text: str, run: Callable[[argparse.Namespace], int], *options: Option) -> Command:
    return Command(text, (option("store", help="file of the store"), *options), run)


_WHICH = "record number, beginning of a key, or graph file"
_TRUST = flag("--trust", "accept bounds of the other store that have no certificate")
STORE = Command(
    "keep plans and proofs in a file",
    actions={
        "ls": _action("list what a store holds", _ls),
        "show": _action(
            "show bounds, proofs, provenance and history of records",
            _show,
            option("--plan", metavar="FILE", help="write the plan of the graph to FILE"),
            option("which", nargs="+", help=_WHICH),
            *GRAPH_MODEL,
        ),
        "export": _action(
            "write records as text, for another store",
            _export,
            option("-o", "--output", required=True, help="file to write"),
            repeated("--only", "WHICH", _WHICH, dest="which"),
            *GRAPH_MODEL,
        ),
        "import": _action(
            "add exported records, after the checker has accepted them",
            _import,
            option("files", nargs="+", help="exported files"),
            _TRUST,
        ),
        "merge": _action(
            "add the records of other stores, after the checker has accepted them",
            _merge,
            option("files", nargs="+", help="other stores"),
            _TRUST,
        ),
        "verify": _action("check the file, every plan and every certificate again", _verify),
        "gc": _action(
            "delete unneeded records",
            _gc,
            option(
                "--older-than",
                type=parse_duration,
                metavar="TIME",
                help="also records unchanged for TIME (90d, 12h) that no run of tune met",
            ),
        ),
        "revoke": _action(
            "withdraw the proofs of an engine that turned out to be wrong",
            _revoke,
            option(
                "--engine",
                required=True,
                metavar="RULE",
                help="version and kind of proof, such as 'optsched<0.2' or 'ortools==9.12:L6' "
                "(L6 is the short code of joint search)",
            ),
        ),
    },
)
