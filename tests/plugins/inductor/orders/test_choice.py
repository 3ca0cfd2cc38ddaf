"""The choice among orders where it is not known what the caller of a graph still holds."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from optsched.plugins.gain import DEFAULT_GAIN, MinGain, parse_gain
from optsched.plugins.inductor.orders import candidates, choice
from optsched.plugins.inductor.orders.candidates import OPTIMUM, Decision, decide
from optsched.plugins.inductor.wrapper.facts import OwnedInput, WrapperFacts, is_valid_order
from optsched.plugins.inductor.wrapper.simulate import Simulation, simulate
from tests.plugins.inductor.orders.test_moves import NODES, random_calls

FRAMEWORK = tuple(range(NODES))
GIVEN = (OwnedInput("p", 9, "p"), OwnedInput("q", 9, "q"))


def with_gradients(seed: int) -> WrapperFacts:
    """Random calls; two of them read an input that may be the caller's."""
    facts = random_calls(seed)
    nodes = list(facts.nodes)
    for v, given in zip((1, 3), GIVEN, strict=True):
        nodes[v] = replace(nodes[v], used=nodes[v].used | {given.name})
    return replace(
        facts,
        nodes=tuple(nodes),
        inputs=GIVEN,
        extreme_inputs=((),),
        graph_inputs=frozenset(given.name for given in GIVEN),
    )


def all_orders(facts: WrapperFacts) -> dict[str, Any]:
    orders = (o for o in itertools.permutations(FRAMEWORK) if is_valid_order(facts, o))
    return {str(order): order for order in orders}


def choose(facts: WrapperFacts, least: MinGain, monkeypatch: pytest.MonkeyPatch) -> Decision:
    monkeypatch.setattr(candidates._Solver, "orders", lambda *_: all_orders(facts))
    document = {"extra": {"orders": {"baseline": FRAMEWORK}, "chosen": "baseline"}}
    return decide(facts, document, reuse=False, seconds=1.0, name="calls", min_gain=least)


@pytest.mark.parametrize("seed", range(12))
def test_the_least_of_those_that_need_no_more_either_way(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = with_gradients(seed)
    decision = choose(facts, parse_gain(0), monkeypatch)

    def peaks(order: tuple[int, ...]) -> tuple[int, int]:
        held = facts.with_inputs(())
        return tuple(simulate(f, order, reuse=False).peak for f in (facts, held))  # type: ignore[return-value]

    own = peaks(FRAMEWORK)
    allowed = [p for p in map(peaks, all_orders(facts).values()) if p[1] <= own[1] and p <= own]
    assert decision.best.peak == min(allowed)[0]
    assert peaks(decision.best.order)[1] <= own[1]


def test_an_order_that_may_need_more_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best order of these graphs is worse where the caller holds what it gave."""
    for seed in (60, 87):
        facts = with_gradients(seed)
        cautious = choose(facts, parse_gain(0), monkeypatch).best.peak
        known = choose(replace(facts, extreme_inputs=()), parse_gain(0), monkeypatch).best.peak
        assert known < cautious


def test_small_gains_move_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = next(f for f in map(with_gradients, range(20)) if _can_gain(f, monkeypatch))
    assert not choose(facts, DEFAULT_GAIN, monkeypatch).gains


def _can_gain(facts: WrapperFacts, monkeypatch: pytest.MonkeyPatch) -> bool:
    return choose(facts, parse_gain(0), monkeypatch).gains


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_after_the_limit_only_what_is_needed_is_simulated(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = replace(with_gradients(3), extreme_inputs=())
    orders = list(all_orders(facts).values())
    done: list[tuple[tuple[int, ...], bool]] = []

    def counted(facts: WrapperFacts, order: tuple[int, ...], *, reuse: bool) -> Simulation:
        done.append((order, reuse))
        return simulate(facts, order, reuse=reuse)

    # Every simulation counts as a slow one.
    monkeypatch.setattr(choice, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(choice, "simulate", counted)
    monkeypatch.setattr(candidates._Solver, "orders", lambda *_: {OPTIMUM: orders[-1]})
    recorded = {"baseline": FRAMEWORK, "other": orders[1]}
    document = {"extra": {"orders": recorded, "chosen": "baseline"}}
    decision = decide(facts, document, reuse=True, seconds=seconds, name="calls")
    assert decision.own.order == FRAMEWORK
    needed = [(FRAMEWORK, True), (orders[-1], True)]
    optional = [(FRAMEWORK, False), (orders[1], True), (orders[1], False), (orders[-1], False)]
    # Each once, however often it is asked for.
    assert sorted(done) == sorted(needed + (optional if seconds else []))


@pytest.mark.parametrize("reuse", [False, True])
def test_peaks_that_are_small_enough_count_as_equal(
    reuse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"extra": {"orders": {"baseline": FRAMEWORK}, "chosen": "baseline"}}
    how: dict[str, Any] = {"reuse": reuse, "seconds": 60.0, "name": "calls"}
    seen = dict.fromkeys(("own order", "another order", "nothing fits", "reuse off"), 0)
    for seed in range(20):
        facts = random_calls(seed)
        orders = dict(list(all_orders(facts).items())[:8])
        draw = random.Random(seed)
        peaks = {
            (order, on): draw.randint(10, 20)
            for order in (FRAMEWORK, *orders.values())
            for on in {reuse, False}
        }

        def weighed(
            _: Any, order: Any, *, reuse: bool, known: Any = peaks, **__: Any
        ) -> SimpleNamespace:
            return SimpleNamespace(peak=known[order, reuse])

        monkeypatch.setattr(choice, "simulate", weighed)
        monkeypatch.setattr(candidates._Solver, "orders", lambda *_, some=orders: some)
        monkeypatch.setattr(candidates, "with_fewest_moves", lambda _, __, best, *___: best)
        own = peaks[FRAMEWORK, reuse]
        least = min(own, *peaks.values())
        for enough in range(least - 1, own + 2):
            decision = decide(facts, document, enough=enough, min_gain=parse_gain(0), **how)
            found = decision.best
            assert decision.least == least
            assert found.peak == peaks[found.order, found.reuse]
            if own <= enough:
                assert not decision.gains
                seen["own order"] += 1
            elif least <= enough:
                assert found.peak <= enough
                # Without reuse a graph takes longer, so only if no order with it fits.
                with_it = [peak for (_, on), peak in peaks.items() if on is reuse]
                assert found.reuse is (reuse and min(with_it) <= enough)
                seen["another order"] += 1
                seen["reuse off"] += found.reuse is not reuse
            else:
                assert found.peak == least
                seen["nothing fits"] += 1
    if not reuse:
        del seen["reuse off"]
    assert min(seen.values()) > 2, seen
