"""Certificates of tilings: the op that no tiling runs with fewer bytes."""

from __future__ import annotations

from optsched.check.tiling_bound import TilingCertificate, check_tiling_bound
from optsched.errors import UsageError
from optsched.model.rows import Rows
from optsched.runtime.clock import Clock
from optsched.solver.tiling.bound import find_obstacle


def certify_tiling(rows: Rows, bands: int, clock: Clock) -> TilingCertificate:
    """Return a certificate of the largest head that an op is proved to need.

    Raise `UsageError` if there are too many stages to examine, or too little time.
    """
    found = find_obstacle(rows, bands, clock)
    if found.op < 0:
        raise UsageError("no certificate: too many stages to examine, or too little time")
    certificate = TilingCertificate(found.bound, bands, found.op)
    check_tiling_bound(rows, certificate)
    return certificate
