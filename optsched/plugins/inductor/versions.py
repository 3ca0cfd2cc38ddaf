"""Versions of torch whose wrapper the plugin knows."""

from __future__ import annotations

TESTED_TORCH = ("2.13", "2.14", "2.15")
"""The rules of the wrapper were read from, and measured with, these versions of torch."""


def is_tested(version: str) -> bool:
    """Return True if the rules of the wrapper are known for a version of torch, like "2.13.0"."""
    return version.startswith(tuple(f"{known}." for known in TESTED_TORCH))
