"""Two real processes that compile a program with collectives within a peak.

`python -m tests.support.two_ranks FILE RANK CASE...` is one of them; the file is where they meet.
It prints a line of JSON for each case. With the variable `TWO_RANKS_CACHE` all cases use that
folder for PyTorch's compile cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any
from unittest import mock

import torch
from torch import distributed, nn
from torch._inductor import config
from torch._inductor.utils import fresh_cache

from optsched import plugins
from optsched.plugins.inductor import options
from optsched.plugins.inductor.recompute import partition, step_plan
from tests.support.compiled_memory import QUICK_KERNELS
from tests.support.distributed_programs import Averaged
from tests.support.ranks import CACHE

PEAK = 700_000
STEPS: dict[str, Any] = {"regions": 1_250_000, "late": 1_700_000, "min": "min"}
"""Peaks of programs of two compiled regions, by case."""
WAIT, SHORT = 120.0, ("missing", "dead", "late")
"""Seconds that the process group waits, and cases in which it waits 10."""
LATE = 25.0
"""Seconds for which the first rank chooses: more than 64 time limits for each region and the
timeout of the process group."""


def step(program: Any, rank: int) -> list[torch.Tensor]:
    torch.manual_seed(7 + rank)
    out = program(torch.randn(128, 32))
    out.square().mean().backward()
    found = [out.detach(), *(p.grad.clone() for p in program.parameters() if p.grad is not None)]
    program.zero_grad()
    return found


def run(rank: int, case: str) -> dict[str, Any]:
    """Return what a rank sees of a case."""
    torch._dynamo.reset()
    plugins.forget()
    torch.manual_seed(0)
    others = {"graphs": Averaged(256, 3 - rank), "shapes": Averaged(256 + 16 * rank)}
    program: Any = others.get(case) or Averaged(256)
    if case in STEPS:
        # Each half is compiled alone, and what the first one saves is live in the second one.
        program = nn.Sequential(Averaged(256, 1), Averaged(512, 1))
    found: dict[str, Any] = {"case": case, "error": "", "near": True, "answer": "", "reason": ""}
    wanted = [] if case in ("graphs", "shapes") else step(program, rank)
    peak: Any = {"peaks": PEAK + 1_000 * rank, **STEPS}.get(case, PEAK)
    if case == "destroyed":
        distributed.destroy_process_group()
    how = options(peak=peak, time_limit=0.1 if case in ("dead", "late") else 2, measure=True)
    if case in STEPS:
        compiled: Any = nn.Sequential(*(torch.compile(half, options=how) for half in program))
    else:
        compiled = torch.compile(program, options=how)
    begun, bits, used = time.monotonic(), hashlib.sha256(), sum(os.times()[:4])
    shared = {"force_disable_caches": False, "fx_graph_cache": CACHE in os.environ}
    with (
        mock.patch.object(partition, "JointStep", wraps=partition.JointStep) as planned,
        config.patch(QUICK_KERNELS | shared),
        mock.patch.object(
            partition,
            "search_split",
            _die if case == "dead" and not rank else partition.search_split,
        ),
        late() if case == "late" and not rank else nullcontext(),
    ):
        try:
            if case != "missing" or rank == 0:
                for _ in range(6):
                    made = step(compiled, rank)
                    near = zip(wanted, made, strict=bool(wanted))
                    found["near"] &= all(torch.allclose(a, b, atol=1e-5) for a, b in near)
                    for tensor in made:
                        bits.update(tensor.numpy().tobytes())
        except Exception as error:
            found["error"] = str(error)
    found["seconds"] = time.monotonic() - begun
    # Processor time with that of compilers, and how many joint graphs were read to be planned.
    found["used"], found["planned"] = sum(os.times()[:4]) - used, planned.call_count
    found["bits"] = bits.hexdigest()
    found["cached"] = [row.cached for row in plugins.records() if "joint" not in row.name]
    joints = [row for row in plugins.records() if "joint" in row.name]
    if joints:
        found["answer"], found["reason"] = joints[0].answer, joints[0].reason
    found["figures"] = [(row.planned, row.measured) for row in plugins.records() if row.planned]
    found["line"] = (plugins.explain().splitlines() or [""])[-1]
    return found


@contextmanager
def late() -> Iterator[None]:
    """Have this rank choose as slowly as for a step of many nodes."""
    choose = step_plan.choose_closely

    def choose_late(*how: Any) -> Any:
        time.sleep(LATE)
        return choose(*how)

    with (
        mock.patch.object(step_plan, "search_wall", return_value=LATE),
        mock.patch.object(step_plan, "choose_closely", choose_late),
    ):
        yield


def _die(*_: Any) -> Any:
    os._exit(1)


def main(file: str, rank: int, cases: list[str]) -> None:
    torch.set_num_threads(1)
    store = distributed.FileStore(file, 2)
    wait = timedelta(seconds=10 if cases[0] in SHORT else WAIT)
    distributed.init_process_group("gloo", rank=rank, world_size=2, store=store, timeout=wait)
    for case in cases:
        kept = mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=os.environ.get(CACHE, ""))
        with kept if CACHE in os.environ else fresh_cache():
            print(json.dumps(run(rank, case)), flush=True)
    if distributed.is_initialized() and cases[0] not in ("missing", "dead"):
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
