"""Instructions for a split, as data: by them an equal joint graph is split in the same way.

They also have the orders and cuts with which its graphs were simulated. Searches of another process
may find others, with which a graph needs more bytes.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, NamedTuple

from torch._functorch import config as functorch_config
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from optsched.plugins.inductor.cuts.find import EARLIER_CUTS, FoundCuts
from optsched.plugins.inductor.recompute.calibrate import StepMemory
from optsched.plugins.inductor.recompute.joint_graph import Modules
from optsched.plugins.inductor.recompute.split import split_joint
from optsched.plugins.inductor.scheduler_pass import EARLIER_ORDERS
from optsched.plugins.inductor.wrapper.facts import Order
from optsched.solver.fusion.result import Point


class Recipe(NamedTuple):
    """Instructions for a split: PyTorch's budget, or the runs of a plan and its forward nodes.

    `orders` and `cuts` are those of its two graphs, by their digests.
    """

    budget: float | None = None
    runs: tuple[tuple[str, bool], ...] = ()
    forward: tuple[str, ...] = ()
    orders: tuple[tuple[str, tuple[Order, bool]], ...] = ()
    cuts: tuple[tuple[str, FoundCuts], ...] = ()

    @classmethod
    def read(cls, data: Any) -> Recipe:
        """Return the instructions from their data, as JSON gives it back."""
        budget, runs, forward, orders, cuts = _tuples(data)
        rows = (
            (key, FoundCuts(Point(*point), Point(*whole), bound))
            for key, (point, whole, bound) in cuts
        )
        return cls(budget, runs, forward, orders, tuple(rows))

    @property
    def data(self) -> list[Any]:
        """The instructions as data for JSON."""
        cuts = [(key, (astuple(x.point), astuple(x.whole), x.bound)) for key, x in self.cuts]
        return [*self[:-1], cuts]

    def as_simulated(self, memory: StepMemory | None) -> Recipe:
        """Return the instructions with the orders and cuts of a simulation."""
        if memory is None:
            return self
        return self._replace(orders=(*memory.orders.items(),), cuts=(*memory.cuts.items(),))

    def recall(self) -> None:
        """Have the graphs of the split compiled in the orders, and with the cuts, that are here."""
        for key, order in self.orders:
            EARLIER_ORDERS.keep(key, order)
        for key, cuts in self.cuts:
            EARLIER_CUTS.keep(key, cuts)

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


def _tuples(data: Any) -> Any:
    """Return data of JSON with tuples in place of lists."""
    return tuple(map(_tuples, data)) if isinstance(data, list | tuple) else data
