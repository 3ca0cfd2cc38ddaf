"""Third pass of the simulation: bytes of all storages that a name holds, after each line.

Example: `x` and `y` are names of one storage of 8 bytes. The line that frees `x` frees nothing; the
8 bytes go with `y`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optsched.check.lifecycle import LifeEvent
from optsched.plugins.inductor.wrapper.facts import ExternCall, Member, Returned, WrapperFacts
from optsched.plugins.inductor.wrapper.lines import Kind, Line


@dataclass(slots=True)
class Memory:
    """Names and the storages that they hold; a storage is freed with its last name."""

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

    def run(self, lines: Sequence[Line], timeline: bool) -> None:
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
        # No line deletes an input that nothing reads: its name goes when the function returns.
        for given in self.facts.inputs:
            if given.name not in self.facts.outputs:
                self._drop(given.name)

    def _execute(self, line: Line) -> None:
        if line.kind is Kind.ALLOCATE:
            self._create(line.name, self.facts.buffers[line.name].size)
        elif line.kind is Kind.VIEW:
            self._share(line.name, self.holds.get(line.source, []))
        elif line.kind is Kind.SHARE:
            self._take_over(line)
        elif line.kind is Kind.FREE:
            self._drop(line.name)
        elif line.extern is not None:
            self._return(line.extern)

    def _take_over(self, line: Line) -> None:
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
