"""Compares simulated and executed bytes of CUDA graphs, without a GPU.

Each run is a process of its own, because the fake device has to be loaded before torch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby

from experiments.tables import markdown
from tests.support.cuda.compare import ComparedRow

CUDA_STEPS = (
    *("gpt", "gpt_flash_half", "gpt_efficient", "gpt_bf16", "gpt_dropout", "gpt_flash_dropout"),
    *("gpt_checkpointed", "gpt_bf16_checkpointed", "gpt_shared_checkpointed", "gpt_breaks"),
    *("gpt_large_flash", "layer_norms", "layer_norms_mixed", "rms_norms_mixed"),
    *("layer_norms_mixed_bf16", "scan", "scan_bf16", "convolutions", "convolutions_half"),
    *("lstm", "experts"),
)
"""The steps of `tests/support/cuda/steps.py`."""


def measure_cuda(names: Sequence[str]) -> Iterator[ComparedRow]:
    """Run steps in all orders, with the reuse pool and without."""
    command = [sys.executable, "-m", "tests.support.cuda.compare", *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            row = json.loads(line)
            del row["equal"]
            yield ComparedRow(**row)
    if process.returncode:
        sys.exit(process.returncode)


def cuda_table(rows: Sequence[ComparedRow]) -> str:
    """Return a line per graph, over all orders of it."""
    head = ["step", "graph", "nodes", "runs", "equal", "least executed", "most"]
    head += ["Inductor's estimate is off by at most, %", "workspaces"]
    graphs = sorted(rows, key=lambda row: (row.step, row.phase != "forward", row.nodes))
    groups = groupby(graphs, lambda row: (row.step, row.phase, row.nodes))
    return markdown(head, (_line(list(group)) for _, group in groups))


def _line(rows: Sequence[ComparedRow]) -> list[str]:
    executed = [row.executed for row in rows]
    return [
        rows[0].step,
        rows[0].phase,
        str(rows[0].nodes),
        str(len(rows)),
        str(sum(row.equal for row in rows)),
        f"{min(executed):,}",
        f"{max(executed):,}",
        f"{max(100 * abs(row.estimated - row.executed) / row.executed for row in rows):.1f}",
        str(rows[0].workspaces),
    ]
