"""Simulation of Inductor's wrapper: the memory that an order of a compiled graph needs.

Three passes, as in Inductor: write the lines that allocate, call and free; reuse freed buffers for
later allocations; run the lines, and count the bytes of all storages that a name holds. The first
two passes have effects that a graph of ops and buffers cannot express: generated C++ kernels are
collected into one call, so nothing is freed between two extern kernels; and a reused buffer stays
allocated between its two uses.

Example: `k1` reads `a` and writes `b`, `k2` reads `b` and writes `c`; all have 8 bytes, and both
kernels are in one C++ call. `a` is freed after the call, so the peak is 24 bytes, not 16.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from optsched.check.lifecycle import LifeEvent
from optsched.plugins.inductor.wrapper.facts import (
    Allocation,
    ExternCall,
    InplaceCandidate,
    Member,
    Returned,
    Scratch,
    WrapperFacts,
    WrapperNode,
)

Order = tuple[int, ...]
"""Positions of nodes, the first to run first."""

Pair = tuple[str, str]
"""A buffer, and the buffer whose bytes it takes over."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """Memory that an order needs while the compiled graph runs.

    Parameters
    ----------
    peak
        Most live bytes, in storages that the graph allocates or owns.
    peak_at
        The buffer or node whose line reaches the peak first.
    start, end
        Live bytes of inputs at the call, and of all storages left at its end.
    inplace
        Pairs in which a kernel overwrites the second buffer.
    reused
        Pairs in which the wrapper reuses the second buffer.
    removed
        Buffers without bytes, because they exist only inside a kernel.
    timeline
        Pairs `(line, live bytes after it)`, if requested.
    lives
        Allocations and releases of storages, by the first name of each, if requested.
    """

    peak: int
    peak_at: str
    start: int
    end: int
    inplace: tuple[Pair, ...]
    reused: tuple[Pair, ...]
    removed: frozenset[str]
    timeline: tuple[tuple[str, int], ...] = ()
    lives: tuple[LifeEvent, ...] = ()


class _Kind(Enum):
    ALLOCATE = auto()
    SHARE = auto()
    """The name takes over the bytes of `source`, whose name is deleted."""
    VIEW = auto()
    CALL = auto()
    FREE = auto()
    KERNEL = auto()


@dataclass(slots=True)
class _Line:
    kind: _Kind
    name: str
    step: int
    source: str = ""
    extern: ExternCall | None = None


def simulate(
    facts: WrapperFacts,
    order: Order,
    *,
    reuse: bool,
    timeline: bool = False,
    worst: bool = False,
) -> Simulation:
    """Return the memory of a graph in one order.

    Parameters
    ----------
    facts
        Facts about the graph.
    order
        A valid order.
    reuse
        True if the wrapper reuses freed buffers (`allow_buffer_reuse`).
    timeline
        True to return the live bytes after each line, and the lives of storages.
    worst
        True to count symbolic sizes at the upper ends of their ranges. The lines are the same, as
        Inductor writes them once, by the hints.
    """
    writer = _LineWriter(facts, order)
    lines = writer.write()
    # `_hand_on` changes the list of lines, so the second pass must precede the third.
    reused = _hand_on(facts, order, lines, writer.inplace) if reuse else []
    memory = _Memory(facts, facts.worst if worst else {})
    memory.run(lines, timeline)
    return Simulation(
        peak=memory.peak,
        peak_at=memory.peak_at,
        start=memory.start,
        end=memory.live,
        inplace=tuple(writer.inplace),
        reused=tuple(reused),
        removed=frozenset(writer.gone),
        timeline=tuple(memory.timeline),
        lives=tuple(memory.lives) if timeline else (),
    )


class _LineWriter:
    """First pass: the lines, as code generation writes them node by node."""

    def __init__(self, facts: WrapperFacts, order: Order) -> None:
        self.facts = facts
        self.order = order
        self.lines: list[_Line] = []
        self.inplace: list[Pair] = []
        self.gone: set[str] = set()
        # Allocated, freed and waiting by name, as in Inductor's code generation.
        self.allocated: set[str] = set()
        self.freed: set[str] = set()
        self.waiting: set[str] = set()
        self.arguments: set[str] = set()
        self.done: set[int] = set()

    def write(self) -> list[_Line]:
        """Write all lines."""
        last_used = find_last_uses(self.facts, self.order)
        for step, v in enumerate(self.order):
            node = self.facts.nodes[v]
            # Kernels are collected into one call; an extern kernel on the device ends the call
            # before it.
            if node.extern and node.on_device:
                self._flush(max(step - 1, 0))
            # Dead buffers wait for the end of the call, since the collected kernels still have
            # their addresses.
            self.waiting |= last_used[step]
            self._define(node, step)
            if node.scratch:
                # The kernel's workspace exists together with its outputs, which are there by now.
                self._sum_up(node, node.scratch, step)
            self._call(node, step)
            self.done.add(v)
        self._flush(len(self.order) - 1)
        return self.lines

    def _define(self, node: WrapperNode, step: int) -> None:
        first_line, first_pair = len(self.lines), len(self.inplace)
        for definition in node.definitions:
            # Inductor takes the first candidate that is free, also if a later one would fit better.
            source = next(filter(self._is_free_to_take, definition.candidates), None)
            if source is None:
                self._allocate(definition.buffer, step)
            else:
                self._allocate(source.source, step)
                self.freed.add(source.source)
                self.allocated.add(definition.buffer)
                self.inplace.append((definition.buffer, source.source))
                self._add(_Kind.SHARE, definition.buffer, step, source.source)
        local = self.facts.local.intersection(node.outputs)
        # Names that never leave the kernel get no lines: their values stay in registers.
        if local:
            self._remove(local, first_line, first_pair)

    def _sum_up(self, node: WrapperNode, scratch: Scratch, step: int) -> None:
        """Write the lines of a kernel with a workspace, and of the sums of what it left there."""
        self._add(_Kind.ALLOCATE, scratch.buffer, step)
        self._add(_Kind.KERNEL, node.name, step)
        for made in scratch.sums:
            self.allocated.add(made.name)
            self.lines.append(_Line(_Kind.CALL, made.name, step, extern=made))
        self._add(_Kind.FREE, scratch.buffer, step)

    def _is_free_to_take(self, candidate: InplaceCandidate) -> bool:
        return candidate.source not in self.freed and candidate.others <= self.done

    def _remove(self, local: Iterable[str], first_line: int, first_pair: int) -> None:
        """Take back the lines of local buffers that share bytes with local buffers only."""
        groups: dict[str, set[str]] = {}
        for output, source in self.inplace[first_pair:]:
            # Names that share bytes form a group, which vanishes only as a whole.
            union = groups.get(output, {output}) | groups.get(source, {source})
            groups.update(dict.fromkeys(union, union))
        local = set(local)
        dead = {name for name in local if groups.get(name, {name}) <= local}
        self.gone |= dead
        self.freed |= dead
        made = (_Kind.ALLOCATE, _Kind.SHARE, _Kind.VIEW)
        self.lines[first_line:] = [
            line
            for line in self.lines[first_line:]
            if line.kind not in made or line.name not in dead
        ]
        self.inplace[first_pair:] = [
            pair for pair in self.inplace[first_pair:] if pair[0] not in dead
        ]

    def _call(self, node: WrapperNode, step: int) -> None:
        if node.extern:
            self.lines.append(_Line(_Kind.CALL, node.name, step, extern=node.extern))
            self._flush(step)
            return
        self._add(_Kind.KERNEL, node.name, step)
        self.arguments |= node.arguments
        # A call has a maximum number of arguments; beyond it Inductor starts another one.
        if node.arguments and len(self.arguments - self.gone) > self.facts.max_arguments:
            self._flush(step)

    def _flush(self, step: int) -> None:
        """End the call of the collected kernels, and free the buffers that are dead by now."""
        # Sorted, since sets have no order and the pool is a stack.
        for name in sorted(self.waiting - self.gone - self.freed):
            buffer = self.facts.buffers.get(name)
            if buffer is None:
                if name in self.facts.graph_inputs:
                    self._add(_Kind.FREE, name, step)
            elif buffer.freed:
                self.freed.add(name)
                self._add(_Kind.FREE, name, step)
        self.waiting.clear()
        self.arguments.clear()

    def _allocate(self, name: str, step: int) -> None:
        buffer = self.facts.buffers.get(name)
        if buffer is None or name in self.allocated:
            return
        self.allocated.add(name)
        if buffer.allocation is Allocation.OWN:
            self._add(_Kind.ALLOCATE, name, step)
        elif buffer.view_of is not None:
            self._allocate(buffer.view_of, step)
            self._add(_Kind.VIEW, name, step, buffer.view_of)

    def _add(self, kind: _Kind, name: str, step: int, source: str = "") -> None:
        self.lines.append(_Line(kind, name, step, source))


def find_last_uses(facts: WrapperFacts, order: Order) -> list[set[str]]:
    """Return, by step, the names that are not outputs and have their last use there."""
    still_used = set(facts.outputs)
    found: list[set[str]] = []
    for v in reversed(order):
        last = facts.nodes[v].used - still_used
        still_used |= last
        found.append(set(last))
    return found[::-1]


def _hand_on(
    facts: WrapperFacts, order: Order, lines: list[_Line], inplace: Sequence[Pair]
) -> list[Pair]:
    """Second pass: replace allocations by buffers that were freed before; return the pairs.

    A freed buffer is reused if the next allocation of its kind follows at once, or if holding it in
    between does not raise the peak of Inductor's estimate. The estimate ignores in-place writes, so
    its peak is above the true one, and reuse may raise the true peak.
    """
    misaligned = set(facts.misaligned)
    misaligned.update(output for output, source in inplace if source in misaligned)
    highest, live = estimate_peak(facts, order)
    pool: dict[Hashable, list[int]] = {}
    reused = []
    given: set[int] = set()
    for i, line in enumerate(lines):
        buffer = facts.buffers.get(line.name)
        if buffer is None or buffer.reuse_key is None:
            continue
        # Alignment decides too: a misaligned buffer serves a misaligned one only.
        key = (buffer.reuse_key, line.name in misaligned)
        if line.kind is _Kind.FREE:
            pool.setdefault(key, []).append(i)
        elif line.kind is _Kind.ALLOCATE and pool.get(key):
            # The buffer freed last is taken first, as in Inductor.
            free = lines[pool[key][-1]]
            between = range(free.step + 1, line.step)
            # If nothing runs in between, reuse costs nothing. Otherwise the buffer stays in memory
            # there.
            if between and buffer.size + max(live[s] for s in between) > highest:
                continue
            # Taken from the stack, and its line of release is dropped below.
            given.add(pool[key].pop())
            for s in between:
                live[s] += buffer.size
            reused.append((line.name, free.name))
            lines[i] = _Line(_Kind.SHARE, line.name, line.step, free.name)
    lines[:] = [line for i, line in enumerate(lines) if i not in given]
    return reused


def estimate_peak(facts: WrapperFacts, order: Order) -> tuple[int, list[int]]:
    """Return Inductor's own estimate of an order: its peak, and the live bytes of each step."""
    step_of = {v: step for step, v in enumerate(order)}
    change = [0] * (len(order) + 1)
    for buffer in facts.estimate:
        birth = 0 if buffer.producer is None else step_of[buffer.producer]
        last = max((step_of[v] for v in buffer.readers), default=birth)
        allocated, freed = buffer.allocated, buffer.freed
        if buffer.read_sizes:
            # The size depends on which reader is the last: a reader may see a part.
            latest = max(buffer.read_sizes, key=step_of.__getitem__)
            allocated = freed = buffer.read_sizes[latest]
        change[birth] += allocated
        if not buffer.kept:
            change[last + 1] -= freed
    # Prefix sums: bytes at a step are all changes up to it.
    live, total = [], 0
    for difference in change:
        total += difference
        live.append(total)
    return max(live, default=0), live


@dataclass(slots=True)
class _Memory:
    """Third pass: names hold storages; a storage is freed with the last name that holds it."""

    facts: WrapperFacts
    other_sizes: Mapping[str, int]
    holds: dict[str, list[int]] = field(default_factory=dict)
    holders: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    members: dict[str, list[int]] = field(default_factory=dict)
    live: int = 0
    peak: int = 0
    peak_at: str = "the inputs"
    start: int = 0
    timeline: list[tuple[str, int]] = field(default_factory=list)
    first_name: dict[int, str] = field(default_factory=dict)
    lives: list[LifeEvent] = field(default_factory=list)

    def run(self, lines: Sequence[_Line], timeline: bool) -> None:
        """Count the bytes of all lines."""
        storages: dict[str, list[int]] = {}
        for given in self.facts.inputs:
            if given.storage not in storages:
                self._create(given.name, given.size)
                storages[given.storage] = self.holds[given.name]
            else:
                self._share(given.name, storages[given.storage])
        self.start = self.peak = self.live
        # The wrapper has no line that allocates its inputs.
        self.lives.clear()
        for line in lines:
            self._execute(line)
            # Scratch exists only during the call, so that it raises the peak and not the live
            # bytes.
            extra = line.extern.workspace if line.extern else 0
            if self.live + extra > self.peak:
                self.peak, self.peak_at = self.live + extra, line.name
            if timeline:
                self.timeline.append((f"{line.kind.name.lower()} {line.name}", self.live))

    def _execute(self, line: _Line) -> None:
        if line.kind is _Kind.ALLOCATE:
            self._create(line.name, self.facts.buffers[line.name].size)
        elif line.kind is _Kind.VIEW:
            self._share(line.name, self.holds.get(line.source, []))
        elif line.kind is _Kind.SHARE:
            self._take_over(line)
        elif line.kind is _Kind.FREE:
            self._drop(line.name)
        elif line.extern is not None:
            self._return(line.extern)

    def _take_over(self, line: _Line) -> None:
        self._share(line.name, self.holds[line.source])
        # An output keeps its own name.
        if line.source not in self.facts.outputs:
            self._drop(line.source)

    def _return(self, call: ExternCall) -> None:
        name = call.name
        if call.returned is Returned.MEMBER and name in self.members:
            self._share(name, self.members[name])
        elif name in self.holds or call.returned is Returned.NOTHING:
            return
        elif call.returned is Returned.TUPLE:
            self._return_tuple(call)
        elif call.returned is Returned.ALIAS:
            held = self.holds.get(call.aliases[0])
            if held:
                self._share(name, held)
        else:
            self._create(name, self.facts.buffers[name].size)

    def _return_tuple(self, call: ExternCall) -> None:
        held = []
        for member in call.members:
            storages = self._member_storages(member)
            if not self.facts.tuples:
                self.holds[member.name] = storages
                self._name(member.name, storages)
                continue
            self.members[member.name] = storages
            held += storages
        if held:
            self.holds[call.name] = held

    def _member_storages(self, member: Member) -> list[int]:
        """Return the storage of a tuple's member; None for a view of uncounted bytes."""
        if not member.aliases:
            return [self._new(self.other_sizes.get(member.name, member.size))]
        found = list(self.holds.get(member.aliases[0], ()))
        for storage in found:
            self.holders[storage] += 1
        return found

    def _new(self, size: int) -> int:
        storage = len(self.sizes)
        self.sizes[storage], self.holders[storage] = size, 1
        self.live += size
        return storage

    def _create(self, name: str, size: int) -> None:
        self.holds[name] = [self._new(self.other_sizes.get(name, size))]
        self._name(name, self.holds[name])

    def _share(self, name: str, storages: Sequence[int]) -> None:
        self.holds[name] = list(storages)
        for storage in storages:
            self.holders[storage] += 1
        self._name(name, storages)

    def _name(self, name: str, storages: Sequence[int]) -> None:
        """Record an allocation; a member of a tuple counts as allocated when it gets a name."""
        for storage in storages:
            if storage not in self.first_name:
                self.first_name[storage] = name
                self.lives.append(LifeEvent(name, self.sizes[storage], born=True))

    def _drop(self, name: str) -> None:
        for storage in self.holds.pop(name, ()):
            self.holders[storage] -= 1
            # The last name gone: the allocator gets the bytes back.
            if not self.holders[storage]:
                self.live -= self.sizes[storage]
                if storage in self.first_name:
                    gone = LifeEvent(self.first_name[storage], self.sizes[storage], born=False)
                    self.lives.append(gone)
