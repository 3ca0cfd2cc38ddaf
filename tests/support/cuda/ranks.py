"""Programs with collectives on the fake device, as rank 0 of eight, in a process of its own.

`python -m tests.support.cuda.ranks PROGRAM...` writes a line of JSON per program, of the form that
:mod:`tests.support.two_processes` has: bytes planned for Inductor's order and ours, and those that
the wrappers needed when they were executed, and the calls beside collectives in both orders.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any
from unittest import mock

NAMES = (
    *("sharded", "parallel", "experts", "gathers", "gathered_again", "attention", "sequence"),
    *("averaged", "prefetched", "exchanged"),
)
"""Programs that can be built: FSDP2 needs streams, and DDP sends parameters when it is made."""


def plan(name: str) -> dict[str, Any]:
    """Run a program in Inductor's order and in ours; return the figures of its graphs."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.utils._python_dispatch import _disable_current_modes

    from optsched import plugins
    from optsched.plugins import inductor
    from tests.support.cuda.lowering import Execution, device_answers, run_step
    from tests.support.distributed_programs import STUDIED, windows

    class Loss(torch.nn.Module):
        """A program with a number as its result."""

        def __init__(self, program: torch.nn.Module) -> None:
            super().__init__()
            self.program = program

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.program(x).square().mean()

    def build() -> tuple[torch.nn.Module, tuple[Any, ...]]:
        with device_answers(), mock.patch.object(torch._C, "_cuda_getDevice", int, create=True):
            # Ranks are numbers, which a fake tensor does not have.
            with _disable_current_modes():
                mesh = init_device_mesh("cuda", (8,))
            with torch.device("cuda"):
                return Loss(STUDIED[name](mesh)), (torch.randn(128, 32),)

    stock, ours = Execution(), Execution()
    run_step(build, stock)
    plugins.forget()
    with inductor.enabled(time_limit=2, min_gain=0, cuda=True):
        run_step(build, ours)
    figures = [
        (row.before, row.planned, ours.first_call(i).peak, row.reason)
        for i, row in enumerate(plugins.records())
    ]
    hidden = [[x for w in run.wrappers for x in windows(w.text)] for run in (stock, ours)]
    return {"figures": figures, "hidden": hidden, "same": True}


def main() -> None:
    """Plan the programs that the command line names."""
    from tests.support.cuda.device import NoDeviceError, load_device

    try:
        load_device()
    except NoDeviceError as error:
        sys.exit(f"no fake device: {error}")
    from torch import distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    warnings.filterwarnings("ignore")
    distributed.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    for name in sys.argv[1:]:
        print(json.dumps(plan(name)), flush=True)
    # The device's thread in autograd would not end.
    os._exit(0)


if __name__ == "__main__":
    main()
