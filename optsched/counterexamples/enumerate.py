"""All tiny wirings and packings, each once up to isomorphism."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, permutations, product

from optsched.counterexamples.wiring import ops_in

Masks = tuple[int, ...]
"""Predecessors of each op, as masks; ops stand in some listing order."""
Rows = tuple[tuple[int, int, int], ...]
"""Start, end and bytes of each buffer."""


@cache
def dags(ops: int) -> tuple[Masks, ...]:
    """Return every directed acyclic graph of so many ops, one of each isomorphism class.

    A graph of `ops` is one of `ops - 1` and a last op that reads any of them. Grown from one of
    each class, the results are told apart by a canonical form. 1, 2, 6, 31, 302, 5984 graphs.

    References
    ----------
    OEIS A003087.
    """
    if ops == 0:
        return ((),)
    found = {
        _canonical((*smaller, mask)) for smaller in dags(ops - 1) for mask in range(1 << ops - 1)
    }
    return tuple(sorted(found))


def _canonical(before: Masks) -> Masks:
    """The least relabelling among those that list ops by kind, in a topological order."""
    kinds = _kinds(before)
    groups: dict[object, list[int]] = {}
    for v, kind in sorted(enumerate(kinds), key=lambda pair: (pair[1], pair[0])):
        groups.setdefault(kind, []).append(v)
    choices = product(*(permutations(group) for group in groups.values()))
    return min(relabel(before, [v for part in choice for v in part]) for choice in choices)


def _kinds(before: Masks) -> list[tuple[int, ...]]:
    """Numbers that isomorphic ops share; the first is the longest way there, so edges ascend."""
    n = len(before)
    depth = [0] * n
    for v in range(n):
        depth[v] = 1 + max((depth[u] for u in ops_in(before[v])), default=-1)
    after = [sum(1 << w for w in range(n) if before[w] >> v & 1) for v in range(n)]
    kinds: list[tuple[int, ...]] = [
        (depth[v], before[v].bit_count(), after[v].bit_count()) for v in range(n)
    ]
    for _ in range(2):
        rank = {kind: i for i, kind in enumerate(sorted(set(kinds)))}
        kinds = [
            (
                depth[v],
                rank[kinds[v]],
                *sorted(rank[kinds[u]] for u in ops_in(before[v])),
                -1,
                *sorted(rank[kinds[w]] for w in ops_in(after[v])),
            )
            for v in range(n)
        ]
    return kinds


def relabel(before: Masks, listing: Sequence[int]) -> Masks:
    """Return the graph with its ops listed so."""
    place = {v: i for i, v in enumerate(listing)}
    return tuple(sum(1 << place[u] for u in ops_in(before[v])) for v in listing)


def automorphisms(before: Masks) -> list[tuple[int, ...]]:
    """Return every relabelling that leaves the graph as it is."""
    n = len(before)
    kinds = _kinds(before)
    groups: dict[object, list[int]] = {}
    for v, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(v)
    found = []
    for choice in product(*(permutations(group) for group in groups.values())):
        image = [0] * n
        for group, part in zip(groups.values(), choice, strict=True):
            for v, w in zip(group, part, strict=True):
                image[v] = w
        if relabel(before, image) == before:
            found.append(tuple(image))
    return found


def is_least(size: Sequence[int], symmetries: Sequence[Sequence[int]]) -> bool:
    """Whether sizes are the least among those that automorphisms make of them."""
    own = tuple(size)
    return all(own <= tuple(size[v] for v in image) for image in symmetries)


def listings(before: Masks) -> Iterator[tuple[int, ...]]:
    """Yield every topological order of the ops."""

    def extend(order: tuple[int, ...], done: int) -> Iterator[tuple[int, ...]]:
        if len(order) == len(before):
            yield order
        for v, mask in enumerate(before):
            if not done >> v & 1 and not mask & ~done:
                yield from extend((*order, v), done | 1 << v)

    return extend((), 0)


def packings(buffers: int, steps: int, largest: int) -> Iterator[Rows]:
    """Yield every multiset of so many buffers, live from step 0 on within so many steps."""
    kinds = [
        (start, end, size)
        for start in range(steps)
        for end in range(start + 1, steps + 1)
        for size in range(1, largest + 1)
    ]
    for rows in combinations_with_replacement(kinds, buffers):
        if rows[0][0] == 0:
            yield rows
