"""Generated families: valid, deterministic, of the size asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from optsched.model.graph import Graph
from optsched.ordering import solve_order
from tests.support.families.cells import darts_cell, randwire_cell
from tests.support.families.copies import accumulated, branches, microbatches
from tests.support.families.shapes import layered, series_parallel, unet
from tests.support.families.stacks import experts, recurrent, transformer


@pytest.mark.parametrize(
    ("make", "ops", "least"),
    [
        (partial(layered, 5, 0), 21, None),
        (partial(series_parallel, 30, 1), 30, None),
        # The last concatenation: 64 channels of 16 pixels twice in, all out.
        (partial(unet, 2), 26, 4 * 64 * 16),
        # The concatenation reads four buffers of a unit and writes one of four.
        (partial(darts_cell, 1, 1), 29, 9),
        (partial(darts_cell, 1, 1, preprocess=False), 27, 8),
        (partial(transformer, 2), 85, 54_000),
        (partial(microbatches, 3, 4), 43, 571),
        (partial(accumulated, 4, 2), 352, 69_000),
        (partial(branches, 4, 20, 1), 81, 500),
        (partial(experts, 1), 124, None),
        (partial(recurrent, 4), None, None),
        (partial(randwire_cell, 0, nodes=8, channels=1, side=1), None, None),
    ],
)
def test_families(make: Callable[[], Graph], ops: int | None, least: int | None) -> None:
    graph = make()
    assert graph == make()
    assert ops in (None, len(graph.ops))
    found = solve_order(graph)
    assert found.proof is not None
    assert least in (None, found.peak)


def test_training_keeps_what_the_backward_reads() -> None:
    whole, step = unet(2), unet(2, train=True)
    assert len(step.ops) > 2 * len(whole.ops)
    assert sum("dw" in op.name for op in step.ops) == 12
