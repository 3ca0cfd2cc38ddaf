"""Every command that plans, checks or describes prints the saving first, with true figures."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest

from optsched import MemoryModel, solve
from optsched.cli import main
from optsched.cli.commands import COMMANDS
from optsched.compare.saving import saving, stock_plan, total_saving
from optsched.formats import packing_of, read_graph, stock_of, write_graph, write_packing
from optsched.formats.format import FILE_ORDER
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem
from optsched.model.saving import Saving, change
from optsched.runtime.limits import Objective
from optsched.runtime.text import most_less, percent
from optsched.store import PlanStore
from tests.support.commands import Cli
from tests.support.families.small import diamond
from tests.support.generators import random_graph
from tests.support.small_step import small_step

INSTANCES = Path(__file__).parents[2] / "instances"
LLAMA = INSTANCES / "inductor" / "llama_2l_bs1.bwd.json.gz"
FIRST_LINES = 10
COMMAND_LINES = {
    "solve": "solve {graph}",
    "compare": "compare {graph}",
    "tune": "tune {graph} --store {folder}/store --work 1000 --jobs 1",
    "explain": "explain {graph}",
    "report": "report {graph} -o {folder}/page.html",
    "info": "info {graph}",
    "export": "export {folder}/plan.json {graph} --to csv -o {folder}/plan.csv",
    "pack": "pack {folder}/packing.csv",
    "check": "check {graph} {folder}/plan.json {folder}/proof.json",
    "convert": "convert {graph} -o {folder}/converted.json",
    "hunt": "hunt --method dfs --max-ops 5 --max-tries 2000 -o {folder}/worst.json",
    "recompute": "recompute {folder}/step.json --peak 14",
    "store": "store show {folder}/plans.store {graph}",
}
STORE_LINES = (
    "ls {store}",
    "show {store} 1",
    "export {store} -o {folder}/plans.jsonl",
    "import {folder}/second.store {folder}/plans.jsonl",
    "merge {folder}/third.store {store}",
    "verify {store}",
    "gc {folder}/third.store",
    "revoke {folder}/third.store --engine optsched<9",
)
"""A call of each action of `store`, in this order."""
"""A call of each command that has a plan or a graph."""
WITHOUT = {
    "fits": "its first line is the answer, yes or no: tests/test_capacity.py",
    "tile": "needs a model file: tests/frameworks/tflite/test_tile.py",
    "apply": "needs a model file: tests/frameworks/test_saving.py",
    "measure": "needs a model file and its runtime: tests/frameworks/test_saving.py",
    "warmup": "plans nothing, and says so: tests/cli/test_saving.py",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("saving")
    write_graph(diamond(), made / "graph.json")
    packing = PackingProblem(size=[8, 4, 8, 4], start=[0, 0, 2, 1], end=[2, 4, 4, 3])
    write_packing(packing_of(packing), made / "packing.csv")
    graph, store = str(made / "graph.json"), str(made / "plans.store")
    files = ["-o", str(made / "plan.json"), "--certificate", str(made / "proof.json")]
    assert main(["solve", graph, *files]) == 0
    assert main(["tune", graph, "--store", store, "--work", "1000"]) == 0
    write_graph(small_step(), made / "step.json")
    return made


def test_every_command_is_listed() -> None:
    assert {*COMMAND_LINES, *WITHOUT} == {*COMMANDS}


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_a_command_begins_with_the_saving(command: str, folder: Path, cli: Cli) -> None:
    line = COMMAND_LINES[command].format(graph=folder / "graph.json", folder=folder)
    first = cli(*line.split()).splitlines()[:FIRST_LINES]
    assert any(" bytes" in line and ("against " in line or " with " in line) for line in first)


def test_a_large_graph_is_compared_by_its_peak(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packing the framework's order would take longer than a limit, after which it comes."""

    def refuse(*args: object) -> None:
        raise AssertionError("packed")

    line = f"solve {folder / 'graph.json'} --json"
    packed = json.loads(cli(*line.split()))
    monkeypatch.setattr("optsched.cli.saving.MOST_PACKED", 3)
    monkeypatch.setattr("optsched.compare.measure.pack_apart", refuse)
    found = json.loads(cli(*line.split()))
    assert (packed["saving"]["quantity"], found["saving"]["quantity"]) == ("slab", "peak")
    graph = read_graph(folder / "graph.json")
    before = peak_memory(graph, np.arange(len(graph.ops)))
    assert (found["saving"]["before"], found["saving"]["after"]) == (before, found["peak"])
    assert found["saving"]["against"] == "the file's order"


def test_each_action_on_a_store_begins_with_what_its_plans_save(folder: Path, cli: Cli) -> None:
    store = folder / "plans.store"
    assert {line.split()[0] for line in STORE_LINES} == {*COMMANDS["store"].actions}
    for line in STORE_LINES:
        first = cli("store", *line.format(store=store, folder=folder).split()).splitlines()[0]
        assert first.startswith("slab 20 -> 18 bytes (-10 %) against the file's order"), line
        # Proofs without a certificate are dropped by an import, and withdrawn by a rule.
        is_proved = not line.startswith(("import", "merge", "gc", "revoke"))
        assert ("smallest possible, proved" in first) == is_proved, line
        assert first.endswith(" (1 record)")
    found = cli.json("store", "ls", store)["saving"]
    assert (found["before"], found["after"], found["saved"], found["bound"]) == (20, 18, 2, 18)


def test_a_store_without_recorded_bytes_says_so(tmp_path: Path, cli: Cli) -> None:
    """Of other origins, and with damage in a provenance from elsewhere."""
    store, graph = PlanStore(tmp_path / "plans.store"), diamond()
    result = solve(graph)
    damaged = {"own_plan": {"quantity": "slab", "before": "20", "noun": "slab"}}
    store.put_result(graph, result, origin=damaged)
    first = cli("store", "ls", store.path).splitlines()[0]
    assert first == "saved bytes unknown: 1 record without a framework's plan"


def test_warmup_says_that_it_plans_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optsched.solver.warmup.warm_up", lambda say: None)
    assert cli("warmup").startswith("nothing planned; ")


def test_a_check_compares_by_replay_alone(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's order is replayed as the plan is; only a checked certificate proves."""
    cli("solve", LLAMA, "-o", folder / "llama.json")
    monkeypatch.setattr("optsched.compare.saving.stock_plan", None)
    plan, proof = str(folder / "plan.json"), str(folder / "proof.json")
    change = "peak 20 -> 18 bytes (-10 %) against the file's order"
    assert cli("check", folder / "graph.json", plan).splitlines()[0] == change
    found = cli.json("check", folder / "graph.json", plan, proof)["saving"]
    assert (found["before"], found["after"], found["bound"]) == (20, 18, 18)
    assert cli("check", LLAMA, folder / "llama.json").splitlines()[0] == (
        "peak 3,756,302,336 -> 3,554,992,128 bytes (-5.4 %) against Inductor's own order"
    )


def test_the_record_has_the_saving(folder: Path, cli: Cli) -> None:
    found = cli.json("solve", folder / "graph.json")["saving"]
    assert (found["before"], found["after"], found["saved"]) == (20, 18, 2)
    assert found["method"] == "program"
    assert found["bound"] == 18


def test_inductor_is_compared_with_the_order_that_it_chose(
    cli: Cli,
) -> None:
    assert cli("solve", LLAMA).splitlines()[0] == (
        "peak 3,756,302,336 -> 3,554,992,128 bytes (-5.4 %) against Inductor's own order; "
        "smallest possible, proved"
    )


def test_python_compares_with_the_same_plan_as_the_command(tmp_path: Path, cli: Cli) -> None:
    """The graph names its framework, so that no path is needed, and the file may be gone."""
    copy = tmp_path / LLAMA.name
    shutil.copy(LLAMA, copy)
    graph = read_graph(copy)
    copy.unlink()
    result = solve(graph)
    line = cli("solve", LLAMA).splitlines()[0]
    assert "against Inductor's own order" in line
    assert result.summary().splitlines()[0] == line
    assert line.replace(">", "&gt;").replace("'", "&#x27;") in result._repr_html_()
    aligned = replace(MemoryModel(align=64).apply(graph), name="renamed")
    assert stock_of(aligned) is stock_of(graph) is not FILE_ORDER


def test_a_folder_gives_the_sum_and_the_largest_savings(folder: Path, cli: Cli) -> None:
    graphs = folder / "several"
    graphs.mkdir(exist_ok=True)
    rng = np.random.default_rng(3)
    for number in range(5):
        write_graph(random_graph(rng), graphs / f"{number}.json")
    record = cli.json("compare", graphs)["saving"]
    parts = record["graphs"].values()
    for side in ("before", "after", "bound"):
        assert record["total"][side] == sum(part[side] for part in parts)


def test_the_framework_plan_is_that_of_the_file_without_rules() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        graph = random_graph(rng)
        found = stock_plan(graph)
        assert found is not None
        assert found.stock is FILE_ORDER
        assert found.peak == peak_memory(graph, range(len(graph.ops)))
        assert found.slab is not None
        assert found.slab >= found.peak


@pytest.mark.parametrize(
    ("before", "after", "bound", "text"),
    [
        (1000, 690, 690, "slab 1,000 -> 690 bytes (-31 %) against X; smallest possible, proved"),
        (
            1000,
            690,
            600,
            "slab 1,000 -> 690 bytes (-31 %) against X; at most 13.1 % less is possible",
        ),
        (690, 690, 690, "slab 690 bytes, as with X; smallest possible, proved"),
        (10_000, 9_999, None, "slab 10,000 -> 9,999 bytes (-<0.1 %) against X"),
        (
            1000,
            1001,
            0,
            "slab 1,000 -> 1,001 bytes (+0.1 %) against X; at most 100.0 % less is possible",
        ),
        (1000, None, 600, "slab 1,000 bytes with X; at most 40.0 % less is possible"),
        (None, 7, 7, "slab 7 bytes; smallest possible, proved"),
        (None, None, 7, "slab: no plan found"),
    ],
)
def test_a_saving_in_words(
    before: int | None, after: int | None, bound: int | None, text: str
) -> None:
    assert str(Saving(Objective.SLAB, "slab", before, after, bound, "X")) == text


def test_a_restricted_bound_says_among_which_plans() -> None:
    words = str(Saving(Objective.SLAB, "slab", 9, 8, 8, "X", among="orders that keep rules"))
    assert words.endswith("smallest possible among orders that keep rules, proved")


def test_a_sum_is_proved_only_if_every_part_is() -> None:
    one = Saving(Objective.SLAB, "slab", 10, 8, 8, "X")
    other = Saving(Objective.SLAB, "slab", 20, 18, None, "X")
    both = total_saving([one, other])
    assert both is not None
    assert (both.before, both.after, both.bound) == (30, 26, None)
    assert total_saving([saving(None, peak=1, slab=1)]) is None
    limited = replace(one, among="orders that move at most 2 ops")
    total = total_saving([limited, other, limited])
    assert total is not None
    assert total.among == "orders that move at most 2 ops"


def test_only_no_change_is_shown_as_zero() -> None:
    assert [change(1, 1), change(10**9, 10**9 - 1), change(0, 5)] == ["0 %", "-<0.1 %", "+inf %"]


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_a_comparison_shows_the_framework_in_every_width(
    width: str, folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    first = cli("compare", folder / "graph.json").splitlines()[:FIRST_LINES]
    assert any("framework" in line.split() for line in first)


def test_shares_in_percent_are_never_rounded_to_what_they_are_not() -> None:
    """0 and 100 are exact, changes keep a part that is left, and "at most" is rounded up."""
    draw = Random(34)
    for _ in range(3000):
        whole = draw.randrange(1, 10 ** draw.randrange(1, 15))
        part = min(whole, draw.randrange(10 ** draw.randrange(1, 15)))
        for digits in (0, 1, 2):
            shown = percent(part / whole, digits)
            assert (shown == "0 %") is (part == 0)
            assert shown.startswith("100") is (part == whole)
        assert (change(whole, part) == "0 %") is (part == whole)
        assert (change(whole, part) == "-100 %") is (part == 0)
        assert Fraction(most_less(whole, part)[:-2]) >= Fraction(100 * (whole - part), whole)
    assert percent(-0.25) == "-25.0 %"
    assert percent(-1e-9) == "-<0.1 %"
