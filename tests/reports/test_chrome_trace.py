"""The trace: what the Trace Event Format asks of each event, and that slices of a track nest."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np

from optsched.reports.chrome_trace import STEP, trace_document
from optsched.reports.report import Report
from optsched.reports.view import plan_view
from optsched.solver.pipeline import solve
from tests.reports.hostile import hostile_graph
from tests.support.generators import random_graph

REQUIRED = {
    "X": {"name", "cat", "ts", "dur", "pid", "tid", "args"},
    "C": {"name", "ts", "pid", "tid", "args"},
    "M": {"name", "ts", "pid", "tid", "args"},
}
METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def check_events(document: dict) -> None:
    """Keys that chrome://tracing and Perfetto need."""
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in document["traceEvents"]:
        assert set(event) == REQUIRED[event["ph"]] | {"ph"}
        assert isinstance(event["name"], str)
        for key in {"ts", "dur", "pid", "tid"} & set(event):
            assert type(event[key]) is int
            assert event[key] >= 0
        if event["ph"] == "M":
            assert event["name"] in METADATA
        if event["ph"] == "C":
            assert all(type(value) is int for value in event["args"].values())
        if event["ph"] == "X":
            assert event["dur"] > 0
            span = (event["ts"], event["ts"] + event["dur"])
            tracks.setdefault((event["pid"], event["tid"]), []).append(span)
    for spans in tracks.values():
        for (_, end), (start, _) in pairwise(sorted(spans)):
            assert end <= start


def test_the_diamond_in_full(two_plans: Report) -> None:
    document = trace_document(two_plans.views, 18)
    check_events(document)
    events = document["traceEvents"]
    after = [e for e in events if e["pid"] == 3]
    ops = [(e["name"], e["ts"], e["dur"]) for e in after if e["ph"] == "X"]
    assert ops == [("right", 0, STEP), ("left", STEP, STEP), ("join", 2 * STEP, STEP)]
    live = [e["args"]["bytes"] for e in after if e["name"] == "live bytes"]
    assert live == [16, 18, 14, 0]
    assert {e["args"]["bytes"] for e in after if e["name"] == "proven bound"} == {18}
    slab = [e for e in events if e["pid"] == 4]
    slices = {e["name"]: e for e in slab if e["ph"] == "X"}
    assert set(slices) == {"x", "a", "b", "right.workspace", "y"}
    assert (slices["x"]["ts"], slices["x"]["dur"]) == (0, 2 * STEP)
    by_track = sorted(slices.values(), key=lambda e: e["tid"])
    offsets = [e["args"]["offset"] for e in by_track]
    assert offsets == sorted(offsets)


def test_random_and_in_place_plans_are_valid_traces() -> None:
    for seed in range(12):
        graph = random_graph(np.random.default_rng(seed))
        for each in (graph, graph.with_inplace()):
            result = solve(each)
            assert result.plan is not None
            views = [plan_view(each, result.plan, "plan")]
            check_events(trace_document(views, result.peak_bound))


def test_hostile_names_stay_json() -> None:
    graph = hostile_graph()
    plan = solve(graph).plan
    assert plan is not None
    document = json.loads(json.dumps(trace_document([plan_view(graph, plan, "plan")], 1)))
    check_events(document)
    names = [event["name"] for event in document["traceEvents"]]
    assert "lone surrogate \\ud800" in names
    assert max(map(len, names)) < 200
