"""The command fits: one line that tells whether a graph fits into a capacity."""

from __future__ import annotations

import argparse

from optsched.cli import common
from optsched.cli.options import GRAPH, GRAPH_MODEL, LIMITS, Command, option
from optsched.cli.recompute import LOSS
from optsched.runtime.bytes import parse_bytes


def _fits(args: argparse.Namespace) -> int:
    from optsched.capacity import answer_fit

    capacity = parse_bytes(args.capacity)
    graph = common.read_graph(args, args.graph, ordered=False)
    found = answer_fit(graph, capacity, tuple(args.loss), common.clock(args))
    record = {
        "graph": graph.name,
        "capacity": capacity,
        "fits": found.fits,
        "way": found.way,
        "bytes": found.bytes,
        "extra": found.extra,
        "reason": found.reason,
        "memory_model": graph.memory_model,
    }
    common.print_result(args, record, found.reason)
    if found.fits is None:
        interrupted = found.result is not None and found.result.stop_reason == "interrupted"
        return common.INTERRUPTED if interrupted else common.NOTHING_FOUND
    return common.OK if found.fits else common.DOES_NOT_FIT


FITS = Command(
    "tell in one line whether a graph fits into a capacity: as it is, in another order, or with "
    "repeats (a training step)",
    (
        GRAPH,
        option("capacity", metavar="BYTES", help="bytes that are allowed, such as 8GiB"),
        LOSS,
        *LIMITS,
        *GRAPH_MODEL,
    ),
    _fits,
)
