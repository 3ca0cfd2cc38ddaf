"""A split of one region of a step, its figures, and the choice of one.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch.fx import GraphModule

from optsched.plugins.inductor.recompute.answer import Answer
from optsched.plugins.inductor.recompute.joint_graph import saved_bytes
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.records import CompiledGraph
from optsched.solver.recompute.step_choice import RegionPoint


class SplitPoint(NamedTuple):
    """A split with its figures.

    `recipe` tells how it is made, `owned` the bytes of inputs that its backward call owns, `shared`
    those of inputs and results that it saves, which are live for another reason as well, and `at`
    the op of both graphs at which most bytes are live.
    """

    figures: RegionPoint
    recipe: Recipe
    owned: int
    shared: int = 0
    at: tuple[str, str] = ("", "")


class Chosen(NamedTuple):
    """A split that was chosen for a region, and the bytes that its two graphs may need."""

    point: SplitPoint
    limits: tuple[int, int]


def take_chosen(
    chosen: Chosen,
    name: str,
    joint: GraphModule,
    inputs: Sequence[Any],
    how: Mapping[str, Any],
) -> Answer:
    """Return the split of a joint graph that was chosen for the step."""
    modules = chosen.point.recipe.split(joint, inputs, how)
    figures = chosen.point.figures
    saved = saved_bytes(modules, int(how["num_fwd_outputs"]))
    record = CompiledGraph(
        "inductor",
        name,
        len(joint.graph.nodes),
        after=max(figures.forward, figures.backward),
        order=f"recompute: split chosen for the step, saves {saved:,} bytes",
        saved=saved,
    )
    return Answer(modules, record, figures.extra, chosen.point.recipe, chosen.point.owned)
