"""Two real processes that compile a program with collectives within a peak.

`python -m tests.support.two_ranks FILE RANK CASE` is one of them; the file is where they meet. It
prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from torch import distributed, nn
from torch._inductor import config
from torch.distributed import _functional_collectives as collectives

from optsched import plugins
from optsched.plugins.inductor import options
from optsched.plugins.inductor.recompute import ranks
from tests.support.compiled_memory import QUICK_KERNELS

PEAK = 700_000


class Averaged(nn.Module):
    """Layers with wide results, which all ranks average."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(32, wide) for _ in range(3))
        self.down = nn.ModuleList(nn.Linear(wide, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for up, down in zip(self.up, self.down, strict=True):
            y = down(torch.tanh(up(x)) * torch.sigmoid(up(x)))
            x = x + collectives.all_reduce(y.detach(), "sum", distributed.group.WORLD) / 2 + y
        return x


def step(program: Any, rank: int) -> list[torch.Tensor]:
    torch.manual_seed(7 + rank)
    out = program(torch.randn(128, 32))
    out.square().mean().backward()
    return [out.detach(), *(p.grad.clone() for p in program.parameters() if p.grad is not None)]


def main(file: str, rank: int, case: str) -> None:
    torch.set_num_threads(1)
    store = distributed.FileStore(file, 2)
    distributed.init_process_group("gloo", rank=rank, world_size=2, store=store)
    torch.manual_seed(0)
    program = Averaged(256 + 16 * rank if case == "differ" else 256)
    found = {"case": case, "error": "", "near": True, "planned": 0, "answer": "", "reason": ""}
    wanted = step(program, rank)
    program.zero_grad()
    ranks.MEET_SECONDS = 10.0 if case == "missing" else 240.0
    shared = {"force_disable_caches": False, "fx_graph_cache": False}
    begun = time.monotonic()
    with config.patch(QUICK_KERNELS | shared):
        compiled = torch.compile(program, options=options(peak=PEAK, time_limit=2))
        try:
            if case != "missing" or rank == 0:
                got = step(compiled, rank)
                near = zip(wanted, got, strict=True)
                found["near"] = all(torch.allclose(a, b, atol=1e-5) for a, b in near)
        except Exception as error:
            found["error"] = str(error)
    found["seconds"] = time.monotonic() - begun
    for row in plugins.records():
        if "joint" in row.name:
            found["answer"], found["reason"] = row.answer, row.reason
        else:
            found["planned"] = max(int(str(found["planned"])), row.planned or 0)
    print(json.dumps(found), flush=True)
    if case != "missing":
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
