"""Everything said about plans in row bands, against all tilings of small TFLite models.

A model of two or three operators is read from its file, and every tiling into at most three bands
is made, packed and measured, each stage by stage in every order. Stages that take turns are drawn
at random: a sentence about them must not be false either, so bounds have to name what they are
about. Then all that the program says is compared: `tile` with each question, its JSON, the object
in Python, `check` with a certificate, `report`, `export`, the store, `explain` and `certify`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optsched import Objective, certify, explain, solve, tile
from optsched.check.tiling import check_tiled
from optsched.errors import PlanError
from optsched.formats.export import export_plan
from optsched.formats.tiling import Tilable, read_tilable
from optsched.model.graph import Graph
from optsched.model.rows import RowOp
from optsched.model.tiled import Stage, TiledGraph, family
from optsched.store import PlanStore
from tests.support.row_maps import all_tilings, least_slab, packed

if TYPE_CHECKING:
    from tests.fuzz.statements import Case, Changes

BANDS = 3
MOST_TILINGS = 400
"""Models with more tilings are passed over."""
TURNS = 12
"""Orders of a model in which stages take turns."""


@dataclass(frozen=True)
class Tilings:
    """Figures of every tiling of a model: head, arena, and multiplications beyond its own."""

    model: Tilable
    found: list[tuple[int, int, int]]
    turns: list[int]
    """Heads of plans whose stages take turns."""
    slabs: dict[frozenset[Stage], int]
    """Least slab by tiling, over the orders that run stage by stage."""

    def fitting(self, size: int, quantity: int) -> list[int]:
        """Return the costs of the tilings that fit."""
        return [x[2] for x in self.found if x[quantity] <= size]

    def least(self, quantity: int, extra: int | None = None) -> int:
        """Return the least bytes within a cost."""
        return min(x[quantity] for x in self.found if extra is None or x[2] <= extra)


def judge_tiled(case: Case) -> Iterator[str]:
    """Tile a model, and change claims of its plan and of its certificate."""
    if find_spec("flatbuffers") is None or find_spec("tflite") is None:
        case.counts["models that cannot be read: no flatbuffers, no tflite"] += 1
        return
    objective = str(case.rng.choice(["head", "head", "total"]))
    every = _every_tiling(case, arenas=objective == "total")
    if every is None:
        case.counts["models with too many tilings"] += 1
        return
    path, plan, proof = (case.path(name) for name in ("net.tflite", "plan.json", "proof.json"))
    question = _question(case, every, objective)
    given = ("tile", path, "--bands", str(BANDS), "--time-limit", "20", *question, "-o", plan)
    record, text = case.record(*given), case.run(*given)[1]
    yield from _judged_tile(every, record, text)
    yield from _judged_python(every, question, record)
    if not Path(plan).exists():
        return
    files = [path, plan]
    case.run(*given, "--certificate", proof)
    if Path(proof).exists():
        files.append(proof)
        yield from _forged_proofs(case, every, files)
    yield from _checked(case, every, files)
    yield from _said_of_plan(case, every, files)
    if json.loads(Path(plan).read_text())["tiling"]["stages"]:
        yield from _refused(case, files)
        yield from case.forged(files[:2], 1, _changes(case, plan))


def _every_tiling(case: Case, *, arenas: bool) -> Tilings | None:
    """Write a random model, and return the figures of all its tilings; None if there are many.

    Without `arenas` the tail, which takes longest, counts as nothing.
    """
    from tests.support.tiled_networks import random_network

    rng = case.rng
    net = random_network(rng, int(rng.choice([2, 2, 3])))
    Path(path := case.path("net.tflite")).write_bytes(net.bytes())
    model = read_tilable(path)
    if not any(isinstance(op, RowOp) for op in model.rows.ops):
        return None
    tail, found, graphs = model.tail("32"), list[tuple[int, int, int]](), list[TiledGraph]()
    slabs, tails = dict[frozenset[Stage], int](), dict[frozenset[Stage], int]()
    assert tail.exact is not None
    for number, (tiled, order) in enumerate(all_tilings(model.rows, BANDS)):
        if number >= MOST_TILINGS:
            return None
        slab, plan = least_slab(tiled, order)
        checked = check_tiled(tiled, plan)
        key = frozenset(tiled.tiling.stages)
        if key not in slabs:
            graphs.append(tiled)
            tails[key] = tail.exact(tiled, plan) if arenas else 0
        found.append((checked.head, checked.head + tails[key], checked.extra))
        slabs[key] = min(slab, slabs.get(key, slab))
    case.counts["tilings"] += len(found)
    turns = []
    for tiled in (graphs[int(i)] for i in rng.integers(len(graphs), size=TURNS)):
        order = _any_order(rng, tiled.graph)
        # In some of these orders a join finds that its rows are gone.
        with suppress(PlanError):
            _, plan = packed(tiled, order, 2)
            if not tiled.is_among(order, BANDS):
                turns.append(check_tiled(tiled, plan).head)
    case.counts["stages that take turns"] += len(turns)
    return Tilings(model, found, turns, slabs)


def _any_order(rng: np.random.Generator, graph: Graph) -> list[int]:
    done: list[int] = []
    while len(done) < len(graph.ops):
        ready = [
            v
            for v, before in enumerate(graph.predecessors)
            if v not in done and {*before} <= {*done}
        ]
        done.append(int(rng.choice(ready)))
    return done


def _question(case: Case, every: Tilings, objective: str) -> list[str]:
    """Return a random question in options."""
    rng, quantity, kind = case.rng, int(objective == "total"), int(case.rng.integers(3))
    if kind == 0:
        # Also less than any tiling needs.
        some = int(rng.choice([x[quantity] for x in every.found])) - int(rng.choice([0, 0, 1, 40]))
        asked = ["--capacity", str(max(1, some))]
    elif kind == 1:
        asked = ["--extra", f"{float(rng.choice([0, 0.1, 0.5, 3])):g}"]
    else:
        asked = ["--points", "3"]
    return [*asked, "--objective", objective]


# What tile says.


def _judged_tile(every: Tilings, record: dict[str, Any], text: str) -> Iterator[str]:
    quantity = int(record["objective"] == "total")
    cost = every.model.rows.cost
    most = None if record["most_extra"] is None else round(record["most_extra"] * cost)
    least = every.least(quantity, most)
    slack = every.model.tail("32").slack if quantity else 0
    first = text.partition("\n")[0]
    if "no tiling" in first and family(BANDS) not in first:
        yield f"tile does not name its family: {first}"
    if family(BANDS) not in record["bound_about"]:
        yield f"JSON does not name the family of its bound: {record['bound_about']}"
    if record["bound"] > least:
        yield f"no tiling is below {record['bound']}, {least} is possible: {first}"
    own = None if record["head"] is None else record["arena" if quantity else "head"]
    fits = every.fitting(record["capacity"], quantity) if record["capacity"] else []
    if record["status"] == "infeasible" and fits:
        yield f"{record['capacity']} is said to be impossible, {least} is possible: {first}"
    if own is None:
        return
    if "has less" in first and "than" not in first.partition("has less")[2] and own > least:
        yield f"{own} is said to be least, {least} is possible: {first}"
    if (more := re.search(r"has over (\d+) bytes less", first)) and own - least > int(more[1]):
        yield f"{own} is said to be within {more[1]} bytes of the least, {least}: {first}"
    if record["status"] == "optimal" and not fits and own - least > slack:
        yield f"{own} is called optimal, {least} is possible: {first}"
    share = record["extra"]
    if fits and record["proved"] and round(share * cost) > min(fits):
        yield f"a cost of {share} is called least, {min(fits) / max(1, cost)} is possible: {first}"
    if (
        fits
        and (bound := re.search(r"costs less than (-?[\d.]+) %", first))
        and (float(bound[1]) > 100 * min(fits) / max(1, cost) + 1e-9)
    ):
        yield f"no cost is below {bound[1]} %, {100 * min(fits) / cost} % is possible: {first}"
    for point in record["front"]:
        size, known = point["arena" if quantity else "head"], point["extra_bound"]
        costs = every.fitting(size, quantity)
        if known is not None and costs and known > min(costs) / max(1, cost) + 1e-9:
            yield f"a cost of {known} bounds plans of {size} bytes, {min(costs)} is possible"


def _judged_python(every: Tilings, question: list[str], record: dict[str, Any]) -> Iterator[str]:
    options = dict(zip((x.removeprefix("--") for x in question[::2]), question[1::2], strict=True))
    read = {"capacity": int, "extra": float, "points": int, "objective": str}
    asked = {name: read[name](value) for name, value in options.items()}
    result = tile(
        every.model.rows, tail=every.model.tail("32"), bands=BANDS, **asked, time_limit=20
    )
    if str(result.status) != record["status"] or result.bound != record["bound"]:
        yield f"Python says {result}, bound {result.bound}, the command {record['status']}"
    if family(BANDS) not in repr(result):
        yield f"repr does not name the family: {result}"


# What is said of a plan.


def _checked(case: Case, every: Tilings, files: list[str]) -> Iterator[str]:
    text, record = case.run("check", *files)[1], case.record("check", *files)
    least = every.least(0)
    if not record.get("valid"):
        yield f"check refuses the plan: {record}"
        return
    if "bound" in record and family(BANDS) not in record.get("among", ""):
        yield f"check does not name the family of its bound: {record}"
    if record.get("bound", 0) > least:
        yield f"check proves {record['bound']}, {least} is possible: {text}"
    if "is minimal" in text and record["head"] > least:
        yield f"check calls {record['head']} minimal, {least} is possible: {text}"
    if turns := [head for head in every.turns if head < record.get("bound", 0)]:
        case.counts["bounds that other orders are below"] += 1
        if "stage by stage" not in text:
            yield f"check proves {record['bound']} of all orders, {turns[0]} is possible: {text}"
    yield from (f"check says {x!r}" for x in case.loose(text))


def _forged_proofs(case: Case, every: Tilings, files: list[str]) -> Iterator[str]:
    """Change a certificate: what still holds may be shown, nothing else."""
    path, plan, proof = files
    stated = json.loads(Path(proof).read_text())
    forged, more = case.path("forged.json"), int(case.rng.integers(1, 40))
    ops = [op.name for op in every.model.rows.graph.ops]
    for change in (
        {"bound": stated["bound"] + more},
        {"op": str(case.rng.choice(ops)), "bound": every.least(0) + more},
        {"bound": every.least(0) + 1, "bands": 2},
        {"contents": "00"},
        {"surplus": 1},
    ):
        Path(forged).write_text(json.dumps(stated | change))
        code, out, err = case.run("check", path, plan, forged, "--json")
        case.counts["forged claims"] += 1
        if err.count("\n") > 1:
            yield f"changed certificate: more than a line: {err}"
        record = json.loads(out or "{}")
        # A certificate for fewer bands is about fewer tilings.
        truth = every.least(0) if stated["bands"] == (stated | change)["bands"] else None
        if code == 0 and {"contents", "surplus"} & change.keys():
            yield f"a certificate with {change} is accepted"
        if code == 0 and truth is not None and record["bound"] > truth:
            yield f"check proves {record['bound']} with {change}, {truth} is possible"
        case.counts["refused" if code else "changes that hold"] += 1


def _said_of_plan(case: Case, every: Tilings, files: list[str]) -> Iterator[str]:
    """Compare what report, export, store, explain and certify say of the tiled graph."""
    from optsched.formats.answers import Asked, open_answer
    from optsched.formats.answers.tiled import TiledAnswer

    path, plan = files[:2]
    answer = open_answer(plan, Asked(path))
    assert isinstance(answer, TiledAnswer)
    graph, stages = answer.tiled.graph, answer.tiled.tiling.stages
    least = every.slabs.get(frozenset(stages), 0)
    given = ("report", path, plan, "--trace", case.path("page.json"), "--time-limit", "2")
    record, text = case.record(*given), case.run(*given)[1]
    if record["slab_bound"] > least:
        yield f"report bounds this tiling by {record['slab_bound']}, {least} is possible"
    if stages and not record.get("among"):
        yield f"report does not name this tiling: {record}"
    exported = export_plan(plan, case.path("out.csv"), to="csv", graph=path)
    if max(exported.slabs.values()) != answer.record["slab"]:
        yield f"export says {exported.slabs}, the plan needs {answer.record['slab']}"
    if not stages:
        return
    found = solve(graph, time_limit=5)
    store = PlanStore(case.path("plans.db"))
    store.put_result(graph, found)
    best = solve(graph, objective=Objective.PEAK, time_limit=2)
    said = {
        "report": text,
        "page": case.page(path, plan),
        "repr": repr(found),
        "repr of the peak": repr(best),
        "certificate": repr(certify(graph, result=found, time_limit=2)),
        "store": store.records()[0].among,
        "explanation": str(explain(graph, time_limit=2)),
    }
    for what, words in said.items():
        if "this tiling" not in words:
            yield f"{what} of a tiled graph does not say so: {words}"
        yield from (f"{what} says {x!r}" for x in case.loose(words))


def _refused(case: Case, files: list[str]) -> Iterator[str]:
    """Try the plan where another kind is wanted: one line, and nothing is said of it."""
    path, plan = files[:2]
    page = case.path("page.json")
    for given in (
        ("report", path, plan, "--best", "--trace", page),
        ("report", path, plan, "--align", "64", "--trace", page),
        ("solve", path, "--warm-start", plan),
        ("solve", path, "--baseline", plan),
        ("apply", path, plan, "-o", case.path("out.tflite")),
        ("check", path, plan, "--first", "x"),
        ("check", path, plan, "--peak", "1"),
        ("check", path, plan, "--align", "64"),
    ):
        code, out, err = case.run(*given)
        if code == 0 or out or err.count("\n") != 1 or plan not in err:
            yield f"{given} is answered: {out}{err}"


def _changes(case: Case, plan: str) -> list[tuple[str, Changes]]:
    stated = json.loads(Path(plan).read_text())
    tiling, stages = stated["tiling"], stated["tiling"]["stages"]
    last, order = stages[-1], stated["order"]

    def staged(*rows: Any) -> Changes:
        return {"tiling": tiling | {"stages": [*stages[:-1], *rows]}}

    found: dict[str, Changes] = {
        "bands": staged(last | {"bands": last["bands"] + 1}),
        "direction": staged(last | {"upwards": not last["upwards"]}),
        "ops of a stage": staged(last | {"ops": ["nope"]}),
        "number of stages": staged(),
        "stage twice": staged(last, last),
        "alignment": {"tiling": tiling | {"rows": 3}},
        "key of a stage": staged(last | {"surplus": 1}),
        "order": {"order": [order[-1], *order[:-1]]},
        "op left out": {"order": order[:-1]},
        "repeats": {"recompute": {"peak": 1, "extra": 0, "cost_unit": ""}},
    }
    # The common ones that are about the memory model and sizes of a plain file hold here, too.
    return [*found.items(), *case.common_changes(stated)]
