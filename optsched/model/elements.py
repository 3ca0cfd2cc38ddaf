"""Elements of a graph: ops and buffers, and the policies of graph inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from numbers import Integral

from optsched.errors import GraphError
from optsched.runtime.keywords import keywords

MAX_TOTAL_BYTES = 2**62
"""Maximum total size of all buffers in bytes; it keeps every sum of live bytes within a signed
64-bit integer.
"""

MAX_ADDRESS = 2**63 - 1
"""Maximum size of a slab in bytes: offsets are signed 64-bit integers. Large alignments can exceed
it even if the total size is small.
"""


class InputPolicy(StrEnum):
    """Handling of the bytes of a graph input.

    Examples
    --------
    >>> from optsched import InputPolicy
    >>> [policy.value for policy in InputPolicy]
    ['excluded', 'freed', 'kept', 'constant', 'scratch']
    """

    EXCLUDED = "excluded"
    """Owned by the caller: not counted and not packed."""
    FREED = "freed"
    """Live from before the first step until its last use, then released."""
    KEPT = "kept"
    """Live throughout."""
    CONSTANT = "constant"
    """A weight or folded constant that comes with the model. It is counted only if the memory model
    gives constants a place (:mod:`optsched.model.regions`).
    """
    SCRATCH = "scratch"
    """Bytes that a single op keeps from run to run: live throughout."""


class OutputPolicy(StrEnum):
    """Handling of the bytes of a graph output.

    Examples
    --------
    >>> from optsched import OutputPolicy
    >>> [policy.value for policy in OutputPolicy]
    ['live', 'own']
    """

    LIVE = "live"
    """Live to the end."""
    OWN = "own"
    """Allocated separately: not counted and not packed."""


# Looking up enumeration members would dominate the time of `Buffer.external`, which is called
# often.
# All policies by which bytes lie outside the slab.
_EXTERNAL = (OutputPolicy.OWN, InputPolicy.EXCLUDED, InputPolicy.CONSTANT)


@keywords
@dataclass(frozen=True, slots=True)
class Op:
    """A node of a graph: it reads buffers, writes buffers and may need workspace while it runs.

    Parameters
    ----------
    name
        Unique name.
    reads
        Buffer ids in operand order; an id may be repeated.
    uses
        Ids of further buffers that stay live until this op ends although it does not read them
        under these names, for example other names of bytes that it reads.
    writes
        Ids of the buffers that the op produces, including its workspace.
    control
        Ids of ops that must run before this one although no buffer requires it. A control edge from
        an op on another stream is a sync: this op waits for it.
    workspace
        Id of the buffer among `writes` that holds scratch bytes and that no op reads, if any.
    kind
        Operator type of the framework, shown in reports.
    stream
        Stream (queue) that runs the op. Ops on one stream run one after another, in the order of
        the plan; ops on different streams run concurrently (:mod:`optsched.model.streams`).
    cost
        Cost of one more run, in the unit that the graph names (:attr:`Graph.cost_unit`).
    once
        True if the op must not run again: it draws random numbers, changes bytes or communicates.

    Examples
    --------
    >>> from optsched import Op
    >>> Op("add", reads=(0, 1), writes=(2,)).writes
    (2,)
    """

    name: str
    reads: tuple[int, ...] = ()
    uses: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    control: tuple[int, ...] = ()
    workspace: int | None = None
    kind: str = ""
    stream: str = ""
    cost: int = 0
    once: bool = False


@keywords
@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage with a size in bytes, or a view, which is another name for a buffer.

    Parameters
    ----------
    name
        Unique name.
    size
        Bytes; 0 for a view.
    input, output
        Policy if the buffer is a graph input, a graph output, or both.
    alias_of
        Id of the buffer that this buffer is a view of. Its bytes are those of the root, the buffer
        at the end of the chain of views.
    mutates
        True if the op that makes this view overwrites the bytes; users of the old name then run
        before it.
    birth
        Id of the op at which the bytes are allocated, if that is not the producer. In multi-output
        layouts, for example, the parent allocates the bytes and the child names a part of them.
    alignment
        Number of bytes that divides the offset.
    pool
        Name of the pool that holds the buffer.
    pin
        Required offset in bytes, or None.

    Examples
    --------
    >>> from optsched import Buffer, InputPolicy
    >>> Buffer("x", 64, input=InputPolicy.EXCLUDED).external
    True
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
        # NumPy integers are accepted, but stored as `int`, which can be written as JSON.
        for key in ("size", "alignment", "pin"):
            value = getattr(self, key)
            if value is not None and not isinstance(value, int) and isinstance(value, Integral):
                object.__setattr__(self, key, int(value))

    @property
    def external(self) -> bool:
        """Return True if the bytes lie outside the slab and are not counted."""
        # Most buffers are not graph inputs or outputs.
        if self.input is None and self.output is None:
            return False
        return self.output in _EXTERNAL or self.input in _EXTERNAL


def require_integer(value: object, what: str, least: int = 0) -> int:
    """Return `value` if it is an integer of at least `least`; otherwise raise a one-line error."""
    # `True` is an `int` in Python, but never meant as a number of bytes.
    if isinstance(value, bool) or not isinstance(value, int):
        raise GraphError(f"{what} must be an integer, got {value!r}")
    if value < least:
        raise GraphError(f"{what} must be at least {least}, got {value}")
    return value


def require_id(value: int, count: int, what: str) -> None:
    """Raise an error if an id is out of range; `what` names the object that contains it."""
    if not 0 <= value < count:
        raise GraphError(f"{what} number {value}, but there are only {count}")
