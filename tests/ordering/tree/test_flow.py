"""Flows at an op against the least live bytes over all downsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from optsched.model.graph import Graph
from optsched.ordering.bound.precedences import related
from optsched.ordering.kernels.bits import pack, unpack
from optsched.ordering.problem import build_problem
from optsched.ordering.tree.kernels.flow import (
    begin_including,
    cost_of_excluding,
    cost_of_including,
    end_excluding,
    find_late,
    push_all,
    restore_flow,
    save_flow,
    undo,
)
from optsched.ordering.tree.kernels.workspace import FlowWorkspace, make_workspace, set_up
from tests.support.generators import PLANNABLE, random_graph
from tests.support.ordering_oracle import Oracle

MUCH = 2**50


@dataclass
class Case:
    """A graph with some precedences assumed, and what is live while an op runs in each downset."""

    graph: Graph
    above: np.ndarray

    def __post_init__(self) -> None:
        self.n = len(self.graph.ops)
        self.problem = build_problem(self.graph.arrays)
        self.oracle = Oracle(self.graph)
        need = [sum(1 << u for u in np.flatnonzero(row).tolist()) for row in self.above]
        self.downsets = [
            done
            for done in self.oracle.downsets
            if all(need[v] & ~done == 0 for v in range(self.n) if done >> v & 1)
        ]
        self.needs = need

    def live(self, v: int) -> dict[int, int]:
        """Live bytes while an op runs, by the downset that has ended."""
        return {
            done: self.oracle.live(done, 1 << v)
            for done in self.downsets
            if self.needs[v] & ~done == 0 and not done >> v & 1
        }

    def flow(self, flow: FlowWorkspace, v: int) -> int:
        """Work out the flow at an op; its least live bytes."""
        before, after = pack(self.above), pack(self.above.T)
        least = set_up(self.problem, before, after, flow, v) + restore_flow(flow, v)
        return int(least + push_all(flow, MUCH))

    def assume(self, rng: np.random.Generator) -> None:
        """Add one more precedence, if two ops are not in order."""
        ordered = self.above | self.above.T | np.eye(self.n, dtype=bool)
        pairs = np.argwhere(~ordered)
        if len(pairs):
            first, second = pairs[rng.integers(len(pairs))]
            late = self.above[:, second].copy()
            late[second] = True
            early = self.above[first].copy()
            early[first] = True
            self.above[np.ix_(late, early)] = True
            self.__post_init__()


def some_cases(seed: int, count: int) -> list[tuple[Case, np.random.Generator]]:
    rng = np.random.default_rng(seed)
    graphs = [
        random_graph(
            rng, int(rng.integers(2, 9)), max_size=int(rng.choice([2, 9, 2**40])),
            features=PLANNABLE,
        )
        for _ in range(count)
    ]  # fmt: skip
    return [
        (Case(graph, related(build_problem(graph.arrays))), rng) for graph in graphs if graph.ops
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_flow_is_the_least_live_bytes_with_ever_more_precedences(seed: int) -> None:
    # The flow keeps the flow of each op from one branch for the next.
    for case, rng in some_cases(seed, 40):
        flow = make_workspace(case.problem)
        for _ in range(3):
            for v in range(case.n):
                assert case.flow(flow, v) == min(case.live(v).values())
                save_flow(flow, v)
                assert not flow.sent.any()
                assert not flow.receivers.any()
                assert not flow.senders.any()
            case.assume(rng)


def test_having_an_op_ended_or_not_costs_what_the_best_such_downset_does() -> None:
    for case, rng in some_cases(3, 60):
        case.assume(rng)
        flow, before = make_workspace(case.problem), pack(case.above)
        late = np.zeros_like(flow.every)
        for v in range(case.n):
            least, live = case.flow(flow, v), case.live(v)
            find_late(flow, before, late)
            for u in np.flatnonzero(unpack(flow.undecided[None], case.n)[0]).tolist():
                having = min(x for done, x in live.items() if done >> u & 1)
                lacking = min(x for done, x in live.items() if not done >> u & 1)
                for slack in (0, MUCH):
                    begin_including(flow)
                    more = cost_of_including(flow, before, u, slack)
                    assert more == min(having - least, slack + 1)
                    undo(flow, np.int64(0))
                    assert cost_of_excluding(flow, u, slack) == min(lacking - least, slack + 1)
                    end_excluding(flow, u, slack)
            save_flow(flow, v)


def test_late_ops_are_those_outside_the_largest_best_downset() -> None:
    for case, rng in some_cases(4, 60):
        case.assume(rng)
        flow, before = make_workspace(case.problem), pack(case.above)
        late = np.zeros_like(flow.every)
        for v in range(case.n):
            case.flow(flow, v)
            live = case.live(v)
            largest = 0
            for done, x in live.items():
                largest |= done if x == min(live.values()) else 0
            find_late(flow, before, late)
            free = np.flatnonzero(unpack(flow.undecided[None], case.n)[0]).tolist()
            found = np.flatnonzero(unpack(late[None], case.n)[0]).tolist()
            assert found == [u for u in free if not largest >> u & 1]
            save_flow(flow, v)
