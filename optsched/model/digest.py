"""Digests: the few bytes by which records recognize the graph that they are about.

Two graphs that differ in names alone have the same digest, since no bound depends on names. For
example, a stored plan is found again after a model's tensors were renamed.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optsched.model.graph import Graph

_BYTES = 16


def digest(data: bytes) -> bytes:
    """Return the digest of some bytes (BLAKE2b), 16 bytes long."""
    return blake2b(data, digest_size=_BYTES).digest()


def digest_of(graph: Graph) -> bytes:
    """Return a digest of all data of a graph on which bounds depend: everything but names."""
    # Only numbers: names and kinds do not change which plans are valid.
    ops = [(x.reads, x.uses, x.writes, x.control, x.workspace, x.stream) for x in graph.ops]
    kinds = [(x.input, x.output, x.alias_of, x.mutates, x.birth) for x in graph.buffers]
    places = [(x.size, x.alignment, x.pool, x.pin) for x in graph.buffers]
    shared = (graph.inplace, graph.keep_apart, graph.must_share)
    return digest(repr((ops, kinds, places, shared)).encode())
