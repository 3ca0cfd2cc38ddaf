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
    """A name in the wrapper."""

    name: str
    """As the wrapper writes it, such as `buf3`."""
    size: int
    """Bytes that the allocator is asked for."""
    allocation: Allocation
    """Kind of line that makes it, unless an extern kernel returns it."""
    view_of: str | None = None
    """The buffer whose tensor it names, if `allocation` is `VIEW`."""
    freed: bool = True
    """True if the wrapper deletes the name after its last use."""
    reuse_key: Hashable = None
    """The wrapper reuses a buffer that it would delete for a later one with an equal key; None for
    buffers that are not reused."""


@dataclass(frozen=True, slots=True)
class InplaceCandidate:
    """A buffer that a kernel may overwrite with an output."""

    source: str
    """The buffer, or the donated input, that is overwritten."""
    others: frozenset[int]
    """Positions of the other nodes that use it: all of them have to run before."""


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
    """The call of a kernel that Inductor does not generate itself."""

    returned: Returned
    name: str
    """`returned` and `name`: kind of its result, and the name of the result."""
    parent: str | None = None
    """The tuple of a `MEMBER`."""
    members: tuple[Member, ...] = ()
    """The members of a `TUPLE`."""
    aliases: tuple[str, ...] = ()
    """The inputs that an `ALIAS` is a view of."""
    workspace: int = 0
    """Bytes that the kernel allocates and frees again while it runs."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """Workspace of a generated kernel, which the wrapper allocates after the kernel's outputs."""

    buffer: str
    """Name of the workspace among the buffers; it is freed after the call and the sums."""
    sums: tuple[ExternCall, ...] = ()
    """Tensors that the wrapper makes of the workspace while it lives; `workspace` of each are the
    bytes of a temporary that is converted to the sum's type."""


@dataclass(frozen=True, slots=True)
class WrapperNode:
    """A fused node of the scheduler."""

    name: str
    """The scheduler's name of it."""
    used: frozenset[str]
    """Buffers and inputs that have to exist when it runs, aliases included, mutated ones by their
    first name."""
    definitions: tuple[Definition, ...]
    """Buffers that it writes, in the order in which code is generated."""
    outputs: tuple[str, ...]
    """Names of all its outputs."""
    predecessors: frozenset[int]
    """Positions of nodes that have to run before it, the guards of mutated storages included."""
    extern: ExternCall | None = None
    """Its call, if its kernel is not generated."""
    on_device: bool = True
    """True if it runs on a device."""
    arguments: frozenset[str] = frozenset()
    """Buffers that its generated kernel reads or writes; empty for a node without a kernel."""
    kind: str = ""
    """The type of the node, for people."""
    scratch: Scratch | None = None
    """The workspace of its generated kernel, if it has one."""
    draws_after: frozenset[int] = frozenset()
    """Members of `predecessors` that only keep the order in which random numbers are drawn."""


@dataclass(frozen=True, slots=True)
class OwnedInput:
    """A graph input whose bytes go when the graph has used it for the last time."""

    name: str
    """As the wrapper writes it."""
    size: int
    """Bytes of its storage."""
    storage: str
    """Inputs of the same storage have the same value here."""
    worst: int = 0
    """Bytes of its storage at the upper ends of symbolic sizes, where only the forward graph knows
    them: the input may be a view of a part. 0 elsewhere."""


@dataclass(frozen=True, slots=True)
class EstimatedBuffer:
    """A buffer as Inductor's own estimate sees it."""

    producer: int | None
    """Position of the node that makes it; None for an input."""
    allocated: int
    freed: int
    """`allocated` and `freed`: bytes that appear with it and go with it."""
    readers: tuple[int, ...]
    """Positions of the nodes that keep it."""
    kept: bool
    """True if it is a graph output."""
    read_sizes: Mapping[int, int] | None = None
    """For an input, the bytes that each reader reads of it: the estimate believes the last one."""


@dataclass(frozen=True, slots=True)
class WrapperFacts:
    """All that the wrapper's memory depends on, apart from the order."""

    nodes: tuple[WrapperNode, ...]
    """In the order of the hook."""
    buffers: Mapping[str, WrapperBuffer]
    """By name."""
    inputs: tuple[OwnedInput, ...]
    """Inputs that the graph owns."""
    outputs: frozenset[str]
    """Names that are alive when the graph returns."""
    local: frozenset[str]
    """Buffers that live inside one kernel, unless they share bytes with one that does not."""
    graph_inputs: frozenset[str]
    """Names of all graph inputs; the wrapper deletes each after its last use."""
    estimate: tuple[EstimatedBuffer, ...]
    """The buffers of Inductor's own estimate, which decides about reuse."""
    max_arguments: int
    """Generated kernels are collected in one call until it has more arguments than this; -1 if each
    has a call of its own, as with Triton."""
    misaligned: frozenset[str] = frozenset()
    """Buffers whose address is not aligned, which are reused apart from the others."""
    extreme_inputs: tuple[tuple[OwnedInput, ...], ...] = ()
    """The fewest and the most inputs that the graph may own, if that depends on the caller."""
    tuples: bool = True
    """True if a kernel's tuple holds all its members, as in Python; False if each member has a name
    of its own from the call on, as in a C++ wrapper. A member that nobody reads then lives to the
    end."""
    worst: Mapping[str, int] = field(default_factory=dict)
    """Bytes of buffers, members and inputs at the upper ends of symbolic sizes, by name; other
    names have the bytes of the hints. Empty if no size has a range."""

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
