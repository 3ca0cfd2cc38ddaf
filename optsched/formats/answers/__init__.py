"""Plan files of every kind, read and checked in one way.

A plan file is an answer. The question is its caller's: a graph and options, never the words of the
file. Each kind of file has a row in :data:`KINDS`, so that commands open, check, prove, show and
export all of them by the same calls. A new kind of plan is a row, and a class that says what it
plans, what its file claims, and which certificates are about it.

>>> from tempfile import TemporaryDirectory
>>> from optsched import GraphBuilder, solve, write_plan
>>> build = GraphBuilder("one op")
>>> build.op("op", writes={"x": 8})
>>> graph = build.build()
>>> with TemporaryDirectory() as folder:
...     write_plan(solve(graph), f"{folder}/plan.json")
...     open_answer(f"{folder}/plan.json", Asked(graph)).record["peak"]
8
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from optsched.errors import FormatError, UsageError
from optsched.formats.answers.answer import Answer, Asked, Proved
from optsched.formats.answers.module import ModuleAnswer
from optsched.formats.answers.plain import PlainAnswer
from optsched.formats.answers.repeats import RepeatsAnswer
from optsched.formats.answers.tiled import TiledAnswer
from optsched.formats.answers.unfused import UnfusedAnswer
from optsched.formats.format import Content, Format, Source
from optsched.formats.opening import open_source
from optsched.formats.source import errors_named, label_of
from optsched.formats.table import find_format

__all__ = ["KINDS", "Answer", "Asked", "Proved", "content_of", "open_answer", "open_plain"]

KINDS: Final[dict[Content, type[Answer]]] = {
    Content.PLAN: PlainAnswer,
    Content.REPEATS: RepeatsAnswer,
    Content.MODULE_PLAN: ModuleAnswer,
    Content.UNFUSED: UnfusedAnswer,
    Content.TILED: TiledAnswer,
}
"""Kind of answer by the content of its file."""

ABOUT: Final = {
    **dict.fromkeys(("--cost", "--costs", "--loss", "--peak"), "repeats of ops"),
    **dict.fromkeys(("--first", "--last", "--keep-order"), "the order of a graph"),
    **dict.fromkeys(("--baseline", "--max-moved"), "the order of a graph"),
    "--replay": "offsets",
}
"""Subject of an option of the question; all others are about the reading of graphs."""


def content_of(path: str | Path) -> Content:
    """Return the content of a file, detected from its data; special plans have their own."""
    source = open_source(path)
    with errors_named(label_of(path)):
        return _content(find_format(source), source)


def _content(row: Format, source: Source) -> Content:
    found = (Content.REPEATS, "recompute"), (Content.TILED, "tiling")
    special = (holds for holds, key in found if key in source.document)
    return next(special, row.holds) if row.holds is Content.PLAN else row.holds


def open_answer(path: str | Path, asked: Asked) -> Answer:
    """Read a plan file of any kind beside the graph that it plans, and check it.

    Raise `FormatError` if the file holds no plan, or is malformed. Raise `UsageError` if an option
    of the question is not about this kind of plan; it is named. Raise `PlanError` if the plan does
    not answer the question, or its file makes a claim that is refuted.
    """
    source, label = open_source(path), label_of(path)
    with errors_named(label):
        row = find_format(source)
        holds = _content(row, source)
        if (kind := KINDS.get(holds)) is None:
            raise FormatError(f"expected a plan, got {row.title or holds} ({row.name})")
    if unused := [name for name in asked.given if name not in kind.takes]:
        about = f"{unused[0]} is about {ABOUT.get(unused[0], 'the reading of graphs')}"
        raise UsageError(f"{label} is {holds}: no {unused[0]} for it; {about}")
    return kind(label, holds, row, source, asked)


def open_plain(path: str | Path, asked: Asked) -> PlainAnswer:
    """Read a plan in which each op of one graph runs once; `FormatError` is raised for others."""
    answer = open_answer(path, asked)
    if isinstance(answer, RepeatsAnswer) and not answer.parts[""][0].variant:
        # A step that fits without repeats has a plan like any other.
        answer = PlainAnswer(answer.path, Content.PLAN, answer.row, answer.source, asked)
    if not isinstance(answer, PlainAnswer):
        raise FormatError(f"{label_of(path)}: expected a plan, got {answer.holds}")
    return answer
