"""A piece on a board: arrays made once, decided as often as one likes."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import numpy as np

from optsched.model.arrays import IntArray
from optsched.packing.components import Piece
from optsched.packing.kernels import state as rows
from optsched.packing.kernels.failures import WAYS, Failures
from optsched.packing.kernels.first_fit import first_fit, first_fit_windows
from optsched.packing.kernels.search import EXHAUSTED, FRAME_COLUMNS, LIMIT, Frames, search
from optsched.packing.kernels.state import BUFFER_ROWS, SECTION_ROWS, Board
from optsched.packing.orders import Keys
from optsched.packing.rules import Rules
from optsched.runtime.kernel import is_warm

TWIN_BUFFERS = 48
"""Up to this many buffers the first nodes are run as Python: quicker than loading numba."""

TWIN_NODES = 400

SLICE_WORK = 16_000_000
"""Nodes times buffers and sections between two looks at the clock: some ten milliseconds."""

FIT_WORK = 32_000_000
"""Pairs of buffers that first fit compares between two looks at the clock."""

FAILURE_BUFFERS = 128
"""Up to this many buffers failed states are kept; in larger searches they hardly recur."""

FAILURE_BYTES = 1 << 25


class Engine:
    """Searches one piece.

    Parameters
    ----------
    piece
        What to pack.
    rules
        Which prunings are on.
    pins
        Shape `(n,)`: offsets in units to hold besides the piece's own pins, or -1.
    """

    def __init__(self, piece: Piece, rules: Rules, pins: IntArray | None = None) -> None:
        self.piece, self.rules = piece, rules
        self.pin = piece.pin if pins is None else np.where(piece.pin >= 0, piece.pin, pins)
        self.keys = Keys(piece)
        self.nodes = self.runs = self.refuted = 0
        self.capacity = -1
        self.slice = max(64, SLICE_WORK // (len(piece) + piece.sections.count + 1))
        self.line = np.zeros(len(piece), np.int64)
        self.buffers = self._make_buffers()
        self.windows = (
            None if piece.windows is None else piece.windows.table(piece.unit, len(piece))
        )
        self.loop = search
        if piece.windows is not None:
            from optsched.packing.kernels.partial_search import search_windows

            self.loop = search_windows
        self._search: tuple[Board, Frames, Failures, IntArray] | None = None

    def _make_buffers(self) -> IntArray:
        piece, pin = self.piece, self.pin
        n = len(piece)
        buffers = np.zeros((BUFFER_ROWS, n), np.int64)
        buffers[rows.FIRST] = piece.sections.first
        buffers[rows.LAST] = piece.sections.last
        buffers[rows.SIZE] = piece.size
        buffers[rows.ALIGNMENT] = piece.alignment
        buffers[rows.TWIN] = -1
        buffers[rows.RELEASE] = np.where(pin >= 0, pin, 0)
        buffers[rows.WATCHES] = -1
        if self.rules.twins and n > 1:
            columns = [*buffers[: rows.TWIN], pin, piece.bytes, *piece.sections.masks.T]
            if piece.windows is not None:
                columns.append(piece.windows.kinds(n))
            same = np.ones(n - 1, bool)
            for column in columns:
                same &= column[1:] == column[:-1]
            buffers[rows.TWIN, 1:][same] = np.flatnonzero(same)
        return buffers

    def _make_search(self) -> tuple[Board, Frames, Failures, IntArray]:
        piece, rules = self.piece, self.rules
        n, m = len(piece), piece.sections.count
        cover_start, cover = piece.cover
        sections = np.zeros((SECTION_ROWS, m + 2), np.int64)
        sections[rows.WEIGHT] = 1
        sections[rows.ENTRY, : m + 1] = np.searchsorted(piece.sections.first, np.arange(m + 1))
        sections[rows.ENTRY, m + 1] = n
        sections[rows.COVER, : m + 1] = cover_start
        zones = self._make_zones() if piece.windows is None else self._make_spans()
        counters = np.zeros(rows.COUNTERS, np.int64)
        plain = piece.is_plain and not (self.pin >= 0).any()
        counters[rows.PLAIN] = plain
        counters[rows.GAPPED] = piece.sections.masks.shape[1] > 0
        counters[rows.FAR] = rules.far_skip
        trail = np.zeros((2, 6 * piece.covered + 60 * (n + m) + 65536), np.int64)
        board = Board(
            self.buffers,
            sections,
            cover,
            zones,
            np.ascontiguousarray(piece.sections.masks),
            trail,
            counters,
        )
        frames = Frames(
            np.zeros((2 * n + 8, FRAME_COLUMNS), np.int64), np.zeros((2, 8 * n + 64), np.int64)
        )
        remember = rules.failures and n <= FAILURE_BUFFERS
        words = n // 60 + 1
        width = words + m + 1
        places = 1
        while remember and 2 * places * WAYS * width * 8 <= FAILURE_BYTES and places < n << 9:
            places *= 2
        failures = Failures(
            np.zeros((WAYS * places, width), np.int64),
            np.zeros(words, np.int64),
            np.zeros(1, np.int64),
        )
        switches = np.array([rules.decompose, rules.forced, remember], np.int64)
        return board, frames, failures, switches

    def _make_spans(self) -> IntArray:
        """What is there of each buffer in each of its sections, and where that begins."""
        from optsched.packing.kernels.partial_moves import SPAN

        first = self.piece.sections.first
        length = self.piece.sections.last - first
        self.buffers[SPAN] = np.cumsum(length) - length - first
        return self.piece.spans

    def _make_zones(self) -> IntArray:
        """Starts that would meet a pinned buffer, merged, and where each buffer's begin."""
        sections, size = self.piece.sections, self.piece.size
        pinned = np.flatnonzero(self.pin >= 0)
        starts = [0]
        found: list[tuple[int, int]] = []
        for i in range(len(self.piece)):
            begin = len(found)
            if self.pin[i] < 0 and len(pinned):
                together = sections.first[pinned] < sections.last[i]
                together &= sections.last[pinned] > sections.first[i]
                if sections.masks.shape[1]:
                    together &= (sections.masks[pinned] & sections.masks[i]).any(axis=1)
                here = pinned[together]
                low, high = self.pin[here] - size[i], self.pin[here] + size[here]
                for a, b in sorted(zip(low.tolist(), high.tolist(), strict=True)):
                    if len(found) > begin and a < found[-1][1]:
                        found[-1] = (found[-1][0], max(found[-1][1], b))
                    else:
                        found.append((a, b))
            starts.append(len(found))
        self.buffers[rows.ZONE], self.buffers[rows.ZONE_END] = starts[:-1], starts[1:]
        return np.ascontiguousarray(np.array(found or [(0, 0)], np.int64).T)

    def _set_capacity(self, capacity: int) -> bool:
        """Set latest starts; False if some buffer has none."""
        pin, piece = self.pin, self.piece
        latest = (capacity - piece.bytes) // piece.unit
        held = pin >= 0
        fits = bool((latest >= np.where(held, pin, 0)).all())
        self.buffers[rows.LATEST] = np.where(held, pin, latest)
        return fits

    def decide(
        self,
        capacity: int,
        rank: IntArray,
        rule: int,
        limit: int,
        in_time: Callable[[], bool],
    ) -> int:
        """Search for a packing within a capacity; `offsets` returns it.

        Parameters
        ----------
        capacity
            Bytes.
        rank
            Shape `(n,)`: a permutation, the order in which buffers are tried.
        rule
            How to choose sections.
        limit
            Nodes.
        in_time
            Asked now and then; if it says no the answer is LIMIT.
        """
        self.runs += 1
        if self.prepare(capacity) is None or self._search is None:
            return EXHAUSTED
        board, frames, failures, switches = self._search
        self.buffers[rows.RANK] = rank
        counters = board.counters
        twin = len(self.piece) <= TWIN_BUFFERS and not is_warm()
        counters[rows.DEPTH] = 0
        answer, before, nodes = LIMIT, -1, 0
        while answer == LIMIT and before < nodes < limit:
            before = nodes
            until = min(limit, nodes + (TWIN_NODES if twin else self.slice))
            run = self.loop if twin else self.loop.compiled
            answer = run(board, frames, failures, switches, rule, until)
            nodes = int(counters[rows.NODES])
            twin = False
            if answer == LIMIT and not in_time():
                break
        self.nodes += nodes
        self.refuted += int(counters[rows.REFUTED])
        return answer

    def prepare(self, capacity: int) -> Board | None:
        """Return the board set to a capacity; None if some buffer has no place within it."""
        if not self._set_capacity(capacity):
            return None
        if self._search is None:
            self._search = self._make_search()
        board, _, failures, _ = self._search
        self._set_caps(board, failures, capacity)
        return board

    def _set_caps(self, board: Board, failures: Failures, capacity: int) -> None:
        """Bring what depends on the capacity up to date."""
        if capacity == self.capacity:
            return
        board.sections[rows.CAP, :-2] = self.piece.tops(self.buffers[rows.LATEST] + self.piece.size)
        if capacity > self.capacity:
            failures.rows[:] = 0
        self.capacity = capacity

    def reset_weights(self) -> None:
        """Forget which sections failed."""
        if self._search is not None:
            self._search[0].sections[rows.WEIGHT] = 1

    def offsets(self) -> IntArray:
        """Return the packing that was found, in units."""
        found: IntArray = self.buffers[rows.OFFSET].copy()
        return found

    def set_offsets(self, offsets: IntArray) -> None:
        """Let `offsets` return these."""
        self.buffers[rows.OFFSET] = offsets

    def first_fit(
        self,
        order: IntArray,
        capacity: int,
        fixed: IntArray | None = None,
        in_time: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Place buffers in turn within a capacity; `offsets` returns the packing.

        Parameters
        ----------
        order
            All buffers, or all but the `fixed` ones.
        fixed
            Buffers whose offsets in the OFFSET row hold.
        in_time
            Asked now and then where buffers are many; if it says no the packing is given up.
        """
        if not self._set_capacity(capacity):
            return False
        held = np.flatnonzero(self.pin >= 0) if fixed is None else fixed
        if len(held):
            self.buffers[rows.OFFSET, held] = np.where(
                self.pin[held] >= 0, self.pin[held], self.buffers[rows.OFFSET, held]
            )
            apart = np.ones(len(self.piece), bool)
            apart[held] = False
            order = np.concatenate([held, order[apart[order]]])
        count = len(held)
        while True:
            until = min(len(order), isqrt(count * count + 2 * FIT_WORK))
            if self._fit(order[:until], count) < until:
                return False
            if until == len(order) or not in_time():
                return until == len(order)
            # As the kernel keeps them: then it need not move any of them.
            line = np.argsort(self.buffers[rows.OFFSET, order[:until]], kind="stable")
            order, count = np.concatenate([order[line], order[until:]]), until

    def _fit(self, order: IntArray, placed: int) -> int:
        """Place all but the first buffers of an order; return how many then have a place."""
        small = len(order) <= TWIN_BUFFERS and not is_warm()
        if self.windows is not None:
            fit = first_fit_windows if small else first_fit_windows.compiled
            return fit(self.buffers, *self.windows, order, placed, self.line)
        run = first_fit if small else first_fit.compiled
        return run(self.buffers, self.piece.sections.masks, order, placed, self.line)
