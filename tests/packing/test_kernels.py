"""The reference implementation of the kernels answers as the compiled one, node by node."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.packing import PackingEffort, Rules
from optsched.packing.components import make_components
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels.branch import SECTION_RULES
from optsched.packing.kernels.first_fit import first_fit
from optsched.packing.kernels.search import search
from optsched.packing.kernels.state import B, C, S
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.packing_instances import random_problem


@pytest.mark.parametrize("kind", ["", "ap", "g", "w", "apw"])
def test_search(kind: str) -> None:
    for seed in range(4):
        problem = random_problem(np.random.default_rng([17, seed]), kind, buffers=9)
        for component in make_components(problem, Rules()):
            seen = []
            for run in (search, search.compiled):
                engine = PackingEngine(component, Rules(), PackingEffort())
                if engine.prepare(component.bound) is None or engine.arrays is None:
                    continue
                state = engine.arrays.state
                state.counters[C.depth] = 0
                answer = run(*engine.arrays, seed % SECTION_RULES, 2_000)
                counters = state.counters.tolist()
                seen.append((answer, counters, engine.buffers.tolist(), state.sections.tolist()))
            assert len(seen) < 2 or seen[0] == seen[1]


@pytest.mark.parametrize("kind", ["", "ap", "g", "apw"])
def test_first_fit(kind: str) -> None:
    problem = random_problem(np.random.default_rng(2), kind, buffers=12)
    for component in make_components(problem, Rules()):
        seen = []
        for fit in (first_fit, first_fit.compiled):
            engine = PackingEngine(component, Rules(), PackingEffort())
            engine.first_fit(engine.keys.order("TZ"), 10**6, Clock.of(Limits()))
            order, masks = engine.keys.order("ZW"), component.sections.masks
            count = fit(engine.buffers, masks, engine.parts, engine.ranges, order, 0, engine.line)
            seen.append((count, engine.buffers[B.offset].tolist()))
        assert seen[0] == seen[1]


def test_a_full_undo_restores_the_state() -> None:
    problem = random_problem(np.random.default_rng(21), "", buffers=9)
    for component in make_components(problem, Rules()):
        engine = PackingEngine(component, Rules(failures=False), PackingEffort())
        rank, clock = engine.keys.rank("TWA"), Clock.of(Limits())
        assert engine.decide(component.bound - 1, rank, 0, 10**5, clock) == 0
        if engine.arrays is not None:
            remaining = engine.arrays.state.sections[S.remaining, : component.sections.count]
            assert remaining.min() >= 0
