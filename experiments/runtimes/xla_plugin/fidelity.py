"""Comparison of planned bytes and XLA's: `python -m experiments.runtimes.xla_plugin.fidelity`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.tables import markdown, read_rows, replace_table, write_rows
from optsched.plugins import forget, records
from optsched.plugins.xla import enabled
from tests.support.xla_training import DONATED, STEPS
from tests.support.xla_varied import Varied, varied

HERE = Path(__file__).parent


@dataclass(frozen=True)
class FidelityRow:
    """One function: bytes as planned and as XLA's buffer assignment has them."""

    name: str
    features: str
    donated: str
    ops: int
    before: int
    xla_before: int
    after: int
    xla_after: int
    order: str
    reason: str
    identical: str

    @property
    def verdict(self) -> str:
        """True if the planned bytes are allocated."""
        if not self.before:
            return "left alone"
        is_equal = (self.before, self.after) == (self.xla_before, self.xla_after)
        return "equal" if is_equal else "NO"


def allocated(compiled: Any) -> int:
    """Return the bytes of temporaries and results, less what is donated."""
    told = compiled.memory_analysis()
    return int(told.temp_size_in_bytes + told.output_size_in_bytes - told.alias_size_in_bytes)


def measure(name: str, made: Varied, time_limit: float) -> FidelityRow:
    """Compile and run a function without the plugin and with it."""
    results = []
    sizes = []
    forget()
    for ours in (False, True):
        jax.clear_caches()
        lowered = made.lower()
        if ours:
            with enabled(time_limit=time_limit, min_bytes=0, min_gain=0):
                compiled = lowered.compile()
        else:
            compiled = lowered.compile()
        sizes.append(allocated(compiled))
        copies = jax.tree.map(lambda x: x.copy(), made.arguments)
        results.append([np.asarray(x) for x in jax.tree.leaves(compiled(*copies))])
    same = all(a.tobytes() == b.tobytes() for a, b in zip(*results, strict=True))
    (record,) = records()
    return FidelityRow(
        name=name,
        features=", ".join(made.features),
        donated=", ".join(map(str, made.donated)),
        ops=record.ops,
        before=record.before or 0,
        xla_before=sizes[0],
        after=record.after or 0,
        xla_after=sizes[1],
        order=record.order,
        reason=record.reason,
        identical="yes" if same else "NO",
    )


def cases(functions: int) -> Iterator[tuple[str, Varied]]:
    """Yield random functions and training steps, then the larger steps of the other study."""
    for seed in range(functions):
        yield str(seed), varied(seed)
    for name in STEPS:
        step, arguments = STEPS[name]()
        donated = (0,) if name in DONATED else ()
        yield name, Varied(step, arguments, donated, ("larger step",))


def table(rows: list[FidelityRow]) -> str:
    """Return a line for each function."""
    head = ["function", "what is in it", "donated", "ops", "XLA's order: planned", "allocated"]
    head += ["our order: planned", "allocated", "verdict", "order, or why XLA's stays", "results"]
    lines = [
        [
            row.name,
            row.features,
            row.donated or "-",
            str(row.ops),
            *(f"{x:,}" for x in (row.before, row.xla_before, row.after, row.xla_after)),
            row.verdict,
            row.order or row.reason,
            "same" if row.identical == "yes" else "OTHER",
        ]
        for row in rows
    ]
    return markdown(head, lines)


def main() -> None:
    """Measure all functions and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=5.0, help="for each function")
    parser.add_argument("--functions", type=int, default=30, help="how many random ones")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    args = parser.parse_args()
    if not args.table:
        found = [measure(name, made, args.time_limit) for name, made in cases(args.functions)]
        write_rows(HERE / "fidelity.csv", found)
    rows = read_rows(HERE / "fidelity.csv", FidelityRow)
    counts = {x: sum(row.verdict == x for row in rows) for x in ("equal", "left alone", "NO")}
    print(", ".join(f"{name}: {count}" for name, count in counts.items()))
    replace_table(HERE / "README.md", "fidelity", table(rows))


if __name__ == "__main__":
    main()
