"""A limit on the memory that one piece of work may take, in whatever process it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def limited_memory(more: int | None) -> Iterator[None]:
    """Let this process take at most so many bytes beyond what it has now.

    What is beyond raises :class:`MemoryError`, or ends the process where compiled code does not
    expect it. The limit is one of addresses, so threads and files mapped count too; it ends with
    the block. None is no limit, and elsewhere than on Linux nothing is limited.
    """
    size = None if more is None else _address_space()
    if size is None or more is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = size + more
    for other in (soft, hard):
        most = most if other == resource.RLIM_INFINITY else min(most, other)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int | None:
    """Bytes of addresses that this process has, None where nobody says."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return None
    return pages * resource.getpagesize()
