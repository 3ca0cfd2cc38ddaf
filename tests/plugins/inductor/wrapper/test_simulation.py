"""The rules of the wrapper on graphs of a few nodes, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from optsched.model.liveness import peak_memory
from optsched.plugins.inductor.orders.runtime_graph import build_runtime_graph, find_units
from optsched.plugins.inductor.wrapper.facts import (
    Allocation,
    Definition,
    EstimatedBuffer,
    ExternCall,
    InplaceCandidate,
    Member,
    OwnedInput,
    Returned,
    Scratch,
    WrapperBuffer,
    WrapperFacts,
    WrapperNode,
    is_valid_order,
)
from optsched.plugins.inductor.wrapper.simulate import simulate


def kernel(
    name: str,
    reads: str = "",
    *,
    over: InplaceCandidate | None = None,
    after: frozenset[int] = frozenset(),
) -> WrapperNode:
    """A generated kernel that makes the buffer `name` of the buffers in `reads`."""
    return WrapperNode(
        name=f"op_{name}",
        used=frozenset([name, *reads]),
        definitions=(Definition(name, () if over is None else (over,)),),
        outputs=(name,),
        predecessors=after,
        arguments=frozenset([name, *reads]),
    )


def call(name: str, reads: str = "", *, workspace: int = 0, **extern: object) -> WrapperNode:
    """An extern kernel; by default it returns the buffer `name`."""
    settings = {"returned": Returned.TENSOR, **extern}
    return WrapperNode(
        name=f"op_{name}",
        used=frozenset([name, *reads]),
        definitions=(),
        outputs=(name,),
        predecessors=frozenset(),
        extern=ExternCall(name=name, workspace=workspace, **settings),  # type: ignore[arg-type]
    )


def facts(
    nodes: list[WrapperNode],
    sizes: dict[str, int],
    *,
    outputs: str = "",
    inputs: tuple[OwnedInput, ...] = (),
    local: str = "",
    max_arguments: int = 500,
    **options: dict[str, str],
) -> WrapperFacts:
    """Facts in which buffers of one size may be handed on to each other."""
    made_by_call = {node.outputs[0] for node in nodes if node.extern}
    estimate = tuple(
        EstimatedBuffer(
            producer=v,
            allocated=sizes[name],
            freed=sizes[name],
            readers=tuple(u for u, other in enumerate(nodes) if u != v and name in other.used),
            kept=name in outputs,
        )
        for v, node in enumerate(nodes)
        for name in node.outputs
    )
    views = options.get("views", {})
    buffers = {
        name: WrapperBuffer(
            name,
            0 if name in views else size,
            Allocation.VIEW
            if name in views
            else Allocation.NONE
            if name in made_by_call
            else Allocation.OWN,
            view_of=views.get(name),
            freed=name not in outputs,
            reuse_key=size,
        )
        for name, size in sizes.items()
    }
    return WrapperFacts(
        nodes=tuple(nodes),
        buffers=buffers,
        inputs=inputs,
        outputs=frozenset(outputs),
        local=frozenset(local),
        graph_inputs=frozenset(given.name for given in inputs),
        estimate=estimate,
        max_arguments=max_arguments,
    )


def peak(known: WrapperFacts, reuse: bool = False) -> int:
    order = tuple(range(len(known.nodes)))
    return simulate(known, order, reuse=reuse).peak


CHAIN = {"a": 8, "b": 4, "c": 2}


@pytest.mark.parametrize(
    ("middle", "options", "needed"),
    [
        # Generated kernels are one call: `a` is there until the end, although `b` used it last.
        (kernel("b", "a"), {}, 8 + 4 + 2),
        # Kernels of Triton are calls of their own, as is each with a limit of one argument.
        (kernel("b", "a"), {"max_arguments": -1}, 8 + 4),
        (kernel("b", "a"), {"max_arguments": 1}, 8 + 4),
        # Before and after an extern kernel what is dead is freed: `a` is gone when `c` comes.
        (call("b", "a"), {}, 8 + 4),
    ],
)
def test_buffers_are_freed_between_calls(middle: Any, options: Any, needed: int) -> None:
    nodes = [kernel("a"), middle, kernel("c", "b")]
    assert peak(facts(nodes, CHAIN, outputs="c", **options)) == needed


def test_a_workspace_lives_after_the_outputs_and_sums_before_it_goes() -> None:
    """`d` is a sum that the wrapper makes of the workspace `w`, by way of 3 temporary bytes."""
    made = ExternCall(Returned.TENSOR, "d", workspace=3)
    mixed = replace(kernel("b", "a"), scratch=Scratch("w", (made,)), outputs=("b", "d"))
    nodes = [kernel("a"), mixed, kernel("c", "bd")]
    sizes = {**CHAIN, "d": 1, "w": 16}
    known = facts(nodes, sizes, outputs="c", max_arguments=-1)
    found = simulate(known, (0, 1, 2), reuse=False, timeline=True)
    assert found.peak == 8 + 4 + 16 + 1 + 3
    live = dict(found.timeline)
    assert live["allocate w"] == 8 + 4 + 16
    assert live["free w"] == 8 + 4 + 1
    assert live["free a"] == 4 + 1
    # The workspace comes out of the pool of freed buffers, as any buffer.
    again = facts([kernel("x"), kernel("a", "x"), *nodes[1:]], {**sizes, "x": 16}, outputs="c")
    assert ("w", "x") in simulate(replace(again, max_arguments=-1), (0, 1, 2, 3), reuse=True).reused


def test_an_order_of_other_random_numbers_is_valid() -> None:
    """But not one that breaks another predecessor."""
    nodes = [kernel("a"), replace(kernel("b", after=frozenset({0})), draws_after=frozenset({0}))]
    known = facts(nodes, CHAIN)
    assert is_valid_order(known, (1, 0), draws=False)
    assert not is_valid_order(known, (1, 0))
    needed = replace(nodes[1], draws_after=frozenset())
    assert not is_valid_order(facts([nodes[0], needed], CHAIN), (1, 0), draws=False)


def test_a_kernel_overwrites_what_nobody_else_needs() -> None:
    over = InplaceCandidate("a", frozenset())
    nodes = [kernel("a"), kernel("b", "a", over=over)]
    assert peak(facts(nodes, {"a": 8, "b": 8}, outputs="b")) == 8


def test_a_kernel_waits_for_the_other_users() -> None:
    """Node 2 uses `a` as well and comes later: nothing is overwritten."""
    over = InplaceCandidate("a", frozenset([2]))
    nodes = [kernel("a"), kernel("b", "a", over=over), kernel("c", "a")]
    known = facts(nodes, {"a": 8, "b": 8, "c": 1}, outputs="bc")
    assert peak(known) == 8 + 8 + 1
    assert simulate(known, (0, 2, 1), reuse=False).inplace == (("b", "a"),)
    assert simulate(known, (0, 2, 1), reuse=False).peak == 8 + 1


def test_a_local_buffer_has_no_bytes() -> None:
    nodes = [kernel("a"), kernel("b", "a")]
    assert peak(facts(nodes, {"a": 8, "b": 4}, outputs="b", local="a")) == 4


def test_a_buffer_that_is_handed_on_stays_in_between() -> None:
    """`a` is freed after the call of `b` and taken by `d`: held while `c` and its bytes are there.

    The estimate's peak, which it stays below, is that of `a` and `b` together with `e`.
    """
    nodes = [kernel("a"), call("b", "a"), call("c", "b"), kernel("d", "c")]
    sizes = {"a": 8, "b": 7, "c": 6, "d": 8}
    known = facts(nodes, sizes, outputs="d")
    assert peak(known) == 8 + 7
    assert simulate(known, (0, 1, 2, 3), reuse=True).reused == ()
    smaller = facts(nodes, {**sizes, "c": 0, "b": 1}, outputs="d")
    assert simulate(smaller, (0, 1, 2, 3), reuse=True).reused == (("d", "a"),)


def test_at_the_upper_ends_of_sizes_the_lines_are_those_of_the_hints() -> None:
    """Inductor reuses by the hints, where `c` has no bytes, and holds `a` at other sizes, too."""
    nodes = [kernel("a"), call("b", "a"), call("c", "b"), kernel("d", "c")]
    known = facts(nodes, {"a": 8, "b": 1, "c": 0, "d": 8}, outputs="d")
    large = replace(known, worst={"a": 80, "b": 1, "c": 70, "d": 80})
    found = simulate(large, (0, 1, 2, 3), reuse=True, worst=True)
    assert found.reused == (("d", "a"),)
    assert found.peak == 80 + 1 + 70
    assert simulate(large, (0, 1, 2, 3), reuse=False, worst=True).peak == 70 + 80
    assert simulate(large, (0, 1, 2, 3), reuse=True).peak == 8 + 1


def test_a_tuple_keeps_its_members() -> None:
    """`m` is dead at once, but the tuple `t` holds it until `n` has been unpacked."""
    members = (Member("m", 8), Member("n", 1))
    nodes = [
        call("t", returned=Returned.TUPLE, members=members),
        call("m", "t", returned=Returned.MEMBER, parent="t"),
        call("x", "m"),
        call("n", "t", returned=Returned.MEMBER, parent="t"),
    ]
    known = facts(nodes, {"t": 0, "m": 8, "x": 3, "n": 1}, outputs="nx")
    late, early = (0, 1, 2, 3), (0, 1, 3, 2)
    assert simulate(known, late, reuse=False, timeline=True).timeline[-2][1] == 8 + 1 + 3
    assert simulate(known, early, reuse=False).end == simulate(known, late, reuse=False).end == 4
    assert find_units(known.nodes) == ((0, 1, 3), (2,))
    runtime = build_runtime_graph(known, "tuple")
    assert runtime.op_order(late) == (0, 1)
    assert runtime.node_order(runtime.op_order(late)) == early


def test_two_inputs_of_one_storage_count_once_and_go_together() -> None:
    inputs = (OwnedInput("p", 8, "s"), OwnedInput("q", 8, "s"))
    nodes = [call("a", "p"), call("b", "aq"), call("c", "b")]
    known = facts(nodes, {"a": 1, "b": 1, "c": 8}, outputs="c", inputs=inputs)
    said = simulate(known, (0, 1, 2), reuse=False)
    assert (said.start, said.peak, said.end) == (8, 8 + 1 + 1, 8)


def test_workspace_counts_while_the_kernel_runs() -> None:
    nodes = [call("a"), call("b", "a", workspace=5), call("c", "b")]
    assert peak(facts(nodes, CHAIN, outputs="c")) == 8 + 4 + 5


def test_a_view_of_a_later_node_allocates_the_whole() -> None:
    """Parts of a concatenation are written where they belong; the node that joins them is last."""
    nodes = [kernel("p"), kernel("q"), kernel("w", "pq")]
    views = {"p": "w", "q": "w"}
    known = facts(nodes, {"p": 4, "q": 4, "w": 8}, outputs="w", views=views)
    assert peak(known) == 8
    assert peak_memory(build_runtime_graph(known, "concat").graph, [0, 1, 2]) == 8


def test_blocks_that_write_parts_of_two_wholes_do_not_wait_for_each_other() -> None:
    """Kernels `cd` and `ef` write a part of `w` and of `v` each; one kernel makes both wholes."""
    after = frozenset({0})
    nodes = [call("x"), kernel("c", after=after), kernel("d"), kernel("e")]
    nodes += [kernel("f", after=after), kernel("w", "ce", after=frozenset({1, 3}))]
    nodes += [kernel("v", "df", after=frozenset({2, 4}))]
    sizes = dict.fromkeys("cdef", 4) | {"x": 1, "w": 8, "v": 8}
    known = facts(nodes, sizes, outputs="wv", views={"c": "w", "e": "w", "d": "v", "f": "v"})

    def waits(blocks: tuple[tuple[int, ...], ...]) -> set[tuple[str, str]]:
        graph = build_runtime_graph(known, "wholes", blocks).graph
        kernel_of = {f"op_{name}": row for row in ("cd", "ef") for name in row}
        return {
            (kernel_of[graph.ops[u].name], kernel_of[op.name])
            for v, op in enumerate(graph.ops)
            for u in graph.predecessors[v]
            if op.name in kernel_of and graph.ops[u].name in kernel_of
        }

    assert waits(()) == {("cd", "ef"), ("ef", "cd")}
    assert len(waits(((1, 2), (3, 4)))) == 1


@pytest.mark.parametrize("with_view", [False, True])
def test_the_runtime_graph_has_what_the_simulation_counts(with_view: bool) -> None:
    """Calls alone: nothing waits to be freed, so the graph's peak is the simulated one."""
    over = InplaceCandidate("b", frozenset())
    nodes = [call("a"), call("b", "a", workspace=3), kernel("c", "b", over=over), call("d", "c")]
    if with_view:
        nodes[1] = call("b", "a", returned=Returned.ALIAS, aliases=("a",))
        nodes[2] = kernel("c", "b")
    known = facts(nodes, {"a": 6, "b": 6, "c": 6, "d": 1}, outputs="d")
    runtime = build_runtime_graph(known, "four")
    order = tuple(range(4))
    assert runtime.node_order(order) == order
    assert peak_memory(runtime.graph, list(order)) == simulate(known, order, reuse=False).peak


def test_orders_keep_guards() -> None:
    nodes = [kernel("a"), kernel("b", after=frozenset([0])), kernel("c")]
    known = facts(nodes, CHAIN)
    assert is_valid_order(known, (2, 0, 1))
    assert not is_valid_order(known, (1, 0, 2))
    assert not is_valid_order(known, (0, 1))
    assert not is_valid_order(known, (0, 0, 1))


def test_an_output_that_overwrites_another_of_its_kernel_shares_its_bytes() -> None:
    """`b` is written over `a`, which the same kernel made and which has bytes of its own."""
    node = WrapperNode(
        name="op",
        used=frozenset("ab"),
        definitions=(
            Definition("a"),
            Definition("b", (InplaceCandidate("a", frozenset()),)),
        ),
        outputs=("a", "b"),
        predecessors=frozenset(),
    )
    known = facts([node], {"a": 8, "b": 8}, outputs="b")
    assert peak(known) == 8
    assert peak_memory(build_runtime_graph(known, "one").graph, [0]) == 8
