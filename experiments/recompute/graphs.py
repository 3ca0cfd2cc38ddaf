"""Remake the joint graphs of the study, and what PyTorch's partitioner does with each.

    python -m experiments.recompute.graphs FOLDER [NETWORK ..]

writes NETWORK.json.gz, a graph in the native format, and NETWORK.torch.json: for each activation
memory budget the sequence of ops that PyTorch's forward and backward graphs run.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

BUDGETS = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.0)


class _Done(BaseException):
    """Ends the compilation once the joint graph is known."""


def capture(name: str, folder: Path) -> None:
    import torch
    from functorch.compile import aot_module
    from torch._functorch import config
    from torch._functorch.compile_utils import fx_graph_cse
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    from experiments.recompute.networks import JOINT, LARGE
    from optsched.formats import write_graph
    from optsched.formats.fx import from_fx
    from optsched.plugins.inductor.recompute.joint_graph import computed

    torch.manual_seed(0)
    module, args = (JOINT | LARGE)[name]()
    found: dict[str, list[str]] = {}

    def partition(joint: Any, inputs: Any, **how: Any) -> Any:
        joint.graph.eliminate_dead_code()
        joint.graph = fx_graph_cse(joint.graph)
        joint.recompile()
        graph = from_fx(joint, name=name)
        known = set(graph.op_ids)
        for budget in BUDGETS:
            estimator = {"activation_memory_budget_runtime_estimator": "flops"}
            with config.patch(activation_memory_budget=budget, **estimator):
                both = min_cut_rematerialization_partition(
                    copy.deepcopy(joint), inputs, compiler="inductor", **how
                )
            found[str(budget)] = [name for name in computed(both) if name in known]
        write_graph(graph, folder / f"{name}.json.gz")
        (folder / f"{name}.torch.json").write_text(json.dumps(found))
        print(name, graph, flush=True)
        raise _Done

    try:
        aot_module(module, fw_compiler=lambda graph, _: graph, partition_fn=partition)(*args)
    except _Done:
        return


def main(argv: list[str]) -> None:
    from experiments.recompute.networks import JOINT

    folder = Path(argv[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name in argv[1:] or JOINT:
        capture(name, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
