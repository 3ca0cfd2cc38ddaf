"""XLA's three schedulers on instructions that are objects, with its own loops and recursion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from optsched.model.graph import Graph
from tests.heuristics.reference_model import model_of


@dataclass(eq=False)
class Instruction:
    name: str
    op: int | None
    operands: list[Instruction] = field(default_factory=list)
    users: list[Instruction] = field(default_factory=list)
    control_before: list[Instruction] = field(default_factory=list)
    control_after: list[Instruction] = field(default_factory=list)
    uses: set[int] = field(default_factory=set)
    defined: int = 0
    ignored: bool = False


def module_of(graph: Graph) -> list[Instruction]:
    """Build the module in program order: parameters first."""
    model = model_of(graph)
    producer: dict[int, Instruction] = {}
    parameters = []
    for b, buffer in enumerate(graph.buffers):
        if graph.producers[b] is None:
            producer[b] = Instruction(buffer.name, None)
            parameters.append(producer[b])
    made = [Instruction(op.name, v) for v, op in enumerate(graph.ops)]
    for v, op in enumerate(graph.ops):
        for b in op.writes:
            producer[b] = made[v]
    for v, op in enumerate(graph.ops):
        me = made[v]
        me.defined = model.allocates[v]
        me.uses = {b for b in model.used[v] if graph.roots[b] == b}
        for b in op.reads:
            operand = producer[b]
            me.operands.append(operand)
            if me not in operand.users:
                operand.users.append(me)
        for u in (*op.control, *graph.predecessors[v]):
            if made[u] in me.control_before:
                continue
            if u in op.control or made[u] not in me.operands:
                me.control_before.append(made[u])
                made[u].control_after.append(me)
    return parameters + made


def ops_of(sequence: list[Instruction]) -> list[int]:
    return [x.op for x in sequence if x.op is not None]


def list_schedule(graph: Graph) -> list[int]:
    model, module = model_of(graph), module_of(graph)
    size = [0 if graph.producers[b] is None else model.size[b] for b in range(len(model.size))]
    kept = [b for b in range(len(graph.buffers)) if graph.kept[b]]
    return ops_of(list_sequence(module, size, kept))


def list_sequence(
    module: list[Instruction], size: list[int], live_out: list[int]
) -> list[Instruction]:
    uses_left = [sum(b in x.uses for x in module) + (b in live_out) for b in range(len(size))]
    waits = dict.fromkeys(module, 0)
    for x in module:
        for y in (*x.users, *x.control_after):
            waits[y] += 1

    def priority(x: Instruction) -> tuple[int, int]:
        freed = sum(size[b] for b in x.uses if uses_left[b] == 1)
        return (freed - x.defined, len(x.users))

    # A multimap: ascending by priority, a new entry after its equals.
    queue: list[tuple[tuple[int, int], Instruction]] = []

    def emplace(p: tuple[int, int], x: Instruction) -> None:
        at = sum(q <= p for q, _ in queue)
        queue.insert(at, (p, x))

    for x in module:
        if not x.operands and not x.control_before:
            emplace(priority(x), x)
    sequence: list[Instruction] = []
    while queue:
        _, best = queue.pop()
        sequence.append(best)
        adjust = False
        for b in best.uses:
            uses_left[b] -= 1
            adjust = adjust or uses_left[b] == 1
        for x in (*best.users, *best.control_after):
            waits[x] -= 1
            if waits[x] == 0:
                emplace(priority(x), x)
        if not adjust:
            continue
        for operand in best.operands:
            for x in operand.users:
                queued = [i for i, (_, y) in enumerate(queue) if y is x]
                if queued and queue[queued[0]][0] != priority(x):
                    del queue[queued[0]]
                    emplace(priority(x), x)
    return sequence


def post_order_of(
    roots: list[Instruction], children: Callable[[Instruction], list[Instruction]]
) -> list[Instruction]:
    sequence: list[Instruction] = []

    def visit(x: Instruction) -> None:
        if x in sequence:
            return
        for y in children(x):
            visit(y)
        sequence.append(x)

    for root in roots:
        visit(root)
    return sequence


def full_post_order(module: list[Instruction]) -> list[Instruction]:
    return post_order_of(
        [x for x in module if not x.users],
        lambda x: [*reversed(x.control_before), *x.operands],
    )


def post_order(graph: Graph) -> list[int]:
    return ops_of(full_post_order(module_of(graph)))


def depth_first(graph: Graph) -> list[int]:
    module = module_of(graph)
    for x in module:
        x.ignored = x.op is None
    roots = [x for x in module if not x.users and not x.control_after]
    return ops_of(depth_first_sequence(module, len(module), roots))


def depth_first_sequence(
    module: list[Instruction], limit: int, roots: list[Instruction]
) -> list[Instruction]:
    extra_users: dict[Instruction, int] = {}
    total_sizes: dict[Instruction, int] = {}
    cumulative = 0
    for x in full_post_order(module):
        if x.ignored:
            extra_users[x] = total_sizes[x] = 0
            continue
        cumulative += x.defined
        operands = set(x.operands)
        users = max(0, len(x.users) - 1) + sum(extra_users[y] for y in operands)
        extra_users[x] = min(users, limit)
        total_sizes[x] = min(x.defined + sum(total_sizes[y] for y in operands), cumulative)

    def key(x: Instruction) -> tuple[int, int, str]:
        return (-extra_users[x], -total_sizes[x], x.name)

    return post_order_of(roots, lambda x: sorted([*x.operands, *x.control_before], key=key))
