"""What a search leaves to the next one on the same graph: it is gone on with, not begun anew.

A plan and a bound alone would let a second hour repeat much of the first: the heuristics, the
rounds of small effort, packings that are settled. This says what of that is behind us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optsched.errors import FormatError
from optsched.ordering.progress import (
    MOST_PAIRS,
    MOST_PARTS,
    NOTHING_BEHIND,
    OpenTree,
    OrderProgress,
)
from optsched.runtime.limits import Proof

MOST_ORDERS = 16
MOST_DIGESTS = 4_096
"""Of each kind; the latest are kept. What is forgotten is looked at once more."""
_DIGEST_BYTES = 16
"""Of a graph, a packing and live ranges alike."""


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """What a search has behind it, beside its best plan."""

    peak_bound: int = 0
    peak_proof: Proof = Proof.BOUND
    """No order has a lower peak, and what stands behind that."""
    refuted_slab: int = -1
    pool_peaks: int = 0
    """Bytes that no plan's slab has or is below; what the pools need, each by itself."""
    orders: tuple[tuple[int, ...], ...] = ()
    """The best orders, best first."""
    rounds: OrderProgress = NOTHING_BEHIND
    """Where the search of orders has got to."""
    packed: tuple[bytes, ...] = ()
    seen: tuple[bytes, ...] = ()
    """Digests of packings that are settled, and of live ranges that were packed for a while."""
    graph: bytes = b""
    """Digest of the planned graph, in its memory model and under its rules; a search of a graph
    with another digest, or with none, is not resumed."""

    @property
    def slab_bound(self) -> int:
        """Bytes that every slab has."""
        return max(self.peak_bound, self.pool_peaks, self.refuted_slab + 1)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers and texts, ready for JSON."""
        record = asdict(self)
        record["orders"] = [list(order) for order in self.orders]
        record["rounds"]["digest"] = self.rounds.digest.hex()
        record["graph"] = self.graph.hex()
        for name in ("packed", "seen"):
            record[name] = [digest.hex() for digest in record[name]]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], ops: int) -> SearchProgress:
        """Read what :meth:`to_dict` returned, for a graph of so many ops.

        Raises
        ------
        FormatError
            If it is something else: it may come from a file.
        """
        try:
            return cls(
                peak_bound=_number(record["peak_bound"], 0),
                peak_proof=Proof(record["peak_proof"]),
                refuted_slab=_number(record["refuted_slab"], -1),
                pool_peaks=_number(record["pool_peaks"], 0),
                orders=_few(record["orders"], MOST_ORDERS, lambda row: _order(row, ops)),
                rounds=_rounds(record.get("rounds"), ops),
                packed=_few(record["packed"], MOST_DIGESTS, _digest),
                seen=_few(record["seen"], MOST_DIGESTS, _digest),
                graph=_digest(record["graph"]) if record.get("graph") else b"",
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"this is no progress of a search: {error}") from error


def _rounds(record: Mapping[str, Any] | None, ops: int) -> OrderProgress:
    """Read where rounds have got to; the notes of older versions do not say."""
    if record is None:
        return NOTHING_BEHIND
    trees = _few(record["trees"], MOST_PARTS, _tree)
    parts, pairs = sum(len(tree.rows) for tree in trees), sum(tree.pairs for tree in trees)
    if parts > MOST_PARTS or pairs > MOST_PAIRS:
        raise ValueError("trees with too many parts or pairs")
    return OrderProgress(
        _number(record["steps"], 0),
        _number(record["stride"], 0),
        _of_all(record["blame"], ops),
        _few(record["lines"], ops, lambda line: _number(line, 0)),
        trees,
        _digest(record["digest"]) if record["digest"] else b"",
    )


def _tree(record: Mapping[str, Any]) -> OpenTree:
    rest = (_number(record[name], 0) for name in ("at_hand", "root", "patience"))
    return OpenTree(_number(record["budget"], 0), _few(record["rows"], MOST_PARTS, _row), *rest)


def _row(row: object) -> tuple[int, ...]:
    """Read a number of pairs and then pairs; of which ops they are is for the problem to say."""
    found = _few(row, MOST_PAIRS, lambda value: _number(value, 0))
    if not found:
        raise ValueError("a part of a tree does not say how many pairs it shares")
    return found


def _few(rows: object, most: int, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    if not isinstance(rows, Sequence) or len(rows) > most:
        raise ValueError(f"a list of up to {most} is missing")
    return tuple(read(row) for row in rows)


def _of_all(row: object, ops: int) -> tuple[int, ...]:
    numbers = _few(row, ops, lambda value: _number(value, 0))
    if numbers and len(numbers) != ops:
        raise ValueError(f"{len(numbers)} numbers stand for {ops} ops")
    return numbers


def _number(value: object, least: int) -> int:
    if type(value) is not int or not least <= value < 2**62:
        raise ValueError(f"{value!r} is no number from {least} on")
    return value


def _order(row: object, ops: int) -> tuple[int, ...]:
    """Read a permutation; whether the graph allows it is for the graph to say."""
    if not isinstance(row, Sequence) or len(row) != ops or sorted(row) != list(range(ops)):
        raise ValueError(f"an order of {ops} ops is missing")
    return tuple(row)


def _digest(text: object) -> bytes:
    if not isinstance(text, str) or len(text) != 2 * _DIGEST_BYTES:
        raise ValueError("a digest is missing")
    return bytes.fromhex(text)
