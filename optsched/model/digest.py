"""Digests: the few bytes by which records recognize the graph that they are about.

Two graphs that differ in names alone have the same digest, since no bound depends on names. For
example, a stored plan is found again after a model's tensors were renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from optsched.model.elements import Buffer, Op

_BYTES = 16


def digest(data: bytes) -> bytes:
    """Return the digest of some bytes (BLAKE2b), 16 bytes long."""
    return blake2b(data, digest_size=_BYTES).digest()


def digest_of(ops: Sequence[Op], buffers: Sequence[Buffer], shared: object) -> bytes:
    """Return a digest of all data of a graph on which bounds depend: everything but names.

    `shared` are the tuples of ids that say which buffers share bytes, or must not.
    """
    # Names and kinds of ops are left out: they do not change which plans are valid.
    rows = [(x.reads, x.uses, x.writes, x.control, x.workspace, x.stream) for x in ops]
    kinds = [(x.input, x.output, x.alias_of, x.mutates, x.birth) for x in buffers]
    places = [(x.size, x.alignment, x.pool, x.pin) for x in buffers]
    return digest(repr((rows, kinds, places, shared)).encode())
