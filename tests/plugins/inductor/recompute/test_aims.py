"""Plans for a peak of a compiled step: where cuts are allowed, they never cost more."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.calibrate import StepMemory
from optsched.plugins.inductor.recompute.hidden_bytes import HiddenBytes
from optsched.plugins.inductor.recompute.models import Model
from optsched.plugins.inductor.recompute.partition import PeakPartitioner, Tried, _Partition
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

BUDGET = 10_000


class Imagined(_Partition):
    """A joint graph with a few plans: more bytes cost less, and steps need more or fewer bytes."""

    def __init__(self, seed: int, split: str | bool, most_saved: float = 0.3) -> None:
        draw = random.Random(seed)
        self.settings, self.name = PeakPartitioner(BUDGET, 60.0, split=split), "imagined"
        self.clock = Clock.of(Limits(seconds=3600))
        self.known, self.blocker = {}, ""
        self.rows = []
        for _ in range(draw.choice((1, 2))):
            steps = sorted(draw.sample(range(4_000, 20_000), draw.randint(1, 30)))
            whole = [int(peak * draw.uniform(0.7, 1.6)) for peak in steps]
            cut = [int(peak * draw.uniform(1 - most_saved, 1.0)) for peak in whole]
            costs = sorted(draw.sample(range(1000), len(steps)), reverse=True)
            self.rows.append((steps, whole, cut, costs))

    def _models(self) -> Iterator[Model]:
        for i, (steps, _, _, costs) in enumerate(self.rows):

            def plan(
                budget: int, _: Clock, i: int = i, steps: Any = steps, costs: Any = costs
            ) -> Any:
                least = [k for k, peak in enumerate(steps) if peak <= budget]
                if not least:
                    return SimpleNamespace(sequence=None, blocker="none")
                return SimpleNamespace(sequence=(i, least[-1]), extra=costs[least[-1]], repeats=())

            planner: Any = SimpleNamespace(plan=plan)
            ops: Any = None
            yield Model(f"model {i}", ops, planner, ())

    def _split(self, model: Model, sequence: Any) -> Any:
        return sequence

    def _simulate(self, modules: Any) -> StepMemory:
        i, k = modules
        _, whole, cut, _ = self.rows[i]
        # Cuts are taken only if the step fits with them.
        cuts = self.settings.split and whole[k] > BUDGET >= cut[k]
        return StepMemory(cut[k] if cuts else whole[k], whole[k], HiddenBytes({}, {}))

    def _torch_fit(self, budget: int, below: int | None) -> None:
        return None

    def _choose(self, budget: int, tried: Any) -> Any:
        fits: list[Tried] = [row for row in tried if row.fits(budget)]
        return min((row.price[0] for row in fits), default=None)


def cost(seed: int, split: str | bool) -> int | None:
    """Return the extra cost of the plan that is taken; None if none fits."""
    found: Any = None
    with suppress(KeptOrderError):
        found = Imagined(seed, split).run()
    return found  # type: ignore[no-any-return]


def test_plans_with_cuts_never_cost_more_than_those_without() -> None:
    cheaper = 0
    for seed in range(2000):
        without, with_cuts = cost(seed, False), cost(seed, "peak")
        if without is not None:
            assert with_cuts is not None, seed
            assert with_cuts <= without, seed
        cheaper += with_cuts is not None and (without is None or with_cuts < without)
    # Otherwise cuts are not tried at all.
    assert cheaper > 500
