"""The command pack: offsets for buffers whose live ranges are given."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.options import ALIGN, LIMITS, POOL, Command, flag, option, repeated
from optsched.errors import UsageError
from optsched.reports.progress import ProgressLine

if TYPE_CHECKING:
    from optsched.formats.minimalloc import PackingTable
    from optsched.model.pools import Pool
    from optsched.model.reserved import Region

Answer = tuple[dict[str, Any], str, int]
"""Record, text and exit code of one packing."""
_REGION = re.compile(r"([^:@]+):([^:@]+)(?:@([0-9]{1,18})-([0-9]{1,18}))?")


def _pack(args: argparse.Namespace) -> int:
    slabs = common.pools(args)
    if slabs and (args.capacity or args.reserve):
        raise UsageError("--pool excludes --capacity and --reserve: write --pool NAME=BYTES")
    # A file of offsets is of one packing.
    if args.output and len(args.packing) > 1:
        raise UsageError("--output is for a single packing: give one packing at a time")
    answers = [_pack_file(args, path, slabs) for path in args.packing]
    if args.json:
        records = [record for record, _, _ in answers]
        common.print_json(args, records[0] if len(records) == 1 else {"results": records})
    else:
        common.show("\n".join(text for _, text, _ in answers))
    # The worst code: one failure among many files must be seen.
    return max(code for _, _, code in answers)


def _pack_file(args: argparse.Namespace, path: str, slabs: list[Pool]) -> Answer:
    from optsched.compare.allocator_advice import advise
    from optsched.compare.saving import packing_saving
    from optsched.formats import read_packing
    from optsched.model.memory_model import parse_alignment
    from optsched.model.reductions import Aligned

    common.protect([args.output], path)
    packing = read_packing(path, pins=args.pins)
    if args.align is not None:
        # Sizes and offsets are rounded once for all methods.
        problem = Aligned(parse_alignment(args.align)).reduce(packing.problem)[0]
        packing = replace(packing, problem=problem)
    if slabs or any(packing.pools or ()):
        record, text, code = _pack_pools(args, packing, slabs)
        found = {pool: part["slab"] for pool, part in record["pools"].items()}
    else:
        record, text, code = _pack_slab(args, packing)
        # All pools that the file records were packed into this one slab.
        found = dict.fromkeys(packing.reserved, record["slab"])
    spills = bool(slabs)
    bound, among = None if spills else record.get("slab_bound"), _scope(args, packing)
    saved = packing_saving(packing, record["slab"], bound, among)
    record["saving"] = saved.to_dict()
    if among:
        record["among"] = among
    text = f"{saved}\n{text}"
    if packing.reserved:
        # The file is the record of an allocator's run, with the bytes that it had reserved.
        advice = {
            device: advise(packing.traces.get(device), count, found.get(device))
            for device, count in packing.reserved.items()
        }
        record["recorded"] = {device: one.to_dict() for device, one in advice.items()}
        text = "\n".join([text, *(line for d, one in advice.items() for line in one.lines(d))])
    return record, text, code


def _scope(args: argparse.Namespace, packing: PackingTable) -> str:
    """Return in words which packings the bounds are about; empty for all of the buffers."""
    from optsched.solver.packing_result import LEAVE_FREE

    rules = []
    if args.pins and (packing.problem.pin >= 0).any():
        rules.append("keep the offsets in the file")
    if args.reserve:
        rules.append(LEAVE_FREE)
    if args.align is not None:
        rules.append(f"round sizes and offsets up to multiples of {args.align}")
    return f"packings that {' and '.join(rules)}" if rules else ""


def _pack_slab(args: argparse.Namespace, packing: PackingTable) -> Answer:
    from optsched.formats import write_packing
    from optsched.reports.results import pack_record, pack_text
    from optsched.solver.pack import pack

    regions = [_region(text) for text in args.reserve]
    capacity = common.capacity(args)
    if capacity is not None:
        # The output states the capacity that was requested.
        packing = replace(packing, problem=replace(packing.problem, capacity=capacity))
    with ProgressLine(f"{packing.problem.name}  ", seconds=common.limits(args).seconds) as show:
        result = pack(
            packing.problem,
            reserved=regions,
            limits=common.clock(args),
            on_event=show,
        )
    if args.output and result.offsets is not None:
        write_packing(packing, args.output, result.offsets)
    record = pack_record(packing.problem, result)
    code = common.exit_code(result.status, result.stop_reason)
    return record, pack_text(packing.problem, result, record), code


def _pack_pools(args: argparse.Namespace, packing: PackingTable, slabs: list[Pool]) -> Answer:
    from optsched.formats import write_packing
    from optsched.formats.minimalloc import with_pools
    from optsched.reports.pools import pools_record, pools_text
    from optsched.solver.pack import pack

    if args.capacity or args.reserve:
        raise UsageError("--capacity and --reserve are for a single slab: give --pool NAME=BYTES")
    with ProgressLine(seconds=common.limits(args).seconds) as show:
        result = pack(packing, pools=slabs, limits=common.clock(args), on_event=show)
    names, offsets = result.places(len(packing.problem))
    if args.output and result.slab is not None:
        write_packing(with_pools(packing, names), args.output, offsets)
    record = pools_record(packing.problem, result)
    code = common.exit_code(result.status, result.stop_reason)
    return record, pools_text(packing.problem, result, record), code


def _region(text: str) -> Region:
    from optsched.model.reserved import Region
    from optsched.runtime.bytes import parse_bytes

    found = _REGION.fullmatch(text)
    if found is None:
        raise UsageError(f"--reserve wants LOW:HIGH or LOW:HIGH@START-END, got {text!r}")
    low, high, start, end = found.groups()
    steps = (None, None) if start is None else (int(start), int(end))
    return Region(parse_bytes(low), parse_bytes(high), *steps)


PACK = Command(
    "offsets for given live ranges (MiniMalloc CSV, PyTorch memory snapshot or profile)",
    (
        option("packing", nargs="+", help="CSV files, PyTorch memory snapshots or profiles"),
        option("-o", "--output", help="CSV file with offsets to write"),
        option("--capacity", metavar="BYTES", help="stop at the first packing within BYTES"),
        flag("--pins", "take the offsets in the file as fixed"),
        POOL,
        repeated(
            "--reserve",
            "LOW:HIGH[@START-END]",
            "keep these bytes free of buffers, in the steps START to END - 1 (default: always)",
        ),
        ALIGN,
        *LIMITS,
    ),
    _pack,
)
