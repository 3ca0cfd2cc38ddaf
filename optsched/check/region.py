"""The check of regions: parts of a graph that run along one order, whatever runs beside them.

Let each op outside a region run before all of its ops, after all, or have nothing to do with any,
and let no buffer be released by ops of both. Live bytes are then `g + h`: `g` is of the region
alone, and submodular, `h` of all else. The *level* of a part are the bytes while it runs, by `g`
alone.

A chain of parts is listed. `D` is its state with least `g`. On the way to `D` it pauses in `p1, p2,
.. D`, and the levels `c1, c2, ..` on the way to each are higher and higher. What is checked, with
`p0 = {}`: whatever starts from `p(i-1)`, stays within `D` and below the level `c(i+1)` has no less
`g` than `p(i)`; whatever starts from the pause before `D` no less than `D`, and if it stays below
the last level it is not `D`. The same backward, from the end to `D`. Then any order within the
budget stays one if the region runs along the chain, each part at one go:

1. What starts from `{}` may as well start from `p(i-1)`: by induction no state within `p(i-1)` has
   less `g`, so with `p(i-1)` added no state of the way has more `g` or a higher level. Nor has one
   within `p(i)` less `g` than that: the least of these is reached below any level that `p(i)` is,
   and those are below `c(i+1)`. In the end no state at all has less `g` than `D`; so ways outside
   `D` are no better than the same ones cut to `D`.
2. Let `T` be a moment with least `h` while the region is under way. Up to `T`, whenever the order
   takes a step of the region of a new highest level, the chain runs on to the last `p(i)` with
   `c(i)` not above that: at the same `h`, and from there on at no more `g` than the order has.
   At `T` the chain runs on to `D`; a level that takes is one that the order has as well, then or
   later, at no less `h`: cut to `D` it would not get there below that level.
   After `T` it is the same backward.

Parts that were found before are steps like any other: no moment is looked at while one runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from optsched.check.network import Network, reach
from optsched.check.states import Moves, State
from optsched.errors import PlanError

MOST_STATES = 4_096
"""States of a region that are looked at from one of its own."""


def check_region(network: Network, parts: Sequence[Sequence[int]]) -> None:
    """Check that ops may run as a chain of parts, whatever else does.

    Parameters
    ----------
    network
        The graph.
    parts
        The ops of each part as they run.

    Raises
    ------
    PlanError
        If they may not, or if that takes too many states to see.
    """
    ops = [v for part in parts for v in part]
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
            state = whole.move(state, u)
        live.append(state[1])
    turn = live.index(min(live))
    head, tail = parts[:turn], parts[turn:][::-1]
    for side, start, backward in ((head, 0, False), (tail, live[-1], True)):
        inside = {v for part in side for v in part}
        moves = Moves(network, inside, bit, holders, backward=backward)
        _check_side(moves, moves.begin(start), [_steps(network, part) for part in side])


def _steps(network: Network, part: Sequence[int]) -> list[int]:
    """The parts that a part is made of, each by its first op."""
    return [v for v in part if network.parts.get(v, (v,))[0] == v]


def _check_side(moves: Moves, state: State, side: Sequence[Sequence[int]]) -> None:
    """Check the chain from one end to the state with least bytes."""
    pauses, levels = [state], list[int]()
    for steps in side:
        level = levels[-1] if levels else None
        for u in steps[:: -1 if moves.backward else 1]:
            needed = moves.effect(state, u)[1]
            level = needed if level is None else max(level, needed)
            state = moves.move(state, u)
        if level is None or (levels and level == levels[-1]):
            raise PlanError("region: a part needs no more bytes than the one before it")
        levels.append(level)
        pauses.append(state)
    for number, pause in enumerate(pauses):
        limit = levels[number] - 1 if number < len(levels) else None
        found = _reached(moves, pauses[max(number - 1, 0)], limit, pause[1])
        if number == len(levels) - 1 and state[0] in found:
            raise PlanError("region: fewer bytes are enough for the part before the least")


def _reached(moves: Moves, start: State, limit: int | None, least: int) -> set[int]:
    """The states that are reached within a limit, closed; none may have fewer live bytes."""
    first = moves.close(start, limit)
    known, waiting = {first[0]}, [first]
    while waiting:
        state = waiting.pop()
        if state[1] < least:
            raise PlanError("region: after a part fewer bytes can be live than the chain has")
        for u in state[2]:
            if limit is not None and moves.effect(state, u)[1] > limit:
                continue
            after = moves.close(moves.move(state, u), limit)
            if after[0] not in known:
                known.add(after[0])
                waiting.append(after)
                if len(known) > MOST_STATES:
                    raise PlanError(f"region: more than {MOST_STATES} states to look at")
    return known


def _check_order(network: Network, parts: Sequence[Sequence[int]]) -> None:
    """Check that the chain keeps all precedences and takes no part apart that was found before."""
    place = {v: number for number, v in enumerate(v for part in parts for v in part)}
    for v, number in place.items():
        if any(place.get(u, -1) > number for u in network.before[v]):
            raise PlanError(f"region: op {network.op_name(v)} runs before one that it needs")
    for part in parts:
        for v in _steps(network, part):
            inner = network.parts.get(v, (v,))
            at = place[v] - place[part[0]]
            if tuple(part[at : at + len(inner)]) != inner:
                raise PlanError(f"region: the part of op {network.op_name(v)} is taken apart")
    started = {v for part in parts for v in _steps(network, part)}
    if any(network.parts[v][0] not in started for v in place if v in network.parts):
        raise PlanError("region: a part is taken apart")


def _own_buffers(network: Network, ops: Sequence[int]) -> Mapping[int, set[int]]:
    """The buffers that the ops of a region release, with their holders among these.

    All other holders have ended before: else the buffer belongs to both sides, unless it is
    released by ops that run after the whole region.
    """
    inside = set(ops)
    earlier, later = (_outside(network, rows, inside) for rows in (network.before, network.behind))
    found: dict[int, set[int]] = {}
    for b in {b for v in ops for b in network.held[v]}:
        others = network.holders[b] - inside
        if any(later(u) for u in others):
            continue
        if not all(earlier(u) for u in others):
            name = network.buffer_name(b)
            raise PlanError(f"region: buffer {name} is released inside and outside")
        found[b] = network.holders[b] & inside
    return found


def _outside(network: Network, rows: Sequence[set[int]], inside: set[int]) -> Callable[[int], bool]:
    """Whether an op runs before (after) a whole region; what runs so for a part of it only is none.

    `rows` are the neighbours on that side. Whatever has all of those that the first ops of the
    region have, has them before the whole region.
    """
    gates = {frozenset(rows[v]) for v in inside if rows[v].isdisjoint(inside)}
    gate = next(iter(gates))
    beside = set().union(*(rows[v] for v in inside)) - inside
    reached: set[int] = set()
    if len(gates) > 1 or not beside <= gate:
        reached, *others = (reach(rows, start) for start in gates)
        if any(other != reached for other in others) or not beside <= reached:
            v = next(iter(beside - reached), min(inside))
            raise PlanError(f"region: op {network.op_name(v)} is before or after a part of it only")

    def runs(u: int) -> bool:
        if u in gate:
            return True
        if not reached:
            reached.update(reach(rows, gate))
        return u in reached

    return runs
