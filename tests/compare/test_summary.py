"""Geometric means and performance profiles of numbers made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.compare import Comparison, Kind, profile, summarize
from optsched.compare.methods import Exact, Heuristic, Method
from optsched.compare.rows import Failed, Measured, Outcome, Trouble, judge
from optsched.compare.summary import rows_against_optimum
from optsched.runtime.limits import Proof, StopReason
from optsched.solver.result import Result
from optsched.solver.schedule import Engine
from tests.support.families.small import chain

OURS = Exact("optsched")
METHODS: tuple[Method, ...] = (
    Heuristic("lpmf", ordering="lpmf"),
    Heuristic("bfs", ordering="bfs"),
    Exact("cpsat:1", Engine.CPSAT, 1.0),
    OURS,
)


def result(slab: int, bound: int, proof: Proof | None) -> Result:
    return Result(None, slab, slab, bound, bound, proof, proof, StopReason.PROVED)


def graph(lpmf: int, bfs: int | None, slab: int = 100, bound: int = 100) -> Comparison:
    """A graph on which orders have these peaks; CP-SAT claims what we prove, if we do."""
    kind = Kind.ORDER
    lost = Failed("bfs", kind, Trouble.DIED, "gone")
    proof = Proof.JOINT if slab == bound else None
    outcomes: dict[str, Outcome] = {
        "lpmf": Measured("lpmf", kind, lpmf, lpmf + 50, 0.5),
        "bfs": lost if bfs is None else Measured("bfs", kind, bfs, bfs, 0.25),
        "cpsat:1": Measured("cpsat:1", Kind.PLAN, slab, slab, 1.0, result(slab, 90, Proof.CLAIMED)),
        "optsched": Measured("optsched", Kind.PLAN, slab, slab, 2.0, result(slab, bound, proof)),
    }
    found = judge(chain(), METHODS, outcomes, OURS.name)
    assert found is not None
    return found


THREE = [graph(100, 200), graph(150, 100), graph(400, None)]


def test_one_line_a_method() -> None:
    lines = {line.method: line for line in summarize(THREE, METHODS)}
    lpmf, bfs, cpsat, ours = (lines[m.name] for m in METHODS)
    # (1 * 1.5 * 4) ** (1/3), and (2 * 1) ** (1/2) on the two graphs with figures.
    assert lpmf.mean_excess == pytest.approx(6 ** (1 / 3) - 1)
    assert bfs.mean_excess == pytest.approx(2**0.5 - 1)
    assert (lpmf.worst_excess, lpmf.worst_graph, lpmf.seconds) == (3.0, "chain", 1.5)
    assert (bfs.measured, bfs.asked, bfs.wins, bfs.at_optimum) == (2, 3, 1, 1)
    assert (lpmf.wins, lpmf.at_optimum, lpmf.proved) == (2, 1, 0)
    # A claim is at the optimum that we prove, but proves nothing itself.
    assert (cpsat.at_optimum, cpsat.proved, ours.at_optimum, ours.proved) == (3, 0, 3, 3)


def test_orders_come_first_and_the_best_of_a_kind() -> None:
    assert [s.method for s in summarize(THREE, METHODS)] == ["lpmf", "bfs", "cpsat:1", "optsched"]
    assert [s.method for s in summarize(THREE[:2], METHODS)][:2] == ["lpmf", "bfs"]
    assert [s.method for s in summarize(THREE[1:2], METHODS)][:2] == ["bfs", "lpmf"]


def test_profile_counts_graphs_within_each_factor() -> None:
    curves = profile(THREE, METHODS, taus=(1.0, 1.5, 2.0, 4.0))
    assert curves["lpmf"] == pytest.approx((1 / 3, 2 / 3, 2 / 3, 1.0))
    # A graph without figures is out of reach, however large the factor.
    assert curves["bfs"] == pytest.approx((1 / 3, 1 / 3, 2 / 3, 2 / 3))
    assert curves["optsched"] == (1.0,) * 4


def test_a_file_without_the_order_counts_for_nothing() -> None:
    absent = Failed("bfs", Kind.ORDER, Trouble.ABSENT, "the file records no order")
    last = replace(THREE[2], failed=(absent,))
    assert profile([*THREE[:2], last], METHODS, taus=(2.0,))["bfs"] == (1.0,)
    (line,) = (s for s in summarize([*THREE[:2], last], METHODS) if s.method == "bfs")
    assert (line.measured, line.asked) == (2, 2)
    assert rows_against_optimum([last]) == (3, 3)


def test_rows_against_an_optimum() -> None:
    assert rows_against_optimum(THREE) == (11, 12)
    unproved = graph(120, 130, slab=110, bound=100)
    assert rows_against_optimum([unproved]) == (0, 4)
    # An order that meets the bound proves the least peak, not the least slab.
    assert rows_against_optimum([graph(100, 130, slab=110, bound=100)]) == (2, 4)


def test_the_best_bound_of_all_solvers_counts() -> None:
    found = graph(100, 100, slab=100, bound=80)
    assert (found.peak_bound, found.slab_bound) == (90, 90)
    assert found.result.slab_bound == 80
