"""The command of all fuzz programs.

Without a name, the programs are listed. A program is a module of this package with a function
`main(count, seed)` that compares `count` random cases, prints what differs, and returns 1 if
anything does. Keyword-only arguments of `main` are further options, such as `--pairs 2`.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path

FOLDER = Path(__file__).parent


def programs() -> dict[str, str]:
    """Return the programs by name, each with the first line of its description."""
    found = {}
    for path in sorted(FOLDER.rglob("*.py")):
        tree = ast.parse(path.read_text())
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "main" in defined and path != Path(__file__) and not path.name.startswith("test_"):
            name = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
            found[name] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main(argv: Sequence[str]) -> int:
    """Run the program that the command line names; list all without a name."""
    known = programs()
    if not argv or argv[0].startswith("-"):
        print(listing(known))
        return 0
    name, *rest = argv
    if name not in known:
        print(f"tests.fuzz: no program {name!r}; one of {', '.join(known)}", file=sys.stderr)
        return 2
    run = import_module(f"tests.fuzz.{name}").main
    parser = argparse.ArgumentParser(prog=f"python -m tests.fuzz {name}", description=known[name])
    for option in signature(run).parameters.values():
        add_option(parser, option)
    return int(run(**vars(parser.parse_args(rest))))


def listing(known: dict[str, str]) -> str:
    """Return one line per program."""
    width = max(map(len, known))
    return "\n".join(f"{name:{width}}  {text}" for name, text in known.items())


def add_option(parser: argparse.ArgumentParser, option: Parameter) -> None:
    """Add the option of a parameter; its default tells the type."""
    flag, default = f"--{option.name.replace('_', '-')}", option.default
    if isinstance(default, bool):
        parser.add_argument(flag, action="store_true")
    elif isinstance(default, tuple):
        parser.add_argument(flag, nargs="+", default=default)
    else:
        parser.add_argument(flag, type=type(default), default=default, help=f"default: {default}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
