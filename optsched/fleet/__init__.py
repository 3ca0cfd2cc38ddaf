"""Tuning of fleets: search many graphs where it pays most, and keep every result in a store."""

from __future__ import annotations

from optsched.fleet.graphs import FleetGraph, FleetState
from optsched.fleet.run import Fleet, FleetStanding, tune
from optsched.fleet.settings import FleetEffort, FleetSettings
from optsched.fleet.weights import read_weights, unused_weights

__all__ = [
    "Fleet",
    "FleetEffort",
    "FleetGraph",
    "FleetSettings",
    "FleetStanding",
    "FleetState",
    "read_weights",
    "tune",
    "unused_weights",
]
