"""A plan as a hint: every variable of the model gets the value that it has in the plan.

Plans of our own engines lie on whole units (see :mod:`optsched.joint.cpsat.instance`), so CP-SAT
takes them as its first solution. Offsets between the units are rounded down, and CP-SAT repairs
what that breaks.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.joint.cpsat.instance import ModelInstance
from optsched.joint.cpsat.variables import ModelPoint, ModelVariables


def point_of(
    instance: ModelInstance, order: Sequence[int], offsets: Sequence[int] = ()
) -> ModelPoint:
    """Return a plan as a point of the model.

    Parameters
    ----------
    instance
        What was planned.
    order
        Op ids, valid.
    offsets
        First *byte* of each item, valid under `order`; empty if only the order matters.
    """
    return ModelPoint(instance, tuple(order), tuple(offset // instance.unit for offset in offsets))


def add_hint(variables: ModelVariables, point: ModelPoint) -> None:
    """Hint every variable at the value it has in a point."""
    model = variables.model
    for variable, meaning in variables.meanings:
        model.add_hint(variable, int(meaning(point)))
    # CP-SAT makes variables of constants; they count when it asks whether a hint is complete.
    hinted = {variable.index for variable, _ in variables.meanings}
    for index, made in enumerate(model.proto.variables):
        if index not in hinted:
            model.add_hint(model.get_int_var_from_proto_index(index), made.domain[0])
