"""The plain Python form of the kernels answers as the compiled one, node by node."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.packing import Rules
from optsched.packing.components import make_pieces
from optsched.packing.engine import Engine
from optsched.packing.kernels.first_fit import first_fit, first_fit_windows
from optsched.packing.kernels.state import DEPTH, OFFSET, REST
from tests.support.packing_instances import random_problem


@pytest.mark.parametrize("kind", ["", "ap", "g", "w", "apw"])
def test_search(kind: str) -> None:
    for seed in range(4):
        problem = random_problem(np.random.default_rng([17, seed]), kind, buffers=9)
        for piece in make_pieces(problem, Rules()):
            seen = []
            for compiled in (False, True):
                engine = Engine(piece, Rules())
                run = engine.loop.compiled if compiled else engine.loop
                engine.decide(piece.bound, engine.keys.rank("WAT"), seed, 1, lambda: False)
                if engine._search is None:
                    continue
                board, frames, failures, switches = engine._search
                board.counters[DEPTH] = 0
                answer = run(board, frames, failures, switches, seed, 2_000)
                counters = board.counters.tolist()
                seen.append((answer, counters, engine.buffers.tolist(), board.sections.tolist()))
            assert len(seen) < 2 or seen[0] == seen[1]


@pytest.mark.parametrize("kind", ["", "ap", "g", "apw"])
def test_first_fit(kind: str) -> None:
    problem = random_problem(np.random.default_rng(2), kind, buffers=12)
    for piece in make_pieces(problem, Rules()):
        seen = []
        for compiled in (False, True):
            engine = Engine(piece, Rules())
            engine.first_fit(engine.keys.order("TZ"), 10**6)
            order = engine.keys.order("ZW")
            if engine.windows is None:
                fit = first_fit.compiled if compiled else first_fit
                count = fit(engine.buffers, piece.sections.masks, order, 0, engine.line)
            else:
                among = first_fit_windows.compiled if compiled else first_fit_windows
                count = among(engine.buffers, *engine.windows, order, 0, engine.line)
            seen.append((count, engine.buffers[OFFSET].tolist()))
        assert seen[0] == seen[1]


def test_a_full_undo_restores_the_board() -> None:
    problem = random_problem(np.random.default_rng(21), "", buffers=9)
    for piece in make_pieces(problem, Rules()):
        engine = Engine(piece, Rules(failures=False))
        answer = engine.decide(piece.bound - 1, engine.keys.rank("TWA"), 0, 10**5, lambda: True)
        assert answer == 0
        if engine._search is not None:
            assert engine._search[0].sections[REST, : piece.sections.count].min() >= 0
