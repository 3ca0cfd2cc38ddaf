"""Loops and branches that jax compiles now: what we prove of them, and the bytes that XLA takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

pytest.importorskip("jax", reason="the extra jax is not installed")

from heuristics.xla_module import heap_size, minimum_memory_for_module, schedule_module
from optsched import Graph, solve_module
from optsched.check.module import check_schedule
from optsched.formats.format import Source
from optsched.formats.hlo.logical import read_logical_module
from optsched.formats.hlo.read import read_hlo_module
from optsched.model.module import Module
from tests.support.xla_models import CALLING


class Compiled(NamedTuple):
    """A module's text, and the bytes that XLA allocates for temporaries and results."""

    text: Source
    bytes: int


@pytest.fixture(scope="module", params=CALLING, ids=lambda model: model.__name__)
def compiled(request: pytest.FixtureRequest) -> Compiled:
    make: Callable[[], Any] = request.param
    made = make().compile()
    use = made.memory_analysis()
    taken = use.temp_size_in_bytes + use.output_size_in_bytes - use.alias_size_in_bytes
    return Compiled(Source(made.as_text().encode(), make.__name__), taken)


def as_listed(module: Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(range(len(graph.ops))) for name, graph in module.graphs.items()}


def test_what_is_proved_is_just_below_what_xla_allocates(compiled: Compiled) -> None:
    module = read_hlo_module(compiled.text).with_graphs(Graph.with_inplace)
    found = solve_module(module, time_limit=60)
    assert found.status == "optimal"
    assert 0.98 * compiled.bytes < found.entry.peak_bound <= compiled.bytes
    assert check_schedule(module, as_listed(module))[module.entry] >= found.entry.peak_bound


def test_xlas_schedule_is_one_and_needs_no_less_than_the_minimum(compiled: Compiled) -> None:
    module = read_logical_module(compiled.text)
    best = solve_module(module, objective="peak", time_limit=60)
    assert best.status == "optimal"
    least = best.entry.peak or 0
    assert check_schedule(module, as_listed(module))[module.entry] >= least
    for method in ("xla_list", "xla_dfs", "xla_post_order", "xla_default"):
        found = schedule_module(module, method)
        assert found.memory_by_computation[module.entry] >= least
        whole = minimum_memory_for_module(module, found.orders)
        assert heap_size(module, found.orders) >= whole
