"""Order that a mutation needs and that Inductor's own dependencies may have lost.

In torch 2.13.0 a fused CPU node forgets that a buffer it reads was mutated before: its dependency
names the buffer as it was (pytorch issue 185509, repaired by 185873, which 2.13.0 does not have).
Inductor's heuristics, the recorded predecessors and even the order after fusion can then compute
zeros. The order in which the graph was lowered is right: it is kept between each mutation and
every other access to the same storage.

Example: as lowered, `k1` reads `x`, `k2` overwrites `x`, and `k3` reads it. The guards keep `k1`
before `k2` and `k2` before `k3`, also where fused nodes have lost these edges.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch._inductor import ir
from torch._inductor.dependencies import WeakDep
from torch._inductor.virtualized import V

from optsched.plugins.inductor.sizes.storages import find_root


def find_guards(nodes: Sequence[Any]) -> list[frozenset[int]]:
    """Return for each node the positions of the nodes that a mutation keeps before it."""
    accesses: dict[str, list[_Access]] = {}
    for lowered, v, inner in _lowered(nodes):
        mutated = {storage_of(m) for b in inner.get_outputs() for m in b.get_mutations()}
        for storage in _accessed(inner) | mutated:
            accesses.setdefault(storage, []).append(_Access(lowered, v, storage in mutated))
    guards: list[set[int]] = [set() for _ in nodes]
    # Accesses in the order of lowering, which is the order of the program.
    for found in accesses.values():
        # Without a mutation the accesses are reads of one value, in any order.
        if any(access.mutates for access in found):
            _guard(sorted(found), guards)
    return [frozenset(before - {v}) for v, before in enumerate(guards)]


def find_draws(nodes: Sequence[Any]) -> list[frozenset[int]]:
    """Return for each node that draws random numbers the node that draws before it.

    In this order seeds give the numbers that they give without the plugin.
    """
    drawing = sorted((at, v) for at, v, inner in _lowered(nodes) if draws_numbers(inner.node))
    found: list[frozenset[int]] = [frozenset() for _ in nodes]
    for (_, u), (_, v) in pairwise(drawing):
        # Two draws of one fused node keep their order inside the kernel.
        if u != v:
            found[v] |= {u}
    return found


def _lowered(nodes: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
    """Yield `(position when lowered, position of the fused node, inner node)`."""
    # Numbered as lowered: the list of operations is not touched by fusion or reordering.
    position = {op.get_operation_name(): i for i, op in enumerate(V.graph.operations)}
    for v, node in enumerate(nodes):
        for inner in node.get_nodes():
            yield position[inner.get_name()], v, inner


def settle_conflicts(
    guards: Sequence[frozenset[int]], predecessors: Sequence[frozenset[int]]
) -> list[frozenset[int]]:
    """Return guards that some order keeps, together with Inductor's own dependencies.

    A kernel that accesses a storage both before and after another node changes it cannot run on
    both sides of that node, so the lowered order is a cycle. Inductor joins such nodes where the
    order does not matter, as for sums that are scattered into one buffer. They keep the order in
    which Inductor has them, so they compute what they compute without the plugin.

    `guards`: for each node, those that the lowered order has before it. `predecessors`: for each
    node, those that Inductor's own dependencies have before it; each has a lower position.
    """
    before = [own | known for own, known in zip(guards, predecessors, strict=True)]
    cycle_of = _find_cycles(before)
    settled: list[set[int]] = [set() for _ in guards]
    for v, nodes in enumerate(guards):
        for u in nodes:
            # On a common cycle no order keeps all guards; Inductor's own order decides.
            first, last = (min(u, v), max(u, v)) if cycle_of[u] == cycle_of[v] else (u, v)
            settled[last].add(first)
    return [frozenset(nodes) for nodes in settled]


def _find_cycles(before: Sequence[frozenset[int]]) -> dict[int, int]:
    """Return a number for each node, equal for nodes that are on a common cycle."""
    import networkx

    graph = networkx.DiGraph((u, v) for v, nodes in enumerate(before) for u in nodes)
    graph.add_nodes_from(range(len(before)))
    components = networkx.strongly_connected_components(graph)
    return {v: number for number, nodes in enumerate(components) for v in nodes}


def draws_numbers(target: Any) -> bool:
    """Return True if an op draws random numbers; attention whose dropout is 0 does not."""
    op = getattr(target, "op_overload", None)
    if torch.Tag.nondeterministic_seeded not in getattr(op, "tags", ()):
        return False
    # The schema's tag holds for all dropout rates.
    return _argument(target, "dropout_p") not in (0, 0.0)


def _argument(target: Any, name: str) -> Any:
    """Return the value of an argument of a fallback's op; None if it has no such argument."""
    arguments = [argument.name for argument in target.op_overload._schema.arguments]
    if name not in arguments or not isinstance(target, ir.FallbackKernel):
        return None
    args, kwargs = target.unflatten_args(target.inputs, target.constant_args)
    given = dict(zip(arguments, args, strict=False)) | {**kwargs, **target.kwargs}
    schema = target.op_overload._schema.arguments[arguments.index(name)]
    return given.get(name, schema.default_value)


class _Access(NamedTuple):
    """An access to a storage: when it was lowered, the position of its node, its kind."""

    lowered: int
    node: int
    mutates: bool


def _guard(accesses: Sequence[_Access], guards: list[set[int]]) -> None:
    """Keep a mutation after the accesses since the last one, and later accesses after it."""
    last: int | None = None
    since: list[int] = []
    for access in accesses:
        if last is not None:
            guards[access.node].add(last)
        # Reads between two mutations may run in any order.
        if access.mutates:
            guards[access.node].update(since)
            last, since = access.node, []
        else:
            since.append(access.node)


def _accessed(node: Any) -> set[str]:
    dependencies = (*node.read_writes.reads, *node.read_writes.writes)
    # A weak dependency names another node's result and says that this one comes later: no access.
    names = {d.name for d in dependencies if not isinstance(d, WeakDep)}
    # An access to a view is an access to its base.
    names.update(alias for name in list(names) for alias in _aliased(name))
    for output in node.get_outputs():
        names.add(output.get_name())
        names.update(output.get_mutations())
    return {storage_of(name) for name in names}


def _aliased(name: str) -> Sequence[str]:
    """Return the names that a buffer is a view of."""
    buffer = V.graph.name_to_buffer.get(name)
    return () if buffer is None else tuple(buffer.get_inputs_that_alias_output())


def storage_of(name: str) -> str:
    """Return the first name of the storage that a name stands for."""
    real = V.graph.scheduler.mutation_real_name
    # Names may lead in a circle through views; each is visited once.
    seen = set()
    while name not in seen:
        seen.add(name)
        name = real.get(name, name)
        buffer = V.graph.name_to_buffer.get(name)
        layout = None if buffer is None else buffer.get_output_spec()
        # Such a buffer lies in another one, which is the storage.
        if isinstance(layout, ir.NonOwningLayout):
            name = str(find_root(layout.view).get_name())
    return name
