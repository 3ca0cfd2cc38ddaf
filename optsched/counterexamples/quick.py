"""The orderings on wirings: the same kernels without the cost of making a graph first.

Each gives what its namesake in `heuristics` gives on the wiring's graph; a hunt tries some hundred
thousand of them. The find is always judged with the ordering itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from heuristics.kernels.breadth import run_breadth_first
from heuristics.kernels.lpmf import run_backward, run_forward
from heuristics.kernels.walks import append_by_rank, run_post_order
from heuristics.kernels.xla_list import run_history, run_list_scheduler
from heuristics.orderings.common import balance
from heuristics.orderings.lpmf_random import NOISE
from optsched.counterexamples.kernels.downsets import peak_of, spread
from optsched.counterexamples.wiring import Wiring, ops_in
from optsched.model.arrays import IntArray

_EMPTY = np.zeros(0, np.int64)


class Rows:
    """What several orderings want to know of a wiring; an op and its buffer have one number."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        before, self.size, _, _, _ = wiring.masks
        self.n = len(wiring)
        self.pred_ptr, self.pred, self.succ_ptr, self.succ = spread.compiled(before)

    @cached_property
    def keep(self) -> IntArray:
        """1 for outputs, shape `(n,)`."""
        outputs = self.wiring.outputs
        return np.array([outputs >> v & 1 for v in range(self.n)], np.int64)

    @cached_property
    def kept_bytes(self) -> int:
        """Bytes of the outputs."""
        return sum(self.wiring.size[v] for v in ops_in(self.wiring.outputs))

    @cached_property
    def zero(self) -> IntArray:
        """Shape `(n,)`."""
        return np.zeros(self.n, np.int64)

    @cached_property
    def sinks(self) -> IntArray:
        """Ops that nobody reads."""
        return np.flatnonzero(np.diff(self.succ_ptr) == 0)


Quick = Callable[[Rows], IntArray]


@cache
def _numbers(n: int) -> tuple[IntArray, IntArray, IntArray]:
    index = np.arange(n + 1, dtype=np.int64)
    return np.zeros_like(index), index, balance(n)


def _program(rows: Rows) -> IntArray:
    return _numbers(rows.n)[1][: rows.n]


def _forward(rows: Rows, bias: IntArray, tie: IntArray) -> IntArray:
    return run_forward.compiled(
        rows.pred_ptr,
        rows.succ_ptr,
        rows.succ,
        rows.pred_ptr,
        rows.pred,
        rows.succ_ptr,
        rows.succ,
        rows.size,
        np.diff(rows.succ_ptr) + rows.keep,
        rows.size,
        rows.zero,
        0,
        rows.kept_bytes,
        bias,
        tie,
        _numbers(rows.n)[2],
        0,
        _EMPTY,
        rows.zero,
    )


def _backward(rows: Rows, bias: IntArray, tie: IntArray) -> IntArray:
    return run_backward.compiled(
        rows.pred_ptr,
        rows.pred,
        rows.succ_ptr,
        rows.pred_ptr,
        rows.pred,
        rows.succ_ptr,
        rows.succ,
        rows.size,
        rows.keep.copy(),
        rows.size,
        rows.zero,
        rows.kept_bytes,
        rows.kept_bytes,
        bias,
        tie,
        _numbers(rows.n)[2],
        _EMPTY,
        rows.zero,
    )


def _lpmf(rows: Rows) -> IntArray:
    bias, index, _ = _numbers(rows.n)
    return _forward(rows, bias, index)


def _lpmf_backward(rows: Rows) -> IntArray:
    bias, index, _ = _numbers(rows.n)
    return _backward(rows, bias, rows.n - index)


@cache
def _draws(n: int) -> tuple[float, npt.NDArray[np.float64], IntArray]:
    """What seed 0 draws for a graph of `n` ops: the noise, its share by op, the ranks of ties."""
    random = np.random.default_rng(0)
    noise = float(random.choice(NOISE))
    return noise, random.uniform(-1, 1, n), random.permutation(n + 1)


def _noise(rows: Rows) -> tuple[IntArray, IntArray]:
    noise, share, tie = _draws(rows.n)
    bias = np.zeros(rows.n + 1, np.int64)
    bias[: rows.n] = noise * _touched(rows) * share
    return bias, tie


def _touched(rows: Rows) -> IntArray:
    """Bytes that each op allocates and reads."""
    sums = np.zeros(len(rows.pred) + 1, np.int64)
    np.cumsum(rows.size[rows.pred], out=sums[1:])
    touched: IntArray = rows.size + np.diff(sums[rows.pred_ptr])
    return touched


def _bfs(rows: Rows) -> IntArray:
    return run_breadth_first.compiled(rows.pred_ptr, rows.succ_ptr, rows.succ)


def _dfs(rows: Rows) -> IntArray:
    by_size = np.argsort(_touched(rows), kind="stable")
    children = np.empty(len(rows.pred), np.int64)
    filled = rows.pred_ptr[:-1].copy()
    append_by_rank.compiled(by_size, rows.succ_ptr, rows.succ, filled, children)
    return run_post_order.compiled(by_size, rows.pred_ptr, children)


def _xla_list(rows: Rows) -> IntArray:
    _, index, weight = _numbers(rows.n)
    return run_list_scheduler.compiled(
        index[: rows.n],
        rows.pred_ptr,
        rows.pred,
        rows.succ_ptr,
        rows.succ,
        np.zeros(rows.n + 1, np.int64),
        np.zeros(rows.n + 1, np.int64),
        _EMPTY,
        rows.pred_ptr,
        rows.pred,
        rows.succ_ptr,
        rows.succ,
        rows.size,
        np.diff(rows.succ_ptr) + rows.keep,
        rows.size,
        weight,
    )


def _xla_post_order(rows: Rows) -> IntArray:
    return run_post_order.compiled(rows.sinks, rows.pred_ptr, rows.pred)


def _xla_dfs(rows: Rows) -> IntArray:
    extra, total = run_history.compiled(
        _xla_post_order(rows),
        rows.n,
        rows.pred_ptr,
        rows.pred,
        rows.succ_ptr,
        rows.size,
        np.ones(rows.n, np.int64),
    )
    owner = np.repeat(np.arange(rows.n), np.diff(rows.pred_ptr))
    # Letters name the ops, so that listing order is the order of names.
    ranked = np.lexsort((rows.pred, -total[rows.pred], -extra[rows.pred], owner))
    return run_post_order.compiled(rows.sinks, rows.pred_ptr, rows.pred[ranked])


def _best(*makers: Quick) -> Quick:
    def make(rows: Rows) -> IntArray:
        orders = [maker(rows) for maker in makers]
        _, alloc, need, size, initial = rows.wiring.masks
        return min(orders, key=lambda o: peak_of.compiled(o, alloc, need, size, initial))

    return make


QUICK: dict[str, Quick] = {
    "program": _program,
    "lpmf": _lpmf,
    "bfs": _bfs,
    "dfs": _dfs,
    "inductor": _best(_program, _lpmf, _bfs, _dfs),
    "xla_list": _xla_list,
    "xla_dfs": _xla_dfs,
    "xla_post_order": _xla_post_order,
    "xla_default": _best(_xla_list, _xla_dfs, _xla_post_order),
    "lpmf_backward": _lpmf_backward,
    "lpmf_random": lambda rows: _forward(rows, *_noise(rows)),
    "lpmf_backward_random": lambda rows: _backward(rows, *_noise(rows)),
}
"""By the names of `heuristics.ORDERINGS`."""
