"""The beam search: valid packings, the same plain and compiled, silent about what it misses."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.packing import PackingEffort, Rules
from optsched.packing.beam import search_beam
from optsched.packing.components import make_components
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels import branch
from optsched.packing.kernels.beam import BIRTH_COLUMNS, FREE, KEPT, SLOTS, Beam, keep
from optsched.packing.kernels.search import LIMIT, SOLVED
from optsched.runtime import kernel as kernels
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.packing_instances import cut, random_problem

QUIET = PackingEffort(beam_noise=0.0, beam_skips=6)


def run(engine: PackingEngine, capacity: int, rule: int, width: int = 30) -> int:
    return search_beam(
        engine,
        capacity,
        width=width,
        softness=0.02,
        rule=rule,
        random=np.random.default_rng(0),
        clock=Clock.of(Limits()),
    )


@pytest.mark.parametrize("kind", ["", "a", "p", "g", "apg"])
def test_packings_are_valid(kind: str) -> None:
    solved = 0
    for seed in range(8):
        problem = random_problem(np.random.default_rng([23, seed]), kind, buffers=12)
        for component in make_components(problem, Rules(components=False)):
            engine = PackingEngine(component, Rules(), QUIET)
            for capacity in (component.bound, component.bound + 2 * int(component.bytes.max())):
                if run(engine, capacity, branch.FEWEST_THEN_LOWEST) == SOLVED:
                    solved += 1
                    offsets = np.zeros(len(problem), np.int64)
                    offsets[component.ids] = engine.offsets() * component.unit
                    check_packing(problem, offsets.tolist(), capacity=capacity)
    assert solved >= 4


def test_a_beam_refutes_nothing() -> None:
    problem = cut(np.random.default_rng(1), 30, 500, 40)
    (component,) = make_components(problem, Rules(components=False))
    engine = PackingEngine(component, Rules(), QUIET)
    assert run(engine, 499, branch.TIGHTEST) == LIMIT
    assert run(engine, 500, branch.TIGHTEST, width=1) in (LIMIT, SOLVED)


def test_the_reference_implementation_answers_as_the_compiled_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = cut(np.random.default_rng(6), 12, 90, 14)
    (component,) = make_components(problem, Rules(components=False))
    seen = []
    for form in (kernels.reference_form, kernels.compiled_form):
        monkeypatch.setattr(kernels.policy, "force", form)
        engine = PackingEngine(component, Rules(), QUIET)
        answer = run(engine, 90, branch.FEWEST_THEN_LOWEST, width=8)
        seen.append((answer, engine.nodes, engine.offsets().tolist()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("children", [3, 7, 8, 200])
def test_a_layer_keeps_its_best_children_once_each(children: int) -> None:
    random = np.random.default_rng(children)
    width = 7
    beam = Beam(
        heap=np.zeros(SLOTS + width, np.int64),
        ratings=np.zeros(width + 1),
        births=np.zeros((width + 1, BIRTH_COLUMNS), np.int64),
        seen=np.full(256, -1),
        factors=np.zeros(0, np.int64),
        weights=np.zeros(0),
        noise=np.ones(1),
        knobs=np.zeros(3, np.int64),
    )
    ratings = random.permutation(children).astype(float)
    for code in range(children):
        for _ in range(2):
            keep(beam, float(ratings[code]), code)
    slots = beam.heap[SLOTS : SLOTS + beam.heap[KEPT]].tolist()
    assert sorted(beam.ratings[slots].tolist()) == sorted(ratings.tolist())[:width]
    assert len({*slots, int(beam.heap[FREE])}) == min(width, children) + 1
