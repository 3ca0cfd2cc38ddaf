"""Facts that decide the memory of a graph that Inductor compiles, as plain data.

Inductor turns each fused node into a call of a kernel and writes a Python function, the *wrapper*,
that allocates, calls and frees. :mod:`optsched.plugins.inductor.reading` reads from the scheduler
the facts about the wrapper that hold for every order of the nodes. They are stored here, without
objects of torch. :mod:`optsched.plugins.inductor.wrapper.simulate` adds an order.

Example: the wrapper allocates `buf0`, calls kernel 0, allocates `buf1`, calls kernel 1, and deletes
`buf0`. The nodes are the two kernels; sizes, readers and possible reuse of the two buffers are
facts, and the order of the lines is not.

References
----------
torch/_inductor/scheduler.py, codegen/wrapper.py, codegen/cpp.py (torch 2.13.0).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

Order = tuple[int, ...]
"""Positions of nodes, the first to run first."""


class Allocation(Enum):
    """Kind of line that the wrapper writes to make a buffer."""

    OWN = auto()
    """A line that allocates a tensor."""
    VIEW = auto()
    """A line that gives the tensor of another buffer a second name."""
    NONE = auto()
    """Nothing: the kernel returns the tensor, or the bytes are those of a mutated buffer."""


class Returned(Enum):
    """Kind of result of the call of an extern kernel."""

    TENSOR = auto()
    """A tensor, unless one was allocated for it before the call."""
    TUPLE = auto()
    """A tuple, which keeps all its members alive until its own name is deleted."""
    MEMBER = auto()
    """A member of a tuple that an earlier call returned."""
    ALIAS = auto()
    """A view of one of the inputs."""
    NOTHING = auto()
    """No new bytes: a mutation, or not a tensor."""


@dataclass(frozen=True, slots=True)
class WrapperBuffer:
    """A name in the wrapper.

    Parameters
    ----------
    name
        As the wrapper writes it, such as `buf3`.
    size
        Bytes that the allocator is asked for.
    allocation
        Kind of line that makes it, unless an extern kernel returns it.
    view_of
        The buffer whose tensor it names, if `allocation` is `VIEW`.
    freed
        True if the wrapper deletes the name after its last use.
    reuse_key
        The wrapper reuses a buffer that it would delete for a later one with an equal key; None for
        buffers that are not reused.
    """

    name: str
    size: int
    allocation: Allocation
    view_of: str | None = None
    freed: bool = True
    reuse_key: Hashable = None


@dataclass(frozen=True, slots=True)
class InplaceCandidate:
    """A buffer that a kernel may overwrite with an output.

    Parameters
    ----------
    source
        The buffer, or the donated input, that is overwritten.
    others
        Positions of the other nodes that use it: all of them have to run before.
    """

    source: str
    others: frozenset[int]


@dataclass(frozen=True, slots=True)
class Definition:
    """A buffer that a node's kernel writes, with what it may overwrite, the first choice first."""

    buffer: str
    candidates: tuple[InplaceCandidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a returned tuple: its name, its bytes, and the inputs it may be a view of."""

    name: str
    size: int
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternCall:
    """The call of a kernel that Inductor does not generate itself.

    Parameters
    ----------
    returned, name
        Kind of its result, and the name of the result.
    parent
        The tuple of a `MEMBER`.
    members
        The members of a `TUPLE`.
    aliases
        The inputs that an `ALIAS` is a view of.
    workspace
        Bytes that the kernel allocates and frees again while it runs.
    """

    returned: Returned
    name: str
    parent: str | None = None
    members: tuple[Member, ...] = ()
    aliases: tuple[str, ...] = ()
    workspace: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """Workspace of a generated kernel, which the wrapper allocates after the kernel's outputs.

    Parameters
    ----------
    buffer
        Name of the workspace among the buffers; it is freed after the call and the sums.
    sums
        Tensors that the wrapper makes of the workspace while it lives; `workspace` of each are the
        bytes of a temporary that is converted to the sum's type.
    """

    buffer: str
    sums: tuple[ExternCall, ...] = ()


@dataclass(frozen=True, slots=True)
class WrapperNode:
    """A fused node of the scheduler.

    Parameters
    ----------
    name
        The scheduler's name of it.
    used
        Buffers and inputs that have to exist when it runs, aliases included, mutated ones by
        their first name.
    definitions
        Buffers that it writes, in the order in which code is generated.
    outputs
        Names of all its outputs.
    predecessors
        Positions of nodes that have to run before it, the guards of mutated storages included.
    extern
        Its call, if its kernel is not generated.
    on_device
        True if it runs on a device.
    arguments
        Buffers that its generated kernel reads or writes; empty for a node without a kernel.
    kind
        The type of the node, for people.
    scratch
        The workspace of its generated kernel, if it has one.
    draws_after
        Members of `predecessors` that only keep the order in which random numbers are drawn.
    """

    name: str
    used: frozenset[str]
    definitions: tuple[Definition, ...]
    outputs: tuple[str, ...]
    predecessors: frozenset[int]
    extern: ExternCall | None = None
    on_device: bool = True
    arguments: frozenset[str] = frozenset()
    kind: str = ""
    scratch: Scratch | None = None
    draws_after: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class OwnedInput:
    """A graph input whose bytes go when the graph has used it for the last time.

    Parameters
    ----------
    name
        As the wrapper writes it.
    size
        Bytes of its storage.
    storage
        Inputs of the same storage have the same value here.
    worst
        Bytes of its storage at the upper ends of symbolic sizes, where only the forward graph knows
        them: the input may be a view of a part. 0 elsewhere.
    """

    name: str
    size: int
    storage: str
    worst: int = 0


@dataclass(frozen=True, slots=True)
class EstimatedBuffer:
    """A buffer as Inductor's own estimate sees it.

    Parameters
    ----------
    producer
        Position of the node that makes it; None for an input.
    allocated, freed
        Bytes that appear with it and go with it.
    readers
        Positions of the nodes that keep it.
    kept
        True if it is a graph output.
    read_sizes
        For an input, the bytes that each reader reads of it: the estimate believes the last one.
    """

    producer: int | None
    allocated: int
    freed: int
    readers: tuple[int, ...]
    kept: bool
    read_sizes: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class WrapperFacts:
    """All that the wrapper's memory depends on, apart from the order.

    Parameters
    ----------
    nodes
        In the order of the hook.
    buffers
        By name.
    inputs
        Inputs that the graph owns.
    outputs
        Names that are alive when the graph returns.
    local
        Buffers that live inside one kernel, unless they share bytes with one that does not.
    graph_inputs
        Names of all graph inputs; the wrapper deletes each after its last use.
    estimate
        The buffers of Inductor's own estimate, which decides about reuse.
    max_arguments
        Generated kernels are collected in one call until it has more arguments than this; -1 if
        each has a call of its own, as with Triton.
    misaligned
        Buffers whose address is not aligned, which are reused apart from the others.
    extreme_inputs
        The fewest and the most inputs that the graph may own, if that depends on the caller.
    tuples
        True if a kernel's tuple holds all its members, as in Python; False if each member has a
        name of its own from the call on, as in a C++ wrapper. A member that nobody reads then lives
        to the end.
    worst
        Bytes of buffers, members and inputs at the upper ends of symbolic sizes, by name; other
        names have the bytes of the hints. Empty if no size has a range.
    """

    nodes: tuple[WrapperNode, ...]
    buffers: Mapping[str, WrapperBuffer]
    inputs: tuple[OwnedInput, ...]
    outputs: frozenset[str]
    local: frozenset[str]
    graph_inputs: frozenset[str]
    estimate: tuple[EstimatedBuffer, ...]
    max_arguments: int
    misaligned: frozenset[str] = frozenset()
    extreme_inputs: tuple[tuple[OwnedInput, ...], ...] = ()
    tuples: bool = True
    worst: Mapping[str, int] = field(default_factory=dict)

    def with_inputs(self, inputs: tuple[OwnedInput, ...]) -> WrapperFacts:
        """Return the facts of the same graph where it owns these inputs."""
        return replace(self, inputs=inputs, extreme_inputs=())


def is_valid_order(facts: WrapperFacts, order: Order, *, draws: bool = True) -> bool:
    """Return True if an order holds every node once, after all its predecessors.

    With `draws` false, random numbers may be drawn in another order.
    """
    step = {v: i for i, v in enumerate(order)}
    # Both: no node twice, and none missing.
    if len(step) != len(facts.nodes) or len(order) != len(facts.nodes):
        return False
    return all(
        step[u] < step[v]
        for v, node in enumerate(facts.nodes)
        for u in (node.predecessors if draws else node.predecessors - node.draws_after)
    )
