"""Pack buffers whose live ranges are given."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from optsched.cli import exits
from optsched.cli.inputs import capacity, limits, pools, protect
from optsched.cli.options import add_limits, add_pool
from optsched.cli.output import print_json, progress, say
from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.formats.minimalloc import PackingTable
    from optsched.model.reserved import Region
    from optsched.solver.spill.pack import Pool

HELP = "offsets for given live ranges (MiniMalloc CSV)"

_REGION = re.compile(r"([^:@]+):([^:@]+)(?:@([0-9]{1,18})-([0-9]{1,18}))?")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("packing", nargs="+", help="CSV files")
    parser.add_argument("-o", "--output", help="write the CSV with offsets here")
    parser.add_argument("--capacity", metavar="BYTES", help="stop at the first packing that fits")
    parser.add_argument(
        "--pins", action="store_true", help="offsets in the file are where buffers must lie"
    )
    add_pool(parser)
    parser.add_argument(
        "--reserve",
        action="append",
        default=[],
        metavar="LOW:HIGH[@START-END]",
        help="bytes that no buffer may use, at the steps before END from START on; repeatable",
    )
    add_limits(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments ask for; return the exit code."""
    slabs = pools(args)
    if slabs and (args.capacity or args.reserve):
        raise UsageError("--pool has its own capacities, and goes with no --capacity or --reserve")
    if args.output and len(args.packing) > 1:
        raise UsageError("--output takes one file: give one packing at a time")
    answers = [_pack_file(args, path, slabs) for path in args.packing]
    if args.json:
        records = [record for record, _, _ in answers]
        print_json(args, records[0] if len(records) == 1 else {"results": records})
    else:
        say("\n".join(text for _, text, _ in answers))
    return max(code for _, _, code in answers)


def _pack_file(
    args: argparse.Namespace, path: str, slabs: list[Pool]
) -> tuple[dict[str, Any], str, int]:
    """Return the record, the text and the exit code of one packing."""
    from optsched.formats import read_packing, write_packing
    from optsched.reports.record import pack_record
    from optsched.reports.table import packing_text
    from optsched.solver.pack import pack

    protect([args.output], path)
    packing = read_packing(path, pins=args.pins)
    if slabs or any(packing.pools or ()):
        return _pack_pools(args, packing, slabs)
    regions = [_region(text) for text in args.reserve]
    with progress(f"{packing.problem.name}  ") as show:
        result = pack(
            packing.problem,
            capacity=capacity(args),
            reserved=regions,
            limits=limits(args),
            on_event=show,
        )
    if args.output and result.offsets is not None:
        write_packing(packing, args.output, result.offsets)
    record = pack_record(packing.problem, result)
    if regions:
        record["reserved"] = [str(region) for region in regions]
    code = exits.exit_code(result.status, result.stop_reason)
    return record, packing_text(packing.problem, result), code


def _pack_pools(
    args: argparse.Namespace, packing: PackingTable, slabs: list[Pool]
) -> tuple[dict[str, Any], str, int]:
    from optsched.formats import write_packing
    from optsched.formats.minimalloc import with_pools
    from optsched.reports.pools import pools_record, pools_text
    from optsched.solver.spill.pack import Pool, pack_pools

    homes = packing.pools or ("",) * len(packing.problem)
    if args.capacity or args.reserve:
        raise UsageError("the buffers name pools: --capacity and --reserve would be unclear")
    if not slabs:
        slabs = [Pool(name) for name in dict.fromkeys(homes) if name]
    with progress() as show:
        result = pack_pools(packing.problem, homes, slabs, limits=limits(args), on_event=show)
    names, offsets = result.places(len(packing.problem))
    if args.output and result.slab is not None:
        write_packing(with_pools(packing, names), args.output, offsets)
    record = pools_record(packing.problem, result)
    code = exits.exit_code(result.status, result.stop_reason)
    return record, pools_text(packing.problem, result), code


def _region(text: str) -> Region:
    from optsched.model.reserved import Region
    from optsched.runtime.bytes import parse_bytes

    found = _REGION.fullmatch(text)
    if found is None:
        raise UsageError(f"--reserve wants LOW:HIGH or LOW:HIGH@START-END, got {text!r}")
    low, high, start, end = found.groups()
    steps = (None, None) if start is None else (int(start), int(end))
    return Region(parse_bytes(low), parse_bytes(high), *steps)
