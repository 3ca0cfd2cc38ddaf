"""The check of regions: parts of a graph that run along one chain, regardless of other ops.

Idea. Let each op outside a region run before all of its ops, after all, or have nothing to do with
any, and let no buffer be released by ops of both (:func:`_outside`, :func:`_own_buffers`). With the
states `X` of the region and `E` of the rest, live bytes are then `g(X) + h(E)`: bytes born and
buffers released in the region count in `g`, everything else in `h`. Like all live bytes `g` is
submodular, `g(X | Y) + g(X & Y) <= g(X) + g(Y)`. A *step* is an op, or a part that was found
before: orders of the class (:mod:`optsched.check.certificate`) run its ops one right after the
other, so a state has all of them or none. The *level* of a step of the region from `X` are the most
bytes while it runs, by `g` alone. For example, let `a` turn 9 bytes into 2, and `b` 8 bytes into 3
with 20 of workspace. The chain `[a] [b]` has levels 2 and 16 and is as good as any order of the
two, regardless of other ops: `a` may run where `b` does not fit.

What is checked. The pauses of the chain are `p0 = {}, p1, .., pm = D, ..`, one after each part;
`D` is the first with the least `g`. The levels `c1 < c2 < .. < cm` of the parts up to `D` rise, and

- `F0`: what is reached from `{}` within `D` at levels below `c1` has no less `g` than `{}`;
- `Fi`, `0 < i < m`: what is reached from `p(i-1)` within `D` at levels below `c(i+1)` has no less
  `g` than `pi`;
- `Fm`: all states reached from `p(m-1)` within `D`, at any levels, have no less `g` than `D`;
- `L`: `D` is not reached from `p(m-2)` (from `{}` if `m = 1`) at levels below `cm`;

and the same backward, from the end of the region to `D`. Then an order within the budget stays one
if the region runs along the chain, each part at one go, as follows.

**1. No state `X` within `pi` has less `g` than `pi`.** By induction on `i`. Let `X` have the least
`g` of all states within `pi`. As none within `p(i-1)` has less than that, `g(X | p(i-1)) <= g(X)`,
so let `X` contain `p(i-1)`. Run the steps of part `i` that are in `X`, in the order of the chain:
from each state `Q` of the chain this passes `Q & X`, with `g(Q & X) <= g(Q) + g(X) - g(Q | X) <=
g(Q)` since `Q | X` is within `pi`, and so too while a step runs. So `X` is reached from `p(i-1)` at
levels up to `ci`. Since levels rise strictly, these are below `c(i+1)`, and `Fi` speaks of `X`:
that is why levels below the next one are all that need be looked at.

**2. No state at all has less `g` than `D`.** Let `Y` have the least `g`. `Y & D` has no less than
`D` by 1, hence `g(Y | D) <= g(Y)`; and `Y | D` has no less than `D` by 1 taken backward.

**3. What is reached from `{}` at levels below `c(i+1)` has no less `g` than `pi`**; for `i = m` it
is 2. Adding `p(i-1)` to all states of the way does not raise `g` or a level (by 1, as in the proof
of 2), and cutting them to `D` afterwards does not either (by 2). The rest is a path from `p(i-1)`
within `D`: `Fi`. In the same way, every run of the full region has a step of level `cm` or more:
else with `p(m-2)` added and cut to `D` it would be what `L` excludes.

**4. The order that is made.** Take an order of the class within the budget. A *moment* is a point
between two of its steps, from the first step of the region to its last. Let `T` be a moment with
the least `h`. Steps outside keep their order. Up to `T`, whenever the order takes a step of the
region whose level is a new highest one, the chain runs on, there, to the last `pi` with `ci` not
above that: `h` is the same there, so each part fits. Between, by 3, it pauses at no more `g` than
the order has, so what runs outside fits. At `T` it runs on to `D`: if that takes a part, the level
`cm` was not reached before, so by 3 the order reaches it at or after `T`, where it has no less `h`.
From `T` on the same holds backward in time. All precedences are kept: those within the region by
the chain, and no step of the region leaves the range between the region's first and last.

A moment inside a part outside the region may have less `h` than `T`. It is not looked at, and
need not be: both the given order and the one made do not run steps of the region there, so steps of
the region only ever move between moments as defined. While a part outside runs, `g` is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from optsched.check.network import Network, reach
from optsched.check.states import Moves, State
from optsched.errors import PlanError

MOST_STATES = 4_096
"""Maximum number of states that are followed from one state of the chain."""


def check_region(network: Network, parts: Sequence[Sequence[int]]) -> None:
    """Check that ops may run as a chain of uninterrupted parts, in any order of the others.

    Raise `PlanError` if they may not, or if the check needs too many states.
    """
    ops = [v for part in parts for v in part]
    # In place, live bytes are not the sum that the proof rests on.
    if network.pairs:
        raise PlanError("region: ops that write into their inputs are not known here")
    if len(ops) < 2 or not all(parts):
        raise PlanError("region: two ops are needed, and one in each part")
    if len(set(ops)) != len(ops) or not all(v in range(len(network.before)) for v in ops):
        raise PlanError("region: an op is in one place of one part")
    _check_order(network, parts)
    holders = _own_buffers(network, ops)
    bit = {v: 1 << number for number, v in enumerate(ops)}
    whole = Moves(network, ops, bit, holders, backward=False)
    live = [0]
    state = whole.begin(0)
    for part in parts:
        for u in _steps(network, part):
            state = whole.move(state, u, whole.effect(state, u)[0])
        live.append(state.live)
    # The first state of the chain with the least bytes is `D`.
    turn = live.index(min(live))
    head, tail = parts[:turn], parts[turn:][::-1]
    # Forward to `D` from the start, and backward to it from the end.
    for side, start, backward in ((head, 0, False), (tail, live[-1], True)):
        inside = {v for part in side for v in part}
        moves = Moves(network, inside, bit, holders, backward=backward)
        _check_side(moves, moves.begin(start), [_steps(network, part) for part in side])


def _steps(network: Network, part: Sequence[int]) -> list[int]:
    """Return the inner parts of a part, each by its first op."""
    return [v for v in part if network.parts.get(v, (v,))[0] == v]


def _check_side(moves: Moves, state: State, side: Sequence[Sequence[int]]) -> None:
    """Check the chain from one end to the state with least bytes: `F0` to `Fm`, and `L`."""
    pauses, levels = [state], list[int]()
    for steps in side:
        needed = []
        for u in steps[:: -1 if moves.backward else 1]:
            live, most = moves.effect(state, u)
            needed.append(most)
            state = moves.move(state, u, live)
        # Levels must rise strictly: point 1 of the proof needs it.
        if levels and max(needed) <= levels[-1]:
            raise PlanError("region: a part needs no more bytes than the one before it")
        levels.append(max(needed))
        pauses.append(state)
    for number, pause in enumerate(pauses):
        # Below the next level; without one, any.
        limit = levels[number] - 1 if number < len(levels) else None
        found = _reached(moves, pauses[max(number - 1, 0)], limit, pause.live)
        if number == len(levels) - 1 and state.moved in found:
            raise PlanError("region: fewer bytes are enough for the part before the least")


def _reached(moves: Moves, start: State, limit: int | None, least: int) -> set[int]:
    """Return the closed states within a limit; each must have `least` bytes or more.

    Closed states are enough: by the closure rule, moves made at once never raise the live bytes.
    """
    # Moves that did not fit an earlier limit may fit this one.
    first = moves.close(start, limit, start.ready)
    known, waiting = {first.moved}, [first]
    while waiting:
        state = waiting.pop()
        if state.live < least:
            raise PlanError("region: after a part fewer bytes can be live than the chain has")
        for u in state.ready:
            after = moves.after(state, u, limit)
            if after is not None and after.moved not in known:
                known.add(after.moved)
                waiting.append(after)
                # A limit on the work of checking; a writer avoids such regions.
                if len(known) > MOST_STATES:
                    raise PlanError(f"region: more than {MOST_STATES} states to look at")
    return known


def _check_order(network: Network, parts: Sequence[Sequence[int]]) -> None:
    """Check that the chain keeps all precedences and takes no part apart that was found before."""
    place = {v: number for number, v in enumerate(v for part in parts for v in part)}
    for v, number in place.items():
        if any(place.get(u, -1) > number for u in network.before[v]):
            raise PlanError(f"region: op {network.op_name(v)} runs before one that it needs")
    # An inner part must come as it was found, without other ops between.
    for part in parts:
        for v in _steps(network, part):
            inner = network.parts.get(v, (v,))
            at = place[v] - place[part[0]]
            if tuple(part[at : at + len(inner)]) != inner:
                raise PlanError(f"region: the part of op {network.op_name(v)} is taken apart")
    # All ops of an inner part belong to the region, or none does.
    started = {v for part in parts for v in _steps(network, part)}
    if any(network.parts[v][0] not in started for v in place if v in network.parts):
        raise PlanError("region: a part is taken apart")


def _own_buffers(network: Network, ops: Sequence[int]) -> Mapping[int, set[int]]:
    """Return the buffers that the ops of a region release, with their holders in the region.

    All other holders have ended before: else the buffer belongs to both sides, unless it is
    released by ops that run after the whole region.
    """
    inside = set(ops)
    earlier, later = (_outside(network, rows, inside) for rows in (network.before, network.after))
    found: dict[int, set[int]] = {}
    for b in {b for v in ops for b in network.held[v]}:
        others = network.holders[b] - inside
        # Released after the whole region: it counts as a buffer of the rest.
        if any(later(u) for u in others):
            continue
        if not all(earlier(u) for u in others):
            name = network.buffer_name(b)
            raise PlanError(f"region: buffer {name} is released inside and outside")
        found[b] = network.holders[b] & inside
    return found


def _outside(network: Network, rows: Sequence[set[int]], inside: set[int]) -> Callable[[int], bool]:
    """Return a test for ops before (after) a full region; raise if one is so for a part only.

    `rows` are the neighbors on that side, say before. The region has *first ops*, which need no
    other op of it. As :func:`_check_order` has seen the chain keep all precedences among its ops,
    these contain no cycle, so going back from any op of the region along them ends at a first op;
    what runs before all first ops runs before the whole region. Now let an op outside run before
    some op of the region, and follow the precedences from one to the other up to where they enter
    the region: the last op outside is one of `beside`. It is checked that each of these is before
    all first ops, be it that all have the same neighbors outside, the `gate`, which has `beside`
    in it, or that the same ops are reached from their gates, `beside` among them.

    Precedences outside may contain a cycle, as those of a refuted budget may. Then no order keeps
    them, so the class is empty, and nothing that is concluded about its orders is wrong.
    """
    gates = {frozenset(rows[v]) for v in inside if rows[v].isdisjoint(inside)}
    gate = next(iter(gates))
    beside = set().union(*(rows[v] for v in inside)) - inside
    # The usual case: all first ops have the same neighbors outside.
    reached: set[int] = set()
    if len(gates) > 1 or not beside <= gate:
        reached, *others = (reach(rows, start) for start in gates)
        if any(other != reached for other in others) or not beside <= reached:
            v = next(iter(beside - reached), min(inside))
            raise PlanError(f"region: op {network.op_name(v)} is before or after a part of it only")

    def runs(u: int) -> bool:
        if u in gate:
            return True
        # Computed on demand, as few buffers have holders outside.
        if not reached:
            reached.update(reach(rows, gate))
        return u in reached

    return runs
