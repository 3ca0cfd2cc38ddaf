"""XLA's memory scheduling of a module: each computation separately, called ones first.

>>> from heuristics.xla_module import schedule_module
>>> from optsched import GraphBuilder
>>> from optsched.model.module import module_of
>>> build = GraphBuilder("main")
>>> build.op("one", writes={"x": 4096})
>>> build.op("two", reads=["x"], writes={"y": 5120})
>>> schedule_module(module_of(build.build()), "xla_list").memory_by_computation
{'main': 9216}

References
----------
xla/service/hlo_memory_scheduler.cc: `ScheduleModule`, `ScheduleComputationHelper`,
`DefaultMemoryScheduler`; xla/service/heap_simulator.cc: `MinimumMemoryForComputation`,
`MinimumMemoryForModule`, `GlobalDecreasingSizeBestFitHeap`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from heuristics import ORDERINGS, Ordering
from heuristics.orderings.xla import Instructions, xla_dfs, xla_list, xla_post_order
from heuristics.packings.common import place_in_turn
from optsched.check.module import check_schedule
from optsched.errors import PlanError, UsageError
from optsched.model.arrays import IntArray, flat_rows, pack_rows, transpose
from optsched.model.liveness import live_ranges, peak_memory
from optsched.model.logical import LogicalModule
from optsched.model.module import Call, Module
from optsched.model.packing_problem import PackingProblem

ALIGNMENT: Final = 64
"""Alignment in bytes of every chunk of XLA's heap on the CPU."""
MOST_BUFFERS: Final = 1_000_000
"""Maximum number of buffers in a run that executes every call; larger runs are rejected."""

Orders = Mapping[str, Sequence[int]]
"""Op ids by computation, first to run first."""
_BY_INSTRUCTIONS: Final[Mapping[str, Callable[..., IntArray]]] = {
    "xla_list": xla_list,
    "xla_dfs": xla_dfs,
    "xla_post_order": xla_post_order,
}


@dataclass(frozen=True, slots=True)
class ModuleSchedule:
    """An order of each computation, and the bytes that each computation needs.

    At each op that calls computations, the bytes include those of the largest one. Fragmentation is
    not included.
    """

    orders: dict[str, tuple[int, ...]]
    memory_by_computation: dict[str, int]


def schedule_module(
    module: Module, scheduler: str | Ordering = "xla_default", seed: int = 0
) -> ModuleSchedule:
    """Order every computation, called ones first, and check the result.

    Raise `UsageError` if the scheduler is unknown. Raise `PlanError` if the scheduler does not
    return an order of a computation; the message names it.

    `module`: any module. If it was read with
    :func:`optsched.formats.hlo.logical.read_logical_module`, XLA's schedulers see the instructions
    as XLA does. `scheduler`: a name in `ORDERINGS`, or a function `(graph, seed) -> op ids`. The
    scheduler receives the graph of a computation in which the memory of called computations is
    workspace of the calling op. `seed`: seed of the scheduler.
    """
    if isinstance(scheduler, str) and scheduler not in ORDERINGS:
        raise UsageError(f"unknown scheduler {scheduler!r}, expected one of {', '.join(ORDERINGS)}")
    orders: dict[str, tuple[int, ...]] = {}
    memory: dict[str, int] = {}
    # Callees come first, so that their memory is known when a caller is ordered.
    for name in module.computations:
        found = order_computation(module, name, memory, scheduler, seed)
        orders[name] = tuple(map(operator.index, found))
        try:
            memory[name] = peak_memory(module.with_blocks(name, memory), orders[name])
        except PlanError as error:
            raise PlanError(f"computation {name!r}: {error}") from None
    check_schedule(module, orders, memory)
    return ModuleSchedule(orders, memory)


def order_computation(
    module: Module,
    computation: str,
    memory: Mapping[str, int],
    scheduler: str | Ordering,
    seed: int = 0,
) -> Sequence[int] | IntArray:
    """Return a scheduler's order of one computation, given the memory of the ones it calls."""
    graph = module.with_blocks(computation, memory)
    if not isinstance(scheduler, str):
        return scheduler(graph, seed)
    if not isinstance(module, LogicalModule) or not scheduler.startswith("xla_"):
        return ORDERINGS[scheduler](graph, seed)
    names = list(_BY_INSTRUCTIONS) if scheduler == "xla_default" else [scheduler]
    own, found = module.graphs[computation], []
    code = as_instructions(module, computation)
    for name in names:
        # Only the list scheduler takes called computations into account.
        seen = _with_called(module, computation, memory, code) if name == "xla_list" else code
        found.append(_BY_INSTRUCTIONS[name](own, seed, code=seen))
    return min(found, key=lambda order: peak_memory(graph, order))


def as_instructions(module: LogicalModule, computation: str) -> Instructions:
    """Translate a computation into instructions, in O((n + edges) log n)."""
    graph, logical = module.graphs[computation], module.logical[computation]
    n, m = len(graph.ops), len(graph.buffers)
    size = np.array([buffer.size for buffer in graph.buffers], np.int64)
    ignored = np.zeros(n, np.bool_)
    ignored[list(logical.ignored)] = True
    maker = graph.arrays.producer
    counted, defined = np.where(ignored[maker], 0, size), np.zeros(n, np.int64)
    np.add.at(defined, maker, counted)
    user, operand = flat_rows(logical.operands)
    data = np.unique(user * n + operand)
    before = pack_rows(*flat_rows(logical.control), n)
    live_out = np.zeros(m, np.bool_)
    live_out[list(logical.live_out)] = True
    return Instructions(
        ops=n,
        listing=np.arange(n, dtype=np.int64),
        operands=pack_rows(user, operand, n),
        users=pack_rows(data % n, data // n, n),
        before=before,
        after=transpose(before, n),
        defined=defined,
        ignored=ignored,
        uses=pack_rows(*flat_rows(logical.uses), n),
        counted=counted,
        live_out=live_out,
        limit=module.instructions,
        root=logical.root,
    )


def _with_called(
    module: Module, computation: str, memory: Mapping[str, int], code: Instructions
) -> Instructions:
    """Add the memory of called computations to the bytes that the calling instructions define.

    The results of an instruction can be part of that memory.
    """
    defined = code.defined.copy()
    for call in module.calls_of(computation):
        v = module.graphs[computation].op_ids[call.op]
        largest = max(memory[name] for name in call.callees)
        if largest:
            defined[v] = largest if call.results_inside else defined[v] + largest
    return replace(code, defined=defined)


def minimum_memory_for_module(module: Module, orders: Orders) -> int:
    """Return the bytes that a schedule needs without fragmentation if all calls are executed.

    Unlike in `memory_by_computation`, the buffers of a caller and of a called computation are never
    shared, and only while, call and conditional instructions have computations in this memory.
    """
    # As nothing is shared, results take bytes of the caller beside those of what it calls.
    carried_out = tuple(replace(call, results_inside=False) for call in _carried_out(module))
    return check_schedule(replace(module, calls=carried_out), orders)[module.entry]


def heap_size(module: Module, orders: Orders, *, alignment: int = ALIGNMENT) -> int:
    """Return the bytes that a schedule needs on XLA's heap, including fragmentation.

    The largest buffer is placed first, in the tightest hole; among buffers of equal size, the one
    that lives longest comes first. All offsets are multiples of `alignment`.

    Raise `PlanError` if the schedule breaks a rule. Raise `UsageError` if nested calls lead to too
    many buffers.
    """
    check_schedule(module, orders)
    runs: dict[str, IntArray] = {}
    for name in module.computations:
        runs[name] = _heap_run(module, name, orders[name], runs)
    # The heap of the entry contains those of all calls, at the times of the calls.
    start, end, size = runs[module.entry].T
    aligned = np.full(len(size), alignment, np.int64)
    problem = PackingProblem(start=start, end=end, size=size, alignment=aligned)
    turn = np.lexsort((start, start - end, -size))
    return problem.slab_size(place_in_turn(problem, turn, tightest=True))


def _carried_out(module: Module) -> tuple[Call, ...]:
    """Return the calls whose computations have buffers in the memory of their caller."""
    if isinstance(module, LogicalModule):
        return tuple(call for call in module.calls if call.results_inside)
    return module.calls


def _heap_run(
    module: Module, name: str, order: Sequence[int], runs: Mapping[str, IntArray]
) -> IntArray:
    """Return the times at which the heap allocates and frees each buffer, and its bytes.

    The shape is `(k, 3)`. Time counts allocations and frees. Called computations run one after
    another, after the allocations and before the frees of the calling op.
    """
    graph = module.graphs[name]
    ranges, size = live_ranges(graph, order), graph.arrays.size
    live = np.flatnonzero((size > 0) & (ranges[:, 1] > ranges[:, 0]))
    calls = {
        graph.op_ids[call.op]: call.callees
        for call in _carried_out(module)
        if call.computation == name
    }
    horizon = max(1, len(order))
    born, dead = (
        _by_step(ranges[live, 0], live, horizon),
        _by_step(ranges[live, 1] - 1, live, horizon),
    )
    start, end, rows, time = {}, {}, [np.zeros((0, 3), np.int64)], 0
    late: list[int] = []
    for step in range(horizon):
        for b in born[step]:
            start[b], time = time, time + 1
        for callee in calls.get(int(order[step]), ()) if len(order) else ():
            rows.append(runs[callee] + np.array([time, time, 0]))
            time += 2 * len(runs[callee])
        freed = [b for b in dead[step] if not graph.arrays.keep[b]]
        late += [b for b in dead[step] if graph.arrays.keep[b]]
        # XLA frees buffers in this sequence, which decides which holes the heap sees.
        for b in sorted(freed, key=lambda b: (ranges[b, 0] != step, b)):
            end[b], time = time, time + 1
        if sum(map(len, rows)) > MOST_BUFFERS:
            raise UsageError(f"computation {name!r} runs more than {MOST_BUFFERS:,} buffers")
    for b in sorted(late):
        end[b], time = time, time + 1
    own = [(start[b], end[b], int(size[b])) for b in start]
    return np.concatenate([np.array(own, np.int64).reshape(-1, 3), *rows])


def _by_step(steps: IntArray, buffers: IntArray, horizon: int) -> list[list[int]]:
    """Return the buffers of each step, ascending."""
    found: list[list[int]] = [[] for _ in range(horizon)]
    for step, b in zip(steps.tolist(), buffers.tolist(), strict=True):
        found[step].append(b)
    return found
