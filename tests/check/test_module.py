"""Plans and certificates of modules: what the checker measures, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from optsched import Call, Graph, Limits, Module, check_module, solve_module
from optsched.certificate import certify_module
from optsched.check.module import (
    check_module_certificate,
    check_module_claims,
    check_schedule,
    replay_module,
)
from optsched.errors import PlanError
from optsched.model.plan import Plan
from tests.model.test_module import chain
from tests.solver.test_module import nested
from tests.support.module_oracle import peak_of, random_module

PLANS = {
    "wide": Plan((0, 1, 2, 3), (1, 0, 1, 3)),
    "middle": Plan((0, 1), (0, 12, 3)),
    "main": Plan((0, 1, 2), (7, 0, 7, 12)),
}
CLAIMS = {"main": {"peak": 28, "slab": 28}, "middle": {"slab": 16}, "wide": {"peak": 9}}


def changed(name: str, **what: object) -> dict[str, Plan]:
    return {**PLANS, name: replace(PLANS[name], **what)}  # type: ignore[arg-type]


def test_what_is_measured_includes_callees() -> None:
    checked = check_module(nested(), PLANS, CLAIMS)
    assert checked.peaks == {"wide": 9, "middle": 16, "main": 28}
    assert checked.slabs == checked.peaks


def test_peaks_of_schedules_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(3)
    for number in range(300):
        module = random_module(rng, inside=number % 2 == 1)
        orders = {name: tuple(range(len(graph.ops))) for name, graph in module.graphs.items()}
        found = check_schedule(module, orders)
        peaks: dict[str, int] = {}
        for name in sorted(module.graphs, key=lambda name: int(name[1:])):
            peaks[name] = peak_of(module, name, orders[name], peaks)
        assert found == peaks


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ({"wide": (0, 1, 2, 3), "main": (0, 1, 2)}, "computation 'middle' has no order"),
        ({"other": (0,)}, "order of computation 'other', which is not in module 'nested'"),
        ({"wide": (0, 1, 3)}, "computation 'wide': op 'join' .* runs before 'other'"),
        ({"wide": (0, 1, 2)}, "computation 'wide': op 'join' is not in the order"),
        ({"middle": (0, 0)}, "computation 'middle': op 'op0' runs twice"),
        ({"main": (1, 0, 2)}, "computation 'main': op 'op1' .* runs before 'op0', which it needs"),
        ({"main": (0, 1, 7)}, "computation 'main': step 2: unknown op number 7"),
    ],
)
def test_schedules_that_break_a_rule_are_refused_by_name(
    orders: dict[str, tuple[int, ...]], message: str
) -> None:
    right = {"wide": (0, 1, 2, 3), "middle": (0, 1), "main": (0, 1, 2)}
    given = orders if "middle' has no" in message else {**right, **orders}
    with pytest.raises(PlanError, match=message) as caught:
        check_schedule(nested(), given)
    assert "\n" not in str(caught.value)


def test_plans_that_break_a_rule_are_refused_by_name() -> None:
    offsets = PLANS["middle"].offsets
    moved = changed("middle", offsets=(*offsets[:-1], (offsets[-1] or 0) + 1))
    with pytest.raises(PlanError, match=r"computation 'm.*"):
        check_module(nested(), moved, CLAIMS)
    with pytest.raises(PlanError, match=r"computation 'main': plan has 3 offsets"):
        check_module(nested(), changed("main", offsets=PLANS["main"].offsets[:3]))
    with pytest.raises(
        PlanError, match="'wide': plan claims a peak of 8 bytes, the replay gives 9"
    ):
        check_module(nested(), PLANS, {"wide": {"peak": 8}})
    calls = tuple(replace(call, results_inside=True) for call in nested().calls)
    inside = replace(nested(), calls=calls)
    with pytest.raises(PlanError, match="has no offsets: results lie inside what is called"):
        check_module(inside, PLANS)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"graph": "other"}, "computation 'wide': plan is of graph 'other'"),
        ({"slab_bound": 10}, "claims that no slab is below 10 bytes, its own is 9"),
        ({"peak_proof": "L2", "peak_bound": 8}, r"claims order bound \(L2\) for its peak of 9 byt"),
        ({"peak_proof": "L9"}, "claims the peak_proof 'L9'"),
    ],
)
def test_claims_that_can_not_be_so_are_refused(claim: Mapping[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check_module_claims(nested(), PLANS, {"wide": claim})


class Lying(Module):
    """A module whose blocks are too small, or are not what they should be."""

    def with_blocks(self, computation: str, sizes: Mapping[str, int]) -> Graph:
        return super().with_blocks(computation, {name: size - 1 for name, size in sizes.items()})


class Unaligned(Module):
    """A module whose blocks lie anywhere."""

    @property
    def alignments(self) -> dict[str, int]:  # type: ignore[override]
        return dict.fromkeys(self.graphs, 1)


def test_the_checker_measures_blocks_by_itself() -> None:
    module = nested()
    lying = Lying(module.name, module.graphs, module.entry, module.calls)
    with pytest.raises(PlanError, match="op 'op1' calls for 9 bytes, its block has others"):
        check_module(lying, PLANS)
    graphs = {"body": chain("body", 4, alignment=4), "main": chain("main", 3)}
    calls = (Call("main", "op0", ("body",)),)
    loose = Unaligned("m", graphs, "main", calls)
    plans = {"body": Plan((0,), (0,)), "main": Plan((0,), (0, 3))}
    with pytest.raises(PlanError, match=r"op 'op0': its block is aligned to 1 bytes, .* need 4"):
        check_module(loose, plans)
    with pytest.raises(PlanError, match=r"'op0.workspace' at 3 is not aligned to 4"):
        check_module(Module("m", graphs, "main", calls), plans)


def test_a_replay_executes_every_computation() -> None:
    run = replay_module(nested(), PLANS)
    assert run.steps == 4 + 2 + 3


def test_certificates_compose() -> None:
    module = nested()
    found = solve_module(module)
    written = certify_module(module, found.orders, found.peak_bounds, limits=Limits(seconds=20))
    certificates = {name: row.certificate for name, row in written.items()}
    assert check_module_certificate(module, certificates) == {"wide": 9, "middle": 16, "main": 28}
    higher = {**certificates, "wide": replace(certificates["wide"], bound=10)}
    with pytest.raises(PlanError, match="computation 'wide': step 0: "):
        check_module_certificate(module, higher)
    # With less proved of a callee, what is said of its callers no longer holds.
    lower = {**certificates, "wide": replace(certificates["wide"], bound=8)}
    with pytest.raises(PlanError, match="computation 'middle': step 0: "):
        check_module_certificate(module, lower)
    with pytest.raises(PlanError, match="computation 'main' has no certificate"):
        check_module_certificate(module, {n: x for n, x in certificates.items() if n != "main"})


def test_certificates_of_random_modules_are_accepted_and_of_one_byte_more_refused() -> None:
    rng = np.random.default_rng(4)
    for number in range(40):
        module = random_module(rng, inside=number % 2 == 1)
        if number % 3 == 0:
            module = module.with_graphs(Graph.with_inplace)
        found = solve_module(module, objective="peak")
        written = certify_module(module, found.orders, found.peak_bounds, limits=Limits(seconds=20))
        assert all(row.missing is None for row in written.values())
        certificates = {name: row.certificate for name, row in written.items()}
        assert check_module_certificate(module, certificates)[module.entry] == found.entry.peak
        entry = certificates[module.entry]
        certificates[module.entry] = replace(entry, bound=entry.bound + 1)
        with pytest.raises(PlanError):
            check_module_certificate(module, certificates)
