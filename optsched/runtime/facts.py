"""Environment of a run: machine, package versions and a digest of the code."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from optsched.runtime.version import VERSION

_PACKAGES = ("numpy", "numba", "ortools", "pulp", "highspy")


def machine() -> str:
    """Return a description of the machine, for comparing run times."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "optsched": VERSION}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@cache
def code_digest() -> str:
    """Return a digest of this package and the heuristics: other code may find other results."""
    digest = hashlib.sha256()
    for package in ("heuristics", "optsched"):
        spec = find_spec(package)
        # A package that is absent adds nothing.
        for folder in (spec and spec.submodule_search_locations) or []:
            # Sorted, so that the digest does not depend on the file system.
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(path.relative_to(folder).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()
