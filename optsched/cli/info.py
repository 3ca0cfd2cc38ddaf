"""Say what a graph is made of."""

from __future__ import annotations

import argparse

from optsched.cli import exits
from optsched.cli.inputs import read_graph
from optsched.cli.options import add_graph, add_inplace, add_input_bytes
from optsched.cli.output import print_result
from optsched.errors import OptschedError

HELP = "what a graph is made of"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_graph(parser)
    add_input_bytes(parser)
    add_inplace(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments ask for; return the exit code."""
    from optsched.reports.info import describe, info_text

    record = describe(read_graph(args, args.graph))
    record["input_bytes_by_name"] = _input_bytes(args.graph)
    print_result(args, record, info_text(record))
    return exits.OK


def _input_bytes(path: str) -> dict[str, int]:
    """Bytes of the freed inputs, as recorded and as the tensors have them, where a file says."""
    from optsched.formats import InputBytes, read_graph
    from optsched.reports.info import counted_input_bytes

    found = {}
    for name in InputBytes:
        try:
            found[name.value] = counted_input_bytes(read_graph(path, input_bytes=name))
        except OptschedError:
            # The poorer form of Inductor's file does not hold the tensors' true bytes.
            continue
    return found
