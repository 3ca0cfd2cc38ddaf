"""A limit on the memory of one piece of work within a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def limited_memory(more: int | None) -> Iterator[None]:
    """Limit this process to `more` bytes beyond its current size, within this context.

    An allocation above the limit raises :class:`MemoryError`, or ends the process if compiled code
    does not handle the failure. The limit applies to address space, so thread stacks and mapped
    files count too. None means no limit. Systems other than Linux are not limited.
    """
    size = None if more is None else _address_space()
    if size is None or more is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = size + more
    # A limit that was set from outside still holds.
    for other in (soft, hard):
        most = most if other == resource.RLIM_INFINITY else min(most, other)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        # The hard limit stays: a process that lowered it could not raise it again.
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int | None:
    """Return the bytes of address space of this process; None if unknown."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return None
    return pages * resource.getpagesize()
