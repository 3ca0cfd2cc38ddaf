"""Hooks of mkdocs: pages made from the code, and links that leave this folder.

The command line has a page per command, from the parser, and the Python API a page per topic, from
the docstrings; so neither can be out of date. An example has a page with what it prints; one in
cells (`# %%`) runs when the site is built. The studies of `experiments` are part of the site, with
their pictures. A link to any other file outside `docs` works where the pages are read in the
repository; on the site it becomes its text and its path.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import posixpath
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
ROLE = re.compile(r":(?:func|class|mod|meth|attr|data|exc):<code>~?([^<]+)</code>")
STUDY_FILES = (".md", ".svg", ".png")
TOPICS = {
    "solve": ("Plan", "solve pack solve_module recompute tile fits capture_step answer"),
    "explain": ("Explain and compare", "explain compare_methods methods hunt report"),
    "check": ("Check and certify", "certify check_plan check_packing check_module"),
    "measure": ("Orders and live bytes", "timeline live_ranges peak_memory"),
    "files": (
        "Files",
        "read_graph write_graph read_plan write_plan read_module write_module read_packing "
        "apply_plan export_plan example from_fx from_networkx to_networkx register_format",
    ),
    "fleets": ("Fleets and stores", "tune PlanStore"),
    "graphs": ("Graphs", "GraphBuilder Graph Op Buffer InputPolicy OutputPolicy Module Call"),
    "plans": ("Plans, packings, streams", "Plan PackingProblem in_levels in_streams with_streams"),
    "questions": ("Questions", "Question OrderRules MemoryModel Pool Limits Objective Engine"),
    "results": (
        "Results",
        "Result PackingResult ModuleResult Fit Status StopReason Proof OptschedError",
    ),
    "heuristics": ("Heuristics of your own", "register_ordering register_packing"),
}
"""Pages of the Python API: title and public names."""


def on_config(config: Any) -> Any:
    """Add the generated pages to the navigation, and the version to the foot of each page."""
    from optsched import __version__

    config.copyright = f"optsched {__version__}"
    for entry in config.nav:
        if "Reference" in entry:
            commands = [{name: page} for name, page in command_pages()]
            topics = [{title: f"reference/python/{x}.md"} for x, (title, _) in TOPICS.items()]
            entry["Reference"][:2] = [
                {"Command line": ["reference/command-line.md", *commands]},
                {"Python API": ["reference/python.md", *topics]},
            ]
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages of commands, topics and examples, and the studies."""
    from mkdocs.structure.files import File

    made = {f"reference/python/{name}.md": topic_page(name) for name in TOPICS}
    made |= dict(zip((page for _, page in command_pages()), command_texts(), strict=True))
    made |= {f"examples/{x.stem}.md": example_page(x) for x in examples()}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for path in sorted((ROOT / "experiments").rglob("*")):
        if path.suffix in STUDY_FILES:
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Add the generated part of a page, and replace links that leave the site."""
    made = GENERATED.get(page.file.src_uri)
    if made is not None:
        markdown += made()
    parts = FENCED.split(markdown)
    return "".join(
        part
        if part.startswith("```")
        else replace_links(part, page.file.src_uri, config.repo_url, files.src_uris)
        for part in parts
    )


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Show the names that docstrings refer to without their roles."""
    return ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", html)


def replace_links(text: str, page: str, repository: str | None, known: Any) -> str:
    """Replace the links of a page: to where a file is on the site, or by its path if it is not.

    Parameters
    ----------
    text, page
        Markdown, and the page's path on the site.
    repository
        Address of the repository; None if it has none.
    known
        Paths of the files on the site.
    """
    # A study has the same path in the repository, all other pages are below `docs`.
    own = page if page.startswith("experiments/") else f"docs/{page}"

    def replaced(found: re.Match[str]) -> str:
        picture, name, target, anchor = found.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(own), target))
        site = path.removeprefix("docs/")
        # An example is shown on a page of its own.
        if site.startswith("examples/") and site.endswith(".py"):
            site = f"{site[:-3]}.md"
        if site in known:
            near = posixpath.relpath(site, posixpath.dirname(page))
            return f"{picture}[{name}]({near}{anchor or ''})"
        if path.startswith("docs/"):
            return found[0]
        if repository:
            return f"{picture}[{name}]({repository.rstrip('/')}/blob/main/{path}{anchor or ''})"
        return f"{name} (`{path}`)"

    return LINK.sub(replaced, text)


def examples() -> list[Path]:
    """Return the scripts of the examples."""
    return sorted((ROOT / "docs" / "examples").glob("*.py"))


def example_page(path: Path) -> str:
    """Return the page of an example: its code with what it prints, cell by cell if it has cells."""
    text = path.read_text("utf-8")
    download = f"\n[{path.name}]({path.name}) is this example as a file.\n"
    if "# %%" not in text:
        printed = path.with_suffix(".txt").read_text("utf-8")
        return f"# {path.name}\n\n{_code(text)}\nIt prints\n\n{_code(printed, 'text')}{download}"
    return "\n".join([*_cells(text), download])


def _code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def _cells(text: str) -> Iterator[str]:
    """Yield the cells of a notebook in the percent format, with what they print and show."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        head, _, body = cell.partition("\n")
        if "[markdown]" in head:
            yield re.sub(r"^# ?", "", body, flags=re.MULTILINE)
            continue
        yield _code(body.strip())
        printed, shown = run_cell(body, names)
        if printed:
            yield _code(printed, "text")
        if shown:
            # A blank line would end the HTML.
            yield re.sub(r"\n\s*\n", "\n", shown) + "\n"


def run_cell(code: str, names: dict[str, Any]) -> tuple[str, str]:
    """Run a cell in an empty folder; return what it prints, and its last value as HTML."""
    import ast

    body = ast.parse(code)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    said = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(said),
    ):
        exec(compile(body, "cell", "exec"), names)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    show = getattr(value, "_repr_html_", None)
    return said.getvalue(), "" if show is None else show()


def command_line() -> str:
    """Return a table of the commands, with links to their pages."""
    rows = [
        f"| [`optsched {name}`](command-line/{name}.md) | {cell(says)} |"
        for name, says, _ in commands()
    ]
    return "\n\n| command | does |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def commands() -> list[tuple[str, str, argparse.ArgumentParser]]:
    """Return name, help and parser of each command."""
    from optsched.cli.commands import make_parser

    return [
        (name, next((x.help or "" for x in action._choices_actions if x.dest == name), ""), command)
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, command in action.choices.items()
    ]


def command_pages() -> list[tuple[str, str]]:
    """Return the name and the page of each command."""
    return [(name, f"reference/command-line/{name}.md") for name, _, _ in commands()]


def command_texts() -> list[str]:
    """Return the page of each command, from its parser."""
    return ["\n".join(command_parts(*command, level=1)) for command in commands()]


def command_parts(
    name: str, says: str, command: argparse.ArgumentParser, level: int
) -> Iterator[str]:
    """Yield the parts of a command's page."""
    yield f"{'#' * level} {command.prog}\n\n{sentence(command.description or says)}\n"
    yield f"```text\n{command.format_usage().strip()}\n```\n"
    yield from option_tables(command)
    yield from sections(command, level + 1)


def sections(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """Yield the sections of a parser's commands, and of their commands."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for name, command in action.choices.items():
            says = next((x.help or "" for x in action._choices_actions if x.dest == name), "")
            yield from command_parts(name, says, command, level)


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
    """Return a table of the topics, with the names of each."""
    rows = [
        f"| [{title}](python/{topic}.md) | "
        + ", ".join(f"[`{x}`](python/{topic}.md#{x.lower()})" for x in names.split())
        + " |"
        for topic, (title, names) in TOPICS.items()
    ]
    return "\n\n| topic | names |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def topic_page(topic: str) -> str:
    """Return a directive of mkdocstrings per public name of a topic."""
    title, names = TOPICS[topic]
    parts = (f"## `{name}`\n\n::: optsched.{name}\n" for name in names.split())
    return "\n".join([f"# {title}\n", *parts])


GENERATED = {"reference/command-line.md": command_line, "reference/python.md": python_api}
"""Pages with a generated part."""
