"""State that a search leaves to the next one on the same graph, so that nothing is done twice.

With a plan and a bound alone, a second hour of search would repeat much of the first: heuristics,
rounds of small effort, packings that are settled. :class:`Resume` records which of these are done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from optsched.errors import FormatError, UsageError
from optsched.model.question import Question
from optsched.ordering.progress import MOST_PAIRS, MOST_PARTS, NOTHING_DONE, OpenTree, OrderProgress
from optsched.runtime.limits import Objective, Proof
from optsched.solver.finding import Bound, peak_bound, slab_bound

MOST_ORDERS = 16
MOST_DIGESTS = 4_096
"""Maximum number of digests of each kind; the latest are kept. Others are looked at once more."""
_MOST_UNITS = 1_000
_MOST_ROUNDS = 1_000
_DIGEST_BYTES = 16
"""Length of the digest of a graph, of a packing and of live ranges."""

Digests = dict[bytes, None]
"""A set of digests in the order in which they were added."""


@dataclass(slots=True)
class Resume:
    """State from which a later search starts, beside the best plan."""

    peak_bound: int = 0
    peak_proof: Proof = Proof.BOUND
    """`peak_bound` and `peak_proof`: lower bound on the peak of every order, and its proof."""
    refuted_slab: int = -1
    """No plan has a slab of this many bytes or less."""
    pool_peaks: int = 0
    """Bytes that the pools need together if each is planned alone; a lower bound on the slab."""
    orders: tuple[tuple[int, ...], ...] = ()
    """The best orders, best first."""
    rounds: OrderProgress = NOTHING_DONE
    """State of the search of orders."""
    packed: Digests = field(default_factory=dict)
    seen: Digests = field(default_factory=dict)
    """`packed` and `seen`: digests of packings that are settled, and of live ranges that were
    packed for a while."""
    graph: bytes = b""
    """Digest of the planned graph, in its memory model and under its rules. A search of another
    graph cannot be resumed."""
    units: int = field(default=0, compare=False)
    """Number of searches that led to this state, as the caller counts them."""
    code: str = field(default="", compare=False)
    """Digest of the code that left the state; empty if its caller does not say."""
    searches: int = field(default=0, compare=False)
    """Number of the latest search of this run that drew random numbers; its seed."""

    def __post_init__(self) -> None:
        # Lists from a file become sets; the order in them decides which are dropped first.
        self.packed, self.seen = dict.fromkeys(self.packed), dict.fromkeys(self.seen)

    @classmethod
    def of(cls, question: Question, start: Resume | None) -> Resume:
        """Return the state in which a search begins: that of an earlier one, or none.

        Raise `UsageError` if the earlier search was of another graph.
        """
        if start is None:
            return cls()
        graph = question.planned
        # An equal graph has an equal digest, names aside; failure counts need one number per op.
        known = start.graph == graph.digest
        if not known or len(start.rounds.failure_counts) not in (0, len(graph.ops)):
            raise UsageError(
                f"{graph.name}: the earlier search was of another graph, or in another "
                "memory model or under other order rules"
            )
        # A search that goes on draws other numbers than those before it.
        return replace(start, searches=_MOST_ROUNDS * start.units)

    @property
    def slab_bound(self) -> int:
        """The proved lower bound on the slab in bytes."""
        return max(self.peak_bound, self.pool_peaks, self.refuted_slab + 1)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """All proved bounds."""
        return (
            *peak_bound(self.peak_bound, self.peak_proof),
            *slab_bound(self.refuted_slab + 1),
            *slab_bound(self.pool_peaks, Proof.JOINT),
        )

    def trusted(self, known: Resume) -> Resume:
        """Return the state for the graph of `known`, which has bounds of its own.

        If ops or buffers have other numbers there, digests of packings and search trees do not
        carry over, while orders have been renumbered.
        """
        state = self
        if self.graph != known.graph:
            rounds = self.rounds.of_other_ids()
            state = replace(self, packed={}, seen={}, rounds=rounds, graph=known.graph)
        if known.peak_bound > self.peak_bound:
            state = replace(state, peak_bound=known.peak_bound, peak_proof=known.peak_proof)
        return replace(state, refuted_slab=max(self.refuted_slab, known.refuted_slab))

    def left(self, bounds: Mapping[str, Bound], orders: Sequence[Sequence[int]]) -> Resume:
        """Return the state at the end of a search, with its bounds and best orders.

        The result that has it names the graph (:attr:`optsched.solver.result.Result.resume`).
        """
        peak, slab = bounds[Objective.PEAK], bounds[Objective.SLAB]
        is_joint = slab.proof is Proof.JOINT
        return Resume(
            peak.value,
            peak.proof,
            # A joint bound is the sum of the pools' peaks; any other one refutes the byte below
            # it.
            -1 if is_joint else slab.value - 1,
            slab.value if is_joint else 0,
            tuple(tuple(order) for order in orders),
            self.rounds,
            dict.fromkeys(tuple(self.packed)[-MOST_DIGESTS:]),
            dict.fromkeys(tuple(self.seen)[-MOST_DIGESTS:]),
            units=self.units + 1,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain numbers and texts, ready for JSON."""
        record = asdict(self)
        del record["searches"]
        # The key in files is from the time when a search was divided into slices.
        record["slices"] = record.pop("units")
        record["orders"] = [list(order) for order in self.orders]
        record["rounds"]["digest"] = self.rounds.digest.hex()
        record["graph"] = self.graph.hex()
        for name in ("packed", "seen"):
            record[name] = [digest.hex() for digest in record[name]]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], ops: int) -> Resume:
        """Return the state of a record of :meth:`to_dict`, for a graph with the number of ops.

        Fields that an older version did not write have the values of an empty state.

        Raise `FormatError` if the record is damaged: it may come from a file.
        """
        try:
            # Each field is checked: a damaged file must not turn into a bound.
            return cls(
                peak_bound=_number(record.get("peak_bound", 0), 0),
                peak_proof=Proof(record.get("peak_proof", Proof.BOUND)),
                refuted_slab=_number(record.get("refuted_slab", -1), -1),
                pool_peaks=_number(record.get("pool_peaks", 0), 0),
                orders=_few(record["orders"], MOST_ORDERS, lambda row: _order(row, ops)),
                rounds=_rounds(record.get("rounds"), ops),
                packed=dict.fromkeys(_few(record.get("packed", ()), MOST_DIGESTS, _digest)),
                seen=dict.fromkeys(_few(record.get("seen", ()), MOST_DIGESTS, _digest)),
                graph=_digest(record["graph"]) if record.get("graph") else b"",
                units=_units(record.get("slices")),
                code=str(record.get("code", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"not the progress of a search: {error}") from error


def _units(value: object) -> int:
    """Return a number of searches; 0 for an impossible one, as it only paces later searches."""
    return value if isinstance(value, int) and 0 <= value < _MOST_UNITS else 0


def _rounds(record: Mapping[str, Any] | None, ops: int) -> OrderProgress:
    """Read the state of the search rounds, which older versions did not write."""
    if record is None:
        return NOTHING_DONE
    trees = _few(record["trees"], MOST_PARTS, _tree)
    parts, pairs = sum(len(tree.rows) for tree in trees), sum(tree.pairs for tree in trees)
    if parts > MOST_PARTS or pairs > MOST_PAIRS:
        raise ValueError("trees with too many parts or pairs")
    return OrderProgress(
        _number(record["steps"], 0),
        _number(record["stride"], 0),
        _of_all(record["failure_counts"], ops),
        _few(record["columns"], ops, lambda column: _number(column, 0)),
        trees,
        _digest(record["digest"]) if record["digest"] else b"",
    )


def _tree(record: Mapping[str, Any]) -> OpenTree:
    rest = (_number(record[name], 0) for name in ("at_hand", "root", "patience"))
    return OpenTree(_number(record["budget"], 0), _few(record["rows"], MOST_PARTS, _row), *rest)


def _row(row: object) -> tuple[int, ...]:
    """Read a number of pairs and then pairs; the problem decides which ops they name."""
    found = _few(row, MOST_PAIRS, lambda value: _number(value, 0))
    if not found:
        raise ValueError("a node of a search tree lacks its number of shared pairs")
    return found


def _few(rows: object, most: int, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    if not isinstance(rows, Sequence) or len(rows) > most:
        raise ValueError(f"expected a list of at most {most} entries")
    return tuple(read(row) for row in rows)


def _of_all(row: object, ops: int) -> tuple[int, ...]:
    numbers = _few(row, ops, lambda value: _number(value, 0))
    if numbers and len(numbers) != ops:
        raise ValueError(f"expected one number per op, {ops}, got {len(numbers)}")
    return numbers


def _number(value: object, least: int) -> int:
    if type(value) is not int or not least <= value < 2**62:
        raise ValueError(f"expected an integer of at least {least}, got {value!r}")
    return value


def _order(row: object, ops: int) -> tuple[int, ...]:
    """Read a permutation; it is checked later whether the graph allows it as an order."""
    # The types too: True is equal to 1.
    if not isinstance(row, Sequence) or not {int}.issuperset(map(type, row)):
        raise ValueError("an order must be a list of op ids")
    if sorted(row) != list(range(ops)):
        raise ValueError(f"an order of {ops} ops is missing")
    return tuple(row)


def _digest(text: object) -> bytes:
    if not isinstance(text, str) or len(text) != 2 * _DIGEST_BYTES:
        raise ValueError("a digest is missing")
    return bytes.fromhex(text)
