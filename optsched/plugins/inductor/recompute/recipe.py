"""Instructions for a split, as data: by them an equal joint graph is split in the same way.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch._functorch import config as functorch_config
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from optsched.plugins.inductor.recompute.joint_graph import Modules
from optsched.plugins.inductor.recompute.split import split_joint


class Recipe(NamedTuple):
    """Instructions for a split: PyTorch's budget, or the runs of a plan and its forward nodes."""

    budget: float | None = None
    runs: tuple[tuple[str, bool], ...] = ()
    forward: tuple[str, ...] = ()

    def split(self, joint: GraphModule, inputs: Sequence[Any], how: Mapping[str, Any]) -> Modules:
        """Return the split of an equal joint graph, which is changed."""
        if self.budget is not None:
            chosen = {} if self.budget == 1 else {"activation_memory_budget": self.budget}
            with functorch_config.patch(chosen):
                modules: Modules = min_cut_rematerialization_partition(joint, inputs, **how)
            return modules
        joint.graph.eliminate_dead_code()
        joint.graph = fx_graph_cse(joint.graph)
        joint.recompile()
        static = how.get("static_lifetime_input_indices") or ()
        outputs = int(how["num_fwd_outputs"])
        return split_joint(joint, self.runs, self.forward, outputs, static)
