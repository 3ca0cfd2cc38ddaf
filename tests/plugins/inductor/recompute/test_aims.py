"""Plans for a peak of a compiled step: where cuts are allowed, they never cost more."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from optsched.formats.costs import moved_cost
from optsched.plugins.inductor.recompute.answer import _record
from optsched.plugins.inductor.recompute.calibrate import StepMemory
from optsched.plugins.inductor.recompute.hidden_bytes import HiddenBytes
from optsched.plugins.inductor.recompute.joint_step import PeakSettings
from optsched.plugins.inductor.recompute.models import Model, TorchSplit
from optsched.plugins.inductor.recompute.search import SplitSearch
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

BUDGET = 10_000
NO_BYTES = HiddenBytes({}, {})


class Imagined:
    """A joint graph with a few plans: more bytes cost less, and steps need more or fewer bytes."""

    name = "imagined"
    splits: tuple[TorchSplit, ...] = ()
    problem = SimpleNamespace(total=10_000)

    def __init__(self, seed: int, split: str | bool, most_saved: float = 0.3) -> None:
        draw = random.Random(seed)
        self.settings = PeakSettings(BUDGET, 60.0, split=split)
        self.simulated: dict[Any, StepMemory] = {}
        self.rows = []
        for _ in range(draw.choice((1, 2))):
            steps = sorted(draw.sample(range(4_000, 20_000), draw.randint(1, 30)))
            whole = [int(peak * draw.uniform(0.7, 1.6)) for peak in steps]
            cut = [int(peak * draw.uniform(1 - most_saved, 1.0)) for peak in whole]
            costs = sorted(draw.sample(range(1000), len(steps)), reverse=True)
            self.rows.append((steps, whole, cut, costs))

    def models(self) -> list[Model]:
        return [self.model(i) for i in range(len(self.rows))]

    def model(self, i: int) -> Model:
        steps, _, _, costs = self.rows[i]

        def plan(budget: int, _: Clock) -> Any:
            least = [k for k, peak in enumerate(steps) if peak <= budget]
            if not least:
                return SimpleNamespace(sequence=None, blocker="")
            k = least[-1]
            return SimpleNamespace(sequence=(i, k), peak=steps[k], extra=costs[k], repeats=())

        planner: Any = SimpleNamespace(plan=plan, next_peak=lambda _: None)
        ops: Any = None
        return Model(f"model {i}", ops, planner, ())

    def split(self, model: Model, sequence: Any) -> Any:
        return sequence

    def cut_cost(self, modules: Any) -> int:
        return self.memory(modules).traffic

    def memory(self, modules: Any, closely: bool = False) -> StepMemory:
        if modules in self.simulated and not closely:
            return self.simulated[modules]
        i, k = modules
        _, whole, cut, _ = self.rows[i]
        # Cuts are taken only if the step fits with them.
        cuts = self.settings.split and whole[k] > BUDGET >= cut[k]
        peak = cut[k] if cuts else whole[k]
        # Cuts move bytes, which cost.
        found = StepMemory(peak, whole[k], peak, NO_BYTES, (whole[k] - peak) // 20)
        self.simulated[modules] = found
        return found


def search(step: Any, seconds: float = 3600) -> SplitSearch:
    """Return the search for a split of an imagined joint graph after its end."""
    found = SplitSearch(step, Clock.of(Limits(seconds=seconds)))
    found.run()
    return found


def cost(seed: int, split: str | bool) -> int | None:
    """Return the extra cost of the plan that is taken; None if none fits."""
    return search(Imagined(seed, split)).least()


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


def test_bytes_that_cuts_move_cost_what_the_model_says() -> None:
    costs = [moved_cost(3000, model) for model in ("kernel", "roofline", "bytes", "flops")]
    assert costs == [2000, 2000, 3000, 0]


def test_no_plan_begins_after_the_time_is_over() -> None:
    found = search(Imagined(3, "peak"), seconds=0)
    assert not found.tried
    assert found.blocker == "the time was too short"
    assert found.torch_split() is None


def test_where_no_cut_lowers_a_peak_no_plan_is_made_twice() -> None:
    for seed in range(200):
        planned = []
        for split in (False, "peak"):
            # Cuts that save nothing.
            step = Imagined(seed, split, most_saved=0.0)
            planned.append([row.result.sequence for row in search(step).tried])
        assert planned[0] == planned[1]


class OfPyTorch(Imagined):
    """A joint graph with splits of PyTorch's alone: the dearest first, of the peaks given."""

    def __init__(self, peaks: dict[int, int]) -> None:
        super().__init__(3, False)
        self.peaks, self.seen = {str(peak): need for peak, need in peaks.items()}, list[int]()
        self.known = [(peak, str(peak)) for peak in peaks]
        n = len(peaks)
        self.splits = tuple(
            TorchSplit(0.5, modules, n - i, (), saved=0)  # type: ignore[arg-type]
            for i, modules in enumerate(self.peaks)
        )

    def models(self) -> list[Model]:
        model: Any = super().model(0)._replace(known=self.known)
        model.planner.plan = lambda *_: SimpleNamespace(sequence=None, blocker="")
        return [model]

    def memory(self, modules: Any, closely: bool = False) -> StepMemory:
        self.seen.append(int(modules))
        need = self.peaks[modules]
        self.simulated[modules] = StepMemory(need, need, need, NO_BYTES)
        return self.simulated[modules]

    def cut_cost(self, modules: Any) -> int:
        return 0


def test_splits_of_pytorchs_that_are_likely_to_fit_are_simulated_first() -> None:
    step = OfPyTorch({11_000: 8_800, 12_000: 9_600, 13_000: 9_900, 15_000: 12_000, 14_000: 10_900})
    found = search(step)
    # At 0.8 of its ops' peak the one of 12,000 bytes fits, and then that of 13,000 nearly does.
    assert step.seen == [11_000, 12_000]
    best = found.torch_split()
    # The others follow at last, that of fewer bytes first.
    assert step.seen == [11_000, 12_000, 13_000, 14_000, 15_000]
    assert best is not None
    assert best.modules == "13000"  # type: ignore[comparison-overlap]


def test_no_split_of_pytorchs_is_simulated_after_the_time_is_over() -> None:
    step = OfPyTorch({11_000: 8_800, 12_000: 9_600})
    found = search(step, seconds=0)
    best = found.torch_split()
    # The one by which plans aim is always simulated.
    assert step.seen == [11_000]
    assert best is step.splits[0]


class Proportional(Imagined):
    """A joint graph whose steps need a fixed part of the planned bytes, and less after cuts."""

    def __init__(self, ratio: float, cut_ratio: float, least: int = 1000, slow: int = 0) -> None:
        super().__init__(0, "peak")
        steps = [*range(least, 20_000, 5)]
        whole, cut = [int(ratio * x) for x in steps], [int(cut_ratio * x) for x in steps]
        self.rows = [(steps, whole, cut, [20_000 - x for x in steps])]
        self.slow, self.asked = slow, list[int]()

    def model(self, i: int) -> Model:
        found = super().model(i)

        def plan(budget: int, clock: Clock) -> Any:
            self.asked.append(budget)
            # Below some bytes a plan takes half of the time limit.
            is_late = budget < self.slow and (clock.left() or 0) < self.settings.time_limit / 2
            return found.planner.plan(0 if is_late else budget, clock)

        planner: Any = SimpleNamespace(plan=plan, next_peak=lambda _: None)
        return found._replace(planner=planner)


def test_a_plan_that_was_not_found_in_time_is_sought_longer() -> None:
    step = Proportional(1.2, 1.2, slow=9_000)
    found = search(step).least()
    assert found is not None
    # Of what fits, 8,330 planned bytes cost least.
    assert 20_000 - 8_330 <= found <= 20_000 - 7_500


class FewerClosely(Proportional):
    """Steps that need fewer bytes where they are simulated with longer limits."""

    def memory(self, modules: Any, closely: bool = False) -> StepMemory:
        found = super().memory(modules, closely)
        self.closely = [*getattr(self, "closely", ()), *((found.peak,) if closely else ())]
        return found._replace(peak=found.peak * 3 // 4) if closely else found


def test_where_nothing_fits_the_split_of_least_peak_is_simulated_closely() -> None:
    step = FewerClosely(1.2, 1.2, least=9_000)
    found = search(step)
    # No plan has fewer than 9,000 bytes, and one of nearly as few is enough to tell.
    assert len(step.closely) == 1
    assert 10_800 <= step.closely[0] < 10_900
    assert 10_900 <= found.least() <= 11_000  # type: ignore[operator]
    step = FewerClosely(1.2, 1.2)
    assert search(step).least() is not None
    # What fits at once is not simulated again.
    assert not step.closely


def test_cuts_are_tried_with_a_plan_of_the_budget_itself() -> None:
    # The only plan that fits needs cuts, and no larger plan fits even with them.
    step = Proportional(1.5, 1.0, least=10_000)
    step.simulated["a split of PyTorch's"] = StepMemory(18_000, 18_000, 18_000, NO_BYTES)
    found = SplitSearch(step, Clock.of(Limits(seconds=3600)))
    known = (20_000, "a split of PyTorch's")
    found.models = [row._replace(known=[known]) for row in found.models]
    found.run()
    assert step.asked[0] > BUDGET
    assert found.least() is not None


def test_where_no_plan_is_found_the_next_one_that_is_known_is_taken() -> None:
    step = Proportional(1.0, 1.0, least=9_000)
    found = SplitSearch(step, Clock.of(Limits(seconds=3600)))
    planner = found.models[0].planner
    found.budget = 8_000
    planner.next_peak = lambda peak: 9_100 if peak < 9_100 else None  # type: ignore[method-assign]
    found.run()
    assert step.asked[:2] == [8_000, 9_100]


def test_no_plan_is_made_where_a_smaller_one_would_not_fit_by_its_ratio() -> None:
    step = Proportional(1.2, 1.2, least=9_400)
    step.settings = PeakSettings(BUDGET, 60.0)
    step.simulated["a split of PyTorch's"] = StepMemory(11_000, 11_000, 11_000, NO_BYTES)
    found = SplitSearch(step, Clock.of(Limits(seconds=3600)))
    known = (10_000, "a split of PyTorch's")
    found.models = [row._replace(known=[known]) for row in found.models]
    found.run()
    # No plan has 9,090 bytes, and one of 11,362 is simulated with 1.2 of that.
    assert step.asked[:2] == [9_090, 11_362]
    assert len({row.result.sequence for row in found.tried}) == 1


def test_what_is_impossible_is_left_in_small_steps() -> None:
    step = Proportional(1.0, 1.0)
    step.settings = PeakSettings(1000, 60.0)
    found = SplitSearch(step, Clock.of(Limits(seconds=3600)))
    planner: Any = found.models[0].planner
    made, nothing = planner.plan, SimpleNamespace(sequence=None, blocker="op a needs 20,000 bytes")
    planner.next_peak = lambda _: 15_000
    planner.plan = lambda budget, clock: made(budget, clock) if budget >= 15_000 else nothing
    found.run()
    assert not found.tried
    assert found.blocker == "op a needs 20,000 bytes"


def test_plans_that_cost_more_than_a_split_of_pytorchs_are_not_simulated() -> None:
    step: Any = Proportional(1.0, 1.0)
    step.splits = [TorchSplit(0.4, "theirs", 10_500, (), saved=0)]
    step.simulated["theirs"] = StepMemory(9_500, 9_500, 9_500, NO_BYTES)
    step.peak = lambda modules: step.memory(modules).peak
    found = search(step)
    # A plan of 9,500 bytes or less costs 10,500 or more.
    assert all(row.result.peak > 9_500 for row in found.tried)
    step.splits = [step.splits[0]._replace(extra=1)]
    found = search(step)
    assert not found.tried
    assert found.torch_split() == step.splits[0]


@pytest.mark.parametrize(("most", "note"), [(BUDGET, ""), (BUDGET + 500, "up to 10,500 bytes")])
def test_a_split_that_fits_only_while_the_program_holds_inputs_says_so(
    most: int, note: str
) -> None:
    step: Any = SimpleNamespace(
        name="0/0 joint",
        graph=SimpleNamespace(ops=()),
        sizes={},
        settings=PeakSettings(BUDGET, 1.0),
        default=(),
        peak=lambda _: 2 * BUDGET,
    )
    memory = StepMemory(9_000, 9_000, 9_500, NO_BYTES, most=most)
    record = _record(step, "recompute: ...", memory)
    assert (record.before, record.after) == (2 * BUDGET, 9_500)
    assert record.note == (note and f"{note} if the program holds no input that is saved")
    assert str(record).splitlines()[0] == "0/0 joint: fits 10,000 bytes: 9,500 instead of 20,000, "
    large = StepMemory(11_000, 11_000, 11_000, NO_BYTES, most=11_000, at=("loss", "mm_4"))
    refused = _record(step, "recompute: ...", large, "for 3.00 % more compute")
    assert refused.answer == (
        "does not fit 10,000 bytes: no smaller step was found than the split that runs, which "
        "needs 11,000 at op 'mm_4' of its backward graph, for 3.00 % more compute"
    )
