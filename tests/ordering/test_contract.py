"""Contractions: what is implied is dropped alike, however many ops are looked at at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from optsched.ordering import contract as module
from optsched.ordering.contract import contract
from optsched.ordering.model import build_net
from tests.generators import random_graph


@pytest.mark.parametrize("merge", [True, False])
def test_blocks_of_ops_make_no_difference(merge: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(merge)
    dropped = 0
    for _ in range(150):
        graph = random_graph(rng, ops=int(rng.integers(1, 25)))
        net = build_net(graph.arrays)
        monkeypatch.setattr(module, "BLOCK", 1_000)
        whole = contract(net, merge=merge)
        dropped += len(net.pred) - len(whole.net.pred)
        for block in (1, 2, 7):
            monkeypatch.setattr(module, "BLOCK", block)
            parts = contract(net, merge=merge)
            assert parts.members == whole.members
            assert all((a == b).all() for a, b in zip(parts.net, whole.net, strict=True))
    assert dropped > 100


def test_without_merging_no_edge_follows_from_others() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        net = contract(build_net(random_graph(rng, ops=12).arrays), merge=False).net
        pred = [set(net.pred[a:b].tolist()) for a, b in pairwise(net.pred_ptr)]

        def ancestors(v: int, pred: list[set[int]] = pred) -> set[int]:
            return set().union(*({u} | ancestors(u) for u in pred[v]))

        for row in pred:
            assert not any(row & ancestors(u) for u in row)
        for b in range(len(net.size)):
            users = set(net.user[net.user_ptr[b] : net.user_ptr[b + 1]].tolist())
            assert len(users) > 1
            assert not any(users & ancestors(u) for u in users)
