"""Lives of buffers: what a run shows against what its plan says."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from optsched.check.lifecycle import (
    LifecycleCheck,
    LifecycleError,
    LifeEvent,
    SeenEvent,
    check_lifecycle,
    plan_lifecycle,
)
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges
from tests.support.generators import random_graph, random_order

Steps = list[tuple[list[str], list[str]]]


def watched_run(seed: int) -> tuple[Graph, tuple[int, ...], Steps]:
    """A random graph, an order of it, and what a run of that allocates and releases."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 3 + seed % 8)
    order = random_order(rng, graph)
    steps: Steps = [([], []) for _ in order]
    ranges = live_ranges(graph, order).tolist()
    for b, buffer in enumerate(graph.buffers):
        start, end = ranges[b]
        if graph.roots[b] != b or buffer.external or not buffer.size or start >= end:
            continue
        if buffer.input is None:
            steps[start][0].append(buffer.name)
        if not graph.kept[b]:
            steps[end - 1][1].append(buffer.name)
    return graph, order, steps


@pytest.mark.parametrize("block", range(4))
def test_lives_are_the_live_ranges(block: int) -> None:
    """On random graphs with views, mutations, workspace and inputs of each kind."""
    for seed in range(500 * block, 500 * (block + 1)):
        check_lifecycle(*watched_run(seed))


def forget_release(steps: Steps, at: int) -> str:
    return steps[at][1].pop()


def forget_allocation(steps: Steps, at: int) -> str:
    return steps[at][0].pop()


def release_early(steps: Steps, at: int) -> str | None:
    """Release a buffer one step too soon; None if it lives for one step only."""
    name = steps[at][1].pop()
    born = next((i for i, (allocated, _) in enumerate(steps) if name in allocated), 0)
    if born >= at:
        return None
    steps[at - 1][1].append(name)
    return name


@pytest.mark.parametrize("change", [forget_release, forget_allocation, release_early])
def test_the_buffer_that_lives_otherwise_is_named(
    change: Callable[[Steps, int], str | None],
) -> None:
    found = 0
    for seed in range(200):
        graph, order, steps = watched_run(seed)
        column = 0 if change is forget_allocation else 1
        places = [at for at, step in enumerate(steps) if step[column] and at]
        if not places:
            continue
        name = change(steps, random.Random(seed).choice(places))
        if name is None:
            continue
        with pytest.raises(LifecycleError, match=f"buffer '{name}' is .* step") as raised:
            check_lifecycle(graph, order, steps)
        assert "\n" not in str(raised.value)
        found += 1
    assert found > 50


def test_messages_say_what_the_plan_has_instead() -> None:
    planned = [LifeEvent("x", 8, True), LifeEvent("y", 4, True), LifeEvent("x", 8, False)]

    def seen(*events: tuple[str, bool]) -> LifecycleCheck:
        check = LifecycleCheck(planned)
        for name, born in events:
            check.see([SeenEvent((name, "other"), born)], "here")
        return check

    seen(("x", True), ("y", True), ("x", False)).finish()
    for events, message in (
        ([("x", True), ("x", False)], "'other' is released here: the plan allocates 'y' of 4"),
        ([("x", True), ("z", True)], "'other' is allocated here: the plan allocates 'y'"),
        ([("x", True), ("y", True), ("z", True)], "'x' is still held here: the plan releases 'x'"),
    ):
        with pytest.raises(LifecycleError, match=message):
            seen(*events)
    with pytest.raises(LifecycleError, match="'x' is still held at the end"):
        seen(("x", True), ("y", True)).finish()
    with pytest.raises(LifecycleError, match="'y' is not there at the end"):
        seen(("x", True)).finish()


def test_steps_that_are_too_few() -> None:
    graph, order, steps = watched_run(3)
    assert sum(map(len, plan_lifecycle(graph, order)))
    with pytest.raises(LifecycleError, match=f"{len(order) - 1} steps were seen"):
        check_lifecycle(graph, order, steps[1:])
