"""The values of a scheduled module, as XLA's buffer assignment sees them.

Each instruction defines values: its tensors, and the tables of pointers of its tuples. What only
hands a value on (`get-tuple-element`, `bitcast`, `tuple`, `call`) defines none; a loop and a choice
define new ones that lie in one memory with those they are made of, and so does an update in place.
Time is the place in the sequence of all instructions, those of called computations before their
caller.

Example: `t = tuple(a, b)` and `c = get-tuple-element(t, 0)`. The instruction `t` defines a table of
two pointers and passes on the values of `a` and `b`; `c` defines nothing and is the value of `a`.

References
----------
xla/hlo/analysis/hlo_dataflow_analysis.cc, xla/hlo/analysis/hlo_alias_analysis.cc,
xla/hlo/utils/hlo_live_range.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace

from optsched.formats.hlo.allocation.value import Group, Tree, Value
from optsched.formats.hlo.allocation.walks import only_parameter, post_order, walk
from optsched.formats.hlo.inplace import SAME, may_overwrite, overwritten
from optsched.formats.hlo.shapes import ShapeTree, parts_of
from optsched.formats.hlo.text import HloModule, Instruction


class ModuleValues:
    """All values of a module, and which of them lie in one memory.

    `module`: parsed; its text is a schedule.

    Attributes
    ----------
    values
        By number.
    groups
        All values, except those of constants and of parameters that are not donated.
    fixed
        The other groups: constants, and parameters that are not donated.
    group_of
        The group of each value that is in one of `groups`.
    root_of
        The computation whose result an instruction is.
    users
        The number of instructions that read each one.
    replaces
        By result: the values whose place it may take where they die, in the order of its operands,
        each with the operand by which the value is read.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.values: list[Value] = []
        self.outside: set[int] = set()
        self.donated: set[int] = set()
        self.replaces: dict[int, list[tuple[int, str]]] = {}
        # Names are unique in a module.
        self.users = Counter[str]()
        for computation in module.computations.values():
            self.users.update(computation.users)
        self.root_of = {x.root: name for name, x in module.computations.items()}
        self._at: dict[str, Tree] = {}
        self._joining: set[str] = set()
        self._same: dict[int, int] = {}
        self._head: list[int] = []
        # In this order: joining needs values, numbering needs joins, and groups need both.
        returned = self._read(module.entry, None)
        self._donate(returned)
        self._number()
        self._keep_alive()
        self._resolve_reads()
        self._group()

    def _read(self, name: str, given: Sequence[Tree] | None) -> Tree:
        """Go through a computation; return the values of its result."""
        computation = self.module.computations[name]
        for made in computation.instructions.values():
            self._at[made.name] = self._define(made, given)
        return self._at[computation.root]

    def _define(self, made: Instruction, given: Sequence[Tree] | None) -> Tree:
        read = [self._at[x] for x in made.operands]
        passed = self._pass_on(made, read, given)
        if passed is not None:
            return passed
        tree = self._fresh(made)
        if made.opcode in ("parameter", "constant"):
            self.outside.update(tree.values())
        elif made.opcode == "tuple":
            parts = {(i, *p): v for i, part in enumerate(read) for p, v in part.items()}
            return {(): tree[()], **parts}
        elif made.opcode == "while":
            self._repeat(made, read[0], tree)
        elif made.opcode == "conditional":
            self._choose(made, read, tree)
        else:
            self._compute(made, read, tree)
        return tree

    def _donate(self, returned: Tree) -> None:
        """Put each result that takes the place of a donated argument into one memory with it."""
        entry = self.module.computations[self.module.entry].instructions.values()
        given = {made.literal: self._at[made.name] for made in entry if made.opcode == "parameter"}
        for leaf, number, path in self.module.aliases:
            value = given[str(number)][path]
            # A donated argument is the module's own memory from the start.
            self.outside.discard(value)
            self.donated.add(value)
            self.values[value].begins = self.module.entry
            self._join(value, returned[leaf])

    def _pass_on(
        self, made: Instruction, read: Sequence[Tree], given: Sequence[Tree] | None
    ) -> Tree | None:
        """Return the values that an instruction passes on; None if it defines values."""
        if made.opcode == "parameter" and given is not None:
            return given[int(made.literal)]
        if made.opcode == "get-tuple-element":
            # The index is the first part of the path, which goes away.
            return {p[1:]: v for p, v in read[0].items() if p[:1] == (made.index,)}
        if made.opcode == "call":
            return self._read(made.called[0], read)
        return read[0] if made.opcode in SAME else None

    def _fresh(self, made: Instruction) -> Tree:
        """Define a value for each part of a shape; for a `tuple`, only for its table."""
        if made.opcode == "tuple":
            return {(): self._new(made, made.shape)}
        return {path: self._new(made, part) for path, part in parts_of(made.shape)}

    def _new(self, made: Instruction, shape: ShapeTree) -> int:
        self.values.append(Value(made.name, shape))
        self._head.append(len(self._head))
        return len(self.values) - 1

    def _compute(self, made: Instruction, read: Sequence[Tree], tree: Tree) -> None:
        for path, number in overwritten(made, self.module.computations).items():
            # Only whole operands can be overwritten: `()` is their own place.
            if path in tree and number < len(read) and () in read[number]:
                self._join(tree[path], read[number][()])
        if not self.values[tree[()]].is_table:
            self.values[tree[()]].operands = tuple(x[()] for x in read if () in x)
        # A copy is made to have other bytes, so it never replaces its operand.
        if made.opcode != "copy":
            self._note_replaced(made, tree)

    def _repeat(self, made: Instruction, state: Tree, result: Tree) -> None:
        """Define the values of a loop; parts that no round changes keep their value."""
        condition = next(name for name in made.called if name != made.body)
        begins = [self._begin(name) for name in (condition, made.body)]
        for name, tree in zip((condition, made.body), begins, strict=True):
            # The body's parameter is defined first: the body reads it.
            self._read(name, [tree])
        last = self._at[self.module.computations[made.body].root]
        self._joining.add(made.name)
        for path, value in state.items():
            members = [*(tree[path] for tree in begins), result[path]]
            # The body returns what it got: no new value in any round.
            if last[path] == begins[1][path]:
                self._same.update(dict.fromkeys(members, value))
            else:
                for member in (*members, last[path]):
                    self._join(value, member)

    def _begin(self, name: str) -> Tree:
        """Define the values of a computation's only parameter, live from its start."""
        tree = self._fresh(only_parameter(self.module.computations[name]))
        for value in tree.values():
            self.values[value].begins = name
        return tree

    def _choose(self, made: Instruction, read: Sequence[Tree], result: Tree) -> None:
        branches = [
            self._read(name, [tree]) for name, tree in zip(made.called, read[1:], strict=True)
        ]
        self._joining.add(made.name)
        for path, value in result.items():
            ends = [tree[path] for tree in branches]
            # All branches return the same value, so the choice defines none.
            if len(set(ends)) == 1:
                self._same[value] = ends[0]
            for end in ends:
                self._join(value, end)

    def _note_replaced(self, made: Instruction, tree: Tree) -> None:
        for leaf, path in enumerate(p for p, v in tree.items() if not self.values[v].is_table):
            for number, operand in enumerate(made.operands):
                source = self._at[operand].get(())
                if (
                    source is not None
                    and self.values[source].shape == self.values[tree[path]].shape
                    and may_overwrite(made, leaf, number, self.module.computations, self.users)
                ):
                    self.replaces.setdefault(tree[path], []).append((source, operand))

    def _join(self, one: int, other: int) -> None:
        self._head[self._root(other)] = self._root(one)

    def _root(self, value: int) -> int:
        value = self._resolve(value)
        while self._head[value] != value:
            value = self._head[value]
        return value

    def _resolve(self, value: int) -> int:
        while value in self._same:
            value = self._same[value]
        return value

    def _number(self) -> None:
        """Number each value for ties as XLA does: values that join others come last."""
        callers_first = walk(self.module, self.module.entry)[::-1]
        places, numbers = map(self._instructions, (callers_first, self.module.computations))
        # Callers first for places, and in the order of the text for numbers, as XLA does it.
        for value in self.values:
            value.place, value.number = places[value.definer], numbers[value.definer]
        self._number_joined(range(len(self.values)))

    def renumbered(self, order: Sequence[str], turn: Sequence[int]) -> ModuleValues:
        """Return the same values with other places among equals.

        `order`: all computations with memory of the module's, each after those that it calls.
        `turn`: all values: those that join others are numbered so.
        """
        made = copy(self)
        places, numbers = map(self._instructions, (order[::-1], order))
        made.values = [
            replace(value, place=places[value.definer], number=numbers[value.definer])
            for value in self.values
        ]
        made._number_joined(turn)
        made.groups, made.fixed = (
            [replace(x, place=min(made.values[v].place for v in x.values)) for x in groups]
            for groups in (self.groups, self.fixed)
        )
        return made

    def _number_joined(self, turn: Sequence[int]) -> None:
        for number, v in enumerate(turn):
            value = self.values[v]
            joins = bool(value.begins) or value.definer in self._joining
            value.number = (len(self._at), number) if joins else (value.number[0], v)

    def _instructions(self, computations: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Number the instructions of computations that are taken in turn."""
        made = (x for name in computations for x in post_order(self.module.computations[name]))
        return {name: (i, 0) for i, name in enumerate(x for x in made if x in self._at)}

    def _keep_alive(self) -> None:
        """Note where each value is handed out and read."""
        for computation in self.module.computations.values():
            for made in computation.instructions.values():
                # A computation that runs inside an op, such as a reduction's, has no values here.
                if made.name not in self._at:
                    continue
                for value in map(self._resolve, self._at[made.name].values()):
                    self.values[value].positions.append(made.name)
                    # A result lives to the end of its computation, not to a step.
                    if made.name == computation.root:
                        self.values[value].spans.append(computation.name)
                    else:
                        self.values[value].ends.append(made.name)
                for value, user in self._uses(made):
                    self.values[self._resolve(value)].ends.append(user)

    def _group(self) -> None:
        """Group the values that lie in one memory of the module's own."""
        groups: dict[int, list[int]] = {}
        for value in range(len(self.values)):
            if value not in self._same:
                groups.setdefault(self._root(value), []).append(value)
        # Memory of the caller: arguments and constants are not allocated.
        outside = [groups.pop(head, []) for head in {self._root(value) for value in self.outside}]
        root = self.module.computations[self.module.entry].root
        returned = {self._root(value) for value in self._at[root].values()}
        self.group_of = {v: g for g, group in enumerate(groups.values()) for v in group}
        self.groups = [
            self._describe(group, live_out=head in returned) for head, group in groups.items()
        ]
        self.fixed = [self._describe(group, live_out=False) for group in outside if group]

    def _describe(self, group: Sequence[int], *, live_out: bool) -> Group:
        values = [self.values[v] for v in group]
        read = (x for value in values for x in value.operands)
        return Group(
            values=tuple(group),
            size=max(value.size for value in values),
            place=min(value.place for value in values),
            live_out=live_out,
            is_table=any(value.is_table for value in values),
            is_donated=not self.donated.isdisjoint(group),
            operands=tuple(self.group_of[x] for x in read if x in self.group_of),
        )

    def _resolve_reads(self) -> None:
        """Replace values that loops and choices leave unchanged by the original ones."""
        for value in self.values:
            value.operands = tuple(map(self._resolve, value.operands))
        self.replaces = {
            self._resolve(value): [(self._resolve(x), operand) for x, operand in sources]
            for value, sources in self.replaces.items()
        }

    def _uses(self, made: Instruction) -> Iterator[tuple[int, str]]:
        """Yield the values that an instruction reads, and at which instruction the last does."""
        if made.opcode in ("tuple", "call"):
            return
        user = made.name
        if made.opcode == "while":
            # What goes into a loop is there until its body begins.
            user = only_parameter(self.module.computations[made.body]).name
        for operand in made.operands:
            tree = self._at[operand]
            if made.opcode == "get-tuple-element":
                # Taking a member reads only the table of pointers.
                yield tree[()], user
            else:
                yield from ((value, user) for value in tree.values())
