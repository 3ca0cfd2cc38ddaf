"""Several names for the same bytes in Inductor's files, which in-place ops introduce.

Inductor gives a buffer that an op overwrites a new name without bytes. Its estimate counts every
use of the new name as a use of the real buffer, whose bytes are freed after the last use of all
names. Here, such a name becomes a view of the real buffer, which gives the same live ranges. The
view overwrites the buffer where this is certain; all readers of the old contents then run before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from optsched.errors import FormatError
from optsched.formats.fields import Record, show


@dataclass(frozen=True, slots=True)
class Uses:
    """Names of buffers that an op reads directly, and of those that only pass through to it."""

    direct: Sequence[str]
    transferred: Sequence[str]


@dataclass
class Names:
    """Views among names, and the uses of each op."""

    view_of: dict[str, str] = field(default_factory=dict)
    mutates: set[str] = field(default_factory=set)

    def root(self, name: str) -> str:
        """Return the name under which the bytes were created."""
        while name in self.view_of:
            name = self.view_of[name]
        return name

    def without_repeats(self, uses: Uses) -> Uses:
        """Drop names passed through to an op that uses the same bytes under another name."""
        # The use under the newest name keeps the bytes alive already.
        own = {self.root(name) for name in uses.direct if name in self.view_of}
        return Uses(uses.direct, [name for name in uses.transferred if self.root(name) not in own])


def read_real_names(
    extra: Record, sizes: Mapping[str, tuple[int, int]], producer: Mapping[str, int]
) -> dict[str, str]:
    """Return the real buffer of each name without bytes that an op made of it.

    From `extra.mutation_real_name`, and from `extra.aliases` where the file gives the alias no
    bytes: one that has bytes is counted as Inductor's estimate counts it. Names of buffers that the
    file does not have, caller's inputs say, are left out; names that form a circle are refused.
    """
    found: dict[str, str] = {}
    real = Record(extra.mapping("mutation_real_name", {}), "extra.mutation_real_name")
    for name in real.value:
        found[name] = real.text(name)
    aliases = Record(extra.mapping("aliases", {}), "extra.aliases")
    for name in aliases.value:
        targets = aliases.texts(name)
        if len(targets) == 1:
            found.setdefault(name, targets[0])
    kept = {
        name: target
        for name, target in found.items()
        # Only names without bytes: the others are buffers by Inductor's own count.
        if sizes.get(name) == (0, 0) and target in sizes and name in producer and name != target
    }
    for name, target in kept.items():
        # Each name leads to one other, so following it finds every circle.
        seen, at = {name}, target
        while at in kept:
            if at in seen:
                raise FormatError(f"extra: {show(name)} is a name of itself, by way of {show(at)}")
            seen.add(at)
            at = kept[at]
    return kept


def find_names(
    real: Mapping[str, str],
    overwriting: Collection[str],
    producer: Mapping[str, int],
    uses: Sequence[Uses],
) -> Names:
    """Say what each name is a view of, and which of them overwrite what they name.

    A name is a view of the newest name of the same bytes that its op reads. It overwrites them if
    it is the only one to overwrite what they were, and all that use them as they were come before
    its op in the file. Several slices of one buffer that are all overwritten do not overlap: they
    are views, and none waits for the readers of another.

    `real`: as :func:`read_real_names` returns it. `overwriting`: names that an op made by writing
    in place. `producer`, `uses`: by name the node that makes it, and by node the names it uses.
    """
    names = Names(dict(real))
    newest: dict[str, list[str]] = {}
    # In the order of the file, so that `newest` grows as the names are made.
    for name in sorted(real, key=lambda name: producer[name]):
        family = newest.setdefault(names.root(name), [])
        read = [other for other in family if other in uses[producer[name]].direct]
        names.view_of[name] = read[-1] if read else real[name]
        family.append(name)
    for name in overwriting:
        old = names.view_of.get(name)
        # Several slices of one buffer, see the docstring.
        alike = [other for other in overwriting if names.view_of.get(other) == old]
        if old is None or len(alike) > 1:
            continue
        # All names under which the old contents can be read.
        shown = {old, *(x for x in real if x not in overwriting and names.view_of[x] == old)}
        op = producer[name]
        users = {v for v, row in enumerate(uses) if shown.intersection(row.direct)}
        makers = {producer[x] for x in shown if x in producer}
        # All of them come before the op in the file, so that an edge to it closes no cycle.
        if max(users | makers, default=-1) <= op and op not in makers:
            names.mutates.add(name)
    return names
