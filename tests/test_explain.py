"""Explanations: the bytes add up, and what a smaller buffer brings is so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.small_graphs.graphs import diamond
from optsched.cli import main
from optsched.explain import explain
from optsched.formats import write_graph
from optsched.graph import Graph
from optsched.ordering import closure_bound
from optsched.report.explain import explain_record, explain_text
from tests.brute import least_peak
from tests.generators import random_graph
from tests.ordering.test_inplace import some_graph


def resized(graph: Graph, buffer: int, size: int) -> Graph:
    smaller = replace(graph.buffers[buffer], size=size)
    return replace(graph, buffers=(*graph.buffers[:buffer], smaller, *graph.buffers[buffer + 1 :]))


def test_random_graphs_are_explained_to_the_byte() -> None:
    rng = np.random.default_rng(8)
    for _ in range(120):
        graph = random_graph(rng, ops=int(rng.integers(0, 10)))
        found = explain(graph)
        assert sum(row.size for row in found.buffers) == found.bound
        assert found.bound == closure_bound(graph).value <= least_peak(graph) <= found.peak
        for row in found.buffers:
            assert row.holders or row.output or row.producer == found.op
            assert row.size == graph.buffers[row.buffer].size > 0
        for change in found.changes:
            size = graph.buffers[change.buffer].size - change.smaller_by
            least = closure_bound(resized(graph, change.buffer, 0)).value
            assert closure_bound(resized(graph, change.buffer, size)).value == least == change.bound
            if change.smaller_by:
                larger = closure_bound(resized(graph, change.buffer, size + 1)).value
                assert larger == least + 1
            else:
                assert least == found.bound
        text = explain_text(explain_record(graph, found))
        assert f"{found.bound:,} bytes" in text


def test_in_place_explanations_add_up_and_changes_are_the_smallest() -> None:
    rng = np.random.default_rng(9)
    written = helped = 0
    for _ in range(60):
        graph = some_graph(rng, 9, max_size=6)
        found = explain(graph, changes=3)
        saved = sum(graph.buffers[output].size for output, _ in found.shared)
        assert sum(row.size for row in found.buffers) - saved == found.bound
        assert found.bound == closure_bound(graph).value <= least_peak(graph) <= found.peak
        live = {row.buffer for row in found.buffers}
        assert all({output, source} <= live for output, source in found.shared)
        for change in found.changes:
            size = graph.buffers[change.buffer].size
            bounds = [
                closure_bound(resized(graph, change.buffer, t)).value for t in range(size + 1)
            ]
            assert change.bound == min(bounds)
            largest = max(t for t, bound in enumerate(bounds) if bound == min(bounds))
            assert size - change.smaller_by == largest
            helped += change.smaller_by > 0
        written += len(found.shared)
        text = explain_text(explain_record(graph, found))
        assert text.count("in place:") == len(found.shared)
    assert written >= 5
    assert helped >= 10


def test_a_bottleneck_names_op_buffers_and_holders() -> None:
    record = explain_record(diamond(), explain(diamond()))
    assert json.loads(json.dumps(record)) == record
    at = {row["name"]: row for row in record["buffers"]}
    assert sum(row["size"] for row in record["buffers"]) == record["bound"]
    assert record["at"] == "op"
    assert all(row["held_by"] or row["output"] or row["producer"] for row in at.values())


def test_the_command_prints_text_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "diamond.json"
    write_graph(path, diamond())
    assert main(["explain", str(path)]) == 0
    assert "no order has a peak below" in capsys.readouterr().out
    assert main(["explain", str(path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {"bound", "op", "buffers", "changes", "peak_of_quick_orders"} <= set(record)
