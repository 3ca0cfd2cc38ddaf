"""ExecuTorch's arenas by planner: `python -m experiments.runtimes.executorch`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy, naive
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.runtime import Runtime, Verification

from experiments.tables import markdown, replace_table, write_rows
from optsched.plugins import records
from optsched.plugins.executorch import memory_planning
from tests.support.executorch_models import MODELS

HERE = Path(__file__).parent
PASSES: dict[str, Callable[[], Any]] = {
    "naive": lambda: MemoryPlanningPass(MemoryPlanningAlgorithmSuite([naive])),
    "greedy": lambda: MemoryPlanningPass(MemoryPlanningAlgorithmSuite([greedy])),
    "offsets": lambda: memory_planning(reorder=False, time_limit=20),
    "plan": lambda: memory_planning(time_limit=20),
}


@dataclass(frozen=True)
class ArenaRow:
    """One model: bytes of its arena by each planner, and whether results stayed the same."""

    model: str
    naive: int
    greedy: int
    offsets: int
    plan: int
    bound: int
    proof: str
    order: str
    identical: bool
    seconds: float


def measure(name: str) -> ArenaRow:
    """Lower and run one model with each planner."""
    torch.manual_seed(0)
    model, arguments = MODELS[name]()
    exported = torch.export.export(model.eval(), arguments, strict=False)
    arenas, results = {}, {}
    for planner, make in PASSES.items():
        planning = make()
        edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
        begun = time.perf_counter()
        lowered = edge.to_executorch(
            ExecutorchBackendConfig(
                memory_planning_pass=planning, passes=[InitializedMutableBufferPass(["cache"])]
            )
        )
        seconds = time.perf_counter() - begun
        meta = lowered.exported_program().graph_module.meta
        arenas[planner] = sum(meta["non_const_buffer_sizes"])
        loaded = Runtime.get().load_program(lowered.buffer, verification=Verification.Minimal)
        method = loaded.load_method("forward")
        results[planner] = [x.clone() for _ in range(2) for x in method.execute([*arguments])]
    planned = records()[-1]
    return ArenaRow(
        model=name,
        **arenas,
        bound=planned.bound or 0,
        proof=planned.proof,
        order=planned.order,
        identical=all(map(torch.equal, results["greedy"], results["plan"])),
        seconds=round(seconds, 1),
    )


def main() -> None:
    """Measure all models and write the table."""
    with torch.no_grad():
        rows = [measure(name) for name in MODELS]
    write_rows(HERE / "rows.csv", rows)
    lines = [
        [
            row.model,
            *(f"{x:,}" for x in (row.naive, row.greedy, row.offsets, row.plan, row.bound)),
            row.proof,
            f"{100 * (row.plan / row.greedy - 1):.1f}",
            row.order or "kept",
            "yes" if row.identical else "NO",
            str(row.seconds),
        ]
        for row in rows
    ]
    head = ["model", "naive", "greedy", "our offsets", "our plan", "bound", "proof"]
    table = markdown([*head, "to greedy, %", "order", "same results", "seconds"], lines)
    versions = ", ".join(f"{x} {version(x)}" for x in ("executorch", "torch"))
    replace_table(HERE / "README.md", "arenas", f"{table}\n{versions}\n")


if __name__ == "__main__":
    main()
