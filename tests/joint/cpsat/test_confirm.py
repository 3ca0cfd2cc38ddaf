from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from optsched.joint.cpsat import Verdict, confirm, solve_joint, solve_order, solve_packing
from optsched.model.packing_problem import packing_problem
from optsched.runtime.limits import Limits
from tests.joint.cpsat.common import QUICK
from tests.support.generators import random_graph, random_order


@pytest.mark.parametrize("seed", range(8))
def test_true_claims_are_confirmed_and_false_ones_refuted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 6)
    problem, _ = packing_problem(graph, random_order(rng, graph))
    forms = (
        partial(solve_order, graph),
        partial(solve_joint, graph),
        partial(solve_packing, problem),
    )
    for form in forms:
        claim = form(limits=QUICK)
        assert confirm(form, claim, limits=QUICK).verdict is Verdict.CONFIRMED
        wrong = replace(claim, bound=claim.bound + 1)
        refuted = confirm(form, wrong, limits=QUICK)
        assert refuted.verdict is Verdict.REFUTED
        assert refuted.outcome.value == claim.value


def test_without_time_a_claim_stays_open() -> None:
    graph = random_graph(np.random.default_rng(0), 6)
    form = partial(solve_order, graph)
    assert confirm(form, form(limits=QUICK), limits=Limits(0.0)).verdict is Verdict.OPEN
