"""What kernels do with their arguments, compiled and as Python: the same, whoever holds arrays."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from optsched.jit import Kernel, inner, kernel
from optsched.jit_lending import Lent


class Pair(NamedTuple):
    flat: np.ndarray
    square: np.ndarray


class Nest(NamedTuple):
    pair: Pair
    is_set: np.ndarray
    limit: int
    upwards: bool


@inner
def look(nest: Nest, row: int, wants: bool) -> int:
    """Fields of fields, elements by negative, unsigned and constant places, and by two of them."""
    pair = nest.pair
    square, flat = pair.square, pair.flat
    total = flat[-1] + 10 * square[row, -1] + 100 * square[-1, row]
    total += 1000 * flat[0] + 10_000 * flat[np.uint8(1)]
    if wants and nest.upwards and nest.is_set[row]:
        total += nest.limit
    flat[row] = total
    flat[-1] = square.shape[1] + square.size + len(flat) + square.strides[0]
    nest.is_set[2] = row
    square[1, 0] += 7
    return total


@inner
def views(nest: Nest, row: int) -> int:
    """Slices, rows and copies of what is lent, and a function of numba's that is given it."""
    line = nest.pair.square[row]
    tail = nest.pair.flat[1:]
    own = tail.copy()
    own[0] += 1
    line[0] = own[0] + tail[0]
    return own[0] + np.sum(nest.pair.square) + np.sort(nest.pair.flat)[0]


@inner
def either(one: np.ndarray, two: np.ndarray, turns: int, step: int = 3) -> int:
    """Change a variable that was an argument, and one that holds now this, now that."""
    here = one
    for _ in range(turns):
        here, two = two, here
        turns += step
    return here[0] * turns


@kernel
def everything(nest: Nest, wants: bool) -> int:
    total = 0
    for row in range(3):
        total = total * 3 + look(nest, row, wants)
        total += views(nest, row) + either(nest.pair.flat, nest.pair.square[row], row)
    return total


@inner
def given_back(nest: Nest) -> tuple[np.ndarray, np.ndarray]:
    return nest.pair.flat, nest.pair.square[0]


@kernel
def returned(nest: Nest) -> np.ndarray:
    flat, line = given_back(nest)
    line[0] = views(nest, 0)
    return flat


def nest_of(seed: int) -> Nest:
    rng = np.random.default_rng(seed)
    pair = Pair(rng.integers(0, 9, 5), rng.integers(0, 9, (3, 3)))
    return Nest(pair, rng.integers(0, 2, 3).astype(bool), 10**7, bool(seed % 2))


def state_of(nest: Nest) -> list[Any]:
    return [nest.pair.flat.tolist(), nest.pair.square.tolist(), nest.is_set.tolist()]


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_compiled_kernels_do_what_python_does(seed: int, wants: bool) -> None:
    one, two = nest_of(seed), nest_of(seed)
    assert everything(one, wants) == everything.compiled(two, wants)
    assert state_of(one) == state_of(two)


def test_arrays_that_are_returned_are_those_that_were_given() -> None:
    one, two = nest_of(0), nest_of(0)
    assert np.shares_memory(returned.compiled(two), two.pair.flat)
    assert returned(one).tolist() == returned.compiled(nest_of(0)).tolist()


def test_what_is_lent_is_not_freed_and_what_is_made_is() -> None:
    nest = nest_of(1)
    everything.compiled(nest, True)
    _nrt_python.memsys_enable_stats()
    at_first = rtsys.get_allocation_stats()
    for _ in range(50):
        everything.compiled(nest, True)
    now = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert now.mi_alloc - at_first.mi_alloc >= 150
    assert now.mi_alloc - at_first.mi_alloc == now.mi_free - at_first.mi_free


def described(part: Kernel[..., Any]) -> Any:
    (form,) = cast(Any, part.compiled).overloads.values()
    return form.fndesc


def test_parts_are_lent_their_arguments_unless_they_return_arrays() -> None:
    everything.compiled(nest_of(0), True)
    returned.compiled(nest_of(0))
    assert all(isinstance(kind, Lent) for kind in described(look).argtypes)
    assert all(isinstance(kind, Lent) for kind in described(views).argtypes)
    assert not any(isinstance(kind, Lent) for kind in described(given_back).argtypes)
    assert not any(isinstance(kind, Lent) for kind in described(everything).argtypes)
