"""ExecuTorch with our plans: the program runs, its results are the same, its arenas are ours."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("executorch", reason="ExecuTorch is not installed (extra executorch)")

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, Verifier, greedy
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.runtime import Runtime, Verification

import optsched.plugins.executorch.planning as planning_module
from optsched.errors import PlanError, UsageError
from optsched.plugins import CompiledGraph, forget, records
from optsched.plugins.executorch import memory_planning
from optsched.plugins.executorch.program import reorder
from optsched.plugins.gain import MinGain
from tests.support.executorch_models import MODELS, Branching, Mixed


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    """Each test starts without records."""
    forget()


class Program:
    """A model lowered with some memory planning, and its results of two calls."""

    def __init__(self, exported: Any, arguments: tuple[Any, ...], planning: Any) -> None:
        edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
        names = ["cache", "first", "second"]
        config = ExecutorchBackendConfig(
            memory_planning_pass=planning, passes=[InitializedMutableBufferPass(names)]
        )
        lowered = edge.to_executorch(config)
        self.arenas = lowered.exported_program().graph_module.meta["non_const_buffer_sizes"]
        loaded = Runtime.get().load_program(lowered.buffer, verification=Verification.Minimal)
        method = loaded.load_method("forward")
        self.results = [[x.clone() for x in method.execute([*arguments])] for _ in range(2)]

    def equals(self, other: Program) -> bool:
        """Return True if all results are equal, bit for bit."""
        pairs = zip(self.results, other.results, strict=True)
        return all(torch.equal(x, y) for a, b in pairs for x, y in zip(a, b, strict=True))


def export(model: Any, arguments: tuple[Any, ...]) -> Any:
    """Export a model for inference."""
    with torch.no_grad():
        return torch.export.export(model.eval(), arguments, strict=False)


def lower(exported: Any, arguments: tuple[Any, ...], planning: Any = None) -> Program:
    """Lower with a pass, by default the framework's own with its greedy algorithm."""
    own = MemoryPlanningPass(memory_planning_algo=MemoryPlanningAlgorithmSuite([greedy]))
    with torch.no_grad():
        return Program(exported, arguments, planning or own)


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> tuple[str, Any, Any, Program]:
    """A model by name, exported, its arguments, and the program with greedy planning."""
    torch.manual_seed(0)
    module, arguments = MODELS[request.param]()
    exported = export(module, arguments)
    return request.param, exported, arguments, lower(exported, arguments)


LEAST = {"wide branches": 221_184, "inception": 573_440, "transformer": 114_688, "counter": 65_536}


def test_arena_is_what_was_planned_and_results_are_the_same(
    model: tuple[str, Any, Any, Program],
) -> None:
    """The arena has the planned bytes, proved minimum, never above greedy's; results agree."""
    name, exported, arguments, before = model
    program = lower(exported, arguments, memory_planning(time_limit=20))
    (planned,) = records()
    assert sum(program.arenas) == planned.after <= LEAST.get(name, sum(before.arenas))
    assert planned.after <= sum(before.arenas)
    assert planned.proof
    assert planned.bound == planned.after
    assert program.equals(before)


def test_little_is_not_worth_another_order() -> None:
    """The program's own order is kept, and the record says what another one saves."""
    module, arguments = MODELS["wide branches"]()
    exported = export(module, arguments)
    lower(exported, arguments, memory_planning(time_limit=20, min_gain="99%"))
    (planned,) = records()
    assert planned.after == planned.before
    assert "the minimum gain is 99 %" in planned.reason


def test_offsets_alone_are_never_above_greedy(model: tuple[str, Any, Any, Program]) -> None:
    """With the program's own order."""
    _, exported, arguments, before = model
    planning = memory_planning(reorder=False, time_limit=20)
    program = lower(exported, arguments, planning)
    assert records() == ()
    assert sum(program.arenas) <= sum(before.arenas)
    assert program.equals(before)


def test_all_stages_share_one_limit(
    model: tuple[str, Any, Any, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arena of the program's order, the search, and the arena of the order that is kept."""
    given: list[float] = []

    def noted(name: str) -> None:
        inner = getattr(planning_module, name)

        def called(*args: Any, limits: Any, **options: Any) -> Any:
            given.append(limits.left())
            return inner(*args, limits=limits, **options)

        monkeypatch.setattr(planning_module, name, called)

    noted("pack")
    noted("solve")
    _, exported, arguments, _ = model
    lower(exported, arguments, memory_planning(time_limit=100))
    first, searched, *kept = given
    assert first <= 10
    assert first < searched <= 70
    assert kept
    assert max(kept) < 100


class ShufflingPass(planning_module.OptimalPlanning):
    """Takes any order that the graph allows."""

    def __init__(self, seed: int) -> None:
        limits = planning_module.Limits(seconds=1)
        super().__init__(True, [], limits, MinGain(), alignment=16)
        self.random = random.Random(seed)
        self.moved = 0

    def _choose_order(self, module: Any, signature: Any) -> Any:
        sizes = self._sizes(module, signature)
        program = planning_module.ProgramGraph(
            module, sizes, planning_module._mutable(signature), self.alignment
        )
        order: list[int] = []
        left = set(range(len(program.graph.ops)))
        while left:
            ready = [v for v in left if left.isdisjoint(program.graph.predecessors[v])]
            order.append(self.random.choice(sorted(ready)))
            left.remove(order[-1])
        order = order[: len(program.nodes)]
        self.moved = sum(v != i for i, v in enumerate(order))
        reorder(module, [program.nodes[v] for v in order])
        return CompiledGraph("executorch", "shuffled", len(order))


@pytest.mark.parametrize("seed", range(2))
def test_every_order_the_graph_allows_gives_the_same_results(
    model: tuple[str, Any, Any, Program], seed: int
) -> None:
    """The graph's edges are all that is needed, mutated buffers, views and tuples included."""
    _, exported, arguments, before = model
    shuffled = ShufflingPass(seed)
    assert lower(exported, arguments, shuffled).equals(before)
    assert shuffled.moved


@pytest.mark.parametrize("seed", range(8))
def test_random_nets_with_changed_buffers(seed: int) -> None:
    """Planned and shuffled, results are the same in two calls; the arena is never larger."""
    torch.manual_seed(seed)
    arguments = (torch.randn(16, 16),)
    exported = export(Mixed(seed), arguments)
    before = lower(exported, arguments)
    planning = memory_planning(time_limit=10)
    program = lower(exported, arguments, planning)
    assert sum(program.arenas) == records()[-1].after <= sum(before.arenas)
    assert program.equals(before)
    assert lower(exported, arguments, ShufflingPass(seed)).equals(before)


def test_control_flow_keeps_its_order(caplog: pytest.LogCaptureFixture) -> None:
    """Branches are planned by the framework's way, around ours; the log says why."""
    arguments = (torch.randn(8, 8),)
    exported = export(Branching(), arguments)
    before = lower(exported, arguments)
    planning = memory_planning(time_limit=10)
    with caplog.at_level(logging.INFO, logger="optsched"):
        program = lower(exported, arguments, planning)
    assert "it has control flow" in caplog.text
    assert sum(program.arenas) <= sum(before.arenas)
    assert program.equals(before)


def test_inputs_and_outputs_of_the_caller() -> None:
    """Tensors that the caller allocates have no bytes in the arena."""
    module, arguments = MODELS["wide branches"]()
    exported = export(module, arguments)
    sizes = {}
    for ours in (True, False):
        options = {"alloc_graph_input": False, "alloc_graph_output": False}
        suite = MemoryPlanningAlgorithmSuite([greedy])
        planning = (
            memory_planning(time_limit=10, **options)
            if ours
            else MemoryPlanningPass(memory_planning_algo=suite, **options)
        )
        edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
        lowered = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
        sizes[ours] = sum(lowered.exported_program().graph_module.meta["non_const_buffer_sizes"])
        if ours:
            assert records()[-1].after == sizes[ours]
    assert sizes[True] < sizes[False]


def test_memories_with_capacities() -> None:
    """Tensors that do not fit a memory spill to the next; the program runs in both."""
    module, arguments = MODELS["wide branches"]()
    exported = export(module, arguments)
    before = lower(exported, arguments)
    planning = memory_planning(time_limit=10, capacities={1: "128KiB", 2: None})
    program = lower(exported, arguments, planning)
    assert program.equals(before)
    assert len(program.arenas) == 3
    assert 0 < program.arenas[1] <= 128 << 10
    assert program.arenas[2] > 0


def test_capacities_that_can_not_do_are_refused_by_name() -> None:
    """The whole program stays as it was: nothing is lowered."""
    module, arguments = MODELS["wide branches"]()
    exported = export(module, arguments)
    with pytest.raises(Exception, match="of 4096 bytes") as raised:
        lower(exported, arguments, memory_planning(time_limit=5, capacities={1: 4096}))
    causes = [raised.value, raised.value.__cause__, raised.value.__context__]
    assert any(isinstance(error, PlanError) for error in causes)


def test_a_failure_of_ours_is_the_framework_s_plan(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The program is lowered as without us, and two lines say so."""

    def fail(*_: object, **__: object) -> Any:
        raise ValueError("broken on purpose")

    module, arguments = MODELS["wide branches"]()
    exported = export(module, arguments)
    before = lower(exported, arguments)
    monkeypatch.setattr(planning_module, "solve", fail)
    monkeypatch.setattr(planning_module, "pack", fail)
    program = lower(exported, arguments, memory_planning(time_limit=5))
    assert program.arenas == before.arenas
    assert program.equals(before)
    assert caplog.text.count("broken on purpose") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacities": {0: 5}}, "mem_id must be 1 or more, got 0"),
        ({"capacities": {1: "many"}}, "many"),
        ({"memory_planning_algo": greedy}, "the pass uses our algorithm"),
        ({"time_limit": -1}, "-1"),
        ({"min_gain": "much"}, "min_gain must be bytes or a percentage"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    """One line that names the value."""
    with pytest.raises(UsageError, match=message):
        memory_planning(**options)


def test_tensors_are_apart_exactly_if_the_framework_says_so() -> None:
    """Compared with the framework's own test of all pairs."""
    rng = random.Random(4)
    seen = {True: 0, False: 0}
    for _ in range(1_500):
        specs = []
        for _ in range(rng.randint(1, 6)):
            begin, size = rng.randrange(12), rng.randrange(5)
            place: dict[str, Any] = {"mem_id": rng.randint(1, 2), "mem_offset": rng.randrange(6)}
            lifetime = [begin, begin + rng.randrange(4)]
            place |= {"lifetime": lifetime, "allocated_memory": size, "storage_base": None}
            specs.append(SimpleNamespace(**place))
        overlap = any(
            Verifier.storage_overlap(a, b) and Verifier.lifetime_overlap(a, b)
            for a, b in combinations(specs, 2)
        )
        assert planning_module.are_apart(specs) is not overlap
        seen[overlap] += 1
        # A tensor inside another one is left to the framework.
        specs[0].storage_base = specs[-1]
        assert not planning_module.are_apart(specs)
    assert min(seen.values()) > 300


def test_what_is_recorded_is_what_is_allocated() -> None:
    """A limit may be too short for offsets as good as those of the order's plan."""
    place = {"mem_offset": 16, "allocated_memory": 48}
    specs = [
        SimpleNamespace(mem_id=1, mem_offset=0, allocated_memory=32),
        SimpleNamespace(mem_id=1, **place),
        SimpleNamespace(mem_id=2, **place),
        SimpleNamespace(mem_id=None, mem_offset=None, allocated_memory=1 << 20),
    ]
    planned = CompiledGraph(
        "executorch", "method", 4, before=256, after=112, bound=112, proof="order bound"
    )
    found = planning_module.as_allocated(planned, specs)
    assert (found.after, found.proof, found.before) == (128, "", 256)
    proved = replace(planned, bound=128)
    assert planning_module.as_allocated(proved, specs) == replace(proved, after=128)
    nothing_known = CompiledGraph("executorch", "method", 0, reason="it has control flow")
    assert planning_module.as_allocated(nothing_known, specs) == nothing_known
