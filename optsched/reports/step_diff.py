"""Paragraph that contrasts a method's plan with a better one, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges, timeline
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan
from optsched.model.steps import steps_of
from optsched.runtime.text import readable

_MOST = 8
"""Maximum number of names in a list."""

_RULES = {
    "program": "runs the ops as they are listed",
    "lpmf": "runs, of the ready ops that fit below the peak so far, the one that leaves the fewest "
    "bytes live, and where none fits the one that allocates least",
    "lpmf_random": "is LPMF with random ties and noise",
    "lpmf_successors": "is LPMF, except that where every ready op allocates much it runs the one "
    "with the earliest successor",
    "eager_free": "runs, of the ready ops that free more than they allocate, the first listed, "
    "and where there is none the first listed of all",
    "bfs": "runs the ready op whose predecessors ran earliest",
    "dfs": "visits ops by the bytes they touch, each after what it depends on",
    "inductor": "takes the best of program, LPMF, BFS and DFS order",
    "xla_list": "runs the ready op that frees most bytes, less those it defines",
    "xla_dfs": "visits operands by decreasing extra users, then bytes",
    "xla_post_order": "visits the ops that nobody reads as listed, operands first",
    "xla_default": "takes the best of XLA's list, DFS and post-order",
    "lpmf_backward": "decides from the last step back which op adds the fewest live bytes",
    "lpmf_backward_random": "is LPMF from the last step back, with random ties and noise",
    "naive": "lets no byte serve twice",
    "greedy_by_size": "places the largest buffer first, into the tightest hole",
    "greedy_by_longest_and_size": "places the longest-lived buffer first, the larger among equals, "
    "into the tightest hole",
    "greedy_by_breadth": "places the buffers of the op that reads and writes most bytes first, "
    "into the tightest hole",
    "greedy_by_profile_breadth": "places the buffers of the fullest step first, into the tightest "
    "hole",
    "tflm_greedy": "places the largest buffer first, the last listed among equals, lowest hole",
    "linear_scan": "places buffers as they start, into the smallest free region, else above all "
    "bytes used so far",
    "first_fit_arrival": "places buffers as they start, into the lowest hole",
    "first_fit_size": "places the largest buffer first, into the lowest hole",
    "first_fit_area": "places the largest product of size and lifetime first, lowest hole",
    "first_fit_start": "places buffers as they start, the larger first, into the lowest hole",
    "first_fit_lifetime": "places the longest-lived buffer first, into the lowest hole",
    "first_fit_conflicts": "places the buffer that meets most others first, into the lowest hole",
    "first_fit_breadth": "places the buffers of the fullest step first, into the lowest hole",
    "best_fit_area": "places the largest product of size and lifetime first, tightest hole",
    "best_fit_start": "places buffers as they start, the larger first, into the tightest hole",
    "best_fit_lifetime": "places the longest-lived buffer first, into the tightest hole",
    "best_fit_conflicts": "places the buffer that meets most others first, into the tightest hole",
    "skyline": "fills the lowest gap with the longest-lived buffer that it holds",
    "hill_climb": "swaps turns of first fit until no swap helps",
}


def rule_of(method: str) -> str:
    """Return a short description of a method's rule; empty if there is none."""
    return ", then ".join(_RULES[name] for name in method.split("+") if name in _RULES)


def order_diff(graph: Graph, method: str, plan: Plan, rival: str, better: Plan) -> str:
    """Describe where two orders diverge, the buffers live at the worse one's peak, and why."""
    running = timeline(graph, plan.order).running
    at = int(running.argmax())
    v = plan.order[at]
    name = graph.ops[v].name
    ranges, others = live_ranges(graph, plan.order), live_ranges(graph, better.order)
    # The same op in the better order: what differs there is why it needs less.
    then = int(steps_of(graph, better.order)[v])
    live, before = _live(graph, ranges, at), _live(graph, others, then)
    # Live here and not there: freed earlier there, or made later.
    extra = [b for b in live if b not in before]
    done = [b for b in extra if others[b, 1] <= then]
    later = [b for b in extra if b not in done]
    bytes_then = int(timeline(graph, better.order).running[then])
    text = (
        f"{_parting(graph, method, plan, rival, better)} Its fullest step is step {at}, while "
        f"{name!r} runs: {_sizes(graph, live)} are live, {int(running[at]):,} bytes. When the "
        f"{_noun(rival)} runs {name!r}, at step {then}, {bytes_then:,} bytes are live: "
    )
    why = []
    if done:
        last = dict.fromkeys(graph.ops[better.order[int(others[b, 1]) - 1]].name for b in done)
        why.append(f"{_names(graph, done)} had been used up by {_join(list(last))} before")
    if later:
        why.append(f"{_names(graph, later)} had not been made yet")
    return text + " and ".join(why) + "."


def _parting(graph: Graph, method: str, plan: Plan, rival: str, better: Plan) -> str:
    """Describe the first step at which the orders differ, and the effect of each ready op."""
    pairs = takewhile(lambda p: p[0] == p[1], zip(plan.order, better.order, strict=True))
    common = sum(1 for _ in pairs)
    # Equal orders differ in their packing only.
    if common == len(plan.order):
        return f"{method} and the {_noun(rival)} run the ops in the same order."
    # The ops that were ready show the choice that the method had.
    done = set(plan.order[:common])
    ready = [
        v for v in range(len(graph.ops)) if v not in done and done.issuperset(graph.predecessors[v])
    ]
    shown = _join([_effect(graph, v, done) for v in ready[:_MOST]], len(ready))
    mine, theirs = (graph.ops[order[common]].name for order in (plan.order, better.order))
    after = f" after {common} common step{'s' * (common > 1)}" if common else ""
    return (
        f"{method} {rule_of(method) or 'goes its own way'}. The orders part at "
        f"step {common}{after}: ready are {shown}; {method} runs {mine!r}, "
        f"the {_noun(rival)} {theirs!r}."
    )


def _effect(graph: Graph, v: int, done: set[int]) -> str:
    """Return a text on the bytes that an op would allocate and free next."""
    arrays = graph.arrays
    freed = int(arrays.own[v])
    for b in arrays.read.row(v).tolist():
        left = set(arrays.user.row(b).tolist()) - done
        if not arrays.keep[b] and left <= {v}:
            freed += int(arrays.size[b])
    return f"{graph.ops[v].name!r} (+{int(arrays.alloc[v]):,}, then -{freed:,})"


def packing_diff(
    problem: PackingProblem, method: str, offsets: IntArray, rival: str, better: IntArray
) -> str:
    """Describe the highest buffer, the free bytes below it, and the better packing of both."""
    live = problem.start < problem.end
    tops = offsets + problem.size
    slab = problem.slab_size(offsets)
    # The highest buffer makes the slab as large as it is.
    top = int(np.flatnonzero(live & (tops == slab))[0])
    steps = range(int(problem.start[top]), int(problem.end[top]))
    loads = [int(problem.size[_at(problem, step)].sum()) for step in steps]
    # At the fullest step of its life there is the least room below it.
    step = steps[int(np.argmax(loads))]
    here = _at(problem, step)
    holes = _holes(problem, offsets, here)
    moved = [i for i in here if offsets[i] != better[i]]
    places = _join([f"{problem.names[i]} at {int(better[i]):,}" for i in moved[:_MOST]], len(moved))
    shown = [_kept_out(problem, offsets, top, low, high) for low, high in holes]
    free = f"{_join(shown[:_MOST], len(shown))}" if shown else "nothing"
    return (
        f"{method} {rule_of(method) or 'goes its own way'}. {problem.names[top]!r} "
        f"({int(problem.size[top]):,} bytes, steps {steps[0]} to {steps[-1]}) comes to lie at "
        f"{int(offsets[top]):,} and makes the slab {slab:,} bytes high. At step {step}, the "
        f"fullest of its life, {max(loads):,} bytes are live; free beneath it: {free}. "
        f"The {_noun(rival)} puts {places or 'all as here'}, and needs "
        f"{problem.slab_size(better):,}."
    )


def _holes(problem: PackingProblem, offsets: IntArray, here: IntArray) -> list[tuple[int, int]]:
    """Return the ranges `[low, high)` that buffers leave free below the highest of them."""
    holes, floor = [], 0
    for low, size in sorted((int(offsets[i]), int(problem.size[i])) for i in here):
        if low > floor:
            holes.append((floor, low))
        floor = max(floor, low + size)
    return holes


def _kept_out(problem: PackingProblem, offsets: IntArray, top: int, low: int, high: int) -> str:
    """Return why a buffer is not in a hole: its size, or others there at other steps."""
    text = f"[{low:,}, {high:,})"
    # A hole is useless if it is too small, or taken at another step.
    if high - low < problem.size[top]:
        return f"{text} (too small)"
    meets = (problem.start < problem.end[top]) & (problem.start[top] < problem.end)
    inside = (offsets < high) & (offsets + problem.size > low)
    rivals = [problem.names[i] for i in np.flatnonzero(meets & inside) if i != top]
    if not rivals:
        return text
    lie = "lies" if len(rivals) == 1 else "lie"
    return f"{text} ({_join(rivals[:_MOST], len(rivals))} {lie} there at another step)"


def _at(problem: PackingProblem, step: int) -> IntArray:
    return np.flatnonzero((problem.start <= step) & (step < problem.end))


def _live(graph: Graph, ranges: IntArray, step: int) -> list[int]:
    """Return the buffers of positive size that are live at a step, largest first."""
    size = graph.arrays.size
    here = np.flatnonzero((ranges[:, 0] <= step) & (step < ranges[:, 1]) & (size > 0))
    return sorted(here.tolist(), key=lambda b: -int(size[b]))


def _sizes(graph: Graph, buffers: Sequence[int]) -> str:
    shown = [graph.buffers[b] for b in buffers[:_MOST]]
    return _join([f"{readable(b.name)} ({b.size:,})" for b in shown], len(buffers))


def _names(graph: Graph, buffers: Sequence[int]) -> str:
    return _join([graph.buffers[b].name for b in buffers[:_MOST]], len(buffers))


def _join(words: Sequence[str], count: int | None = None) -> str:
    """Join words to a list; names missing from `count` are counted as "more"."""
    rest = 0 if count is None else count - len(words)
    shown = [*map(readable, words), *([f"{rest} more"] if rest > 0 else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""


def _noun(rival: str) -> str:
    return "optimum" if rival == "optimum" else f"order of {rival}"
