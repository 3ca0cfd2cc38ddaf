"""What kernels do with their arguments, compiled and as Python: the same, whoever holds arrays."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from optsched.runtime.jit_lending import Lent
from optsched.runtime.kernel import Kernel, inner, kernel


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


def compiled_for(source: Kernel[..., Any], *arguments: Any) -> Any:
    """What a kernel is compiled to for such arguments, whatever the disk cache holds."""
    dispatcher = cast(Any, source.compiled)
    kinds = tuple(numba.typeof(x) for x in arguments)
    dispatcher.get_call_template(kinds, {})
    return dispatcher.overloads[kinds]


def is_lent(source: Kernel[..., Any], *arguments: Any) -> bool:
    kinds = compiled_for(source, *arguments).fndesc.argtypes
    (answer,) = {isinstance(kind, Lent) for kind in kinds}
    return answer


def test_parts_are_lent_their_arguments_unless_they_return_arrays() -> None:
    nest = nest_of(0)
    assert is_lent(look, nest, 0, True)
    assert is_lent(views, nest, 0)
    assert not is_lent(given_back, nest)
    assert not is_lent(everything, nest, True)


FIVE = 5


@inner
def counted(low: int, high: int, ups: np.ndarray) -> int:
    """Ranges up and down; division by what is known, and what is lesser."""
    total = 0
    for i in range(low, high):
        total = total * 3 + i // 4 + 5 * (i % 4) + i // FIVE + 7 * (i % FIVE)
    for i in range(high, low, -1):
        total += max(i, -low) * min(i, high - i) + ups[i % 3]
    total //= 2
    total %= 1 << 20
    return total


@inner
def divided(value: int, by: int) -> int:
    for i in range(value, 9, 3):
        value += i
    return value // by


@kernel
def counts(low: int, high: int, ups: np.ndarray, by: int) -> int:
    return counted(low, high, ups) + divided(high, by)


@pytest.mark.parametrize("low", [-9, 0, 3])
@pytest.mark.parametrize("high", [-4, 0, 8])
def test_ranges_and_divisions_do_what_they_do_in_python(low: int, high: int) -> None:
    ups = np.array([2, 3, 5])
    assert counts(low, high, ups, -3) == counts.compiled(low, high, ups, -3)


def test_only_what_may_raise_is_asked_whether_it_did() -> None:
    with pytest.raises(ZeroDivisionError):
        counts.compiled(1, 2, np.array([2, 3, 5]), 0)
    assert not compiled_for(counted, 0, 1, np.zeros(3, np.int64)).library.fails
    assert compiled_for(divided, 0, 1).library.fails
    assert not compiled_for(look, nest_of(0), 0, True).library.fails
