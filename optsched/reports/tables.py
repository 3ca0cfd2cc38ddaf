"""Tables that are built once and shown as HTML, Markdown or in a terminal.

:func:`print_table` makes tables of Rich from the same rows, and drops columns, the least important
first, until the table fits.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

from optsched.runtime.text import LONGEST, counted, plain, readable, shield

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

_NAME = 14
"""Characters at which names in the first column are wrapped before columns are moved."""
_SHORT = 30
"""Maximum number of characters in a column of texts on a terminal."""
AT_ONCE = 12
"""Number of rows of a long HTML table that are visible before it is unfolded."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its text, and optional HTML."""

    text: str
    """Text for all media; it is made safe when the table is drawn."""
    html: str = ""
    """HTML to show instead of the text, already escaped."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    head: str
    """Heading of the column."""
    kind: str = "n"
    """`n` for numbers, `s` for text on one line, `t` for other text."""
    rank: int = 0
    """Drop order on a narrow terminal: highest rank first; columns of rank 0 always stay."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: columns, and rows with one cell each; a plain string is a cell without HTML."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell | str]]
    caption: str = ""
    best: int | None = None
    """Index of the highlighted row; None for no highlight."""


def make_table(
    heads: Sequence[str], kinds: str, rows: Iterable[Sequence[Cell | str]], caption: str = ""
) -> Table:
    """Return a table whose columns all have rank 0."""
    columns = (Column(head, kind) for head, kind in zip(heads, kinds, strict=True))
    return Table(tuple(columns), list(rows), caption)


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as CSV text: bytes as integers, ratios as plain numbers (0.01 is one percent)."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows([_field(row.get(name)) for name in columns] for row in rows)
    return text.getvalue()


def _field(value: object) -> object:
    """Return a CSV field, escaped so that spreadsheets do not run a name as a formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9g}"
    return shield(value, "") if isinstance(value, str) else value


def as_html(table: Table, name: str, *, more: str = "") -> str:
    """Return a table as HTML; `more` is added to the summary of the folded rows.

    `name` is what readers of screens call the table, which scrolls where it is wide.
    Only a long table with a caption is folded.
    """
    # Without a caption nothing says what is folded.
    if not table.caption or len(table.rows) <= AT_ONCE:
        return _html(table, table.rows, name)
    rest = table.rows[AT_ONCE:]
    summary = escape(f"{counted(len(rest), 'smaller one')}{more}")
    inside = _html(replace(table, caption=""), rest, f"{name}, the others")
    return (
        f"{_html(table, table.rows[:AT_ONCE], name)}"
        f"<details><summary>{summary}</summary>{inside}</details>"
    )


def _html(table: Table, rows: Sequence[Sequence[Cell | str]], name: str) -> str:
    heads = "".join(f"<th scope=col class={c.kind}>{escape(c.head)}</th>" for c in table.columns)
    body = ""
    for number, row in enumerate(rows):
        cells = zip(table.columns, row, strict=True)
        inside = "".join(f"<td class={c.kind}>{_cell_html(cell)}</td>" for c, cell in cells)
        body += f"<tr{' class=best' if number == table.best else ''}>{inside}</tr>"
    named = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    return (
        f'{scrolled(name)}<table aria-label="{escape(name)}">{named}<thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def scrolled(name: str) -> str:
    """Return the start of a box in which a wide table scrolls, by keys as well."""
    return f'<div class=scroll role=region tabindex=0 aria-label="{escape(name)}">'


def _cell_html(cell: Cell | str) -> str:
    if isinstance(cell, Cell) and cell.html:
        return cell.html
    return safe(_text(cell))


def safe(words: str, longest: int = LONGEST) -> str:
    """Return untrusted text as HTML, made safe to show."""
    return escape(readable(words, longest))


def as_markdown(table: Table) -> str:
    """Return a table as Markdown."""
    heads = [column.head for column in table.columns]
    aligned = ["---:" if column.kind == "n" else "---" for column in table.columns]
    lines = [heads, aligned, *([_text(cell) for cell in row] for row in table.rows)]
    return "\n".join("| " + " | ".join(map(markdown_safe, line)) + " |" for line in lines)


def markdown_safe(words: str) -> str:
    """Return text that cannot end a Markdown cell or line, or start a tag."""
    # `<` before a space or a digit is a comparison, and stays readable.
    return re.sub("<(?=[A-Za-z/!])", "&lt;", readable(words, 1000).replace("|", "\\|"))


def _text(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else cell.text


def print_line(console: Console, line: str) -> None:
    """Print a line without markup or wrapping, because names may contain brackets."""
    console.print(plain(line), soft_wrap=True, markup=False)


def print_table(console: Console, table: Table, hint: str) -> None:
    """Print the columns of a table that fit; `hint` tells where the others are.

    Columns that must stay are printed as further tables if one is too narrow for all of them.
    """
    hidden = _dropped(table, console)
    shown = [i for i in range(len(table.columns)) if i not in hidden]
    for number, part in enumerate(_parts(table, shown, console)):
        if number:
            console.print()
        console.print(_rich(table, part))
    if hidden:
        heads = ", ".join(table.columns[i].head.replace("\n", "") for i in sorted(hidden))
        print_line(console, f"(hidden for lack of room: {heads}; {hint})")


def _dropped(table: Table, console: Console) -> list[int]:
    """Return the columns to leave out, so that the others fit if possible."""
    ranked = sorted(
        (i for i, column in enumerate(table.columns) if column.rank),
        key=lambda i: (-table.columns[i].rank, -i),
    )
    # As few columns as needed, the least important first.
    for count in range(len(ranked)):
        shown = [i for i in range(len(table.columns)) if i not in ranked[:count]]
        if _width(table, shown, console) <= console.width:
            return ranked[:count]
    return ranked


def _parts(table: Table, shown: Sequence[int], console: Console) -> list[list[int]]:
    """Return columns for one or more tables; the first column, a name, is part of each."""
    first, *rest = shown
    figures = replace(table, rows=[row for row in table.rows if len(row) > 1])
    # The name takes little room in further tables, where it only identifies the row.
    room = console.width - min(_NAME, _width(figures, [first], console))
    parts: list[list[int]] = [[]]
    for i in rest:
        if parts[-1] and _width(figures, [*parts[-1], i], console) > room:
            parts.append([])
        parts[-1].append(i)
    return [[first, *part] for part in parts]


def _width(table: Table, shown: Sequence[int], console: Console) -> int:
    # Measured without a limit, to learn what the table would need.
    anyhow = console.options.update(max_width=1000)
    return console.measure(_rich(table, shown), options=anyhow).maximum


def _rich(table: Table, shown: Sequence[int]) -> RichTable:
    """Return columns of a table; a row with a single cell is a title of the rows below it."""
    from rich import box
    from rich.markup import escape as unstyled
    from rich.table import Table as RichTable

    made = RichTable(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, highlight=True
    )
    for i in shown:
        column = table.columns[i]
        made.add_column(
            unstyled(column.head),
            justify="right" if column.kind == "n" else "left",
            # If even the fixed columns do not fit, shorten names, not numbers.
            no_wrap=i != shown[0],
            overflow="ellipsis",
            max_width=_SHORT if column.kind == "s" else None,
        )
    for row in table.rows:
        if len(row) == 1:
            made.add_row(f"[dim]{unstyled(_text(row[0]))}[/dim]")
        else:
            made.add_row(*(unstyled(_shown(_text(row[i]), table.columns[i].kind)) for i in shown))
    return made


def _shown(text: str, kind: str) -> str:
    """Return the text of a cell; where columns of texts are short, the middle is left out."""
    return readable(text, _SHORT if kind == "s" else LONGEST)
