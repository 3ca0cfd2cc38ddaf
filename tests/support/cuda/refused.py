"""Settings and graphs on the fake device that the plugin leaves to Inductor, with its reasons.

`python -m tests.support.cuda.refused` writes a line of JSON per case, in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from typing import Any

SETTINGS: dict[str, dict[str, Any]] = {
    "combo_kernels": {"combo_kernels": True},
    "cooperative_reductions": {"triton.cooperative_reductions": True},
    "multi_kernel": {"triton.multi_kernel": 1},
    "max_autotune": {"max_autotune": True},
    "cpp_wrapper": {"cpp_wrapper": True},
    "mixed devices": {},
    "partitions": {
        "triton.cudagraphs": True,
        "graph_partition": True,
        "custom_should_partition_ops": ["aten::topk"],
    },
}


def reason(case: str) -> str:
    """Return the plugin's reason for leaving a forward graph to Inductor."""
    import torch
    from torch import nn
    from torch._inductor import config

    from optsched import plugins
    from optsched.plugins import inductor
    from tests.support.cuda.lowering import Execution, run_step
    from tests.support.cuda.steps import on_gpu

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(64))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = (x * self.weight).softmax(1)
            if case == "mixed devices":
                z = z * (y.exp() + 1).to(x.device)
            if case == "partitions":
                z = z.topk(4, 1)[0]
            return z.square().sum()

    def inputs() -> tuple[Any, ...]:
        return torch.randn(32, 64), torch.randn(64, device="cpu")

    plugins.forget()
    with (
        # Some settings need a driver later, when the pass has been called.
        contextlib.suppress(Exception),
        inductor.enabled(time_limit=1, cuda=True),
        config.patch(SETTINGS[case]),
    ):
        run_step(on_gpu(Sum, inputs), Execution())
    known = plugins.records()
    return known[0].reason if known else "the pass was not called"


def main() -> None:
    """Write the reason of each case."""
    from tests.support.cuda.device import load_device

    load_device()
    warnings.filterwarnings("ignore")
    for case in SETTINGS:
        print(json.dumps({"case": case, "reason": reason(case)}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
