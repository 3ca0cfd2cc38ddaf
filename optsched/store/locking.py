"""Choice of a journal by the mount; refusal of mounts on which locks hold for one machine alone.

A write-ahead log needs memory that all processes share, so one machine; over a network the older
rollback journal does, as long as locks are seen by all. Where they are not, two writers destroy a
file without noticing: such a file system is refused. SQLite itself writes nothing where locks fail.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from optsched.errors import UsageError

NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs", "lustre")
"""Beginnings of the types of file systems that several machines may share."""
MOUNTS = Path("/proc/self/mountinfo")
"""List of mounts on Linux; other systems have none."""

_UNLOCKED = re.compile(r"\b(nolock|noflock|localflock|nobrl|local_lock=(all|posix))\b")
"""Options of mounts by which locks hold on one machine alone, or not at all."""


def journal_of(path: Path) -> str:
    """Return the journal for a store at a path: `WAL`, or `DELETE` where machines may share it.

    Raise `UsageError` if two machines would not see each other's locks there.
    """
    place, kind, options = mount_of(path)
    if not kind.startswith(NETWORK):
        return "WAL"
    unlocked = _UNLOCKED.search(options)
    if unlocked:
        raise UsageError(
            f"store {path}: {place} ({kind}) is mounted with {unlocked[0]}: two machines that "
            "write would not see each other's locks; keep the store on a local disk"
        )
    return "DELETE"


def mount_of(path: Path) -> tuple[str, str, str]:
    """Return place, type and options of the mount that a path lies in; empty if unknown."""
    try:
        lines = MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        lines = []
    inside = os.path.realpath(path)
    found = [mount for line in lines if (mount := _read(line)) and _holds(mount[0], inside)]
    # The longest place is the innermost mount; reversed, so that of equal ones the last wins.
    return max(reversed(found), key=lambda mount: len(mount[0]), default=("", "", ""))


def _read(line: str) -> tuple[str, str, str] | None:
    before, separator, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ")
    if not separator or len(left) < 6 or len(right) < 3:
        return None
    # The list writes spaces and such as octal numbers.
    place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), left[4])
    return place, right[0], f"{left[5]},{right[2]}"


def _holds(place: str, path: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")
