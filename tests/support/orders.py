"""Orders drawn at random among those that a compiled graph allows."""

from __future__ import annotations

import random

from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts


def draw_order(facts: WrapperFacts, *, seed: int) -> Order:
    """Draw one node after the other from those that may run."""
    choose = random.Random(seed)
    order: list[int] = []
    done: set[int] = set()
    left = list(range(len(facts.nodes)))
    while left:
        ready = [i for i, v in enumerate(left) if facts.nodes[v].predecessors <= done]
        order.append(left.pop(choose.choice(ready)))
        done.add(order[-1])
    return tuple(order)
