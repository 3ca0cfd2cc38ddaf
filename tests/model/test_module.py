"""Modules: what they refuse, the order of computations, and the blocks of ops that call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from optsched import Call, Graph, GraphBuilder, Module
from optsched.cli import main
from optsched.errors import GraphError
from optsched.formats import write_module
from optsched.model.module import listed_graph
from tests.support.generators import relabel

Row = tuple[str, str, tuple[str, ...]]


def chain(name: str, *sizes: int, alignment: int = 1, workspace: int = 0) -> Graph:
    """Ops `op0`, `op1` and so on, each reads what the one before has written."""
    build = GraphBuilder(name, alignment=alignment)
    for i, size in enumerate(sizes):
        reads = [f"t{i - 1}"] if i else []
        build.op(f"op{i}", reads=reads, writes={f"t{i}": size}, workspace=workspace)
    return build.build()


def three(*, inside: bool = False) -> Module:
    graphs = {"main": chain("main", 5, 7), "body": chain("body", 3, 4), "test": chain("test", 9)}
    call = Call("main", "op1", ("test", "body"), results_inside=inside)
    return Module("loop", graphs, "main", (call,))


def test_computations_come_behind_those_that_they_call() -> None:
    assert three().computations.index("main") == 2
    assert repr(three()) == "Module('loop', 3 computations, 1 call)"


def test_the_block_is_as_large_as_the_largest_callee() -> None:
    graph = three().with_blocks("main", {"test": 9, "body": 11})
    block = graph.buffers[graph.buffer_ids["op1.workspace"]]
    assert block.size == 11
    assert graph.ops[1].workspace == graph.buffer_ids["op1.workspace"]
    assert graph.ops[0] == three().graphs["main"].ops[0]


def test_blocks_of_other_sizes_share_the_wiring_of_the_first() -> None:
    module = three()
    first, second = (module.with_blocks("main", {"test": 9, "body": n}) for n in (11, 23))
    assert first.predecessors is second.predecessors
    assert [graph.buffers[-1].size for graph in (first, second)] == [11, 23]
    assert module.with_blocks("main", {"test": 9, "body": 11}) is first
    anew = three().with_blocks("main", {"test": 9, "body": 23})
    assert second == anew
    assert second.arrays.alloc.tolist() == anew.arrays.alloc.tolist()


def test_results_inside_a_callee_do_not_count_twice() -> None:
    graph = three(inside=True).with_blocks("main", {"test": 9, "body": 11})
    assert graph.buffers[-1].size == 11 - 7
    small = three(inside=True).with_blocks("main", {"test": 6, "body": 7})
    assert len(small.buffers) == 2


def test_a_block_stands_beside_an_ops_own_workspace_and_is_aligned_as_what_lies_in_it() -> None:
    inner = chain("inner", 1, alignment=6)
    graphs = {
        "body": chain("body", 2, alignment=4),
        "inner": inner,
        "main": chain("main", 1, workspace=3),
    }
    calls = (Call("main", "op0", ("body",)), Call("body", "op0", ("inner",)))
    graph = Module("m", graphs, "main", calls).with_blocks("main", {"body": 8})
    assert [graph.buffers[b].size for b in graph.ops[0].writes] == [1, 3, 8]
    assert graph.buffers[-1].alignment == 12


def test_computations_may_list_their_ops_in_any_order() -> None:
    body = chain("body", 3, 4)
    backwards = relabel(body, [1, 0], range(2))
    assert listed_graph(Module("m", {"body": backwards}, "body")) == backwards
    calls = (Call("main", "op0", ("body",)),)
    graphs = {"main": chain("main", 5), "body": body}
    usual = listed_graph(Module("m", graphs, "main", calls))
    assert listed_graph(Module("m", {**graphs, "body": backwards}, "main", calls)) == usual


@pytest.mark.parametrize("own", ["workspace", "called"])
def test_a_block_has_a_name_of_its_own(own: str, tmp_path: Path) -> None:
    """The names that blocks usually have may be those of other buffers."""
    build = GraphBuilder("main")
    scratch = 2 if own == "called" else 0
    build.op("o", writes={f"o.{own}": 4, "r": 1}, workspace=scratch)
    build.op("last", reads=["r"], workspace=2)
    graphs = {"main": build.build(), "body": chain("body", 3)}
    module = Module("m", graphs, "main", (Call("main", "o", ("body",)),))
    names = [buffer.name for buffer in module.with_blocks("main", {"body": 3}).buffers]
    assert len(set(names)) == len(names)
    paths = [str(tmp_path / name) for name in ("module.json", "plan.json", "certificate.json")]
    write_module(module, paths[0])
    assert main(["solve", paths[0], "-o", paths[1], "--certificate", paths[2]]) == 0
    assert main(["check", *paths]) == 0


def test_the_listed_graph_has_blocks_of_the_order_of_the_list() -> None:
    assert listed_graph(three()).buffers[-1].size == 9


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((("main", "op1", ("none",)),), "op 'op1' of computation 'main' calls computation 'none'"),
        ((("main", "op9", ("body",)),), "op 'op9' of computation 'main' calls computations, but"),
        ((("none", "op1", ("body",)),), "op 'op1' calls out of computation 'none', which"),
        ((("main", "op1", ()),), "op 'op1' of computation 'main' does not call any computation"),
        ((("main", "op1", ("body",)),) * 2, "op 'op1' of computation 'main' appears in two calls"),
        (
            (("main", "op1", ("body",)), ("body", "op0", ("test",)), ("test", "op0", ("body",))),
            "computations call each other in a cycle: 'body' -> 'test' -> 'body'",
        ),
        ((("body", "op0", ("body",)),), "in a cycle: 'body' -> 'body'"),
    ],
)
def test_calls_that_make_no_sense_are_refused(rows: tuple[Row, ...], message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        Module("m", three().graphs, "main", tuple(Call(*row) for row in rows))
    assert "\n" not in str(caught.value)


def test_an_entry_that_is_not_there_is_refused() -> None:
    with pytest.raises(GraphError, match="its entry is computation 'start', which"):
        Module("m", three().graphs, "start")


@pytest.mark.parametrize(("key", "value"), [("pool", "fast"), ("pin", 0)])
def test_what_is_called_has_no_place_of_its_own(key: str, value: object) -> None:
    build = GraphBuilder("body")
    build.op("a", writes={"x": 4})
    build.place("x", **{key: value})  # type: ignore[arg-type]
    graphs = {"main": chain("main", 4), "body": build.build()}
    Module("m", graphs, "main")
    with pytest.raises(GraphError, match=f"buffer 'x' of computation 'body' has the {key} "):
        Module("m", graphs, "main", (Call("main", "op0", ("body",)),))


@pytest.mark.parametrize("name", ["main", "body"])
def test_ops_on_streams_neither_call_nor_are_called(name: str) -> None:
    graphs = {"main": chain("main", 4, 2), "body": chain("body", 4, 1)}
    ops = tuple(replace(op, stream=f"s{v}") for v, op in enumerate(graphs[name].ops))
    graphs[name] = replace(graphs[name], ops=(ops[0], replace(ops[1], control=(0,))))
    Module("m", graphs, "main")
    with pytest.raises(GraphError, match=f"computation '{name}' run on several streams"):
        Module("m", graphs, "main", (Call("main", "op0", ("body",)),))
