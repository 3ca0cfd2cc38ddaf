"""Hooks of mkdocs: pages made from the code, and links that leave this folder.

`reference/command-line.md` gets the options of every command from the parser, `reference/python.md`
the public names from the package; so neither can be out of date. A link to a file outside `docs`
works where the pages are read as Markdown in the repository. The site does not contain that file,
so there the link becomes its text and its path, or a link into the repository if `repo_url` is set.
"""

from __future__ import annotations

import argparse
import posixpath
import re
from collections.abc import Iterator
from typing import Any

LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Add the generated part of a page, and replace links that leave the folder."""
    made = GENERATED.get(page.file.src_uri)
    if made is not None:
        markdown += made()
    parts = FENCED.split(markdown)
    return "".join(
        part if part.startswith("```") else replace_links(part, page.file.src_uri, config.repo_url)
        for part in parts
    )


def replace_links(text: str, page: str, repository: str | None) -> str:
    """Replace the links of a page to files outside `docs`."""

    def replaced(found: re.Match[str]) -> str:
        picture, name, target, anchor = found.groups()
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path.startswith("docs/"):
            return found[0]
        if repository:
            return f"{picture}[{name}]({repository.rstrip('/')}/blob/main/{path}{anchor or ''})"
        return f"{name} (`{path}`)"

    return LINK.sub(replaced, text)


def command_line() -> str:
    """Return a section per command, from the parser itself."""
    from optsched.cli.commands import make_parser

    return "\n" + "\n".join(sections(make_parser(), 2))


def sections(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """Yield the sections of a parser's commands, and of their commands."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for name, command in action.choices.items():
            says = next((x.help or "" for x in action._choices_actions if x.dest == name), "")
            yield f"{'#' * level} {command.prog}\n\n{sentence(command.description or says)}\n"
            yield f"```text\n{command.format_usage().strip()}\n```\n"
            yield from option_tables(command)
            yield from sections(command, level + 1)


def option_tables(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield a table per group of options."""
    for group in parser._action_groups:
        rows = [row(parser, x) for x in group._group_actions if shown(x)]
        if rows:
            title = (group.title or "options").capitalize()
            yield f"| {title} | |\n| --- | --- |\n" + "".join(rows)


def shown(action: argparse.Action) -> bool:
    """Return True if the help shows an option."""
    hidden = action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction)
    return not hidden and "--help" not in action.option_strings


def row(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return an option and its help as a row of a table."""
    value = parser._get_formatter()._format_args(action, action.metavar or action.dest.upper())
    spelled = action.option_strings or [action.metavar or action.dest]
    if action.option_strings and action.nargs != 0:
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else value
        spelled = [f"{name} {choices}" for name in spelled]
    names = ", ".join(f"`{name}`" for name in map(str, spelled))
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return f"| {cell(names)} | {cell(text)} |\n"


def cell(text: str) -> str:
    """Return a text that stays in its cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def sentence(text: str) -> str:
    """Return a text that starts with a capital letter and ends with a full stop."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def python_api() -> str:
    """Return a directive of mkdocstrings per public name."""
    import optsched

    return "\n" + "\n".join(f"## `{name}`\n\n::: optsched.{name}\n" for name in public(optsched))


def public(package: Any) -> list[str]:
    """Return the public names: functions first, then classes."""
    return sorted(package.__all__, key=lambda name: (name[0].isupper(), name.lower()))


GENERATED = {"reference/command-line.md": command_line, "reference/python.md": python_api}
"""Pages with a generated part."""
