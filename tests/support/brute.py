"""Answers by enumeration, with which every exact method is compared.

The code is as simple as possible and does not use :class:`GraphArrays`: live buffers are computed
from the ops and buffers themselves, so that an error in the flat arrays shows up as a mismatch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from optsched.errors import GraphError
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.selection import select
from tests.support.things import Thing, apart_of, things_of


@dataclass(frozen=True)
class Storage:
    """A buffer that counts: `birth` is a bit of an op or 0, `users` the ops that must end first."""

    size: int
    birth: int
    users: int
    kept: bool


def storage_of(graph: Graph) -> list[Storage]:
    """Every root that has bytes, as masks over ops."""
    users = [0] * len(graph.buffers)
    for v, op in enumerate(graph.ops):
        # A view's user is a user of its root: the bytes are those of the root.
        for b in (*op.reads, *op.uses, *op.writes):
            users[graph.roots[b]] |= 1 << v
    found = []
    for b, buffer in enumerate(graph.buffers):
        if buffer.alias_of is not None or buffer.external or not buffer.size:
            continue
        maker = graph.producers[b] if buffer.birth is None else buffer.birth
        # An input that nobody reads is never in memory.
        if maker is None and not users[b] and not graph.kept[b]:
            continue
        birth = 0 if maker is None else 1 << maker
        found.append(Storage(buffer.size, birth, users[b], graph.kept[b]))
    return found


def live_bytes(storage: Sequence[Storage], started: int, ended: int) -> int:
    """Return the bytes of buffers born in `started` that some op outside `ended` still holds."""
    return sum(
        s.size
        for s in storage
        # Born, and still held: to the end, by an op that is to end, or by the op that makes it.
        if not s.birth & ~started and (s.kept or s.users & ~ended or not s.users)
    )


Pairs = tuple[tuple[int, int, int], ...]
"""In-place pairs: op, output, root of the input."""


def matchings(pairs: Sequence[tuple[int, int, int]]) -> Iterator[Pairs]:
    """Every set of pairs in which no output and no input occurs twice."""
    if not pairs:
        yield ()
        return
    (v, output, root), rest = pairs[0], pairs[1:]
    # Either without the first pair, or with it and without all others of its output or input.
    yield from matchings(rest)
    for more in matchings([p for p in rest if p[1] != output and p[2] != root]):
        yield ((v, output, root), *more)


def inplace_pairs(graph: Graph) -> dict[tuple[int, int, int], int]:
    """Pairs that the in-place model admits, and the ops that must have ended before, as a mask."""
    found = {}
    for v, output, source in graph.inplace:
        root = graph.roots[source]
        a, b = graph.buffers[output], graph.buffers[root]
        # All names of the input's bytes: a reader of any of them must have ended.
        views = [i for i in range(len(graph.buffers)) if graph.roots[i] == root]
        users = {
            u
            for u, op in enumerate(graph.ops)
            if any(i in views for i in (*op.reads, *op.uses, *op.writes))
        }
        right = (
            a.alias_of is None
            and (a.birth is None or a.birth == v)
            and graph.ops[v].workspace != output
            and not any(i in graph.ops[v].writes for i in views)
            and all(graph.buffers[i].output is None for i in views)
            and b.input in (None, "freed")
            and a.output != "own"
            and a.pool == b.pool
            and b.alignment % a.alignment == 0
            and (a.pin is None or a.pin == b.pin)
            # A view may be larger than the output; the root itself must have the output's size or
            # more.
            and (a.size == b.size if source != root else a.size <= b.size)
            and a.size > 0
        )
        if right:
            # The op itself may still read what it overwrites.
            found[v, output, root] = sum(1 << u for u in users - {v})
    return found


def most_saved(graph: Graph, pairs: dict[tuple[int, int, int], int], v: int, done: int) -> int:
    """Return the most bytes that an op saves by writing in place after the ops of `done`."""
    # Pairs whose other readers have ended.
    open_pairs = [p for p, needs in pairs.items() if p[0] == v and not needs & ~done]
    return max(sum(graph.buffers[b].size for _, b, _ in some) for some in matchings(open_pairs))


def inplace_choices(graph: Graph, order: Sequence[int]) -> Iterator[Pairs]:
    """Every choice of pairs that the ops of an order may take."""
    pairs, done, rows = inplace_pairs(graph), 0, []
    for v in order:
        open_pairs = [p for p, needs in pairs.items() if p[0] == v and not needs & ~done]
        rows.append(list(matchings(open_pairs)))
        done |= 1 << v
    # Choices of different ops are independent of each other.
    for row in product(*rows):
        yield tuple(pair for some in row for pair in some)


def peak_inplace(graph: Graph, order: Sequence[int]) -> int:
    """Least peak of an order over all choices of pairs."""
    storage = storage_of(graph)
    best: int | None = None
    for choice in inplace_choices(graph, order):
        done, peak = 0, live_bytes(storage, 0, 0)
        for v in order:
            # An output in place takes no bytes while its op runs, and its input's bytes
            # afterwards.
            saved = sum(graph.buffers[b].size for u, b, _ in choice if u == v)
            peak = max(peak, live_bytes(storage, done | 1 << v, done) - saved)
            done |= 1 << v
        best = peak if best is None else min(best, peak)
    assert best is not None
    return best


def least_peak_inplace(graph: Graph) -> int:
    """Least peak over all orders and all choices of pairs; up to about 6 ops."""
    return min(peak_inplace(graph, order) for order in orders(graph))


def least_peak(graph: Graph) -> int:
    """Least peak memory over all orders, by a sweep over all downsets; up to about 12 ops."""
    storage, pairs = storage_of(graph), inplace_pairs(graph)
    needs = [sum(1 << u for u in before) for before in graph.predecessors]
    # By number of finished ops: every set of one size is reached from the sets of the size before.
    level = {0: live_bytes(storage, 0, 0)}
    for _ in graph.ops:
        reached: dict[int, int] = {}
        for done, peak in level.items():
            for v, need in enumerate(needs):
                if done >> v & 1 or need & ~done:
                    continue
                after = done | 1 << v
                saved = most_saved(graph, pairs, v, done)
                worst = max(peak, live_bytes(storage, after, done) - saved)
                reached[after] = min(worst, reached.get(after, worst))
        level = reached
    # Only the full set is left.
    (peak,) = level.values()
    return peak


def orders(graph: Graph) -> Iterator[tuple[int, ...]]:
    """Every valid order of the ops."""
    n = len(graph.ops)

    def extend(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(order) == n:
            yield order
        for v in range(n):
            if v not in order and all(u in order for u in graph.predecessors[v]):
                yield from extend((*order, v))

    return extend(())


def least_slab(problem: PackingProblem) -> int | None:
    """Least slab of a packing problem, or None where pins contradict each other.

    Up to 8 buffers; with gaps or groups, sizes of a few bytes as well.
    """
    if any(problem.gaps) or problem.must_share:
        return least_slab_by_offsets(problem)
    return least_slab_by_permutation(problem)


def least_slab_by_permutation(problem: PackingProblem) -> int | None:
    """Place the buffers in every sequence, each at the lowest free offset above those before it.

    One of these packings has the least slab: take a packing of least slab, and place its buffers
    again by ascending offset; each lies at its old offset or below. Repeating this ends with a
    packing whose offsets ascend in its sequence, so only such sequences are tried; buffers with
    equal offsets come by index.

    A buffer that is not placed yet will lie at its present lowest offset or above. If that is too
    high for one of them, this sequence is given up.
    """
    start, end = problem.start.tolist(), problem.end.tolist()
    size, step, pin = problem.size.tolist(), problem.alignment.tolist(), problem.pin.tolist()
    below = problem.below.tolist()
    best: list[int | None] = [None]
    placed: list[tuple[int, int]] = []
    apart = {pair for a, b in problem.keep_apart.tolist() for pair in ((a, b), (b, a))}
    all_ids = range(len(problem))
    beside = [
        {j for j in all_ids if (start[j] < end[i] and start[i] < end[j]) or (i, j) in apart}
        for i in all_ids
    ]

    def fall(i: int) -> int:
        # The lowest multiple of the alignment above all placed buffers that conflict.
        low = max((top for j, top in placed if j in beside[i]), default=0)
        return -(-low // step[i]) * step[i]

    def place(left: tuple[int, ...], slab: int, last: tuple[int, int]) -> None:
        # Optimal already, or not better than the best.
        if best[0] is not None and (slab >= best[0] or best[0] == problem.max_load):
            return
        if not left:
            best[0] = slab
            return
        lowest = {i: fall(i) for i in left}
        # A pin below the lowest free place can never be met any more.
        if any(0 <= pin[i] < low for i, low in lowest.items()):
            return
        # Some buffer would make this slab as large as the best one.
        if best[0] is not None and any(low + size[i] >= best[0] for i, low in lowest.items()):
            return
        for i, low in lowest.items():
            offset = max(low, pin[i])
            # Ascending offsets only: every other sequence is met in that one.
            if (offset, i) < last or offset + size[i] > below[i]:
                continue
            placed.append((i, offset + size[i]))
            place(tuple(j for j in left if j != i), max(slab, offset + size[i]), (offset, i))
            placed.pop()

    live = tuple(i for i in range(len(problem)) if end[i] > start[i] and size[i])
    # A pinned buffer without bytes still makes the slab reach its pin.
    empty = [pin[i] for i in range(len(problem)) if end[i] > start[i] and not size[i]]
    place(live, max([0, *empty]), (0, -1))
    return best[0]


def least_slab_by_offsets(problem: PackingProblem) -> int | None:
    """Try every offset of every buffer in ever larger slabs; tiny sizes only, gaps allowed."""
    things = [thing for thing in things_of(problem) if thing.is_live]
    return _least_by_offsets(things, apart_of(problem, things))


def _least_by_offsets(things: Sequence[Thing], apart: Collection[tuple[int, int]]) -> int | None:
    """Try every offset of things."""
    size, step, pin = ([getattr(t, what) for t in things] for what in ("size", "alignment", "pin"))
    # Large things first: they exclude most.
    turn = sorted(range(len(things)), key=lambda t: -size[t])

    def clash(i: int, x: int, j: int, y: int) -> bool:
        if (i, j) in apart or (j, i) in apart:
            # Kept apart: at all steps.
            return x < y + size[j] and y < x + size[i]
        mine, theirs = things[i].there, things[j].there
        # Only at steps at which both are there.
        return any(
            x + mine[at][0] < y + theirs[at][1] and y + theirs[at][0] < x + mine[at][1]
            for at in mine.keys() & theirs.keys()
        )

    def fits(slab: int, at: int, placed: tuple[tuple[int, int], ...]) -> bool:
        if at == len(turn):
            return True
        i = turn[at]
        most = min(slab - size[i], things[i].highest)
        choices = [pin[i]] if pin[i] >= 0 else range(0, most + 1, step[i])
        return any(
            fits(slab, at + 1, (*placed, (i, x)))
            for x in choices
            if x <= most and not any(clash(i, x, j, y) for j, y in placed)
        )

    # Above this each buffer has room of its own beside the pins.
    most = max(pin, default=0) + sum(s + a for s, a in zip(size, step, strict=True)) + 1
    # Things that are there at one step share no byte.
    load = Counter[int]()
    for thing in things:
        load.update({at: high - low for at, (low, high) in thing.there.items()})
    highest = (size[i] + max(0, pin[i]) for i in range(len(things)))
    least = max([0, *load.values(), *highest])
    return next((slab for slab in range(least, most + 1) if fits(slab, 0, ())), None)


def packings_of(graph: Graph, order: Sequence[int]) -> list[PackingProblem]:
    """The packing problem of an order, one for each pool."""
    whole, ids = packing_problem(graph, order)
    pools = [graph.buffers[b].pool for b in ids]
    return [
        select(whole, np.array([i for i, p in enumerate(pools) if p == pool], np.int64))
        for pool in dict.fromkeys(pools)
    ]


def least_joint(
    graph: Graph, among: Iterable[tuple[int, ...]] | None = None
) -> tuple[int, int] | None:
    """Least slab over all orders and offsets, and the least peak beside it; up to about 6 ops.

    If orders `among` are given, only these count. With several pools, the slab is the sum of the
    slabs of the pools. The result is None if pins contradict each other in every order.
    """
    storage = storage_of(graph)
    best: tuple[int, int] | None = None
    seen: dict[bytes, int | None] = {}
    for order in orders(graph) if among is None else among:
        done, peak = 0, live_bytes(storage, 0, 0)
        for v in order:
            peak = max(peak, live_bytes(storage, done | 1 << v, done))
            done |= 1 << v
        try:
            problems = packings_of(graph, order)
        except GraphError:
            # A buffer is pinned above its upper limit.
            continue
        # No packing is below its load, so this order cannot be better.
        if best is not None and (sum(p.max_load for p in problems), peak) >= best:
            continue
        slabs: list[int | None] = []
        for problem in problems:
            # Many orders have the same packing problem.
            key = problem.start.tobytes() + problem.end.tobytes() + problem.size.tobytes()
            key += problem.alignment.tobytes() + problem.pin.tobytes() + problem.below.tobytes()
            key += repr((problem.keep_apart.tolist(), problem.must_share)).encode()
            if key not in seen:
                seen[key] = least_slab(problem)
            slabs.append(seen[key])
        known = [slab for slab in slabs if slab is not None]
        if len(known) == len(slabs):
            found = (sum(known), peak)
            best = found if best is None else min(best, found)
    return best


def least_joint_inplace(graph: Graph, among: Iterable[tuple[int, ...]] | None = None) -> int | None:
    """Least slab, or sum of the pools' slabs, where ops may write into dying inputs.

    Over all orders, all choices of pairs and all offsets; up to about 5 ops and 6 small buffers.
    What is written in place has its input's offset, and bytes of its own from the next step on.
    """
    best: int | None = None
    known: dict[str, int | None] = {}
    for order in orders(graph) if among is None else among:
        spans = spans_of(graph, order)
        step = {v: at for at, v in enumerate(order)}
        for choice in inplace_choices(graph, order):
            # Outputs in place lie where their inputs do.
            owner = {b: b for b in spans}
            there: dict[int, dict[int, tuple[int, int]]] = {b: {} for b in spans}
            later = {output: step[v] + 1 for v, output, _ in choice}
            for _, output, root in choice:
                owner[output] = owner[root]
            for b, (born, end) in spans.items():
                # An output has bytes of its own from the step after its op on.
                for at in range(later.get(b, born), end):
                    there[owner[b]][at] = (0, graph.buffers[b].size)
            total = 0
            for pool in sorted({graph.buffers[b].pool for b in spans}):
                own = [b for b in spans if owner[b] == b and graph.buffers[b].pool == pool]
                things = _things_in_pool(graph, own, there)
                place = {b: t for t, thing in enumerate(things) for b in thing.members}
                apart = {
                    (place[a], place[b]) for a, b in graph.keep_apart if a in place and b in place
                }
                key = repr((things, sorted(apart)))
                if key not in known:
                    known[key] = _least_by_offsets(things, apart)
                slab = known[key]
                # One pool without a packing spoils the order.
                if slab is None:
                    break
                total += slab
            else:
                best = total if best is None else min(best, total)
    return best


def least_slab_of(graph: Graph, among: Iterable[tuple[int, ...]] | None = None) -> int | None:
    """Return the least slab over all orders and offsets, in-place pairs included; None for none."""
    if graph.in_place:
        return least_joint_inplace(graph, among)
    found = least_joint(graph, among)
    return None if found is None else found[0]


def _things_in_pool(
    graph: Graph, ids: Sequence[int], there: dict[int, dict[int, tuple[int, int]]]
) -> list[Thing]:
    """Return sets with one offset: groups whose buffers are never live together, or one buffer."""
    grouped = [tuple(b for b in group if b in ids) for group in graph.must_share]
    alone = [(b,) for b in ids if not any(b in group for group in grouped)]
    things = []
    for members in (*alone, *(group for group in grouped if group)):
        first, size = graph.buffers[members[0]], max(graph.buffers[b].size for b in members)
        # What is written in place may be smaller than its input; a group has all its bytes.
        alone = there[members[0]] if len(members) == 1 else None
        rows = alone or {at: (0, size) for b in members for at in there[b]}
        pin = -1 if first.pin is None else first.pin
        highest = min(limit_of(graph, b) - graph.buffers[b].size for b in members)
        things.append(Thing(members, rows, size, first.alignment, pin, highest, is_live=True))
    return things


def limit_of(graph: Graph, b: int) -> int:
    """Return the lowest offset of a mark that a buffer is kept apart from: where it must end."""
    others = [x for pair in graph.keep_apart if b in pair for x in pair if x != b]
    used = {x for op in graph.ops for x in (*op.reads, *op.uses)}
    used |= {x for x in others if graph.kept[x] or graph.buffers[x].input is None}
    marks = [graph.buffers[x].pin for x in others if not graph.buffers[x].size and x not in used]
    return min((pin for pin in marks if pin is not None), default=2**62)


def spans_of(graph: Graph, order: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Half-open live range, by buffer, of all that counts and has bytes."""
    step = {v: at for at, v in enumerate(order)}
    found = {}
    for b, buffer in enumerate(graph.buffers):
        if buffer.alias_of is not None or buffer.external or not buffer.size:
            continue
        maker = graph.producers[b] if buffer.birth is None else buffer.birth
        users = [
            step[v]
            for v, op in enumerate(graph.ops)
            if any(graph.roots[x] == b for x in (*op.reads, *op.uses, *op.writes))
        ]
        end = max(1, len(order)) if graph.kept[b] else 1 + max(users, default=-1)
        start = 0 if maker is None else step[maker]
        if start < end:
            found[b] = (start, end)
    return found
