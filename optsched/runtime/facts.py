"""What a run was made with and on, for whoever compares its answers or its seconds."""

from __future__ import annotations

import os
import platform
from functools import cache

_PACKAGES = ("optsched", "numpy", "numba", "ortools", "pulp", "highspy")


def machine() -> str:
    """Return what a run was made on, for whoever compares its seconds."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that shape a result."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
