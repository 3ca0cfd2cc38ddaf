"""The least peak over all splits and orders of a tiny fused graph, by enumeration.

Splits are all set partitions of each fused node; orders are all linear extensions. The bytes of a
kernel are counted here from the definition: what is live, less the heaviest set of in-place writes
that its parts allow. Nothing of the product is used but the data.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from optsched.errors import GraphError
from optsched.model.builder import GraphBuilder
from optsched.model.fused import FusedGraph
from optsched.model.graph import Graph

Groups = tuple[tuple[int, ...], ...]


def partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """Yield all set partitions."""
    if not items:
        yield []
        return
    first, *rest = items
    for found in partitions(rest):
        yield [[first], *found]
        for i, group in enumerate(found):
            yield [*found[:i], [first, *group], *found[i + 1 :]]


def all_splits(fused: FusedGraph) -> Iterator[Groups]:
    """Yield all splits of the nodes, those with cycles too."""
    alone = [(v,) for v in range(len(fused.graph.ops)) if v not in fused.node_of]
    for rows in itertools.product(*(list(partitions(node)) for node in fused.nodes)):
        yield (*(tuple(sorted(g)) for row in rows for g in row), *alone)


def least_peak(fused: FusedGraph, groups: Groups) -> int | None:
    """Return the least peak of a split over all orders; None if groups wait for each other."""
    graph = fused.graph
    owner = {v: i for i, group in enumerate(groups) for v in group}
    before = [
        sum(1 << j for j in {owner[u] for v in g for u in graph.predecessors[v]} - {i})
        for i, g in enumerate(groups)
    ]
    users = [sum(1 << i for i in {owner[v] for v in row}) for row in fused.users]
    inner = {b for b in fused.local if users[b].bit_count() == 1}
    taken = {
        output: source
        for output, source in fused.absorbed
        if users[source].bit_count() == 1
        and allowed(fused, group_of(fused, groups, output), maker_of(fused, output), output, source)
        and fused.users[source] <= set(group_of(fused, groups, output))
    }
    size = [0 if b in inner else x.size for b, x in enumerate(graph.buffers)]
    maker = [None if p is None else owner[p] for p in graph.producers]

    def live(done: int, more: int) -> int:
        """Return live bytes while the groups `done` have run and the group `more` runs."""
        total = 0
        for b, bytes_ in enumerate(size):
            made = maker[b] is None or (done | more) >> maker[b] & 1
            kept = graph.kept[b] or users[b] & ~done
            if maker[b] is None and not graph.kept[b] and not users[b]:
                kept = 0
            total += bytes_ if made and kept else 0
        return total

    every = (1 << len(groups)) - 1
    best = {0: 0}
    for done in range(every + 1):
        if done not in best:
            continue
        for i in range(len(groups)):
            if done >> i & 1 or before[i] & ~done:
                continue
            dead = {b for b in range(len(size)) if not users[b] & ~(done | 1 << i)}
            need = live(done, 1 << i) - spared(fused, groups[i], inner, dead, size, taken)
            after = done | 1 << i
            best[after] = min(best.get(after, 1 << 62), max(best[done], need))
    return best.get(every)


def spared(
    fused: FusedGraph,
    group: Sequence[int],
    inner: set[int],
    dead: set[int],
    size: list[int],
    taken: dict[int, int],
) -> int:
    """Return the most bytes that a kernel can write in place, by trying all sets of pairs."""
    graph = fused.graph
    if not graph.in_place:
        return 0
    made = {b for v in group for b in graph.ops[v].writes}
    takes: dict[int, set[int]] = {}
    for _ in range(len(group) + 1):
        for v, output, source in graph.inplace_candidates:
            if v not in group or not allowed(fused, group, v, output, source):
                continue
            # Only bytes of a buffer that stays in the kernel are passed on.
            own = source not in made or taken.get(output) == source
            found = takes.get(source, set()) if source in inner else {source} if own else set()
            takes.setdefault(output, set()).update(found)
    rows = []
    for output in made - inner:
        fits = [
            x
            for x in takes.get(output, ())
            if x in dead
            and not graph.kept[x]
            and 0 < size[output] <= size[x]
            and (x not in made or taken.get(output) == x)
        ]
        rows.append([(0, -1), *((size[output], x) for x in fits)])
    best = 0
    for choice in itertools.product(*rows):
        used = [x for _, x in choice if x >= 0]
        if len(set(used)) == len(used):
            best = max(best, sum(n for n, _ in choice))
    return best


def allowed(fused: FusedGraph, group: Sequence[int], v: int, output: int, source: int) -> bool:
    """Return True if a part may overwrite a buffer although the others run in the same kernel."""
    if len(group) == 1:
        return True
    earlier = set(fused.graph.predecessors[v])
    while True:
        more = {u for w in earlier for u in fused.graph.predecessors[w]} - earlier
        if not more:
            break
        earlier |= more
    rest = set(group) - {v}
    blocked = dict(fused.blockers).get((v, output, source), frozenset())
    return all(u in earlier for u in rest & fused.users[source]) and not rest & blocked


def maker_of(fused: FusedGraph, buffer: int) -> int:
    """Return the part that writes a buffer."""
    return next(v for v, op in enumerate(fused.graph.ops) if buffer in op.writes)


def group_of(fused: FusedGraph, groups: Groups, buffer: int) -> tuple[int, ...]:
    """Return the group that writes a buffer."""
    return next(group for group in groups if maker_of(fused, buffer) in group)


def brute_force(fused: FusedGraph) -> int:
    """Return the least peak over all splits and all orders."""
    found = (least_peak(fused, groups) for groups in all_splits(fused))
    return min(peak for peak in found if peak is not None)


def random_fused(rng: np.random.Generator, inplace: bool = True) -> FusedGraph:
    """Return a tiny random graph with one or two fused nodes."""
    while True:
        found = _try_fused(rng, inplace)
        if found is not None:
            return found


def random_stages(rng: np.random.Generator) -> FusedGraph:
    """Return a graph whose nodes pass local buffers while other ops wait for them."""
    build, last = GraphBuilder("stages"), []
    for i in range(2):
        size = [int(x) for x in rng.integers(1, 9, 5)]
        read = [x for x in last if rng.random() < 0.5]
        build.op(f"a{i}", reads=read, writes={f"t{i}": size[0], f"o{i}": size[1]})
        build.op(f"x{i}", reads=[f"o{i}"], writes={f"s{i}": size[2]})
        build.op(f"b{i}", reads=[f"t{i}"], writes={f"u{i}": size[3]})
        build.op(f"c{i}", reads=[f"u{i}"], writes={f"p{i}": size[4]})
        for row in ((f"b{i}", f"u{i}", f"t{i}"), (f"c{i}", f"p{i}", f"u{i}")):
            if rng.random() < 0.5:
                build.inplace(*row)
        last = [f"s{i}", f"p{i}"]
    build.op("end", reads=["s0", "p0", "s1", "p1"], writes={"y": 1})
    build.output("y")
    graph = build.build().with_inplace()
    inside = [name for name in ("t0", "t1", "u0", "u1") if rng.random() < 0.8]
    local = frozenset(graph.buffer_ids[name] for name in inside)
    return FusedGraph(graph=graph, nodes=((0, 2, 3), (4, 6, 7)), local=local)


def _try_fused(rng: np.random.Generator, inplace: bool) -> FusedGraph | None:
    graph = _random_graph(rng, inplace)
    count = len(graph.ops)
    ids = [int(v) for v in rng.permutation(count)]
    cuts = sorted(int(x) for x in rng.integers(2, count + 1, 2))
    nodes = [tuple(sorted(row)) for row in (ids[: cuts[0]], ids[cuts[0] : cuts[1]]) if len(row) > 1]
    nodes = [node for node in nodes if len(node) <= 5]
    if not nodes:
        return None
    node_of = {v: k for k, node in enumerate(nodes) for v in node}
    users = [
        {v for v, op in enumerate(graph.ops) if b in (*op.reads, *op.writes)}
        for b in range(len(graph.buffers))
    ]
    inside = [
        b
        for b, x in enumerate(graph.buffers)
        if x.input is None
        and x.output is None
        and len({node_of.get(v, -1 - v) for v in users[b]}) == 1
        and all(v in node_of for v in users[b])
    ]
    share = float(rng.choice([0.9, 0.1]))
    local = frozenset(b for b in inside if rng.random() < share)
    rows = [
        (row, frozenset(v for v in node_of if v != row[0] and rng.random() < 0.2))
        for row in graph.inplace_candidates
        if rng.random() < 0.5
    ]
    absorbed: dict[int, int] = {}
    for _, output, source in graph.inplace_candidates:
        equal = graph.buffers[output].size == graph.buffers[source].size
        free = source in inside and not {output, source} & local
        if equal and free and output not in absorbed and source not in absorbed.values():
            absorbed[output] = source
    try:
        return FusedGraph(
            graph=graph,
            nodes=tuple(nodes),
            local=local,
            blockers=tuple(rows),
            absorbed=tuple(absorbed.items()) if inplace else (),
        )
    except GraphError:
        return None


def _random_graph(rng: np.random.Generator, inplace: bool) -> Graph:
    build = GraphBuilder("tiny")
    names: list[str] = []
    sizes: dict[str, int] = {}
    if rng.random() < 0.6:
        build.input("x", int(rng.integers(1, 9)), policy="freed")
        names.append("x")
        sizes["x"] = 1
    pairs = []
    # Few sizes, so that buffers of one size meet.
    most = int(rng.choice([3, 9]))
    for v in range(int(rng.integers(3, 8))):
        count = min(len(names), int(rng.integers(0, 4)))
        recent = names[-5:]
        reads = [recent[int(i)] for i in rng.permutation(len(recent))[:count]]
        writes = {f"b{v}": int(rng.integers(1, most))}
        if rng.random() < 0.2:
            writes[f"c{v}"] = int(rng.integers(1, 5))
        build.op(f"op{v}", reads=reads, writes=writes)
        pairs += [(f"op{v}", w, r) for w in writes for r in reads if rng.random() < 0.5]
        names += writes
    if inplace:
        for row in pairs:
            build.inplace(*row)
    graph = build.build()
    read = {b for op in graph.ops for b in op.reads}
    for b, buffer in enumerate(graph.buffers):
        if buffer.input is None and (b not in read or rng.random() < 0.1):
            build.output(buffer.name)
    graph = build.build()
    return graph.with_inplace() if inplace else graph
