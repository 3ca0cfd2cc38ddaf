"""Test of a file system: support for two writers of one file, and the journal to use.

A write-ahead log needs memory that all processes share, so one machine; over a network the older
rollback journal does, as long as locks are seen by all. Where they are not, two writers destroy a
file without noticing: such a file system is refused.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from optsched.errors import UsageError

NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs", "lustre")
"""Beginnings of the types of file systems that several machines may share."""
MOUNTS = Path("/proc/self/mountinfo")
"""List of mounts on Linux; on other systems only the lock is tested."""

_UNLOCKED = re.compile(r"\b(nolock|noflock|localflock|nobrl|local_lock=(all|posix))\b")
"""Options of mounts by which locks hold on one machine alone, or not at all."""


@dataclass(frozen=True, slots=True)
class Mount:
    """Path, type and options of a mounted file system."""

    place: str
    kind: str
    options: str


def journal_of(path: Path) -> str:
    """Return the journal for a store at a path: `WAL`, or `DELETE` where machines may share it.

    Raises
    ------
    UsageError
        If locks do not work there.
    """
    # First, since a lock that fails is reason enough on any system.
    _try_lock(path)
    # Unknown: on a system without this list, the lock alone has to do.
    mount = mount_of(path)
    if mount is None or not mount.kind.startswith(NETWORK):
        return "WAL"
    unlocked = _UNLOCKED.search(mount.options)
    if unlocked:
        raise UsageError(
            f"store {path}: {mount.place} ({mount.kind}) is mounted with {unlocked[0]}: two "
            "machines that write would not see each other's locks; keep the store on a local disk"
        )
    return "DELETE"


def mount_of(path: Path) -> Mount | None:
    """Return the mount that a path lies in, or None if it is unknown."""
    try:
        lines = MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    inside = os.path.realpath(path)
    found = [mount for line in lines if (mount := _read(line)) and _holds(mount.place, inside)]
    # Of mounts on the same place the last one is seen.
    # The longest place is the innermost mount; reversed, so that of equal ones the last wins.
    return max(reversed(found), key=lambda mount: len(mount.place), default=None)


def _read(line: str) -> Mount | None:
    before, separator, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ")
    if not separator or len(left) < 6 or len(right) < 3:
        return None
    # The list writes spaces and such as octal numbers.
    place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), left[4])
    return Mount(place, right[0], f"{left[5]},{right[2]}")


def _holds(place: str, path: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def _try_lock(path: Path) -> None:
    """Lock a file of no name beside the store, as SQLite locks the store."""
    try:
        import fcntl
    except ImportError:
        return
    folder = Path(os.path.realpath(path)).parent
    # A reader needs no lock.
    if not os.access(folder, os.W_OK):
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"store {path}: its file system has no locks ({error.strerror}); "
                "keep the store on a local disk"
            ) from None
