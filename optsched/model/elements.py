"""What a graph is made of: ops and buffers, and what happens to inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from numbers import Integral

from optsched.errors import GraphError
from optsched.runtime.keywords import keywords

MAX_TOTAL_BYTES = 2**62
"""Sizes may add up to this much, so that no sum of live bytes leaves a signed 64-bit integer."""

MAX_ADDRESS = 2**63 - 1
"""Bytes that a slab may have: offsets are signed 64-bit integers. Alignments can ask for more."""


class InputPolicy(StrEnum):
    """What happens to the bytes of a graph input."""

    EXCLUDED = "excluded"
    """Owned by the caller: never counted, never packed."""
    FREED = "freed"
    """Live from before the first step, released after its last use."""
    KEPT = "kept"
    """Live throughout."""
    CONSTANT = "constant"
    """A weight or folded constant that the model brings along: counted only where a memory model
    gives constants a place (:mod:`optsched.model.regions`)."""
    SCRATCH = "scratch"
    """Bytes that one op keeps to itself from run to run: live throughout."""


class OutputPolicy(StrEnum):
    """What happens to the bytes of a graph output."""

    LIVE = "live"
    """Stays live to the end."""
    OWN = "own"
    """Has an allocation of its own: never counted, never packed."""


# Asked of every buffer, often: to look up the member of an enumeration takes longer than all else.
_EXTERNAL = (OutputPolicy.OWN, InputPolicy.EXCLUDED, InputPolicy.CONSTANT)


@keywords
@dataclass(frozen=True, slots=True)
class Op:
    """A node: reads buffers, writes buffers, may need workspace while it runs.

    Parameters
    ----------
    name
        Unique among the ops.
    reads
        Buffer ids in operand order; may repeat.
    uses
        Further buffer ids that stay live until this op ends although it does not read them under
        these names (it reads another name of the same bytes, say).
    writes
        Buffer ids this op produces, its workspace included.
    control
        Ids of ops that must run before this one although no buffer says so. One of another
        stream is a sync: this op waits for it.
    workspace
        The buffer among `writes` that nobody reads and that holds scratch bytes, if any.
    kind
        The framework's operator type, for people.
    stream
        The queue that runs it: ops of one stream run one after another, in the order that the plan
        has them in, those of several streams side by side (:mod:`optsched.model.streams`).
    """

    name: str
    reads: tuple[int, ...] = ()
    uses: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    control: tuple[int, ...] = ()
    workspace: int | None = None
    kind: str = ""
    stream: str = ""


@keywords
@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage with a size in bytes, or a view: another name for a buffer.

    Parameters
    ----------
    name
        Unique among the buffers.
    size
        Bytes; 0 for a view.
    input, output
        Policy if the buffer is a graph input, a graph output, or both.
    alias_of
        Id of the buffer this one is a view of; its bytes are those of the root at the chain's end.
    mutates
        The op that makes this view overwrites the bytes: readers of the old name run before it.
    birth
        Id of the op at which the bytes are allocated, where that is not the producer
        (multi-output layouts: the parent allocates, the child only names a part).
    alignment, pool, pin
        Offset is a multiple of `alignment`, in the slab named `pool`, and equal to `pin` if given.
    """

    name: str
    size: int
    input: InputPolicy | None = None
    output: OutputPolicy | None = None
    alias_of: int | None = None
    mutates: bool = False
    birth: int | None = None
    alignment: int = 1
    pool: str = ""
    pin: int | None = None

    def __post_init__(self) -> None:
        if type(self.size) is type(self.alignment) is int and self.pin is None:
            return
        # NumPy's integers are welcome; what is stored is `int`, which JSON can write.
        for key in ("size", "alignment", "pin"):
            value = getattr(self, key)
            if value is not None and not isinstance(value, int) and isinstance(value, Integral):
                object.__setattr__(self, key, int(value))

    @property
    def external(self) -> bool:
        """Whether the bytes lie outside the slab and are never counted."""
        # Most are neither.
        if self.input is None and self.output is None:
            return False
        return self.output in _EXTERNAL or self.input in _EXTERNAL


def require_integer(value: object, what: str, least: int = 0) -> int:
    """Return `value` if it is an integer of at least `least`; else say what it is in one line."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise GraphError(f"{what} must be an integer, got {value!r}")
    if value < least:
        raise GraphError(f"{what} must be at least {least}, got {value}")
    return value


def require_id(value: int, count: int, what: str) -> None:
    """Stop at an id that is none; `what` says who names it."""
    if not 0 <= value < count:
        raise GraphError(f"{what} number {value}, but there are only {count}")
