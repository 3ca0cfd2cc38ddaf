"""Statements about restricted questions, against all orders of the graph.

    python -m tests.fuzz claims --count 5000 --seed 0

A bound that is proved under order rules, near a baseline, in place, with other sizes, on streams or
in pools may be above a plan that is not restricted so. Each random graph is asked about under every
kind of restriction and under some pairs of them. Then everything public that says something about a
result is asked: the result and its words, JSON, report, store, resumed search, certificate, and
the command `check`. Enumeration of all orders and packings says what may be said: a bound about the
graph is at most the least value of the graph; a bound above it must name the plans it is about.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from optsched import Objective, Pool, Question, certify, solve, write_plan
from optsched.cli import main as run_command
from optsched.errors import GraphError, UsageError
from optsched.fleet.settings import FleetSettings
from optsched.fleet.unit import UnitContext, look_up
from optsched.formats import write_graph
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.model.graph import Graph
from optsched.model.streams import in_levels, with_streams
from optsched.reports.report import make_report
from optsched.reports.results import plan_record, plan_text
from optsched.reports.sections import facts, proof_section
from optsched.runtime.facts import code_digest
from optsched.solver.result import Result
from optsched.solver.status import Status
from optsched.store import PlanStore
from tests.support.brute import least_joint, least_joint_inplace, orders, peak_inplace
from tests.support.generators import random_graph, random_order
from tests.support.order_rules import random_rules

FEATURES = frozenset({"inputs", "inplace", "multi", "workspace", "control"})
KINDS = ("rules", "near", "fewest", "inplace", "align", "streams", "levels", "capacity", "pools")
PAIRS = tuple(combinations(KINDS, 2))
MAX_BUFFERS = 8


def main(count: int = 5_000, seed: int = 0, *, first: int = 0, pairs: int = 3) -> int:
    """Compare graphs, print wrong claims, and return 1 if there are any."""
    counts, wrong = fuzz(count, seed, pairs=pairs, first=first)
    print("\n".join(wrong))
    print(", ".join(f"{what} {count:,}" for what, count in sorted(counts.items())))
    return 1 if wrong else 0


def fuzz(
    graphs: int, seed: int, *, pairs: int = 3, first: int = 0
) -> tuple[Counter[str], list[str]]:
    """Return counts of questions and answers, and the wrong answers."""
    counts, wrong = Counter[str](), list[str]()
    for number in range(first, first + graphs):
        rng = np.random.default_rng([seed, number])
        graph = random_graph(rng, int(rng.integers(2, 6)), max_size=9, features=FEATURES)
        if len(graph.buffers) > MAX_BUFFERS or not len(graph.ops):
            continue
        counts["graphs"] += 1
        chosen = [PAIRS[i] for i in rng.choice(len(PAIRS), pairs, replace=False)]
        with tempfile.TemporaryDirectory() as folder:
            judge = Judge(graph, rng, Path(folder), counts)
            for kinds in (*((kind,) for kind in KINDS), *chosen):
                try:
                    said = list(judge.ask(kinds))
                except Exception as error:
                    said = [f"{type(error).__name__}: {error}"]
                wrong += [f"graph {number} of seed {seed}, {'+'.join(kinds)}: {x}" for x in said]
            wrong += [f"graph {number} of seed {seed}: {x}" for x in judge.look_into_store()]
    return counts, wrong


@dataclass
class Judge:
    """Asks about one graph under many restrictions, and knows what may be said of it."""

    graph: Graph
    rng: np.random.Generator
    folder: Path
    counts: Counter[str]
    truths: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def store(self) -> PlanStore:
        """The store that all results of this graph are put into."""
        return PlanStore(self.folder / "plans.db")

    def ask(self, kinds: tuple[str, ...]) -> Iterator[str]:
        """Solve under some restrictions, and yield wrong claims about that."""
        try:
            result = self._solve(kinds)
        except (UsageError, GraphError):
            self.counts["refused questions"] += 1
            return
        self.counts["questions"] += 1
        assert result.question is not None
        yield from self._numbers(result, result.question)
        yield from self._words(result, result.question)
        yield from self._stored(result, result.question)
        yield from self._resumed(result)
        yield from self._certified(result, result.question)
        if not result.question.pools:
            yield from self._checked(result, result.question, kinds)

    def _solve(self, kinds: tuple[str, ...]) -> Result:
        graph, rng, options = self.graph, self.rng, dict[str, Any]()
        if "streams" in kinds:
            graph = with_streams(graph, [str(rng.integers(2)) for _ in graph.ops])
        if "levels" in kinds:
            graph = in_levels(graph, most=2)
        if "rules" in kinds:
            options["order_rules"] = random_rules(rng, graph)
        if "near" in kinds or "fewest" in kinds:
            options["baseline"] = random_order(rng, graph)
        if "near" in kinds:
            options["max_moved"] = int(rng.integers(0, 2))
        if "fewest" in kinds:
            options["fewest_moves"] = True
        if "inplace" in kinds:
            options["inplace"] = True
        if "align" in kinds:
            options["align"] = 4
        if "capacity" in kinds:
            options["capacity"] = self.truth(self.graph)[1] + int(rng.integers(-2, 3))
        if "pools" in kinds:
            if options.keys() - {"order_rules", "engine", "work"}:
                raise UsageError("pools go with order rules only")
            capacity = max(1, self.truth(self.graph)[1] - int(rng.integers(1, 9)))
            return solve(graph, pools=[Pool("near", capacity), Pool("far")], **options)
        if rng.random() < 0.2:
            # Little is proved, so that there is something to resume.
            options |= {"engine": "heuristics", "work": 1}
        objective = Objective.PEAK if rng.random() < 0.3 else Objective.SLAB
        return solve(graph, objective=objective, **options)

    def truth(self, graph: Graph, question: Question | None = None) -> tuple[int, int]:
        """Least peak and least slab of a graph, over the orders that a question allows."""
        asked = Question(graph) if question is None else question
        key = repr((asked.scope, graph.in_place))
        if key not in self.truths:
            allowed = [order for order in orders(asked.planned) if asked.allows(order)]
            self.truths[key] = _least(graph, allowed)
        return self.truths[key]

    # What the result says.

    def _numbers(self, result: Result, question: Question) -> Iterator[str]:
        if question.graph.on_streams or question.pools:
            return
        peak, slab = self.truth(question.graph, question)
        if result.peak_bound > peak or result.slab_bound > slab:
            yield f"bounds {result.peak_bound}, {result.slab_bound} above {peak}, {slab}: {result}"
        if result.status is Status.OPTIMAL:
            self.counts["optimal"] += 1
            value, least = (
                (result.slab, slab) if result.objective is Objective.SLAB else (result.peak, peak)
            )
            fits = result.capacity is not None and slab <= result.capacity
            if value != least and not fits:
                yield f"optimal at {value}, the least is {least}: {result}"

    def _is_above(self, result: Result, graph: Graph) -> bool:
        """Return True if a bound of a result is above what some plan of a graph needs."""
        peak, slab = self.truth(graph)
        return result.peak_bound > peak or result.slab_bound > slab

    def _words(self, result: Result, question: Question) -> Iterator[str]:
        graph = question.graph
        if graph.on_streams or not self._is_above(result, graph):
            return
        self.counts["bounds above a plan of the graph"] += 1
        words = question.restriction
        if not words:
            yield f"no words for a bound above a plan: {result}"
            return
        record = plan_record(result)
        shown = {"repr": repr(result), "text": plan_text(result, record)}
        shown["record"] = record.get("among", "")
        if result.plan is not None and not question.pools:
            made = make_report(question.planned, result, [("plan", result.plan, ())])
            shown["facts"] = facts(made.result, made.views[0])
            shown["proof"] = proof_section(made)
        for what, text in shown.items():
            if words not in text.replace("&#x27;", "'"):
                yield f"{what} does not say {words!r}: {text}"

    # What others make of it.

    def _stored(self, result: Result, question: Question) -> Iterator[str]:
        try:
            self.store.put_result(self.graph, result)
        except UsageError:
            self.counts["refused by the store"] += 1
            try:
                self.store.put_result(question.graph, result)
            except UsageError:
                return
        self.counts["stored"] += 1
        known = self.store.get(question)
        value = None if known is None else self._value(question, known.peak, known.slab)
        fits = result.capacity is None or (result.slab or 0) <= result.capacity
        if known is None or value is None:
            if result.plan is not None and fits:
                yield "a stored plan is not returned"
            return
        if known.bound > value:
            yield f"the store has a bound of {known.bound} above {value}"

    @staticmethod
    def _value(question: Question, peak: int, slab: int) -> int:
        return slab if question.objective is Objective.SLAB else peak

    def look_into_store(self) -> Iterator[str]:
        """Yield what the store, and with it `tune`, says wrongly about the graph itself."""
        for graph in (self.graph, self.graph.with_inplace()):
            for objective, least in zip(
                (Objective.PEAK, Objective.SLAB), self.truth(graph), strict=True
            ):
                known = self.store.get(Question(graph, objective=objective))
                if known is not None and known.bound > least:
                    yield f"the store bounds the {objective} by {known.bound}, {least} is possible"
        context = UnitContext(FleetSettings(), str(self.folder / "plans.db"), code_digest())
        earlier = look_up(self.graph, context)
        if earlier is not None and (
            earlier.peak_bound > self.truth(self.graph)[0]
            or earlier.slab_bound > self.truth(self.graph)[1]
        ):
            yield f"tune would start from {earlier.resume}"

    def _resumed(self, result: Result) -> Iterator[str]:
        if result.resume is None:
            return
        self.counts["progress offered"] += 1
        try:
            found = solve(self.graph, progress=result.resume)
        except UsageError:
            return
        self.counts["progress taken"] += 1
        if self._is_above(found, self.graph):
            yield f"resumed from {result} it says {found}"

    def _certified(self, result: Result, question: Question) -> Iterator[str]:
        for graph in (self.graph, question.graph):
            try:
                written = certify(graph, result=result, time_limit=1)
            except UsageError:
                self.counts["refused by certify"] += 1
                continue
            self.counts["certificates"] += 1
            bound, rules = written.certificate.bound, written.certificate.rules
            if bound > self.truth(graph, Question(graph, rules))[0]:
                yield f"certificate of {bound} bytes does not hold: {written}"
            if bound > self.truth(graph)[0] and " among " not in repr(written):
                yield f"certificate does not say what it is about: {written}"

    def _checked(self, result: Result, question: Question, kinds: tuple[str, ...]) -> Iterator[str]:
        if result.plan is None:
            return
        graph = self.graph if not question.graph.on_streams else question.graph
        names = {what: str(self.folder / f"{what}.json") for what in ("graph", "plan", "bound")}
        write_graph(graph, names["graph"])
        write_plan(result, names["plan"])
        given = [names["graph"], names["plan"]]
        try:
            certify(question.graph, names["bound"], result=result, time_limit=1)
            given.append(names["bound"])
        except UsageError:
            pass
        flags = ["--inplace"] if question.graph.in_place else []
        flags += ["--align", "4"] if "align" in kinds and graph is self.graph else []
        record = _said_by_check([*given, *flags, "--json"])
        self.counts["files checked"] += 1
        if not record.get("valid"):
            yield f"check refuses the plan: {record}"
            return
        peak, slab = self.truth(question.graph)
        if record.get("bound", 0) > peak:
            yield f"check proves {record['bound']}, {peak} is possible: {record}"
        claimed = record.get("unverified", {})
        above = any(
            row["bound"] > {"peak": peak, "slab": slab}.get(what, len(graph.ops))
            for what, row in claimed.items()
        )
        above &= not question.graph.on_streams
        if above and not record.get("made_among"):
            yield f"check does not say what is claimed: {record}"


def _least(graph: Graph, allowed: list[tuple[int, ...]]) -> tuple[int, int]:
    """Return the least peak and slab of some orders, whose ops run one at a time."""
    if not allowed:
        return MAX_TOTAL_BYTES, MAX_TOTAL_BYTES
    plain = graph.without_streams()
    peak = min(peak_inplace(plain, order) for order in allowed)
    if graph.in_place:
        return peak, least_joint_inplace(plain, allowed) or 0
    found = least_joint(plain, allowed)
    return peak, 0 if found is None else found[0]


def _said_by_check(arguments: list[str]) -> dict[str, Any]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        run_command(["check", *arguments])
    found: dict[str, Any] = json.loads(out.getvalue() or "{}")
    return found
