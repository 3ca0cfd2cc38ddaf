"""Relaxations: bounds of simpler questions hold for the question, against all plans."""

from __future__ import annotations

import numpy as np

from optsched.model.question import Question
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, Objective, Proof
from optsched.solver.known import Known
from optsched.solver.pipeline import answer
from optsched.solver.relax import PoolsApart, relaxed
from optsched.solver.resume import Resume
from tests.support import brute
from tests.support.generators import PLANNABLE, random_graph


def test_the_bounds_of_pools_apart_hold_for_all_plans() -> None:
    rng, features = np.random.default_rng(27), PLANNABLE | {"pools"}
    several = tight = 0
    while several < 40:
        graph = random_graph(rng, int(rng.integers(2, 6)), max_size=9, features=features)
        question = Question(graph)
        if not question.pool_graphs:
            assert PoolsApart().reduce(question) == ()
            continue
        several += 1
        known = Known(question, Limits(seconds=30))
        clock = Clock.of(Limits(seconds=30))
        for finding in relaxed(PoolsApart(), answer)(known, Resume.of(question, None), clock):
            known.merge(finding)
        joint = brute.least_joint(graph)
        assert joint is not None
        least = joint[0]
        assert known.bounds[Objective.SLAB].value <= least
        tight += known.bounds[Objective.SLAB].value == least
        assert known.plan is not None
        assert known.measured.slab >= least
        assert known.bounds[Objective.SLAB].proof in (Proof.JOINT, Proof.JOINT_SEARCH)
    assert tight > 30
