"""Rewrite a graph in the native format."""

from __future__ import annotations

import argparse

from optsched.cli import exits
from optsched.cli.inputs import protect
from optsched.cli.options import add_graph, add_input_bytes
from optsched.cli.output import print_result

HELP = "rewrite a graph in the native format"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_graph(parser)
    parser.add_argument("-o", "--output", required=True, help="file to write (.gz to compress)")
    add_input_bytes(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments ask for; return the exit code."""
    from optsched.formats import read_graph, write_graph

    protect([args.output], args.graph)
    graph = read_graph(args.graph, input_bytes=args.input_bytes)
    write_graph(graph, args.output)
    record = {"instance": graph.name, "ops": len(graph.ops), "buffers": len(graph.buffers)}
    text = f"{args.output}: {len(graph.ops)} ops, {len(graph.buffers)} buffers"
    print_result(args, record, text)
    return exits.OK
