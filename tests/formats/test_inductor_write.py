"""Graphs written as TorchInductor's simulator file and read back."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optsched.cli import main
from optsched.errors import FormatError
from optsched.formats import read_graph, write_graph
from optsched.formats.inductor import read_inductor, recorded_orders
from optsched.formats.inductor_write import write_inductor
from optsched.model.dependencies import reachable
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges, peak_memory
from tests.support.families.small import diamond
from tests.support.generators import FEATURES, random_graph, random_order

INSTANCES = Path(__file__).parents[2] / "instances" / "inductor"


def there_and_back(graph: Graph) -> Graph:
    return read_inductor(json.loads(write_inductor(graph)), name=graph.name)


def test_live_ranges_and_orders_come_back() -> None:
    rng = np.random.default_rng(1)
    for _ in range(150):
        features = FEATURES - {"pins", "pools", "alignment"}
        graph = random_graph(rng, int(rng.integers(1, 11)), features=features)
        back = there_and_back(graph)
        assert reachable(back.predecessors) == reachable(graph.predecessors)
        for _ in range(3):
            order = random_order(rng, graph)
            assert peak_memory(back, order) == peak_memory(graph, order)
            ranges, found = live_ranges(graph, order), live_ranges(back, order)
            for b, buffer in enumerate(graph.buffers):
                if graph.arrays.size[b]:
                    assert (found[back.buffer_ids[buffer.name]] == ranges[b]).all(), buffer.name


def test_in_place_candidates_come_back() -> None:
    graph = diamond()
    pair = (graph.op_ids["left"], graph.buffer_ids["a"], graph.buffer_ids["x"])
    back = there_and_back(replace(graph, inplace_candidates=(pair,)))
    assert back.inplace_candidates == (
        (back.op_ids["left"], back.buffer_ids["a"], back.buffer_ids["x"]),
    )


@pytest.mark.parametrize("name", ["alexnet_bs128.bwd", "lstm_t35_bs20.fwd", "unet_bs4.bwd"])
def test_captured_graphs_are_written_with_torchs_own_keys_and_peaks(name: str) -> None:
    with gzip.open(INSTANCES / f"{name}.json.gz") as file:
        captured = json.load(file)
    graph = read_inductor(captured)
    written = json.loads(write_inductor(graph))
    assert [set(row) for row in written["nodes"]] == [set(row) for row in captured["nodes"]]
    assert set(written["buffers"][0]) == set(captured["buffers"][0])
    theirs = {row["name"]: row for row in captured["buffers"]}
    for row in written["buffers"]:
        if row["is_input"]:
            assert row == theirs[row["name"]]
    back = read_inductor(written)
    for method, order in recorded_orders(captured).items():
        assert peak_memory(back, order) == peak_memory(graph, order), method


@pytest.mark.parametrize(
    ("change", "words"),
    [({"pool": "far"}, "pool 'far'"), ({"pin": 0}, "pin 0"), ({"alignment": 8}, "alignment 8")],
)
def test_what_has_no_place_in_the_file_is_refused(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    graph = diamond()
    buffers = (replace(graph.buffers[0], **change), *graph.buffers[1:])  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=f"buffer 'x' has the {words}, which a simulator file"):
        write_graph(replace(graph, buffers=buffers), tmp_path / "g.json", format="inductor")
    assert not (tmp_path / "g.json").exists()


def test_convert_writes_it(tmp_path: Path) -> None:
    write_graph(diamond(), tmp_path / "g.json")
    made = tmp_path / "simulator.json.gz"
    assert main(["convert", str(tmp_path / "g.json"), "--to", "inductor", "-o", str(made)]) == 0
    assert peak_memory(read_graph(made), [1, 0, 2]) == 18
