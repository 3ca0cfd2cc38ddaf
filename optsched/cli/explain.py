"""Say why no order has a smaller peak."""

from __future__ import annotations

import argparse

from optsched.cli import exits
from optsched.cli.inputs import limits, read_graph
from optsched.cli.options import add_graph, add_inplace, add_input_bytes, add_limits
from optsched.cli.output import print_result

HELP = "why no order has a smaller peak"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_graph(parser)
    add_limits(parser)
    add_input_bytes(parser)
    add_inplace(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments ask for; return the exit code."""
    from optsched.explanation import explain

    graph = read_graph(args, args.graph)
    found = explain(graph, limits=limits(args))
    print_result(args, found.to_dict(), str(found))
    return exits.INTERRUPTED if found.interrupted else exits.OK
