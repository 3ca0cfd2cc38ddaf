"""Every public function with arguments of a wrong type: one line, or an answer."""

from __future__ import annotations

import contextlib
import inspect
import reprlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optsched
from optsched import (
    Buffer,
    GraphBuilder,
    Module,
    Op,
    OptschedError,
    PackingProblem,
    Plan,
    Pool,
    Question,
)
from tests.support.brute_recompute import training_graph
from tests.support.families.small import diamond
from tests.support.registries import registries_kept

GRAPH = diamond()
RESULT = optsched.solve(GRAPH, time_limit=5)
assert RESULT.plan is not None
PLAN, MODULE = RESULT.plan, Module("m", {"diamond": GRAPH}, "diamond")
STEP = training_graph(np.random.default_rng(3), rich=False)
PACKING = PackingProblem(size=[8, 4], start=[0, 2], end=[4, 6])
ORDER = [0, 1, 2]
ODD: list[Any] = [
    *(None, 3, -1, 2.5, float("nan"), True, "", "x", b"x", [], {}, (), [None], [3], {"x": 1}),
    *(object(), np.array([1.5]), print, GRAPH, RESULT, PACKING, PLAN, MODULE),
]
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Buffer": (("x", 4), {}),
    "Call": (("main", "op", ("body",)), {}),
    "Graph": (("g", (Op("f", writes=(0,)),), (Buffer("x", 8),)), {}),
    "GraphBuilder": ((), {}),
    "Limits": ((), {}),
    "MemoryModel": ((), {}),
    "Module": (("m", {"g": GRAPH}, "g"), {}),
    "Op": (("f",), {}),
    "OrderRules": ((), {}),
    "PackingProblem": ((), {"size": [8, 4], "start": [0, 2], "end": [4, 6]}),
    "Plan": ((PLAN.order, PLAN.offsets), {}),
    "PlanStore": (("new.store",), {}),
    "Pool": (("fast",), {}),
    "Question": ((GRAPH,), {}),
    "recompute": ((STEP, 12), {}),
    "answer": ((Question(GRAPH),), {}),
    "apply_plan": (("graph.json", "plan.json", "out"), {}),
    "fits": ((GRAPH, 64), {}),
    "certify": ((GRAPH,), {}),
    "check_module": ((MODULE, {"diamond": PLAN}), {}),
    "check_packing": ((PACKING, [0, 8]), {}),
    "check_plan": ((GRAPH, PLAN), {}),
    "compare_methods": ((GRAPH,), {"methods": "lpmf"}),
    "example": (("alexnet",), {}),
    "explain": ((GRAPH,), {}),
    "export_plan": ((RESULT, "plan.csv"), {"to": "csv"}),
    "from_networkx": ((optsched.to_networkx(GRAPH),), {}),
    "methods": ((), {}),
    "hunt": (("lpmf",), {"max_ops": 3, "max_bytes": 4, "max_tries": 5, "time_limit": 0.2}),
    "in_levels": ((GRAPH,), {}),
    "in_streams": ((GRAPH, {"a": ORDER}), {}),
    "live_ranges": ((GRAPH, ORDER), {}),
    "pack": ((PACKING,), {}),
    "peak_memory": ((GRAPH, ORDER), {}),
    "read_graph": (("graph.json",), {}),
    "read_module": (("graph.json",), {}),
    "read_packing": (("packing.csv",), {}),
    "read_plan": (("plan.json", GRAPH), {}),
    "register_format": (("mine", lambda source: False), {}),
    "register_ordering": (("mine",), {}),
    "register_packing": (("mine",), {}),
    "report": ((RESULT, "plan.json"), {}),
    "solve": ((GRAPH,), {}),
    "solve_module": ((MODULE,), {}),
    "timeline": ((GRAPH, ORDER), {}),
    "to_networkx": ((GRAPH,), {}),
    "tune": (([GRAPH], "plans.store"), {"jobs": 0, "work": 100}),
    "with_streams": ((GRAPH, ["a", "a", "b"]), {}),
    "write_graph": ((GRAPH, "graph.json"), {}),
    "write_module": ((MODULE, "module.json"), {}),
    "write_plan": ((RESULT, "plan.json"), {}),
}
"""A call of each function that is right."""
STARTS_PROCESSES = {("tune", "jobs"), ("tune", "engine"), ("tune", "address"), ("tune", "weights")}
CONTAINERS = {
    *("buffers", "calls", "inplace", "inplace_candidates", "keep_apart", "levels", "methods"),
    *("offsets", "ops", "orders", "pools"),
}
LIMITED = ("time_limit", "work", "workers", "seed")


def parameters(name: str) -> list[str]:
    """Return the parameters of a public function, with the limits that it takes as keywords."""
    listed = list(inspect.signature(getattr(optsched, name)).parameters.values())
    named = [p.name for p in listed if p.kind is not p.VAR_KEYWORD and not p.name.startswith("_")]
    limits = any("LimitKeywords" in str(p.annotation) for p in listed)
    return named + [x for x in LIMITED if limits and x not in named]


def call(name: str, parameter: str, value: Any) -> object:
    """Call a function with one argument that is odd."""
    args, named = CALLS[name]
    given, keywords = list(args), dict(named)
    position = parameters(name).index(parameter)
    if position < len(given):
        given[position] = value
    else:
        keywords[parameter] = value
    if "time_limit" in parameters(name) and not keywords.keys() & {"limits", "work", "max_tries"}:
        keywords.setdefault("time_limit", 1)
    return getattr(optsched, name)(*given, **keywords)


ARGUMENTS = [
    (name, parameter)
    for name in CALLS
    for parameter in parameters(name)
    if (name, parameter) not in STARTS_PROCESSES
]


@pytest.mark.parametrize(("name", "parameter"), ARGUMENTS)
def test_a_wrong_argument_is_one_line_or_makes_no_difference(
    name: str, parameter: str, tmp_path: Path
) -> None:
    with registries_kept(), contextlib.chdir(tmp_path):
        optsched.write_graph(GRAPH, "graph.json")
        optsched.write_plan(RESULT, "plan.json")
        for value in ODD:
            try:
                call(name, parameter, value)
            except OptschedError as error:
                said = str(error)
            except Exception as error:
                # What is wrong inside a container Python says itself.
                if parameter in CONTAINERS:
                    continue
                raise AssertionError(f"{name}({parameter}={reprlib.repr(value)})") from error
            else:
                said = ""
            assert "\n" not in said, reprlib.repr(value)


def test_every_public_function_is_among_them() -> None:
    # These need an extra: tests/plugins/inductor/test_capture_step.py, tests/frameworks/tflite.
    of_extras = {"capture_step", "from_fx", "tile"}
    known = {*CALLS, *of_extras, "Fit", "OptschedError", "ModuleResult", "PackingResult", "Result"}
    enums = {x for x in optsched.__all__ if str in getattr(getattr(optsched, x), "__mro__", ())}
    assert set(optsched.__all__) == known | enums


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: optsched.peak_memory(3, ORDER), "expected a Graph or a result, got int"),
        (lambda: optsched.in_levels(GRAPH, levels=3), "levels must be Sequence[Sequence[int]]"),
        (
            lambda: optsched.pack(PACKING, pools=["a"]),
            "a pool is a Pool, with a name",
        ),
        (lambda: optsched.check_packing(None, []), "problem must be PackingProblem, got None"),
        (lambda: optsched.solve(GRAPH, limits=[]), "limits must be a Limits, got list"),
        (lambda: optsched.hunt(3), "method wants a str, got int"),
        (lambda: optsched.hunt("lpmf", max_bytes=-1), "max_bytes must be at least 1, got -1"),
        (lambda: optsched.hunt("lpmf", source=MODULE), "source wants a Graph or PackingProblem"),
        (lambda: optsched.report(RESULT, "p.json", plans={}), "the result has no plan to show"),
        (lambda: optsched.read_graph(None), "read_graph(): path must be str | Path, got None"),
        (lambda: Pool("fast", "much"), "'much'"),
        (lambda: Question(GRAPH, objective="least"), "'least'"),
        (lambda: Module("m", "diamond", "d"), "graphs of a module wants a Mapping, got str"),
        (lambda: PackingProblem(keep_apart=[3]), "a list of buffers, got 3"),
    ],
)
def test_what_is_said(wrong: Callable[[], Any], message: str) -> None:
    with pytest.raises(OptschedError) as caught:
        wrong()
    assert message in str(caught.value)


def test_what_can_be_used_is_left_alone() -> None:
    plan = Plan(np.array(PLAN.order), list(PLAN.offsets))  # type: ignore[arg-type]
    assert plan == PLAN
    assert Pool("fast", "64KiB").capacity == 65536
    assert Question(GRAPH, objective="peak", capacity="1KiB").capacity == 1024  # type: ignore[arg-type]


def test_errors_of_ones_own_functions_stay_what_they_are() -> None:
    def fails(*_: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        optsched.solve(GRAPH, on_event=fails)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda build: build.op(3), "op number 0 has no name (got 3)"),
        (lambda build: build.op("f", reads=[3]), "op 'f' reads unknown buffer 3"),
        (lambda build: build.op("f", reads=3), "GraphBuilder.op(): reads must be Iterable[str]"),
        (lambda build: build.op("f", writes={"a": 2.5}), "buffer 'a': size must be an integer"),
        (lambda build: build.op("f", writes={"a": "4"}), "buffer 'a': size must be an integer"),
        (lambda build: build.op("f", workspace=-1), "size must be at least 0, got -1"),
        (lambda build: build.op("f", views={"v": 3}), "buffer 'v' is a view of unknown buffer 3"),
        (lambda build: build.op("f", control=["g"]), "has a control edge from unknown op 'g'"),
        (lambda build: build.input("x", None), "buffer 'x': size must be an integer, got None"),
        (lambda build: build.input("x", 4, "lost"), "'lost'"),
        (lambda build: build.output("nope"), "graph output names unknown buffer 'nope'"),
        (lambda build: build.output(3), "graph output names unknown buffer 3"),
        (lambda build: build.place("nope"), "placement names unknown buffer 'nope'"),
        (lambda build: build.inplace("f", "a", "b"), "unknown op 'f'"),
        (lambda build: build.keep_apart("a", "b"), "unknown buffer 'a'"),
        (lambda build: build.must_share("a", "b"), "unknown buffer 'a'"),
    ],
)
def test_a_builder_names_what_is_wrong(wrong: Callable[[GraphBuilder], Any], message: str) -> None:
    with pytest.raises(OptschedError) as caught:
        build = GraphBuilder("g")
        wrong(build)
        build.build()
    assert message in str(caught.value)
