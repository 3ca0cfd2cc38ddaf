"""HLO text parsed: computations, and their instructions one a line."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.hlo.shapes import ShapeTree, parse_shape
from optsched.model.dependencies import find_cycle, topological_order

_NAME: Final = r"%?([\w.\-]{1,300})"
_HEAD: Final = re.compile(r"HloModule\s+([\w.\-]{1,300})")
_COMPUTATION: Final = re.compile(rf"(ENTRY\s+)?{_NAME}\s*(?:\(.*->.*)?\{{\s*$")
_INSTRUCTION: Final = re.compile(rf"\s*(ROOT\s+)?{_NAME}\s*=\s*")
_OPCODE: Final = re.compile(r"\s*([a-z][\w\-]{0,60})\(")
_OPERAND: Final = re.compile(rf"{_NAME}\s*$")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMMENT: Final = re.compile(r"/\*[^*]*\*/")
_CALLED: Final = re.compile(
    r"\b(calls|body|condition|to_apply|true_computation|false_computation)=%?([\w.\-]{1,300})"
)
_CALLED_LISTS: Final = re.compile(r"\b(?:branch_computations|called_computations)=\{([^}]*)\}")
_CONTROL: Final = re.compile(r"\bcontrol-predecessors=\{([^}]*)\}")
_ALIASED: Final = re.compile(r"\{([\d,\s]*)\}:\s*\((\d{1,9}),\s*\{([\d,\s]*)\}")
_LITERAL: Final = ("parameter", "constant", "iota", "infeed", "rng-get-and-update-state")
"""Opcodes whose parentheses hold no operands, or none that are values."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction: one line of a computation."""

    name: str
    opcode: str
    shape: ShapeTree
    """`name`, `opcode` and `shape`: as written; the name has no percent sign."""
    operands: tuple[str, ...] = ()
    """Names of instructions of the same computation."""
    literal: str = ""
    """Text in parentheses if it is not a list of operands."""
    called: tuple[str, ...] = ()
    body: str = ""
    """`called` and `body`: names of computations that run inside; among these, the one that a while
    repeats."""
    control: tuple[str, ...] = ()
    """Names of instructions that must run before."""
    index: int = 0
    """Index of a get-tuple-element."""
    kind: str = ""
    """Kind of a fusion, such as `kLoop`."""
    aliases: tuple[tuple[tuple[int, ...], int], ...] = ()
    """Requested aliases: leaf of the result, and number of the operand that it overwrites."""


@dataclass(slots=True)
class Computation:
    """Instructions by name, in the order of the text, and the one that is the result.

    `users` has the number of instructions that read each one.
    """

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)
    root: str = ""
    users: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class HloModule:
    """A module: its computations, callees before callers, and what its header says."""

    name: str
    scheduled: bool
    computations: dict[str, Computation]
    entry: str
    aliases: tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...] = ()
    """Leaf of the result, number of the parameter and leaf of it, for each parameter that gives its
    bytes to the result."""

    @property
    def donated(self) -> frozenset[tuple[int, tuple[int, ...]]]:
        """Number of the parameter and leaf of it, for each that gives its bytes to the result."""
        return frozenset((number, leaf) for _, number, leaf in self.aliases)


def parse_module(text: str) -> HloModule:
    """Parse HLO text; errors are one line and name the wrong line of the text."""
    lines = text.lstrip().splitlines()
    head = _HEAD.match(lines[0]) if lines else None
    if head is None:
        raise FormatError("not HLO text: expected HloModule and a name at the start")
    computations, entry = _parse_computations(lines)
    if not entry:
        raise FormatError(f"module {show(head[1])} has no ENTRY computation: is the text cut off?")
    computations = _callees_first(computations)
    scheduled = "is_scheduled=true" in lines[0]
    aliases = _alias_entries(lines[0], "input_output_alias=")
    return HloModule(head[1], scheduled, computations, entry, tuple(aliases))


def _parse_computations(lines: list[str]) -> tuple[dict[str, Computation], str]:
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for number, line in enumerate(lines[1:], start=2):
        try:
            if current is None:
                found = _COMPUTATION.match(line)
                # Between computations stand blank lines and tables of the source, which do not
                # matter.
                if found is None:
                    continue
                if found[2] in computations:
                    raise FormatError(f"computation {show(found[2])} is there twice")
                current = Computation(found[2])
                entry = found[2] if found[1] else entry
            elif line.startswith("}"):
                _finish(current)
                computations[current.name] = current
                current = None
            elif line.strip():
                _add_line(current, line)
        except FormatError as error:
            raise FormatError(f"line {number}: {error}") from None
    if current is not None:
        raise FormatError(f"computation {show(current.name)} does not end: is the text cut off?")
    return computations, entry


def _finish(computation: Computation) -> None:
    if not computation.instructions:
        raise FormatError(f"computation {show(computation.name)} is empty")
    # Only a computation whose last instruction is the result may leave out the word.
    computation.root = computation.root or list(computation.instructions)[-1]


def _callees_first(computations: dict[str, Computation]) -> dict[str, Computation]:
    """Return the computations, each after those that it calls.

    XLA writes them in this order; a text in another order, or with inconsistent calls, may be
    written by hand.
    """
    names = list(computations)
    ids = {name: i for i, name in enumerate(names)}
    rows: list[dict[int, None]] = []
    for name, computation in computations.items():
        rows.append({})
        for made in computation.instructions.values():
            for called in made.called:
                if called not in ids:
                    text = f"{show(made.name)} calls {show(called)}, which the module does not have"
                    raise FormatError(f"computation {show(name)}: {text}")
                rows[-1][ids[called]] = None
    # XLA's own order, the usual case.
    if all(c < i for i, row in enumerate(rows) for c in row):
        return computations
    if cycle := find_cycle(rows):
        path = " -> ".join(show(names[i]) for i in reversed(cycle))
        raise FormatError(f"computations call each other in a circle: {path}")
    return {names[i]: computations[names[i]] for i in topological_order(rows)}


def _add_line(current: Computation, line: str) -> None:
    is_root, made = _parse_line(line)
    if made.name in current.instructions:
        raise FormatError(f"instruction {show(made.name)} is there twice")
    for name in (*made.operands, *made.control):
        if name not in current.instructions:
            # Definitions come before uses within a computation.
            raise FormatError(f"{show(made.name)} reads {show(name)}, which no line before makes")
    if is_root and current.root:
        raise FormatError(f"{show(made.name)} is a second ROOT")
    current.instructions[made.name] = made
    current.users.update(set(made.operands))
    current.root = made.name if is_root else current.root


def _parse_line(line: str) -> tuple[bool, Instruction]:
    found = _INSTRUCTION.match(line)
    if found is None:
        raise FormatError(f"no instruction: {show(line.strip())}")
    shape, at = parse_shape(line, found.end())
    opcode = _OPCODE.match(line, at)
    if opcode is None:
        raise FormatError(f"{show(found[2])} has no opcode: {show(line[at : at + 30])}")
    inside, rest = _split(line, opcode.end(), found[2])
    literal = opcode[1] in _LITERAL
    # Strings may hold anything, such as names and braces of metadata.
    rest = _STRING.sub('""', rest)
    attributes = _CALLED.findall(rest)
    called = [name for _, name in attributes]
    called += [x for names in _CALLED_LISTS.findall(rest) for x in _names(names)]
    control = [x for names in _CONTROL.findall(rest) for x in _names(names)]
    index = re.search(r"\bindex=(\d{1,9})", rest)
    aliases = _alias_entries(rest, "output_to_operand_aliasing=")
    kind = re.search(r"\bkind=(k\w{1,30})", rest)
    return bool(found[1]), Instruction(
        name=found[2],
        opcode=opcode[1],
        shape=shape,
        operands=() if literal else _names(inside),
        literal=inside.strip() if literal else "",
        called=tuple(dict.fromkeys(called)),
        body=next((name for key, name in attributes if key == "body"), ""),
        control=tuple(dict.fromkeys(control)),
        index=int(index[1]) if index else 0,
        kind=kind[1] if kind else "",
        aliases=tuple((leaf, operand) for leaf, operand, _ in aliases),
    )


def _split(line: str, start: int, name: str) -> tuple[str, str]:
    """Return the text inside the parentheses that are open at `start`, and the text after them."""
    depth = 1
    for at in range(start, len(line)):
        # Shapes have braces, and calls have parentheses.
        depth += (line[at] in "({") - (line[at] in ")}")
        if not depth:
            return line[start:at], line[at + 1 :]
    raise FormatError(f"{show(name)}: its parentheses do not close")


def _names(text: str) -> tuple[str, ...]:
    """Return the names in a list; a shape may stand before each."""
    found, depth, start = [], 0, 0
    # A comma at the end closes the last entry.
    text = _COMMENT.sub("", text) + ","
    for at, letter in enumerate(text):
        depth += (letter in "({[") - (letter in ")}]")
        if letter == "," and not depth:
            part = text[start:at].strip()
            name = _OPERAND.search(part)
            if part and name is None:
                raise FormatError(f"{show(part)} is not an operand")
            found += [name[1]] if name else []
            start = at + 1
    return tuple(found)


def _alias_entries(text: str, key: str) -> list[tuple[tuple[int, ...], int, tuple[int, ...]]]:
    start = text.find(key)
    if start < 0:
        return []
    inside, _ = _split(text, text.find("{", start) + 1, key)
    return [(_path(a), int(n), _path(b)) for a, n, b in _ALIASED.findall(inside)]


def _path(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.replace(",", " ").split() if len(part) < 10)
