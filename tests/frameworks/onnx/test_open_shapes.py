"""Open dimensions: ONNX Runtime writes in place where it knows sizes or names of all."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra runtimes is not installed")


from optsched import apply_plan, peak_memory, read_graph, solve
from optsched.formats import read_recorded
from optsched.formats.onnx.rules import BLOCK
from optsched.measure import measure_model
from optsched.measure.onnxruntime import OPEN, request, run_all
from optsched.measure.request import Request
from optsched.model.memory_model import MemoryModel
from tests.frameworks.onnx.build import (
    BOOL,
    INT64,
    body,
    candidates,
    model,
    node,
    sizes,
    value,
    weight,
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None,
    reason="the counter of heap blocks needs Linux and a C compiler",
)
ROWS, COLUMNS = 4, 256
RUNS = {"enable_mem_reuse": False, "graph_optimization_level": "ORT_DISABLE_ALL"}


def chain(
    *makes: Any,
    shape: Sequence[Any] = ("n", COLUMNS),
    stated: Any = None,
    more: Sequence[Any] = (),
    weights: Sequence[Any] = (),
) -> Any:
    """Nodes that make `a`, which a Relu may overwrite; `stated` are shapes between ops, by name."""
    first = makes or (node("Exp", "x", "a", "e"),)
    last = (node("Relu", "a", "c", "r"), node("ReduceSum", "c", "y", "s", keepdims=0))
    inputs = [value("x", shape), *more]
    made = model([*first, *last], inputs, [value("y", [])], weights)
    made.graph.value_info.extend(value(name, shape) for name, shape in (stated or {}).items())
    return made


def numbers(name: str, *values: int) -> Any:
    return weight(name, len(values), kind=INT64, values=values)


def branches(shape: Any) -> Any:
    inside = [
        body([node(kind, "x", kind, kind)], [], [value(kind, shape)]) for kind in ("Exp", "Neg")
    ]
    return node("If", "flag", "a", "if", then_branch=inside[0], else_branch=inside[1])


FLAG = value("flag", [], BOOL)
RESHAPED = (node("Reshape", "x,to", "b", "reshape"), node("Neg", "b", "a", "neg"))
BY_SHAPE = (node("Shape", "x", "to", "shape"), *RESHAPED)
NAMED, UNNAMED = ("n", COLUMNS), (None, COLUMNS)
CASES = {
    "sizes": (chain(shape=(ROWS, COLUMNS)), True),
    "named": (chain(), True),
    "two names": (chain(shape=("n", "m")), True),
    "unnamed": (chain(shape=UNNAMED), False),
    "minus one": (chain(shape=(-1, COLUMNS)), False),
    "a question mark is a name": (chain(shape=("?", COLUMNS)), True),
    "named between": (chain(shape=UNNAMED, stated={"a": ("k", COLUMNS)}), True),
    "sizes between": (chain(shape=UNNAMED, stated={"a": (ROWS, COLUMNS)}), True),
    "unnamed between": (chain(shape=UNNAMED, stated={"a": UNNAMED}), False),
    "result of another name": (chain(stated={"c": ("k", COLUMNS)}), False),
    "operand of another name": (chain(stated={"a": ("k", COLUMNS)}), True),
    "result of a size": (chain(stated={"c": (ROWS, COLUMNS)}), False),
    "kept by reshape": (chain(*RESHAPED, weights=[numbers("to", 0, -1)]), True),
    "made by reshape": (chain(*RESHAPED, weights=[numbers("to", -1, 64)]), False),
    "numbers of a shape": (chain(*BY_SHAPE), False),
    "double": (chain(node("Concat", "x,x", "a", "join", axis=0)), False),
    "other axis": (chain(node("Concat", "x,x", "a", "join", axis=1)), True),
    "equal names": (chain(node("Add", "x,z", "a", "add"), more=[value("z", NAMED)]), True),
    "other names": (chain(node("Add", "x,z", "a", "add"), more=[value("z", ("k", 256))]), False),
    "a name and a size": (chain(node("Add", "x,z", "a", "add"), more=[value("z", (4, 256))]), True),
    "a name and none": (chain(node("Add", "x,z", "a", "add"), more=[value("z", UNNAMED)]), False),
    "turned": (chain(node("Transpose", "x", "a", "turn")), True),
    "branches": (chain(branches(None), more=[FLAG]), True),
    "named branches": (chain(branches(NAMED), shape=UNNAMED, more=[FLAG]), True),
    "unnamed branches": (chain(branches(None), shape=UNNAMED, more=[FLAG]), False),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Each model's file, and its run with a profile."""
    folder = tmp_path_factory.mktemp("open")
    runs, paths = [], [folder / f"{number}.onnx" for number in range(len(CASES))]
    for path, (made, _) in zip(paths, CASES.values(), strict=True):
        path.write_bytes(made.SerializeToString())
        given = []
        for x in made.graph.input:
            shape = [] if x.name == "flag" else [ROWS, COLUMNS]
            kind = "bool" if x.name == "flag" else "float32"
            given.append({"name": x.name, "type": kind, "shape": shape, "value": 1, "fixed": True})
        profile = {"enable_profiling": True, "profile_file_prefix": str(path.with_suffix(""))}
        runs.append(request(str(path), given, **RUNS, **profile))
    return dict(zip(CASES, zip(paths, run_all(runs, str(folder)), strict=True), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_planned_is_held_with_a_profile(ran: Any, case: str) -> None:
    (path, run), in_place = ran[case], CASES[case][1]
    graph = read_graph(path, profile=run["profile"])
    order = read_recorded(path, profile=run["profile"])["ort"]
    assert (("r", "c", "a") in candidates(graph)) == in_place
    assert peak_memory(MemoryModel(align=BLOCK).apply(graph), order) == run["held"]


@pytest.mark.parametrize("case", CASES)
def test_sizes_that_are_given_are_those_of_the_planned_file(tmp_path: Path, case: str) -> None:
    made = CASES[case][0]
    (path := tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    dims = dict.fromkeys(("n", "k", "x.0", "z.0"), ROWS) | {"m": COLUMNS}
    dims = {name: n for name, n in dims.items() if name in _open_names(made)}
    graph = read_graph(path, dims=dims)
    apply_plan(path, solve(graph, time_limit=1), planned := tmp_path / "planned.onnx")
    keeps = "branches" in case
    assert (("r", "c", "a") in candidates(graph)) == (CASES[case][1] if keeps else True)
    if not keeps:
        again = read_graph(planned)
        assert set(candidates(again)) == set(candidates(graph))
        assert sizes(again) == sizes(graph)


@pytest.mark.parametrize("stated", [(3, COLUMNS), (COLUMNS,)])
def test_the_planned_file_states_no_stale_shape(tmp_path: Path, stated: Sequence[int]) -> None:
    # ONNX Runtime takes a shape that contradicts the inputs for unknown, and warns.
    made = chain(shape=(ROWS, COLUMNS), stated={"a": stated})
    (path := tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    graph = read_graph(path)
    planned = tmp_path / "planned.onnx"
    apply_plan(path, solve(graph, time_limit=1), planned)
    x = {"name": "x", "type": "float32", "shape": [ROWS, COLUMNS], "value": 1, "fixed": True}
    before, after = run_all([request(str(p), [x], **RUNS) for p in (path, planned)], str(tmp_path))
    held = peak_memory(MemoryModel(align=BLOCK).apply(graph), range(len(graph.ops)))
    assert after["held"] == held == ROWS * COLUMNS * 4 + BLOCK
    assert before["held"] == 2 * ROWS * COLUMNS * 4


def test_dimensions_that_the_file_leaves_open_are_named_as_the_cause(tmp_path: Path) -> None:
    made = chain(shape=UNNAMED)
    (path := tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    graph = read_graph(path, dims={"x.0": ROWS})
    plan = solve(graph, time_limit=1).plan
    found = measure_model(Request(str(path), graph, plan, {"dims": {"x.0": ROWS}}))
    size = ROWS * COLUMNS * 4
    assert found.before.causes == {"blocks rounded up": BLOCK - 4, OPEN: size - BLOCK}
    assert found.after is not None
    assert found.after.causes == {"blocks rounded up": BLOCK - 4}
    assert (found.before.held, found.after.held) == (2 * size, size + BLOCK)


def _open_names(made: Any) -> set[str]:
    return {
        d.dim_param if d.dim_param not in ("", "?") else f"{x.name}.{axis}"
        for x in made.graph.input
        for axis, d in enumerate(x.type.tensor_type.shape.dim)
        if d.dim_value <= 0
    } | {d.dim_param for x in made.graph.value_info for d in x.type.tensor_type.shape.dim}
