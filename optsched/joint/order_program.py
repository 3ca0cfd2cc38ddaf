"""The order problem as plain numbers, from which both models of the order are made.

An order is described by which op runs before which. Everything else follows: while op `v` runs,

::

    load(v) = base + rise[v] + sum of delta[u] over the ops u before v
              - sum of the sizes of shared buffers whose users are all before v
              - bytes saved in place

so that no step numbers are needed. For a fixed `v`, the sets of ops that can be before it are the
sets that are closed under predecessors, and the smallest load over them is a minimum cut: the
linear relaxation of a model made of these sums is at least the closure bound of every op.

A program is made from a graph (:func:`instance_program`) or from the contracted problem of the
exact search (:func:`problem_program`). The first one shares no code with the search.

Example: `p` makes 4 bytes, `q` reads them and makes 6. Then `rise[q] = 6`, `delta[p] = 4`, and
`load(q) = 6 + 4` in every order, as `p` is always before `q`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from optsched.joint.instance import INPUT, ModelInstance
from optsched.model.dependencies import members, reachable, topological_order
from optsched.ordering.inplace import unpack_savings
from optsched.ordering.problem import OrderingProblem, as_lists

Shared = tuple[int, tuple[int, ...]]
"""A buffer with several users that an order may run last: its size, and these users."""


@dataclass(frozen=True, slots=True)
class Saving:
    """Bytes that an op need not allocate, as it writes in place."""

    op: int
    size: int
    needs: tuple[int, ...]
    """Ops that must have ended before the op starts."""
    groups: tuple[int, ...]
    """Groups that it belongs to: of each group at most one saving may be used."""


@dataclass(frozen=True)
class OrderProgram:
    """The order problem in units of some number of bytes."""

    base: int
    """Units live before the first op."""
    preds: tuple[tuple[int, ...], ...]
    rise: tuple[int, ...]
    """By op: units that it adds while it runs, to those live before it."""
    delta: tuple[int, ...]
    """By op: units that are left after it."""
    shared: tuple[Shared, ...]
    savings: tuple[Saving, ...] = ()

    def __len__(self) -> int:
        return len(self.preds)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """Ops that run before each op in every order, as bit masks."""
        return reachable(self.preds)

    @cached_property
    def succs(self) -> tuple[tuple[int, ...], ...]:
        """Ops that need each op directly."""
        rows: list[list[int]] = [[] for _ in self.preds]
        for v, before in enumerate(self.preds):
            for u in before:
                rows[u].append(v)
        return tuple(map(tuple, rows))

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """Ops that run after each op in every order, as bit masks."""
        return reachable(self.succs)

    @property
    def most(self) -> int:
        """Upper limit of every partial sum that a solver may form from one load."""
        total = abs(self.base) + sum(abs(x) for x in self.delta) + sum(s for s, _ in self.shared)
        return total + max((abs(x) for x in self.rise), default=0)

    def free_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of ops `(u, v)`, `u < v`, that can run in either order."""
        everything = (1 << len(self)) - 1
        found = []
        for u in range(len(self)):
            related = self.ancestors[u] | self.descendants[u] | (2 << u) - 1
            found += [(u, v) for v in members(everything & ~related)]
        return found

    def relation(self, u: int, v: int) -> int | None:
        """Return 1 if `u` always runs before `v`, 0 if it never does, and None otherwise."""
        if self.ancestors[v] >> u & 1:
            return 1
        return 0 if u == v or self.descendants[v] >> u & 1 else None

    def peak(self, order: Sequence[int]) -> int:
        """Return the largest load of an order, computed step by step."""
        return max(self.loads(order), default=self.base)

    def loads(self, order: Sequence[int]) -> list[int]:
        """Return the load of each step of an order, and at least the units before the first."""
        turn = [0] * len(order)
        for at, v in enumerate(order):
            turn[v] = at
        live, ends, found = self.base, [0] * len(order), []
        for size, users in self.shared:
            ends[max(turn[u] for u in users)] += size
        for at, v in enumerate(order):
            found.append(max(self.base, live + self.rise[v] - self._saved(v, turn)))
            live += self.delta[v] - ends[at]
        return found

    def chosen_savings(self, step: Sequence[int], v: int) -> frozenset[int]:
        """Return the savings of an op that together save most, given the step of each op."""
        able = [
            k
            for k in self._savings_of.get(v, ())
            if all(step[u] < step[v] for u in self.savings[k].needs)
        ]

        # Few savings per op, so all subsets are tried.
        def best(at: int, used: frozenset[int]) -> tuple[int, frozenset[int]]:
            if at == len(able):
                return 0, frozenset()
            saving, rest = self.savings[able[at]], best(at + 1, used)
            if not used.isdisjoint(saving.groups):
                return rest
            size, others = best(at + 1, used | set(saving.groups))
            return max((saving.size + size, others | {able[at]}), rest, key=lambda x: x[0])

        return best(0, frozenset())[1]

    def _saved(self, v: int, step: Sequence[int]) -> int:
        return sum(self.savings[k].size for k in self.chosen_savings(step, v))

    @cached_property
    def _savings_of(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = {}
        for k, saving in enumerate(self.savings):
            rows.setdefault(saving.op, []).append(k)
        return rows


def instance_program(instance: ModelInstance) -> OrderProgram:
    """Return the program of a graph."""
    n = instance.op_count
    rise, delta = [0] * n, [0] * n
    shared: dict[tuple[int, ...], int] = {}
    base = 0
    for item in instance.items:
        size = item.size
        if item.birth == INPUT:
            base += size
        else:
            rise[item.birth] += size
            delta[item.birth] += size
        users = sum(1 << u for u in item.users)
        # Users with a later user are never the last and need not be listed.
        last = tuple(sorted(u for u in set(item.users) if not instance.descendants[u] & users))
        if item.kept or not size:
            continue
        if len(last) == 1:
            delta[last[0]] -= size
        else:
            shared[last] = shared.get(last, 0) + size
    savings = []
    for pair in instance.pairs:
        # The op itself may read the input that it writes over.
        needs = tuple(sorted(set(instance.items[pair.source].users) - {pair.op}))
        # An output is written once, an input overwritten once; `~` keeps their numbers apart.
        groups = (pair.output, ~pair.source)
        savings.append(Saving(pair.op, instance.items[pair.output].size, needs, groups))
    rows = tuple((size, users) for users, size in shared.items())
    return OrderProgram(base, instance.preds, tuple(rise), tuple(delta), rows, tuple(savings))


def problem_program(problem: OrderingProblem) -> OrderProgram:
    """Return the program of an ordering problem, in bytes."""
    users = as_lists(problem.user_ptr, problem.user)
    shared = tuple(zip(problem.size.tolist(), map(tuple, users), strict=True))
    savings = []
    for v, row in enumerate(unpack_savings(problem.savings)):
        for value, buffers in row:
            needs = {u for b in buffers for u in users[b]} - {v}
            savings.append(Saving(v, value, tuple(sorted(needs)), (v,)))
    return OrderProgram(
        int(problem.base),
        tuple(tuple(row) for row in as_lists(problem.pred_ptr, problem.pred)),
        tuple(problem.rise.tolist()),
        tuple(problem.delta.tolist()),
        shared,
        tuple(savings),
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """Ops between two states that every order passes, as a program with its own op numbers."""

    ops: tuple[int, ...]
    program: OrderProgram


def segments(program: OrderProgram) -> list[Segment]:
    """Split a program at the states that every order passes, first to run first.

    The peak of the program is the largest of its segments, and their orders can be chosen apart.
    """
    order = topological_order(program.preds)
    # By number of ancestors: an op that every order passes comes after all ops before it.
    order.sort(key=lambda v: program.ancestors[v].bit_count())
    # Ops that run before all ops from here on, as a bit mask.
    common = [(1 << len(program)) - 1]
    for v in reversed(order):
        common.append(common[-1] & program.ancestors[v])
    common.reverse()
    found, part, done = [], list[int](), 0
    state = _State(program)
    for v, before in zip(order, common[1:], strict=True):
        part.append(v)
        done |= 1 << v
        # Everything so far runs before all that follows, so every order passes this state.
        if not done & ~before:
            found.append(state.cut(part))
            part = []
    return found


class _State:
    """Units live after the ops that have been cut off.

    `waiting` has the number of users of each shared buffer that are not cut off. A cut looks at the
    buffers and savings of its own ops only, so all cuts together take linear time.
    """

    def __init__(self, program: OrderProgram) -> None:
        self.program, self.live = program, program.base
        self.done = bytearray(len(program))
        self.waiting = [len(users) for _, users in program.shared]
        self.used: list[list[int]] = [[] for _ in range(len(program))]
        for b, (_, users) in enumerate(program.shared):
            for u in users:
                self.used[u].append(b)
        self.saved: list[list[int]] = [[] for _ in range(len(program))]
        for i, saving in enumerate(program.savings):
            self.saved[saving.op].append(i)

    def cut(self, ops: Sequence[int]) -> Segment:
        """Return the next segment, and advance to the state after it."""
        program, ops = self.program, sorted(ops)
        number = {v: i for i, v in enumerate(ops)}
        delta = {v: program.delta[v] for v in ops}
        self.live, live = self.live + sum(delta.values()), self.live
        shared = []
        for b, mine in self._ended(ops):
            size, _ = program.shared[b]
            self.live -= size
            # One user left in this segment: its release is a fixed part of that op's change.
            if len(mine) == 1:
                delta[mine[0]] -= size
            else:
                shared.append((size, tuple(number[u] for u in mine)))
        made = OrderProgram(
            live,
            tuple(tuple(number[u] for u in program.preds[v] if u in number) for v in ops),
            tuple(program.rise[v] for v in ops),
            tuple(delta.values()),
            tuple(shared),
            tuple(self._savings(number)),
        )
        for v in ops:
            self.done[v] = 1
        return Segment(tuple(ops), made)

    def _ended(self, ops: Sequence[int]) -> list[tuple[int, list[int]]]:
        """Return the shared buffers whose last users are among these ops, with these users."""
        users: dict[int, list[int]] = {}
        for v in ops:
            for b in self.used[v]:
                users.setdefault(b, []).append(v)
                self.waiting[b] -= 1
        return [(b, users[b]) for b in sorted(users) if not self.waiting[b]]

    def _savings(self, number: dict[int, int]) -> list[Saving]:
        """Return the savings of a segment, without those that need ops of later segments."""
        found = []
        for i in sorted(i for v in number for i in self.saved[v]):
            saving = self.program.savings[i]
            # What has run already is met.
            mine = [u for u in sorted(saving.needs) if not self.done[u]]
            if all(u in number for u in mine):
                needs = tuple(number[u] for u in mine)
                found.append(Saving(number[saving.op], saving.size, needs, saving.groups))
        return found
