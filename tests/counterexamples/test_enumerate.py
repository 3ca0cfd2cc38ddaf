"""Every tiny graph once up to isomorphism, and with every listing."""

from __future__ import annotations

from itertools import combinations, permutations, product

import pytest

from optsched.counterexamples.enumerate import (
    Masks,
    automorphisms,
    dags,
    is_least,
    listings,
    packings,
    relabel,
)


@pytest.mark.parametrize(("ops", "count"), list(enumerate((1, 1, 2, 6, 31, 302))))
def test_counts_are_those_of_the_encyclopedia(ops: int, count: int) -> None:
    assert len(dags(ops)) == count


def labelled(ops: int) -> set[Masks]:
    """Every graph whose edges go from lower to higher ops."""
    pairs = list(combinations(range(ops), 2))
    return {
        tuple(sum(1 << u for u, w in edges if w == v) for v in range(ops))
        for chosen in product((False, True), repeat=len(pairs))
        for edges in [[pair for pair, taken in zip(pairs, chosen, strict=True) if taken]]
    }


@pytest.mark.parametrize("ops", range(5))
def test_no_two_are_isomorphic_and_none_is_missing(ops: int) -> None:
    def least(before: Masks) -> Masks:
        return min(relabel(before, listing) for listing in listings(before))

    forms = [least(before) for before in dags(ops)]
    assert len(set(forms)) == len(forms)
    assert set(forms) == {least(before) for before in labelled(ops)}


@pytest.mark.parametrize("ops", range(1, 5))
def test_sizes_up_to_automorphism_in_every_listing_are_all_sized_graphs(ops: int) -> None:
    """Graphs with sizes and a listing have no symmetry left: each must come, whatever the class."""
    found = {
        (tuple(size[v] for v in listing), relabel(before, listing))
        for before in dags(ops)
        for size in product((1, 2), repeat=ops)
        if is_least(size, automorphisms(before))
        for listing in listings(before)
    }
    assert found == set(product(product((1, 2), repeat=ops), labelled(ops)))


def test_automorphisms_are_those_found_by_trying_all() -> None:
    for before in dags(4):
        mine = {
            image
            for image in permutations(range(4))
            if all(relabel_edge(before, image, u, v) for u in range(4) for v in range(4))
        }
        assert set(automorphisms(before)) == mine


def relabel_edge(before: Masks, image: tuple[int, ...], u: int, v: int) -> bool:
    return (before[v] >> u & 1) == (before[image[v]] >> image[u] & 1)


def test_packings_are_multisets_that_begin_at_step_0() -> None:
    found = list(packings(2, 2, 2))
    assert len(found) == len(set(found))
    ranges = [(0, 1), (0, 2), (1, 2)]
    rows = [(*r, x) for r in ranges for x in (1, 2)]
    wanted = {tuple(sorted(pair)) for pair in product(rows, repeat=2)}
    assert set(found) == {pair for pair in wanted if pair[0][0] == 0}
