"""Collectives in a joint graph: they keep their sequence, and a plan needs other ranks."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from torch import distributed, fx  # noqa: E402
from torch._inductor import config  # noqa: E402

from optsched import GraphBuilder, plugins  # noqa: E402
from optsched.plugins.inductor import options  # noqa: E402
from optsched.plugins.inductor.reading.support import KeptOrderError  # noqa: E402
from optsched.plugins.inductor.recompute import ranks  # noqa: E402
from optsched.plugins.inductor.recompute.joint_graph import in_sequence  # noqa: E402
from optsched.plugins.inductor.recompute.ranks import (  # noqa: E402
    RanksError,
    Team,
    joint_structure,
    require_equal,
    team_of,
)
from optsched.plugins.inductor.recompute.step_team import MOST_UNMEASURED, StepTeam  # noqa: E402
from optsched.plugins.inductor.running.step_calls import Span  # noqa: E402
from tests.support.compiled_memory import NO_CACHE, no_kernels  # noqa: E402


def joint(count: int, size: int = 4, group: str = "0") -> Any:
    """Return a graph of an input and some collectives of it."""
    graph, torch_ops = fx.Graph(), torch.ops._c10d_functional
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(size)
    made = [
        graph.call_function(torch_ops.all_reduce.default, (x, "sum", group)) for _ in range(count)
    ]
    graph.output(tuple(made))
    return fx.GraphModule({}, graph)


def test_collectives_keep_the_sequence_of_the_program() -> None:
    module = joint(3)
    names = [node.name for node in module.graph.nodes if node.op == "call_function"]
    build = GraphBuilder("step")
    build.input("x", 4, "excluded")
    for name in [*names, "other"]:
        build.op(name, reads=["x"], writes={f"{name} result": 4})
    made = in_sequence(module, build.build())
    assert [op.control for op in made.ops] == [(), (0,), (1,), ()]


def test_a_plan_needs_a_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    assert team_of(joint(0)) is None
    with pytest.raises(RanksError, match="the process group is missing: call torch"):
        team_of(joint(1))
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_backend", lambda: "gloo")
    with pytest.raises(RanksError, match="collectives of process group '17', which is missing"):
        team_of(joint(1, group="17"))


def test_the_ranks_are_those_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {"0": range(4), "5": (2, 3), "6": (1, 3)}
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_backend", lambda: "gloo")
    monkeypatch.setattr(distributed, "get_world_size", lambda: 4)
    monkeypatch.setattr(distributed, "get_process_group_ranks", groups.__getitem__)
    monkeypatch.setattr(ranks, "_resolve_process_group", lambda name: name)
    assert team_of(joint(2, group="5")) == Team("5", (2, 3))
    # With two groups, equal plans in each mean equal plans in all that they reach.
    both = joint(2, group="5")
    last = [node for node in both.graph.nodes if node.op == "call_function"][-1]
    last.args = (*last.args[:2], "6")
    assert team_of(both) == Team("all", (0, 1, 2, 3))


def test_what_differs_between_ranks_is_named() -> None:
    first = joint_structure(joint(2), {}, "")
    others = {
        "rank 4 and rank 6 compile different graphs, of 4 and 5 nodes": (joint(3), {}, ""),
        "rank 4 and rank 6 compile graphs of different shapes": (joint(2, size=5), {}, ""),
        "rank 4 and rank 6 ask for different peaks": (joint(2), {}, "other settings"),
        "rank 4 and rank 6 compile different graphs": (joint(2), {"num_fwd_outputs": 2}, ""),
    }
    for text, other in others.items():
        with pytest.raises(RanksError, match=text):
            require_equal([first, first, joint_structure(*other)], (4, 5, 6))
    # Groups have other names on other ranks.
    require_equal([first, joint_structure(joint(2, group="9"), {}, "")], (4, 5))


class Store:
    """A store of a process group that has what the other rank says, or does not answer."""

    def __init__(self, said: dict[str, str]) -> None:
        self.said = said

    def set(self, name: str, text: str) -> None:
        self.said[name] = text

    def get(self, name: str) -> bytes:
        return self.said[name].encode()

    def wait(self, names: list[str], _: Any) -> None:
        if not self.said.keys() >= set(names):
            raise RuntimeError("Wait timeout")


@pytest.mark.parametrize("rank", range(2))
def test_an_answer_that_fails_is_told_to_all(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    said = {f"optsched/0/{what}/0/{other}": "[{}, 0]" for what in "abcd" for other in range(2)}
    store = Store({name: text for name, text in said.items() if "/d/" not in name})
    monkeypatch.setattr(distributed.distributed_c10d, "_get_default_store", lambda: store)
    team = Team("0", (0, 1))

    def fail(error: Exception) -> Any:
        raise error

    reached: list[str] = []
    for now in range(rank + 1):
        monkeypatch.setattr(distributed, "get_rank", lambda now=now: now)
        monkeypatch.setattr(ranks, "_numbers", ranks.Counter())
        assert team.settle("a", {}, len, wait=1) == 2
        for what, error in (("b", RanksError("they differ")), ("c", KeptOrderError("no plan"))):
            with pytest.raises(type(error), match=str(error)):
                team.settle(what, {}, lambda _, error=error: fail(error), wait=1)
        with pytest.raises(RanksError, match="rank 1 said nothing about the d within 1 seconds"):
            team.settle("d", {}, reached.append, wait=1)
    assert not reached


def spans(most: int, planned: int = 10, region: str = "a") -> list[Span]:
    calls = [((region, False), ()), ((region, True), ())] * 2
    return [Span(running, waiting, planned, most) for running, waiting in calls]


def test_the_rank_that_holds_most_decides() -> None:
    team = StepTeam()
    # Rank 1 holds 40 bytes beside the planned ones.
    assert team.largest(spans(40), [spans(40), spans(45, planned=5)], (0, 1)) == spans(50)
    assert not team.trouble
    assert not team.largest(spans(40), [spans(40), spans(40, region="b")], (0, 1))
    assert team.trouble == "rank 0 and rank 1 call other graphs in a step"


def test_ranks_without_a_measurement_are_named_after_some_steps() -> None:
    team = StepTeam()
    for _ in range(MOST_UNMEASURED):
        assert not team.trouble
        assert not team.largest(spans(40), [spans(40), []], (0, 1))
    assert team.trouble == "rank 1 measures no step"


@pytest.mark.usefixtures("mesh")
def test_ranks_that_do_not_exist_are_not_waited_for(mesh: Any) -> None:
    """A capture of one rank of eight is planned as that rank would be."""
    group = mesh.get_group()

    def program(x: Any, up: Any, down: Any) -> Any:
        y = torch.tanh(x @ up) * torch.sigmoid(x @ up)
        made = torch.distributed._functional_collectives.all_reduce(
            (y @ down).detach(), "sum", group
        )
        return (y @ down + made).sum()

    x, up = torch.randn(256, 32), torch.randn(32, 512, requires_grad=True)
    with no_kernels(), config.patch(NO_CACHE):
        how = options(peak=2_500_000, time_limit=1)
        torch.compile(program, options=how)(x, up, torch.randn(512, 32)).backward()
    row, *graphs = plugins.records()
    assert row.answer.startswith("fits 2,500,000 bytes: "), row
    assert max(graph.planned or 0 for graph in graphs) <= 2_500_000
