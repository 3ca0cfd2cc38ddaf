"""Distributed programs of two real processes, with the plugin off and on: bits and bytes.

`python -m tests.support.two_processes FILE RANK PROGRAM...` is one of them; the file is where they
meet. It prints a line of JSON for each program.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import distributed
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.distributed.device_mesh import init_device_mesh

from optsched import plugins
from optsched.plugins.inductor import enabled
from optsched.plugins.records import CompiledGraph
from tests.support.compiled_memory import QUICK_KERNELS
from tests.support.distributed_programs import BREAKS, SAME_ROWS, STUDIED, run, windows

STEPS = 3


def main(file: str, rank: int, names: list[str]) -> None:
    torch.set_num_threads(1)
    store = distributed.FileStore(file, 2)
    distributed.init_process_group("gloo", rank=rank, world_size=2, store=store)
    mesh = init_device_mesh("cpu", (2,))
    for name in names:
        stock, codes, _ = results(name, mesh, planned=False)
        ours, later, records = results(name, mesh, planned=True)
        same = all(map(torch.equal, stock, ours)) and len(stock) == len(ours)
        figures = [(r.before, r.planned, r.measured, r.reason) for r in records]
        hidden = [[window for code in x for window in windows(code)] for x in (codes, later)]
        row = {"name": name, "same": same, "figures": figures, "hidden": hidden}
        print(json.dumps(row), flush=True)
    distributed.barrier()
    distributed.destroy_process_group()


def results(
    name: str, mesh: object, *, planned: bool
) -> tuple[list[torch.Tensor], list[str], list[CompiledGraph]]:
    """Return the results and gradients of some steps, the wrappers, and the plugin's records."""
    torch._dynamo.reset()
    plugins.forget()
    torch.manual_seed(0)
    program = STUDIED[name](mesh)
    # Graphs are compiled each time, but an equal kernel is compiled once for both processes.
    shared = {"force_disable_caches": False, "fx_graph_cache": False}
    ours = enabled(time_limit=2, min_gain=0, measure=True) if planned else nullcontext()
    with config.patch(QUICK_KERNELS | shared), ours:
        found, codes = run_and_get_code(steps, name, program)
    return found, codes, list(plugins.records())


def steps(name: str, program: torch.nn.Module) -> list[torch.Tensor]:
    compiled, found = torch.compile(program, fullgraph=name not in BREAKS), []
    for i in range(STEPS):
        torch.manual_seed(i + 10 * distributed.get_rank())
        x = torch.full((128, 32), 0.1 * i) if name in SAME_ROWS else torch.randn(128, 32)
        program.zero_grad()
        found += run(name, compiled, x)
    return found


if __name__ == "__main__":
    main(str(Path(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])
