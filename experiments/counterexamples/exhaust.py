"""Optima of tiny instances by trying everything."""

from optsched.hunt.exhaust import least_peak, least_slab

__all__ = ["least_peak", "least_slab"]
