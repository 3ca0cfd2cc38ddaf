"""Rows that solutions violate: all pairs of sizes are tried, and only while there is time."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.master import Master
from optsched.solver.recompute.rows import CutRows, rounded
from optsched.solver.recompute.solve import Planner
from tests.support.brute_recompute import training_graph


def masters(seed: int) -> Master:
    planner = Planner(training_graph(np.random.default_rng(seed)))
    rows = CutRows(planner.problem, planner.base.peak - 2, 0)
    for v in range(len(planner.problem.ops)):
        rows.add(v)
    return Master(rows)


def test_violations_are_those_of_the_rows() -> None:
    seen = 0
    for seed in range(60):
        master, rng = masters(seed), np.random.default_rng(seed)
        values = rng.random(len(master.rows.columns))
        for v in master.rows.active:
            found = master._violations(values, v, Clock.of(Limits(seconds=20)))
            for short, q, least in found:
                sizes, need = master.rows.large(v, least)
                rest = (need - 1) % q + 1
                parts = sum(rounded(x, need, q) * (1 - values[c]) for c, x in sizes.items())
                assert short == pytest.approx((rounded(need, need, q) - parts) / rest)
                seen += 1
    assert seen > 300


def test_without_time_no_sizes_are_tried() -> None:
    master = masters(0)
    values = np.zeros(len(master.rows.columns))
    assert any(master.rows.fits[v][0] for v in master.rows.active)
    late = Clock.of(Limits(seconds=0))
    assert not [x for v in master.rows.active for x in master._violations(values, v, late)]
    before = len(master.rows.terms)
    master.separate(values, 9, late)
    assert not [key for key in master.rows.keys[before:] if key[0] == "round"]
