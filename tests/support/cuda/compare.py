"""Simulated and executed bytes of steps on the fake device, in a process of its own.

`python -m tests.support.cuda.compare STEP...` writes a line of JSON per graph, order and setting.
The fake device has to be loaded before torch, so this cannot be done in a process that tests run
in.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

ORDERS = ("baseline", "lpmf", "bfs", "dfs", "random0")


@dataclass(frozen=True)
class ComparedRow:
    """A call of a graph of a step in one order; bytes.

    Where a guard forbids an order, the baseline ran.
    """

    step: str
    phase: str
    nodes: int
    order: str
    reuse: str
    simulated: int
    executed: int
    simulated_end: int
    executed_end: int
    estimated: int
    inplace: int
    reused: int
    workspaces: int
    seconds: float

    @property
    def equal(self) -> bool:
        """True if peak and end are equal to the byte."""
        return (self.simulated, self.simulated_end) == (self.executed, self.executed_end)


def compare(name: str, order: str, reuse: bool) -> Iterator[ComparedRow]:
    """Run a step in one order; yield a row for each call of a graph."""
    from optsched.plugins.inductor.wrapper.reuse import estimate_peak
    from tests.support.compiled_memory import OrderProbe
    from tests.support.cuda.lowering import Execution, run_step
    from tests.support.cuda.steps import STEPS

    start = time.process_time()
    execution, probe = Execution(), OrderProbe(_method(order), reuse)
    with probe.running():
        run_step(STEPS[name], execution)
    seconds = time.process_time() - start
    for call in execution.calls:
        i = execution.wrappers.index(call.wrapper)
        said = probe.said[i]
        yield ComparedRow(
            step=name,
            phase=call.phase,
            nodes=len(probe.facts[i].nodes),
            order=order,
            reuse="on" if reuse else "off",
            simulated=said.peak,
            executed=call.peak,
            simulated_end=said.end,
            executed_end=call.end,
            estimated=estimate_peak(probe.facts[i], probe.orders[i])[0],
            inplace=len(said.inplace),
            reused=len(said.reused),
            workspaces=sum(node.scratch is not None for node in probe.facts[i].nodes),
            seconds=round(seconds, 1),
        )


def _method(order: str) -> Any:
    from functools import partial

    from tests.support.orders import draw_order

    if order.startswith("random"):
        return partial(draw_order, seed=int(order.removeprefix("random")))
    return order


def main() -> None:
    """Compare the steps that the command line names."""
    parser = argparse.ArgumentParser(prog="tests.support.cuda.compare")
    parser.add_argument("steps", nargs="+")
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--reuse", default="on,off")
    options = parser.parse_args()

    from tests.support.cuda.device import NoDeviceError, load_device

    try:
        load_device()
    except NoDeviceError as error:
        sys.exit(f"no fake device: {error}")
    warnings.filterwarnings("ignore")
    for name in options.steps:
        for reuse in options.reuse.split(","):
            for order in options.orders.split(","):
                for row in compare(name, order, reuse == "on"):
                    print(json.dumps({**asdict(row), "equal": row.equal}), flush=True)
    # The device's thread in autograd would not end.
    os._exit(0)


if __name__ == "__main__":
    main()
