"""Names of methods: groups, patterns, pairs, solvers with seconds, plans; help for unknown ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heuristics import ORDERINGS, PACKINGS
from heuristics.orderings.inductor import inductor
from heuristics.orderings.lpmf import lpmf
from optsched.compare.methods import (
    OUR_METHOD,
    Exact,
    Heuristic,
    Kind,
    PlanFile,
    parse_methods,
    with_reference,
)
from optsched.errors import UsageError
from optsched.solver.schedule import Engine
from tests.support.generators import random_graph


def names(*given: str) -> list[str]:
    return [method.name for method in parse_methods(given)]


def test_by_default_everything_is_compared() -> None:
    assert names() == [*ORDERINGS, *PACKINGS, OUR_METHOD]


def test_kinds() -> None:
    order, packing, pair = parse_methods(["lpmf", "naive", "lpmf+naive"])
    assert [m.kind for m in (order, packing, pair)] == [Kind.ORDER, Kind.PACKING, Kind.PLAN]
    assert pair == Heuristic("lpmf+naive", "lpmf", "naive")


def test_groups_and_patterns() -> None:
    assert names("all-orderings") == list(ORDERINGS)
    assert len(names("all-pairs")) == len(ORDERINGS) * len(PACKINGS)
    assert names("lpmf+*") == [f"lpmf+{p}" for p in PACKINGS]
    assert names("xla_*") == [o for o in ORDERINGS if o.startswith("xla_")]
    assert names("recorded+sky*") == ["recorded+skyline"]
    assert names("bfs", "?fs") == ["bfs", "dfs"]


def test_solvers_have_their_own_limits() -> None:
    ours, cpsat, milp = parse_methods(["optsched:60", "cpsat:0.5", "milp"])
    assert ours == Exact("optsched:60", None, 60.0)
    assert cpsat == Exact("cpsat:0.5", Engine.CPSAT, 0.5)
    assert milp == Exact("milp", Engine.MILP, None)


def test_the_bound_comes_from_our_longest_run() -> None:
    methods, best = with_reference(parse_methods(["optsched:1", "optsched:9", "lpmf"]))
    assert (len(methods), best.name) == (3, "optsched:9")
    methods, best = with_reference(parse_methods(["lpmf", "cpsat"]))
    assert ([m.name for m in methods], best.name) == (["lpmf", "cpsat", "optsched"], "optsched")


def test_plans_from_files(tmp_path: Path) -> None:
    path = str(tmp_path)
    assert parse_methods([f"mine={path}"]) == (PlanFile("mine", path),)
    assert parse_methods([f"plan:{path}"]) == (PlanFile(f"plan:{path}", path),)


UNKNOWN = {
    "lpfm": "unknown method 'lpfm'; did you mean one of: lpmf",
    "lpfm+naive": "unknown ordering 'lpfm' in .*; did you mean one of: lpmf",
    "lpmf+first_fit": "unknown packing 'first_fit' in .*; did you mean one of: first_fit_",
    "zz*": "no method matches 'zz\\*'",
    "cpsat:soon": "positive number of seconds, got 'soon'",
    "milp:0": "positive number of seconds, got '0'",
    "optsched:nan": "positive number of seconds, got 'nan'",
    "mine=nowhere.json": "nowhere.json: plan file not found",
    "=x": "plan:PATH or NAME=PATH",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_unknown_is_said_in_one_line(name: str) -> None:
    with pytest.raises(UsageError, match=UNKNOWN[name]) as raised:
        parse_methods([name])
    assert "\n" not in str(raised.value)


def test_orderings_with_a_parameter() -> None:
    graph = random_graph(np.random.default_rng(1), 12)
    plain, packed, chosen = parse_methods(
        ["lpmf_successors:4", "lpmf_successors:1KiB+naive", "inductor:bfs/eager_free"]
    )
    assert isinstance(plain, Heuristic)
    assert plain.function is not None
    assert list(plain.function(graph, 0)) == lpmf(graph, size_threshold=4).tolist()
    assert isinstance(packed, Heuristic)
    assert (packed.kind, packed.packing) == (Kind.PLAN, "naive")
    wanted = inductor(graph, methods=(ORDERINGS["bfs"], ORDERINGS["eager_free"]))
    assert isinstance(chosen, Heuristic)
    assert chosen.function is not None
    assert list(chosen.function(graph, 0)) == wanted.tolist()


@pytest.mark.parametrize(
    "name", ["lpmf_successors:much", "inductor:lpmf/nothing", "inductor:inductor", "lpmf:4"]
)
def test_a_parameter_that_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        parse_methods([name])
