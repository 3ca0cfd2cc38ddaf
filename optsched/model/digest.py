"""Digests: the few bytes by which records recognize the graph that they are about.

Two graphs that differ in names alone have the same digest, since no bound depends on names. For
example, a stored plan is found again after a model's tensors were renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from operator import attrgetter

from optsched.model.elements import Buffer, Op
from optsched.runtime.collector import paused_collector

_BYTES = 16


def digest(data: bytes) -> bytes:
    """Return the digest of some bytes (BLAKE2b), 16 bytes long."""
    return blake2b(data, digest_size=_BYTES).digest()


@paused_collector()
def digest_of(ops: Sequence[Op], buffers: Sequence[Buffer], shared: object) -> bytes:
    """Return a digest of all data of a graph on which bounds depend: everything but names.

    `shared` are the tuples of ids that say which buffers share bytes, or must not.
    """
    # Names and kinds of ops are left out: they do not change which plans are valid.
    rows = list(map(_OP, ops))
    kinds, places = _text(map(_KIND, buffers)), _text(map(_PLACE, buffers))
    return digest(f"({rows}, {kinds}, {places}, {shared!r})".encode())


_OP = attrgetter("reads", "uses", "writes", "control", "workspace", "stream")
_KIND = attrgetter("input", "output", "alias_of", "mutates", "birth")
_PLACE = attrgetter("size", "alignment", "pool", "pin")


def _text(rows: Iterable[object]) -> str:
    """Return the text of a list of rows, many of them equal."""
    found = list(rows)
    # Each different row is written once, which halves the time of a digest.
    texts = {row: repr(row) for row in set(found)}
    return f"[{', '.join(map(texts.__getitem__, found))}]"
