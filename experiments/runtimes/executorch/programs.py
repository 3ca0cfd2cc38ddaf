"""Small edge programs of ExecuTorch: `python -m experiments.runtimes.executorch.programs`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge

from experiments.runtimes.fx.archive import program_table, write_programs
from experiments.tables import replace_table
from tests.support.executorch_models import MODELS

FOLDER = Path(__file__).parents[3] / "instances" / "executorch"


def edge_program(name: str) -> Any:
    """Lower one model to the dialect in which ExecuTorch plans memory."""
    model, arguments = MODELS[name]()
    exported = torch.export.export(model.eval(), arguments, strict=False)
    return to_edge(
        exported, compile_config=EdgeCompileConfig(_check_ir_validity=False)
    ).exported_program()


if __name__ == "__main__":
    torch.manual_seed(0)
    named = {name.replace(" ", "_"): partial(edge_program, name) for name in MODELS}
    write_programs(FOLDER, named)
    replace_table(FOLDER / "README.md", "programs", program_table(FOLDER, "executorch", {}))
