"""Compile all kernels, so that no graph waits for it."""

from __future__ import annotations

import argparse
import sys

from optsched.cli import exits
from optsched.cli.output import print_json

HELP = "compile all kernels now, so that no graph waits for it"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    del parser


def run(args: argparse.Namespace) -> int:
    """Do what the arguments ask for; return the exit code."""
    from optsched.solver.warmup import warm_up

    warm_up(lambda text: print(f"compiling (once): {text}", file=sys.stderr, flush=True))
    if args.json:
        print_json(args, {"compiled": True})
    return exits.OK
