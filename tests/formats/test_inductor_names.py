"""Names of the same bytes in Inductor's files: renames by mutation, aliases, no bytes at all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from optsched.errors import FormatError, PlanError
from optsched.formats.inductor import read_inductor, recorded_orders
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges, peak_memory

INSTANCES = Path(__file__).parents[2] / "instances" / "inductor"


def buffer(name: str, size: int, deps: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "size_alloc": size,
        "size_free": size,
        "size": size,
        "is_input": False,
        "is_output": False,
        "deps": list(deps),
        "unmet_deps": list(deps),
        **more,
    }


def document(*buffers: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """Each buffer except inputs is made by a node of its own, `op<buffer>`, in this order."""
    made = [b["name"] for b in buffers if not b["is_input"]]
    nodes = [{"name": f"op{name}", "buffer_names": [name]} for name in made]
    return {"nodes": nodes, "buffers": list(buffers), "extra": extra}


def two_slices(**extra: Any) -> Graph:
    """The notes' case: two slices of one buffer that do not overlap, both overwritten."""
    return read_inductor(
        document(
            buffer("whole", 64),
            buffer("left", 0, ("whole",)),
            buffer("right", 0, ("whole",)),
            buffer("use_right", 4, ("whole", "right")),
            buffer("use_left", 4, ("whole", "left")),
            buffer("done", 1, ("use_left", "use_right"), is_output=True),
            mutation_real_name={"left": "whole", "right": "whole"},
            **extra,
        )
    )


RAW = [[], ["whole"], ["whole"], ["right"], ["left"], ["use_left", "use_right"]]


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"unmet_dep_names": RAW},
        {"unmet_dep_names": RAW, "pred_nodes": [[], [0], [0], [0, 2], [0, 1], [3, 4]]},
    ],
    ids=["names alone", "raw dependencies", "predecessors"],
)
def test_a_buffer_of_which_all_slices_are_overwritten_dies_with_the_last_of_them(
    extra: dict[str, Any],
) -> None:
    graph = two_slices(**extra)
    ids = graph.buffer_ids
    assert {graph.roots[ids[name]] for name in ("whole", "left", "right")} == {ids["whole"]}
    assert live_ranges(graph, range(6))[ids["whole"]].tolist() == [0, 5]
    assert peak_memory(graph, range(6)) == 64 + 4 + 4
    # The slices do not overlap: which of them is overwritten first is free.
    swapped = [0, 2, 1, 4, 3, 5]
    if extra:
        assert live_ranges(graph, swapped)[ids["whole"]].tolist() == [0, 5]


def test_mutations_of_mutations_follow_each_other() -> None:
    graph = read_inductor(
        document(
            buffer("a", 8),
            buffer("r0", 1, ("a",)),
            buffer("b", 0, ("a",)),
            buffer("r1", 1, ("b",)),
            buffer("c", 0, ("b",)),
            buffer("r2", 1, ("c",), is_output=True),
            mutation_real_name={"b": "a", "c": "a"},
        )
    )
    ids, ops = graph.buffer_ids, graph.op_ids
    assert graph.buffers[ids["c"]].alias_of == ids["b"]
    assert all(graph.buffers[ids[name]].mutates for name in "bc")
    # Readers of the old bytes run before they are overwritten.
    assert ops["opr0"] in graph.predecessors[ops["opb"]]
    assert ops["opr1"] in graph.predecessors[ops["opc"]]
    with pytest.raises(PlanError, match="which it needs"):
        live_ranges(graph, [0, 2, 1, 3, 4, 5])


def test_with_inductors_own_predecessors_the_orders_are_inductors() -> None:
    """They already say what a mutation waits for: no edge is added, its sorters sort the same."""
    graph = two_slices(unmet_dep_names=RAW, pred_nodes=[[], [0], [0], [0, 2], [0, 1], [3, 4]])
    assert not any(buffer.mutates for buffer in graph.buffers)
    assert graph.predecessors == ((), (0,), (0,), (0, 2), (0, 1), (3, 4))


def test_a_name_of_the_callers_bytes_and_a_none_layout_have_no_bytes() -> None:
    graph = read_inductor(
        document(
            buffer("running_mean", 0),
            buffer("nothing", 0),
            buffer("y", 4, ("nothing",), is_output=True),
            mutation_real_name={"running_mean": "primals_7"},
            layouts={"nothing": "NoneLayout"},
        )
    )
    assert all(buffer.alias_of is None for buffer in graph.buffers)
    assert peak_memory(graph, range(3)) == 4


def test_an_alias_with_bytes_of_its_own_is_counted_as_inductor_counts_it() -> None:
    """A slice of a concatenation: the estimate counts both, and a name without bytes only once."""
    graph = read_inductor(
        document(
            buffer("whole", 8),
            buffer("part", 8, ("whole",)),
            buffer("name", 0, ("whole",)),
            buffer("y", 1, ("part", "name"), is_output=True),
            aliases={"part": ["whole"], "name": ["whole"]},
        )
    )
    ids = graph.buffer_ids
    assert graph.buffers[ids["part"]].alias_of is None
    assert graph.buffers[ids["name"]].alias_of == ids["whole"]
    assert live_ranges(graph, range(4))[ids["whole"]].tolist() == [0, 4]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"mutation_real_name": {"b": "c", "c": "b"}}, "is a name of itself"),
        ({"mutation_real_name": {"b": 3}}, "b must be a string, got 3"),
        ({"aliases": {"b": "a"}}, "b must be an array"),
        ({"mutation_real_name": 7}, "mutation_real_name must be an object"),
    ],
)
def test_malformed_names_are_one_line(extra: dict[str, Any], words: str) -> None:
    rows = buffer("a", 4), buffer("b", 0, ("a",)), buffer("c", 0, ("b",))
    with pytest.raises(FormatError, match=words):
        read_inductor(document(*rows, **extra))


def test_real_graphs_have_views_and_keep_every_recorded_peak() -> None:
    views = 0
    for path in sorted(INSTANCES.glob("*.bwd.json.gz")):
        with gzip.open(path) as file:
            captured = json.load(file)
        graph, peaks = read_inductor(captured), captured["extra"]["peaks"]
        views += sum(b.alias_of is not None for b in graph.buffers)
        for name, order in recorded_orders(captured).items():
            if name in peaks:
                assert peak_memory(graph, order) == peaks[name], (path.name, name)
    assert views > 90
