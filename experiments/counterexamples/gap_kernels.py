"""Compiled search for live ranges that do not pack into the bytes of their fullest step."""

from __future__ import annotations

from functools import cache

import numpy as np

from optsched.counterexamples.kernels import fullest_step, next_capacity
from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel

MOST = 4096
"""Seeds that a search returns at most."""


@kernel
def fits(start: IntArray, end: IntArray, size: IntArray, capacity: int) -> bool:
    """Return True if buffers pack into a capacity, by exhaustive search."""
    return next_capacity(start, end, size, capacity, np.zeros(len(start), np.int64)) < 0


@kernel
def _first_fit(
    start: IntArray, end: IntArray, size: IntArray, order: IntArray, capacity: int
) -> bool:
    offset = np.zeros(len(start), np.int64)
    for a in range(len(order)):
        i, moved = order[a], True
        while moved:
            moved = False
            for b in range(a):
                j = order[b]
                meet = start[j] < end[i] and start[i] < end[j]
                above = offset[j] + size[j]
                if meet and offset[j] < offset[i] + size[i] and offset[i] < above:
                    offset[i], moved = above, True
        if offset[i] + size[i] > capacity:
            return False
    return True


@kernel
def has_gap(start: IntArray, end: IntArray, size: IntArray) -> bool:
    """Return True if every packing needs more than the fullest step; first fit answers most."""
    load, span = fullest_step(start, end, size), end - start
    for key in (span * 1000 + size, span * size, size * 1000 + span):
        if _first_fit(start, end, size, np.argsort(-key), load):
            return False
    return not fits(start, end, size, load)


@kernel
def _every(n: int, largest: int, ends: IntArray, sizes: IntArray) -> int:
    start, size, found = np.arange(n), np.ones(n, np.int64), 0
    end = start + 1
    while True:
        while True:
            if has_gap(start, end, size):
                ends[found], sizes[found] = end, size
                found += 1
                if found == len(ends):
                    return found
            i = 0
            while i < n and size[i] == largest:
                size[i] = 1
                i += 1
            if i == n:
                break
            size[i] += 1
        i = 0
        while i < n and end[i] == n:
            end[i] = i + 1
            i += 1
        if i == n:
            return found
        end[i] += 1


@kernel
def _random(n: int, largest: int, tries: int, seed: int, ends: IntArray, sizes: IntArray) -> int:
    np.random.seed(seed)
    start, size, found = np.arange(n), np.ones(n, np.int64), 0
    end = start + 1
    for _ in range(tries):
        for i in range(n):
            end[i] = i + 1 + np.random.randint(n - i)
            size[i] = 1 + np.random.randint(largest)
        if has_gap(start, end, size):
            ends[found], sizes[found] = end, size
            found += 1
            if found == len(ends):
                break
    return found


@kernel
def _random_chain(steps: int, n: int, largest: int, tries: int, seed: int, rows: IntArray) -> bool:
    np.random.seed(seed)
    for _ in range(tries):
        for i in range(n):
            a, b = np.random.randint(steps), np.random.randint(steps)
            rows[0, i], rows[1, i] = min(a, b), max(a, b) + 1
            rows[2, i] = 1 + np.random.randint(largest)
        if has_gap(rows[0], rows[1], rows[2]):
            return True
    return False


@cache
def every_gap(ops: int, largest: int) -> tuple[IntArray, IntArray]:
    """Return the ends and sizes of all gaps with a buffer born at each step, sizes from 1."""
    ends, sizes = np.zeros((MOST, ops), np.int64), np.zeros((MOST, ops), np.int64)
    found = _every(ops, largest, ends, sizes)
    if found == MOST:
        raise RuntimeError("more gaps than there is room for")
    return ends[:found], sizes[:found]


def random_gaps(ops: int, largest: int, *, tries: int, seed: int) -> tuple[IntArray, IntArray]:
    """Return ends and sizes of the instances with a gap among random live ranges."""
    ends, sizes = np.zeros((MOST, ops), np.int64), np.zeros((MOST, ops), np.int64)
    found = _random.compiled(ops, largest, tries, seed, ends, sizes)
    return ends[:found], sizes[:found]


def random_chain_gap(
    steps: int, buffers: int, largest: int, *, tries: int, seed: int
) -> list[tuple[int, int, int]]:
    """Return the first gap among random live ranges in so few steps; empty if there is none."""
    rows = np.zeros((3, buffers), np.int64)
    if not _random_chain.compiled(steps, buffers, largest, tries, seed, rows):
        return []
    return [(int(s), int(e), int(z)) for s, e, z in rows.T]
