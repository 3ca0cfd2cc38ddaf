"""Run planned steps op by op: gradients bit for bit, and the planned peak in the allocator.

    python -m experiments.recompute.op_by_op [NETWORK ..]

`aot_module` runs forward and backward graphs of the partitioner by an interpreter that frees each
tensor after its last reader, so that only ATen ops allocate. Where these need no bytes of their
own, the allocator's high-water is the planned peak and the gradient of the loss.
"""

from __future__ import annotations

import re
import sys
from typing import Any, ClassVar

import torch
from functorch.compile import aot_module
from torch.fx import GraphModule, Interpreter

from experiments.recompute.networks import STEPS
from experiments.recompute.steps import Step
from optsched.plugins.inductor.recompute.joint_step import JointStep
from optsched.plugins.inductor.recompute.partition import PeakPartitioner, search_split
from optsched.plugins.inductor.recompute.search import search_clock
from optsched.plugins.records import forget

PARTS = (1.0, 0.8, 0.65, 0.5)


def boxed(module: GraphModule, _: Any) -> Any:
    """Return a call that takes its arguments over and frees them as it goes."""

    def run(args: list[Any]) -> Any:
        return Interpreter(module).boxed_run(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class Told(PeakPartitioner):
    """Keeps the texts of its records."""

    texts: ClassVar[list[str]] = []

    def __call__(self, gm: Any, joint_inputs: Any, **how: Any) -> Any:
        """Return forward and backward graph."""
        clock = search_clock(self.time_limit)
        found = search_split(JointStep(self, "joint", gm, joint_inputs, how), clock)
        self.texts.append(found.record.order)
        return found.modules


def study(name: str) -> None:
    eager, least = Step(name, None).gradients(), 0
    for part in PARTS:
        peak = int(least * part) or 1 << 40
        step = Step(name, None)
        try:
            step.call = aot_module(
                step.module,
                fw_compiler=boxed,
                partition_fn=Told(peak, 20.0, "roofline", calibrated=False),
            )
            found = step.gradients()
        except Exception as error:
            print(f"{name}: asked {peak:,}: {error}", flush=True)
            continue
        same = all(torch.equal(a, b) for a, b in zip(eager, found, strict=True))
        held = step.allocated()
        planned = re.search(r"planned ([0-9,]+)", Told.texts[-1])
        least = least or int(planned[1].replace(",", "")) if planned else held
        print(f"{name}: {Told.texts[-1]}; allocated {held:,}, equal {same}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    forget()
    for name in sys.argv[1:] or STEPS:
        study(name)


if __name__ == "__main__":
    main()
