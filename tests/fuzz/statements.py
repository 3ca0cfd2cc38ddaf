"""Every way of saying something about a plan of any kind, against brute force.

    python -m tests.fuzz statements --count 2000 --seed 0

Kinds are plain plans, plans of modules, plans with repeats, plans of unfused kernels, and plans in
row bands, if TFLite's packages are here. Each random graph is planned, and everything that the
program then says is compared with enumeration: text, JSON, report page, store, certificate, and the
objects in Python. A bound is at most the least value of the question asked; a sentence that
something is least, and is not so for all plans of the graph, names the plans that it is about. Then
claims of the files are changed, one at a time: each change is refused, or listed as not verified.
The last line counts statements and wrong ones.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from optsched import certify, explain, recompute, solve
from optsched.cli import main as run_command
from optsched.formats import write_graph, write_module
from optsched.formats.fused import fused_document
from optsched.model.fused import FusedGraph
from optsched.model.fusion import whole_split
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.model.training import find_loss, forward_ops, with_barrier
from optsched.store import PlanStore
from tests.fuzz.tiled_statements import judge_tiled
from tests.support.brute import least_joint, orders
from tests.support.brute_fusion import brute_force, least_peak, random_fused, random_stages
from tests.support.brute_recompute import least_extra, training_graph
from tests.support.generators import random_graph
from tests.support.module_oracle import least_of, peak_of, random_module, slab_of

Changes = Mapping[str, Any]
FORGED = 5
"""Changed claims per file."""
LEAST = re.compile(
    r"smallest possible|needs less|no slab is smaller|[Tt]he minimum (?:peak|slab)|"
    r"[Nn]o (?:peak|slab|head|plan|order|orders) (?:has|below|is|within)|is optimal|is minimal"
)
"""Words that say that something is least."""
ABOUT = re.compile(
    r"among|these repeats|this tiling|forward ops|^\s*L\d |of this order|of its order"
)
"""Words that name the plans that this is about, or explain a kind of proof."""


def main(count: int = 2_000, seed: int = 0, *, first: int = 0, progress: int = 0) -> int:
    """Compare graphs, print wrong statements, and return 1 if there are any."""
    counts, wrong = Counter[str](), 0
    for number in range(first, first + count):
        for text in compare(number, seed, counts):
            wrong += 1
            print(f"graph {number} of seed {seed}: {text}", flush=True)
        if progress and (number + 1) % progress == 0:
            print(f"up to graph {number + 1}: {wrong} wrong", flush=True)
    listed = ", ".join(f"{what} {number:,}" for what, number in sorted(counts.items()))
    print(f"{count} graphs: {listed}; {wrong} wrong")
    return 1 if wrong else 0


def compare(number: int, seed: int, counts: Counter[str]) -> Iterator[str]:
    """Yield the wrong statements about one random graph; kinds take turns."""
    name, judge = [*KINDS.items()][number % len(KINDS)]
    rng = np.random.default_rng([seed, number])
    with tempfile.TemporaryDirectory() as folder:
        counts[name] += 1
        try:
            for text in judge(Case(rng, Path(folder), counts)):
                yield f"{name}: {text}"
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}"


@dataclass
class Case:
    """A random graph in a folder of its own."""

    rng: np.random.Generator
    folder: Path
    counts: Counter[str] = field(repr=False)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; return its exit code, and both streams."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_command(arguments)
        self.counts["commands"] += 1
        return code, out.getvalue(), err.getvalue()

    def record(self, *arguments: str) -> dict[str, Any]:
        """Return the JSON object that a command prints."""
        found: dict[str, Any] = json.loads(self.run(*arguments, "--json")[1] or "{}")
        return found

    def loose(self, text: str) -> Iterator[str]:
        """Yield the sentences that call something least and do not say among which plans."""
        plain = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.S)
        plain = re.sub(r"&#x27;", "'", re.sub(r"<[^>]+>", "\n", plain))
        for sentence in re.split(r"[.;\n]", plain):
            self.counts["sentences"] += 1
            if LEAST.search(sentence) and not ABOUT.search(sentence):
                yield sentence.strip()

    def forged(
        self, given: Sequence[str], at: int, changes: Sequence[tuple[str, Changes]]
    ) -> Iterator[str]:
        """Yield changed claims of the file `given[at]` that `check` does not refuse or list."""
        known = json.loads(Path(given[at]).read_text())
        # Some of them, as graphs are many.
        some = self.rng.permutation(len(changes))[:FORGED].tolist()
        names = [*given[:at], self.path("forged.json"), *given[at + 1 :]]
        for what, change in (changes[i] for i in some):
            Path(names[at]).write_text(json.dumps(known | dict(change)))
            code, out, err = self.run("check", *names, "--json")
            self.counts["forged claims"] += 1
            if "Traceback" in err or err.count("\n") > 1:
                yield f"changed {what}: more than a line: {err}"
            record = json.loads(out or "{}")
            listed = record.get("unverified", {})
            if code == 0 and not listed:
                yield f"changed {what} is not refused or listed: {change}"
            self.counts["listed" if code == 0 else "refused"] += 1

    def page(self, path: str, plan: str) -> str:
        """Return the parts of a report page that are text, which need no package."""
        from optsched.formats.answers import Asked, open_answer
        from optsched.reports.report import make_report
        from optsched.reports.sections import facts, line_keys, proof_section

        graph, chosen = open_answer(plan, Asked(path)).parts[""]
        made = make_report(graph, solve(graph, time_limit=2), [("plan", chosen, ())])
        keys = "\n".join(line_keys(made.result, made.views[0]))
        return f"{facts(made.result, made.views[0])}\n{proof_section(made)}\n{keys}"

    def common_changes(self, stated: Changes) -> list[tuple[str, Changes]]:
        """Return changes of claims that all plan files of one graph have."""
        more = int(self.rng.integers(1, 9))
        event = {"microseconds": 1, "incumbent": 1, "bound": 0, "source": "x"}
        found: dict[str, Changes] = {
            "peak": {"peak": stated["peak"] + more},
            "slab": {"slab": stated["slab"] + more},
            "peak bound": {"peak_bound": stated["peak"] + more, "peak_proof": "L2"},
            "slab bound": {"slab_bound": stated["slab"] + more, "slab_proof": "L5"},
            "name": {"graph": "zzz", "contents": "00"},
            "memory model": {"memory_model": "another"},
            "dims": {"dims": {"batch": more}},
            "key": {"surplus": 1},
        }
        if stated["peak"] > 1 and stated["slab"] > 1:
            # Of no bytes nothing is claimed.
            found["true bound"] = {"peak_bound": stated["peak"], "peak_proof": "L3"}
            found["trace"] = {"trace": [event]}
        return [*found.items()]


# Plans with repeats.


@dataclass
class Step:
    """A training graph, and what is true of its plans with repeats."""

    graph: Graph

    def cost(self, peak: int, loss: Sequence[str]) -> int | None:
        """Return the least cost within a peak if only forward ops of a loss run again."""
        ends = find_loss(self.graph, loss)
        again = [v for v in forward_ops(self.graph, ends) if not self.graph.ops[v].once]
        return least_extra(with_barrier(self.graph, ends), peak, again)

    @cached_property
    def least(self) -> int:
        """The least peak of all plans, with repeats of any op."""
        again = [v for v, op in enumerate(self.graph.ops) if not op.once]
        low, high = 0, sum(buffer.size for buffer in self.graph.buffers)
        while low < high:
            middle = (low + high) // 2
            if least_extra(self.graph, middle, again) is None:
                low = middle + 1
            else:
                high = middle
        return low


def judge_repeats(case: Case) -> Iterator[str]:
    """Plan a step for one loss, and check the plan for another one."""
    graph, rng = training_graph(case.rng), case.rng
    step, names = Step(graph), [op.name for op in graph.ops if op.name.startswith("f")]
    write_graph(graph, path := case.path("step.json"))
    loss = () if rng.random() < 0.4 else (str(rng.choice(names)),)
    chosen = [option for name in loss for option in ("--loss", name)]
    peak = int(step.least + rng.integers(0, 5))
    plan, proof = case.path("plan.json"), case.path("proof.json")
    files = ("-o", plan, "--certificate", proof)
    given = ("recompute", path, "--peak", str(peak), *chosen, *files, "--work", "20000")
    record = case.record(*given)
    truth = step.cost(peak, loss)
    if truth is not None and (record["bound"] is None or record["bound"] > truth):
        yield f"recompute proves {record['bound']}, {truth} is possible"
    if not record["loss"] or "forward ops of loss" not in record["among"]:
        yield f"recompute does not name the loss: {record['among']}"
    text = case.run(*given)[1]
    if any(repr(name) not in text for name in record["loss"]):
        yield f"recompute does not name {record['loss']}: {text}"
    yield from _said_in_python(case, step, peak, loss)
    if not Path(plan).exists():
        return
    yield from _checked_for_another_loss(case, step, [path, plan, proof], names)
    yield from _said_of_runs(case, step, path, plan)
    yield from case.forged([path, plan], 1, _repeat_changes(case, plan))
    for option in (["--first", names[0]], ["--max-moved", "0"], ["--keep-order", names[0]]):
        if case.run("check", path, plan, *option)[0] != 2:
            yield f"{option[0]} is passed over"


def _said_in_python(case: Case, step: Step, peak: int, loss: Sequence[str]) -> Iterator[str]:
    result = recompute(step.graph, peak, loss=iter(loss), work=20_000)
    case.counts["results"] += 1
    if "only forward ops" not in result.question.restriction:
        yield f"the question does not name its family: {result.question.restriction!r}"
    if result.sequence is None or len(result.sequence) == len(step.graph.ops):
        return
    runs = result.unrolled.graph
    found = solve(runs, time_limit=5)
    store = PlanStore(case.path("plans.db"))
    store.put_result(runs, found)
    said = {
        "repr": repr(found),
        "certificate": repr(certify(runs, result=found, time_limit=2)),
        "store": store.records()[0].among,
        "explanation": str(explain(runs, time_limit=2)),
    }
    for what, text in said.items():
        if "these repeats" not in text:
            yield f"{what} of unrolled runs does not say so: {text}"


def _checked_for_another_loss(
    case: Case, step: Step, files: Sequence[str], names: Sequence[str]
) -> Iterator[str]:
    rng = case.rng
    asked = () if rng.random() < 0.5 else (str(rng.choice(names)),)
    given = ["check", *files, *(x for name in asked for x in ("--loss", name))]
    if rng.random() < 0.3:
        given += ["--peak", str(int(json.loads(Path(files[1]).read_text())["recompute"]["peak"]))]
    code, text, _ = case.run(*given)
    if code:
        case.counts["refused for another loss"] += 1
        return
    record = case.record(*given)
    truth = step.cost(record["budget"], asked)
    bound = record.get("bound", 0)
    if truth is not None and (bound is None or bound > truth):
        yield f"check proves {bound} for {asked}, {truth} is possible: {text}"
    if "is optimal" in text and record["extra"] != truth:
        yield f"check calls a cost of {record['extra']} optimal, {truth} is possible: {text}"


def _said_of_runs(case: Case, step: Step, path: str, plan: str) -> Iterator[str]:
    page = case.path("page.json")
    given = ("report", path, plan, "--trace", page, "--time-limit", "2")
    record, text = case.record(*given), case.run(*given)[1]
    repeats = len(json.loads(Path(plan).read_text())["order"]) > len(step.graph.ops)
    if repeats and record["peak_bound"] > step.least and not record.get("among"):
        yield f"report bounds the peak by {record['peak_bound']}, {step.least} is possible"
    if repeats:
        yield from (f"report says {x!r}" for x in case.loose(text))
        yield from (f"page says {x!r}" for x in case.loose(case.page(path, plan)))


def _repeat_changes(case: Case, plan: str) -> list[tuple[str, Changes]]:
    stated = json.loads(Path(plan).read_text())
    own, more = stated["recompute"], int(case.rng.integers(1, 9))
    changes: dict[str, Changes] = {
        "bound": {"recompute": own | {"bound": (own["bound"] or 0) + more}},
        "loss": {"recompute": own | {"loss": ["nope"]}},
        "extra": {"recompute": own | {"extra": own["extra"] + more}},
        "unit": {"recompute": own | {"cost_unit": "lightyears"}},
        "peak of the question": {"recompute": own | {"peak": max(0, stated["peak"] - more)}},
        "key": {"recompute": own | {"surplus": 1}},
    }
    return [*changes.items(), *case.common_changes(stated)]


# Plain plans.


def judge_plain(case: Case) -> Iterator[str]:
    """Plan a graph, and change claims of its file."""
    graph = random_graph(case.rng, int(case.rng.integers(2, 6)), max_size=9)
    if len(graph.buffers) > 8:
        return
    write_graph(graph, path := case.path("graph.json"))
    plan = case.path("plan.json")
    first = graph.ops[int(case.rng.integers(len(graph.ops)))].name
    rules = ["--first", first] if case.rng.random() < 0.5 else []
    if case.run("solve", path, "-o", plan, *rules)[0]:
        return
    found = least_joint(graph.without_streams(), [*orders(graph)])
    text, record = case.run("check", path, plan)[1], case.record("check", path, plan)
    if found is not None and record["slab"] > found[0]:
        yield from (f"check says {x!r}" for x in case.loose(text))
    if record.get("bound", 0) > (found or (0,))[0]:
        yield f"check proves {record['bound']}"
    yield from case.forged([path, plan], 1, case.common_changes(json.loads(_read(plan))))


def _read(path: str) -> str:
    return Path(path).read_text()


# Modules.


def judge_module(case: Case) -> Iterator[str]:
    """Plan a module, and change claims of each of its computations."""
    module = Module("none", {"none": Graph("none")}, "none")
    while not module.calls:
        # A file without calls has a plan of one graph.
        module = random_module(case.rng, ops=3, max_size=6, features={"inputs", "workspace"})
    write_module(module, path := case.path("module.json"))
    plan, proof = case.path("plan.json"), case.path("proof.json")
    given = ("solve", path, "-o", plan, "--certificate", proof)
    if case.run(*given)[0]:
        case.counts["modules that are not proved"] += 1
        return
    peak, slab = least_of(module, peak_of), least_of(module, slab_of)
    record = case.record(*given)
    if record["peak_bound"] > peak or record["slab_bound"] > slab:
        yield f"bounds {record['peak_bound']}, {record['slab_bound']} above {peak}, {slab}"
    record, text = case.record("check", path, plan, proof), case.run("check", path, plan, proof)[1]
    if record.get("bound", 0) > peak:
        yield f"check proves {record['bound']}, {peak} is possible"
    if record["peak"] > peak and [*case.loose(text)]:
        yield f"check calls {record['peak']} least, {peak} is possible: {text}"
    stated = json.loads(_read(plan))
    for name, row in stated["computations"].items():
        # A rule that the order breaks, and repeats, which no computation has.
        more = (
            [("rules", {"order_rules": {"first": row["order"][-1:]}})] if row["order"][1:] else []
        )
        more += [("repeats", {"recompute": {"peak": 1, "extra": 0, "cost_unit": ""}})]
        changes = [
            (f"{what} of {name}", {"computations": stated["computations"] | {name: row | change}})
            for what, change in [*case.common_changes(row), *more]
        ]
        yield from case.forged([path, plan], 1, changes)


# Unfused kernels.


def judge_unfused(case: Case) -> Iterator[str]:
    """Undo fusions, and change claims of the file."""
    rng = case.rng
    fused = random_stages(rng) if rng.random() < 0.3 else random_fused(rng, bool(rng.integers(2)))
    document = {"extra": {"fusion": fused_document(fused)}, "nodes": [], "buffers": []}
    path, plan, proof = (case.path(f"{name}.json") for name in ("graph", "plan", "proof"))
    Path(path).write_text(json.dumps(document))
    limit = "0" if rng.random() < 0.3 else "10"
    given = ("solve", path, "--unfuse", "-o", plan, "--certificate", proof, "--time-limit", limit)
    text = case.run(*given)[1]
    least, whole = brute_force(fused), least_peak(fused, whole_split(fused))
    for said, words in ((case.record(*given), text), _checked_split(case, path, plan, proof)):
        yield from _judge_split(case, said, words, least, whole or 0)
    yield from case.forged([path, plan], 1, _split_changes(json.loads(_read(plan)), fused))


def _checked_split(case: Case, *files: str) -> tuple[dict[str, Any], str]:
    return case.record("check", *files), case.run("check", *files)[1]


def _judge_split(case: Case, record: Changes, text: str, least: int, whole: int) -> Iterator[str]:
    saving, after = record["saving"], record["saving"]["after"]
    if record["bound"] > least:
        yield f"no split is below {record['bound']}, {least} is possible: {text}"
    if saving["before"] > whole:
        yield f"whole nodes are said to need {saving['before']}, {whole} is possible: {text}"
    if after > whole:
        yield f"a split of {after} is offered, whole nodes need {whole}: {text}"
    if after > least and ("smallest possible" in text or "no split needs less" in text):
        yield f"{after} is said to be least, {least} is possible: {text}"


def _split_changes(stated: dict[str, Any], fused: FusedGraph) -> list[tuple[str, Changes]]:
    best, saving, peak = stated["best_split"], stated["saving"], stated["best_split"]["peak"]
    worst = sorted(fused.nodes, key=len)[-1]
    names = [fused.graph.ops[v].name for v in worst]
    rest = [group for group in stated["all_fused"]["groups"] if not {*group} & {*names}]
    apart = {"groups": [*([name] for name in names), *rest]}
    return [
        ("bound", {"bound": peak + 1}),
        ("proof", {"bound": max(0, peak - 1), "proved": True}),
        ("true bound", {"bound": peak, "proved": True}),
        ("peak", {"best_split": best | {"peak": peak + 1}}),
        ("kernels", {"best_split": best | {"kernels": best["kernels"] + 1}}),
        ("saving", {"saving": saving | {"before": (saving["before"] or 0) + 5}}),
        ("whole nodes", {"all_fused": apart}),
        ("front", {"front": [best | {"peak": 0, "groups": []}]}),
        ("name", {"graph": "zzz"}),
        ("memory model", {"memory_model": "another"}),
        ("key", {"surplus": 1}),
    ]


KINDS: dict[str, Callable[[Case], Iterator[str]]] = {
    "repeats": judge_repeats,
    "plain": judge_plain,
    "module": judge_module,
    "unfused": judge_unfused,
    "tiled": judge_tiled,
}
"""Kinds of plan files; those of :data:`optsched.formats.answers.KINDS`."""
