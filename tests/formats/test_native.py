"""Both native formats: no loss, schemas that agree with the reader, errors that name the place."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from operator import delitem, getitem, setitem
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from optsched.check.plan import check_plan
from optsched.errors import FormatError, GraphError, PlanError
from optsched.formats.native import graph_document, read_graph_document
from optsched.formats.native_packing import packing_document, read_packing_document
from optsched.formats.native_plan import plan_document, read_plan_document
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, make_plan
from tests.support.documents import ROOT
from tests.support.generators import FEATURES, PLANNABLE, graphs, random_graph, random_order
from tests.support.schemas import schema

GRAPH_SCHEMA = Draft202012Validator(schema("graph-1"))
PLAN_SCHEMA = Draft202012Validator(schema("plan-1"))
PAGE = (ROOT / "docs" / "reference" / "file-formats.md").read_text("utf-8")


def stacked_plan(graph: Graph, seed: int = 0) -> Plan:
    """A valid plan of a random order that shares no byte."""
    order = random_order(np.random.default_rng(seed), graph)
    problem, _ = packing_problem(graph, order)
    offsets, at = np.zeros(len(problem), np.int64), 0
    for i, (size, alignment) in enumerate(zip(problem.size, problem.alignment, strict=True)):
        offsets[i] = -(-at // alignment) * alignment
        at = int(offsets[i] + size)
    return make_plan(graph, order, offsets)


@settings(max_examples=60, deadline=None)
@given(graphs(features=FEATURES))
def test_graphs_round_trip(graph: Graph) -> None:
    document = json.loads(json.dumps(graph_document(graph)))
    GRAPH_SCHEMA.validate(document)
    assert read_graph_document(document) == graph


@settings(max_examples=50, deadline=None)
@given(graphs(features=PLANNABLE | {"shuffled"}))
def test_plans_round_trip(graph: Graph) -> None:
    plan = stacked_plan(graph)
    claims = {"peak_bound": 0, "peak_proof": None, "objective": "slab", "instance": "ignored"}
    document = json.loads(json.dumps(plan_document(graph, plan, claims)))
    PLAN_SCHEMA.validate(document)
    assert "instance" not in document
    found, said = read_plan_document(graph, document)
    assert found == plan
    assert said["graph"] == graph.name
    check_plan(graph, found, peak=said["peak"], slab=said["slab"])


def test_defaults_are_left_out() -> None:
    build = GraphBuilder("small")
    build.op("a", writes={"x": 4})
    assert graph_document(build.build()) == {
        "format": "optsched-graph/1",
        "name": "small",
        "ops": [{"name": "a", "writes": ["x"]}],
        "buffers": [{"name": "x", "size": 4}],
    }


def test_workspace_in_bytes_is_what_the_builder_makes() -> None:
    document = {
        "format": "optsched-graph/1",
        "ops": [{"name": "a", "writes": ["x"], "workspace": 7}],
        "buffers": [{"name": "x", "size": 4}],
    }
    build = GraphBuilder("graph")
    build.op("a", writes={"x": 4}, workspace=7)
    assert read_graph_document(document) == build.build()


def test_examples_of_the_readme() -> None:
    texts = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    # The first is a module, and the last the costs of ops.
    _, graph_text, packing_text, plan_text, _ = texts
    GRAPH_SCHEMA.validate(json.loads(graph_text))
    PLAN_SCHEMA.validate(json.loads(plan_text))
    graph = read_graph_document(json.loads(graph_text))
    plan, claims = read_plan_document(graph, json.loads(plan_text))
    check_plan(graph, plan, peak=claims["peak"], slab=claims["slab"])
    assert len(graph.ops) == 4
    packing = json.loads(packing_text)
    Draft202012Validator(schema("packing-1")).validate(packing)
    assert packing_document(read_packing_document(packing)) == {
        key: value for key, value in packing.items() if key != "must_share"
    }
    for buffer_key in ("alias_of", "mutates", "birth", "alignment", "pool", "pin"):
        assert f"`{buffer_key}`" in PAGE


def test_schemas_are_valid_and_closed() -> None:
    for name in ("graph-1", "plan-1", "packing-1"):
        Draft202012Validator.check_schema(schema(name))
        assert schema(name)["additionalProperties"] is False


GRAPH: dict[str, Any] = {
    "format": "optsched-graph/1",
    "name": "g",
    "ops": [
        {"name": "a", "reads": ["x"], "writes": ["y"], "workspace": 3},
        {"name": "b", "reads": ["y"], "writes": ["z", "v"], "control": ["a"]},
    ],
    "buffers": [
        {"name": "x", "size": 4, "input": "freed"},
        {"name": "y", "size": 4, "alignment": 2, "pin": 6},
        {"name": "z", "size": 4, "output": "live"},
        {"name": "v", "alias_of": "y"},
    ],
    "inplace": [{"op": "a", "output": "y", "input": "x"}],
}
PLAN: dict[str, Any] = {
    "format": "optsched-plan/1",
    "graph": "g",
    "order": ["a", "b"],
    "offsets": {"x": 0, "y": 6, "a.workspace": 10, "z": 0},
    "peak": 11,
    "slab": 13,
    "slab_bound": 11,
    "versions": {"optsched": "0.1.0"},
}


def put(*path: Any) -> Callable[[Any], None]:
    """Return an edit that sets the value at a path."""
    *place, key, value = path
    return lambda document: setitem(reduce(getitem, place, document), key, value)


def drop(*path: Any) -> Callable[[Any], None]:
    """Return an edit that removes what is at a path."""
    *place, key = path
    return lambda document: delitem(reduce(getitem, place, document), key)


# What a schema can see: refused by schema and reader alike, the reader naming place and value.
MALFORMED_GRAPHS = {
    "no format": (drop("format"), "format is missing"),
    "later version": (put("format", "optsched-graph/2"), "may need a newer optsched"),
    "format is a number": (put("format", 1), "format must be a string, got 1"),
    "no ops": (drop("ops"), "ops is missing"),
    "no buffers": (drop("buffers"), "buffers is missing"),
    "ops is an object": (put("ops", {}), "ops must be an array"),
    "unknown key": (put("extra", 1), "graph: unknown key 'extra'; this file may need a newer"),
    "unknown key of an op": (put("ops", 1, "when", 1), "op 'b': unknown key 'when'"),
    "unknown key of a buffer": (
        put("buffers", 0, "dtype", "f4"),
        "buffer 'x': unknown key 'dtype'",
    ),
    "unknown key in-place": (put("inplace", 0, "x", 1), "candidate number 0: unknown key 'x'"),
    "in-place without op": (drop("inplace", 0, "op"), "op is missing"),
    "op is a string": (put("ops", 0, "a"), "op number 0: expected an object, got 'a'"),
    "op without name": (drop("ops", 0, "name"), "op number 0: name is missing"),
    "op with empty name": (put("ops", 1, "name", ""), "op number 1 has no name"),
    "buffer without name": (drop("buffers", 1, "name"), "buffer number 1: name is missing"),
    "name is a number": (put("buffers", 1, "name", 7), "name must be a string, got 7"),
    "size missing": (drop("buffers", 0, "size"), "buffer 'x': size is missing"),
    "size null": (put("buffers", 0, "size", None), "buffer 'x': size is missing"),
    "size fraction": (
        put("buffers", 0, "size", 1.5),
        "size must be an integer of at least 0, got 1.5",
    ),
    "size text": (put("buffers", 0, "size", "4"), "size must be an integer of at least 0, got '4'"),
    "size boolean": (put("buffers", 0, "size", True), "got True"),
    "size negative": (put("buffers", 0, "size", -1), "size must be at least 0, got -1"),
    "alignment too large": (
        put("buffers", 0, "alignment", 2**63),
        "alignment 9223372036854775808 is above the limit of 2**62 bytes",
    ),
    "pin too large": (put("buffers", 0, "pin", 2**63), "pin 9223372036854775808 is above"),
    "size too large": (put("buffers", 0, "size", 2**63), "above the limit"),
    "alignment 0": (put("buffers", 1, "alignment", 0), "alignment must be at least 1, got 0"),
    "pin negative": (put("buffers", 1, "pin", -2), "pin must be at least 0, got -2"),
    "pin null": (put("buffers", 1, "pin", None), "pin must be an integer"),
    "unknown input policy": (
        put("buffers", 0, "input", "gone"),
        "input must be one of excluded",
    ),
    "unknown output policy": (put("buffers", 2, "output", 1), "output must be a string"),
    "view with size": (put("buffers", 3, "size", 4), "buffer 'v' is a view"),
    "view with pin": (put("buffers", 3, "pin", 4), "buffer 'v' is a view"),
    "view born": (put("buffers", 3, "birth", "a"), "buffer 'v' is a view"),
    "view as input": (put("buffers", 3, "input", "freed"), "buffer 'v' is a view"),
    "view with allocation": (put("buffers", 3, "output", "own"), "buffer 'v' is a view"),
    "mutation without view": (put("buffers", 1, "mutates", True), "it is not a view"),
    "mutates as text": (put("buffers", 3, "mutates", "yes"), "mutates must be true or false"),
    "reads a number": (put("ops", 0, "reads", [1]), "op 'a': reads holds 1, expected strings"),
    "reads is text": (put("ops", 0, "reads", "x"), "op 'a': reads must be an array, got 'x'"),
    "writes twice": (put("ops", 1, "writes", ["z", "z", "v"]), "'z' has two producers"),
    "workspace fraction": (put("ops", 0, "workspace", 0.5), "workspace must be an integer"),
    "workspace negative": (put("ops", 0, "workspace", -1), "workspace must be at least 0"),
}

# What only the reader can see.
WRONG_GRAPHS = {
    "unknown read": (put("ops", 0, "reads", ["q"]), "op 'a': reads names unknown buffer 'q'"),
    "unknown use": (put("ops", 0, "uses", ["q"]), "op 'a': uses names unknown buffer 'q'"),
    "unknown control": (put("ops", 0, "control", ["q"]), "op 'a': control names unknown op 'q'"),
    "unknown workspace": (put("ops", 0, "workspace", "q"), "workspace names unknown buffer 'q'"),
    "foreign workspace": (put("ops", 0, "workspace", "z"), "among the buffers it writes"),
    "unknown root": (put("buffers", 3, "alias_of", "q"), "alias_of names unknown buffer 'q'"),
    "unknown birth": (put("buffers", 1, "birth", "q"), "birth names unknown op 'q'"),
    "unknown in-place": (put("inplace", 0, "op", "q"), "op names unknown op 'q'"),
    "duplicate op": (put("ops", 1, "name", "a"), "op 'a' is defined twice"),
    "duplicate buffer": (
        lambda document: document["buffers"].append({"name": "x", "size": 1}),
        "buffer 'x' is defined twice",
    ),
    "size is 4.0": (put("buffers", 0, "size", 4.0), "size must be an integer"),
    "sum too large": (put("buffers", 0, "size", 2**62), "above the limit of 2**62 bytes"),
}

MALFORMED_PLANS = {
    "no order": (drop("order"), "order is missing"),
    "no peak": (drop("peak"), "peak is missing"),
    "later version": (put("format", "optsched-plan/7"), "may need a newer optsched"),
    "unknown key": (put("seed", 1), "unknown key 'seed'"),
    "order of numbers": (put("order", [0, 1]), "order holds 0, expected strings"),
    "offsets as list": (put("offsets", [0, 1]), "offsets must be an object"),
    "offset negative": (put("offsets", "x", -4), "offsets: x must be at least 0, got -4"),
    "offset fraction": (put("offsets", "x", 0.5), "offsets: x must be an integer"),
    "offset null": (put("offsets", "x", None), "offsets: x must be an integer"),
    "bound as text": (put("slab_bound", "11"), "slab_bound must be an integer"),
    "objective null": (put("objective", None), "objective must be a string"),
    "version number": (put("versions", "optsched", 1), "optsched must be a string"),
}

WRONG_PLANS = {
    "unknown op": (put("order", ["a", "q"]), "plan names op 'q', which is not in graph 'g'"),
    "unknown buffer": (put("offsets", "q", 0), "plan names buffer 'q'"),
    "offset of a view": (put("offsets", "v", 6), "view 'v' an offset: only its root 'y'"),
}


def edited(document: dict[str, Any], edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    edit(changed)
    return changed


def test_the_documents_to_be_spoilt_are_good() -> None:
    GRAPH_SCHEMA.validate(GRAPH)
    PLAN_SCHEMA.validate(PLAN)
    graph = read_graph_document(GRAPH)
    plan, claims = read_plan_document(graph, PLAN)
    check_plan(graph, plan, peak=claims["peak"], slab=claims["slab"])


@pytest.mark.parametrize("case", MALFORMED_GRAPHS)
def test_schema_and_reader_refuse_the_same_graphs(case: str) -> None:
    edit, message = MALFORMED_GRAPHS[case]
    document = edited(GRAPH, edit)
    assert not GRAPH_SCHEMA.is_valid(document)
    with pytest.raises((FormatError, GraphError), match=re.escape(message)):
        read_graph_document(document)


@pytest.mark.parametrize("case", WRONG_GRAPHS)
def test_reader_sees_what_no_schema_can(case: str) -> None:
    edit, message = WRONG_GRAPHS[case]
    document = edited(GRAPH, edit)
    assert GRAPH_SCHEMA.is_valid(document)
    with pytest.raises((FormatError, GraphError), match=re.escape(message)):
        read_graph_document(document)


@pytest.mark.parametrize("case", [*MALFORMED_PLANS, *WRONG_PLANS])
def test_bad_plans_are_refused(case: str) -> None:
    edit, message = (MALFORMED_PLANS | WRONG_PLANS)[case]
    document = edited(PLAN, edit)
    assert PLAN_SCHEMA.is_valid(document) == (case in WRONG_PLANS)
    with pytest.raises((FormatError, PlanError), match=re.escape(message)):
        read_plan_document(read_graph_document(GRAPH), document)


def test_random_edits_never_crash_the_reader() -> None:
    """Replace random values by random others: the reader agrees with the schema or is stricter."""
    rng = np.random.default_rng(3)
    values: list[Any] = [
        None,
        True,
        -1,
        0,
        2,
        10**30,
        1.5,
        "",
        "x",
        "op1",
        [],
        ["x"],
        [[]],
        {},
        {"x": 1},
    ]
    for _ in range(600):
        document = graph_document(random_graph(rng, 4, features=FEATURES))
        at: Any = document
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = keys[int(rng.integers(len(keys)))]
            if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.8:
                at = at[key]
                continue
            at[key] = copy.deepcopy(values[int(rng.integers(len(values)))])
            break
        with suppress(FormatError, GraphError):
            read_graph_document(document)
            GRAPH_SCHEMA.validate(document)


def test_a_plan_keeps_how_best_and_bound_moved() -> None:
    graph = random_graph(np.random.default_rng(1))
    trace: list[dict[str, Any]] = [
        {"microseconds": 7, "incumbent": None, "bound": 0, "source": "simple bound"},
        {"microseconds": 90, "incumbent": 18, "bound": 18, "source": "order search"},
    ]
    document = plan_document(graph, stacked_plan(graph), {"trace": trace})
    assert not list(PLAN_SCHEMA.iter_errors(document))
    assert read_plan_document(graph, document)[1]["trace"] == trace
    trace[0]["microseconds"] = -1
    assert list(PLAN_SCHEMA.iter_errors(document))
    with pytest.raises(FormatError, match="trace event number 0: microseconds"):
        read_plan_document(graph, document)
