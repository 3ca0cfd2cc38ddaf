"""Export of a plan as a C header: a table of places, in the order in which buffers are born.

The header is C99 and C++98. Names are short: the end of a buffer's path, with a number where two
would be equal; the full name stands beside each row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from textwrap import wrap

from optsched.errors import UsageError
from optsched.formats.layout import PlacedBuffer, PlanLayout

LONGEST = 31
"""Characters of a short name: C99 promises that as many count."""


def c_header(layout: PlanLayout, prefix: str = "") -> bytes:
    """Return a table of the buffers of each slab, and macros for sizes and alignments.

    A slab that the target cannot address declares an array of negative size, whose name says so.

    Raise `UsageError` if the prefix is not a name in C.
    """
    if prefix and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", prefix):
        raise UsageError(f"prefix {prefix!r} is not a name in C: letters, digits and _")
    first = prefix.upper() or _short(layout.graph or "plan")
    lines = [
        f"/* Places of the buffers of {_comment(layout.graph)}: bytes from the start of a slab. */",
        f"#ifndef {first}_PLAN_H",
        f"#define {first}_PLAN_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        *_array(layout.arrays, f"{first}_TENSOR_ARENA_BYTES"),
        # C99 has no static_assert, so an array of negative size does its work.
        f"#define {first}_REQUIRE(condition, what) extern char what[(condition) ? 1 : -1]",
        "",
        "/* First byte and size of a buffer, and the steps from and to which it is live. */",
        f"struct {first.lower()}_place {{ size_t offset, bytes; uint32_t first, last; }};",
    ]
    names = _Names(first)
    for pool, size in layout.slabs.items():
        held = [x for x in layout.buffers if x.pool == pool]
        lines += _slab(f"{first}_{_short(pool)}" if pool else first, first, size, held, names)
    return "\n".join([*lines, "", f"#endif /* {first}_PLAN_H */", ""]).encode("ascii")


def _slab(
    stem: str, first: str, size: int, held: Sequence[PlacedBuffer], names: _Names
) -> list[str]:
    """Return the macros and the table of one slab."""
    slab, end = f"{stem}_SLAB_BYTES", max((x.offset + (x.size or 0) for x in held), default=0)
    lines = [
        "",
        f"#define {slab} UINT64_C({size})",
        # A 32-bit target cannot address more than SIZE_MAX.
        f"{first}_REQUIRE({slab} <= SIZE_MAX, {slab}_is_larger_than_the_address_space);",
        f"{first}_REQUIRE({_number(end)} <= {slab}, {slab}_is_too_small);",
    ]
    # lcm: each offset is aligned to its own alignment only if the slab is to all.
    if aligned := [x.alignment for x in held if x.alignment is not None]:
        lines += _alignment(f"{stem}_SLAB_ALIGNMENT", math.lcm(*aligned))
    if not held:
        return lines
    rows = sorted(held, key=lambda x: (x.start or 0, x.offset))
    named = [(names.new(x.name), x) for x in rows]
    listed = ", ".join([*(name for name, _ in named), f"{stem}_PLACES_COUNT"])
    table = f"{first.lower()}_place {stem}_PLACES[{stem}_PLACES_COUNT]"
    return [
        *lines,
        "enum {",
        *wrap(listed, 96, initial_indent="    ", subsequent_indent="    ", break_long_words=False),
        "};",
        f"static const struct {table} = {{",
        *(f"    {_row(x)}, /* {name}: {_told(x)} */" for name, x in named),
        "};",
    ]


def _row(buffer: PlacedBuffer) -> str:
    last = max(buffer.start or 0, (buffer.end or 0) - 1)
    figures = buffer.offset, buffer.size or 0, buffer.start or 0, last
    return "{" + ", ".join(map(_number, figures)) + "}"


def _told(buffer: PlacedBuffer) -> str:
    view = f", a view of {_comment(buffer.view_of)}" if buffer.view_of else ""
    unknown = "" if buffer.size is not None else ", bytes and steps unknown without the graph"
    return f"{_comment(buffer.name)}{view}{unknown}"


def _number(value: int) -> str:
    """Return a number that has a type in C++98 as well."""
    return str(value) if value < 2**31 else f"UINT64_C({value})"


def _array(arrays: Mapping[int, int], name: str) -> list[str]:
    """Return the macro for the size of the array that holds the slab and the runtime's tail."""
    if not arrays:
        return []
    *small, (_, size) = sorted(arrays.items())
    sizes = "".join(f"sizeof(void *) <= {pointer} ? {n} : " for pointer, n in small)
    return [
        "/* Bytes of the array given to the interpreter: the slab, and what it keeps after it. */",
        f"#define {name} ({sizes}{size})",
    ]


def _alignment(name: str, alignment: int) -> list[str]:
    """Return the macro of a slab's alignment, or a comment if it does not fit in 64 bits."""
    if alignment < 2**64:
        return [f"#define {name} UINT64_C({alignment})"]
    return [f"/* {name} is {alignment}: more than 64 bits hold. */"]


def _comment(name: str) -> str:
    """Return a name that is safe in a C comment: on one line, ASCII, not ending the comment."""
    text = name[:200].encode("unicode_escape").decode()
    # The end of a comment, a comment in a comment, and trigraphs.
    for harmful, shown in (("*/", r"*\x2f"), ("/*", r"/\x2a"), ("??", r"?\x3f")):
        text = text.replace(harmful, shown)
    return f'"{text}"'


def _short(name: str) -> str:
    """Return a short identifier: of names that TFLite joins, the first; of a path, its end."""
    parts = [x for x in re.split(r"[/:]", name.partition(";")[0]) if x]
    text = "_".join(parts[-2:])
    stem = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()[-LONGEST:].strip("_") or "X"
    return f"N{stem}"[:LONGEST] if stem[0].isdigit() else stem


class _Names:
    """Generator of unique names of buffers."""

    def __init__(self, first: str) -> None:
        self.first = first
        self.used: set[str] = set()

    def new(self, name: str) -> str:
        stem = f"{self.first}_{_short(name)}"
        found, number = stem, 1
        # Names of the header's own macros end in these words.
        own = ("_BYTES", "_ALIGNMENT", "_COUNT", "_PLACES", "_PLAN_H", "_REQUIRE")
        while found in self.used or found.endswith(own):
            number += 1
            found = f"{stem}_{number}"
        self.used.add(found)
        return found
