"""Steps on the fake device with the plugin off and on, in a process of its own.

`python -m tests.support.cuda.planned STEP...` writes a line of JSON per graph: the plan, and the
bytes that the wrapper needs when it is executed in Inductor's order and in the plugin's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class PlannedRow:
    """A graph of a step; bytes.

    `own`, `ours`: executed peaks in Inductor's order and in the plugin's. `planned_own`, `planned`:
    peaks that the plugin simulated for both; None if it left the graph alone. `step_own`, `step`:
    executed peaks of the whole step. `seconds`, `solver_seconds`: time that the plugin took, and
    the part of it in the solver.
    """

    step: str
    phase: str
    nodes: int
    own: int
    ours: int
    planned_own: int | None
    planned: int | None
    step_own: int
    step_ours: int
    proof: str
    order: str
    reason: str
    note: str
    seconds: float
    solver_seconds: float

    @property
    def equal(self) -> bool:
        """True if the run needed the bytes of the plan, or the graph was left alone."""
        if self.planned is None:
            return self.own == self.ours
        return (self.planned_own, self.planned) == (self.own, self.ours)


def plan(name: str, seconds: float, budget: float | None, cuda: bool) -> Iterator[PlannedRow]:
    """Run a step in Inductor's order, then with the plugin; yield a row for each graph."""
    from torch._functorch import config as functorch_config

    from optsched import plugins
    from optsched.plugins import inductor
    from tests.support.cuda.lowering import Execution, run_step
    from tests.support.cuda.steps import STEPS

    recompute = {} if budget is None else {"activation_memory_budget": budget}
    with functorch_config.patch(recompute) if recompute else contextlib.nullcontext():
        own, ours = Execution(), Execution()
        step_own = run_step(STEPS[name], own)
        plugins.forget()
        with inductor.enabled(time_limit=seconds, min_gain=0, cuda=cuda):
            step_ours = run_step(STEPS[name], ours)
    for i, record in enumerate(plugins.records()):
        first, second = own.first_call(i), ours.first_call(i)
        yield PlannedRow(
            step=name if budget is None else f"{name} at {budget:g}",
            phase=first.phase,
            nodes=record.ops,
            own=first.peak,
            ours=second.peak,
            planned_own=record.before,
            planned=record.after,
            step_own=step_own,
            step_ours=step_ours,
            proof=record.proof,
            order=record.order,
            reason=record.reason,
            note=record.note,
            seconds=round(record.seconds, 2),
            solver_seconds=round(record.solver_seconds, 2),
        )


def main() -> None:
    """Plan the steps that the command line names."""
    parser = argparse.ArgumentParser(prog="tests.support.cuda.planned")
    parser.add_argument("steps", nargs="+")
    parser.add_argument("--seconds", type=float, default=5.0, help="for the solver, per graph")
    parser.add_argument("--budget", type=float, help="activation_memory_budget of AOTAutograd")
    parser.add_argument("--off", action="store_true", help="without enabled(cuda=True)")
    options = parser.parse_args()

    from tests.support.cuda.device import NoDeviceError, load_device

    try:
        load_device()
    except NoDeviceError as error:
        sys.exit(f"no fake device: {error}")
    warnings.filterwarnings("ignore")
    start = time.process_time()
    for name in options.steps:
        for row in plan(name, options.seconds, options.budget, not options.off):
            print(json.dumps({**asdict(row), "equal": row.equal}), flush=True)
    print(f"{time.process_time() - start:.0f} s of processor time", file=sys.stderr, flush=True)
    # The device's thread in autograd would not end.
    os._exit(0)


if __name__ == "__main__":
    main()
