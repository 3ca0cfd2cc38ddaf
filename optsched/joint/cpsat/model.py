"""Puts variables, constraints and cuts together, for each of the three forms."""

from __future__ import annotations

from optsched.joint.cpsat.constraints import (
    add_load_below_slab,
    add_no_overlap,
    add_order,
    add_peak,
    add_releases,
    add_sum_of_slabs,
    add_times,
    add_tops,
)
from optsched.joint.cpsat.cuts import Cuts, add_cuts
from optsched.joint.cpsat.instance import Instance
from optsched.joint.cpsat.variables import Variables


def order_model(instance: Instance, cuts: Cuts) -> Variables:
    """Order only: booleans, no integer but the peak."""
    variables = Variables(instance, ordered=True, placed=False)
    _add_order_families(variables)
    add_cuts(variables, cuts)
    return variables


def packing_model(instance: Instance, cuts: Cuts) -> Variables:
    """Offsets only, live ranges given."""
    variables = Variables(instance, ordered=False, placed=True)
    add_tops(variables)
    add_sum_of_slabs(variables)
    add_no_overlap(variables)
    add_cuts(variables, cuts)
    return variables


def joint_model(instance: Instance, cuts: Cuts) -> Variables:
    """Order and offsets together."""
    variables = Variables(instance, ordered=True, placed=True)
    _add_order_families(variables)
    add_times(variables)
    add_load_below_slab(variables)
    add_tops(variables)
    add_sum_of_slabs(variables)
    add_no_overlap(variables)
    add_cuts(variables, cuts)
    return variables


def _add_order_families(variables: Variables) -> None:
    add_order(variables)
    add_releases(variables)
    add_peak(variables)
