"""Bytes that a call of a joint graph needs with every split, and what needs them.

A call ends with its results live. A product or a convolution is a kernel of a library: while it
runs, all that it reads and makes is live. Inputs and copies of them do not count, as the program
may hold them. Of ops that Inductor computes within other kernels nothing is said: they may need no
bytes of their own.

Example: a backward graph returns gradients of 12 bytes. One of its products reads 16 bytes that
other ops have made, and makes 4: each split needs 20 bytes.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch._inductor import config
from torch.fx import GraphModule, Node

from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.joint_graph import made_bytes, storage_of, users_of

PRODUCTS = ("aten.mm.", "aten.addmm.", "aten.bmm.", "aten.baddbmm.", "aten.convolution")
"""Kernels of libraries, by the beginning of their names."""
COPIES = ("aten.clone", "aten._to_copy", "prims.convert_element_type", "aten.cat", "aten.full")
"""Ops whose result Inductor may replace by what they read."""


class LeastBytes(NamedTuple):
    """Bytes that a call needs at least, what needs them, and the bytes of its results."""

    size: int
    words: str
    results: int


UNKNOWN = (LeastBytes(0, "", 0),) * 2
"""Of the calls of a graph that another rank has planned."""


class ImpossiblePeakError(KeptOrderError):
    """Raised for a peak that no split of a joint graph can have; `least` is what its calls need."""

    def __init__(self, text: str, least: tuple[LeastBytes, LeastBytes]) -> None:
        super().__init__(text)
        self.least = least


def least_bytes(joint: GraphModule, outputs: int) -> tuple[LeastBytes, LeastBytes]:
    """Return the bytes that the forward and the backward call of a joint graph need at least.

    `outputs` is the number of results of the forward graph.
    """
    listed = torch.utils._pytree.tree_leaves(joint.graph.output_node().args)
    inputs = joint.graph.find_nodes(op="placeholder")
    # An op before the loss may run in the backward call, too, but does not have to.
    after = users_of(joint, [x for x in inputs if "tangents" in str(x.target)])
    before = _needed(listed[:outputs])
    rows = (
        ("results of the forward graph", listed[:outputs], before),
        ("gradients", listed[outputs:], after & _needed(listed[outputs:])),
    )
    forward, backward = (
        max(_of_call(joint, what, made_bytes(results, inputs), inside), key=lambda x: x.size)
        for what, results, inside in rows
    )
    return forward, backward


def require_possible(least: tuple[LeastBytes, LeastBytes], peak: int) -> None:
    """Raise :class:`ImpossiblePeakError` if a call needs more bytes than the peak."""
    for row in least:
        if row.size > peak:
            raise ImpossiblePeakError(f"no step fits {peak:,} bytes: {row.words}", least)


def _of_call(
    joint: GraphModule, what: str, results: int, inside: Collection[Node]
) -> Iterator[LeastBytes]:
    """Yield the bytes of the results of a call, and those of the products inside of it."""
    yield LeastBytes(results, f"the {what} alone need {results:,}", results)
    inputs, maker = joint.graph.find_nodes(op="placeholder"), dict[Any, Node]()
    for node in joint.graph.nodes:
        maker.setdefault(storage_of(node), node)
        if node in inside and is_product(node):
            read = [x for x in operands(node) if not is_copy(maker[storage_of(x)])]
            size = made_bytes([*read, *results_of(node)], inputs)
            words = f"op {node.name!r} alone reads and writes {size:,}"
            yield LeastBytes(size, words, results)


def is_product(node: Node) -> bool:
    """Return True for a node that is a kernel of a library."""
    # Templates for products compute what they would read.
    is_template = config.max_autotune or config.max_autotune_gemm
    return not is_template and str(node.target).startswith(PRODUCTS)


def operands(node: Node) -> list[Node]:
    """Return the tensors that a product surely reads as they are."""
    name = str(node.target)
    # A bias may be added by another kernel, and a gradient of a weight may not be asked for.
    begin = int("add" in name)
    found = node.args[:1] if "backward" in name else node.args[begin : begin + 2]
    return [x for x in found if isinstance(x, Node)]


def results_of(node: Node) -> list[Node]:
    """Return the tensors that a product makes."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return [node]
    return [x for x in node.users if x.target is operator.getitem]


def is_copy(node: Node) -> bool:
    """Return True for a node that may make no bytes of its own."""
    return str(node.target).startswith(COPIES)


def _needed(results: Sequence[Any]) -> set[Node]:
    """Return the nodes that some results need, these included."""
    found, ahead = set[Node](), [x for x in results if isinstance(x, Node)]
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead += node.all_input_nodes
    return found
