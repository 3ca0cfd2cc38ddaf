"""A graph whose names are made to break any program that shows them."""

from __future__ import annotations

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph

NAMES = (
    "</script><script>window.broken = 1</script>",
    '"><img src=x onerror="window.broken = 2">',
    "<!-- ${`'\\ @{name}{safe} &amp; %s",
    "$\\frac{1}{ $ _^",
    "nul\x00 bell\x07 line\nfeed\u2028 right\u202eleft \x85",
    "日本語 🙂 é",
    "lone surrogate \ud800",
    "x" * 5_000,
)


def hostile_graph() -> Graph:
    """Return a chain of ops, each with one of the names; so have its type and its buffer."""
    build = GraphBuilder(NAMES[0], memory_model=NAMES[1])
    build.input(f"in {NAMES[2]}", 64)
    last = f"in {NAMES[2]}"
    for number, name in enumerate(NAMES):
        build.op(f"op {name}", reads=[last], writes={name: 32 + number}, kind=f"kind {name}")
        last = name
    build.output(last)
    return build.build()
