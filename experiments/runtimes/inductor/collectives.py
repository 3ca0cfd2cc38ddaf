"""Programs with collectives: two gloo processes, and captures of one rank of eight on two devices.

`python -m experiments.runtimes.inductor.collectives [PROGRAM...] > collectives.csv` compiles each
program by Inductor and by the plugin: in two processes, where results are compared bit by bit and
each graph is measured, and in one process with torch's fake group of eight ranks, where kernels and
collectives do nothing; once on the CPU, and once on the fake device of type CUDA (with a C++
compiler), where the wrapper's bytes are counted as it runs. It exits with 1 if a result differs, a
graph needs more than Inductor's, or fewer calls run between a collective's launch and its wait.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from experiments.tables import markdown
from optsched import plugins
from optsched.plugins.inductor import enabled
from tests.support.compiled_memory import NO_CACHE, no_kernels
from tests.support.cuda.ranks import NAMES
from tests.support.distributed_programs import BREAKS, REDUCED_OUTSIDE, STUDIED, run, windows
from tests.support.ranks import run_ranks


@dataclass(frozen=True)
class CollectiveRow:
    """A compiled graph of a program on one rank; bytes.

    Parameters
    ----------
    program, device, ranks, rank, graph
        The program, the type of the device, the number of ranks, the rank, and the number of the
        graph on it.
    inductor, ours
        Planned peak in Inductor's order and in ours; -1 if the graph was left to Inductor.
    measured
        Measured peak; -1 without a measurement.
    same
        1 if results and gradients of the program are equal bit by bit, else 0; for eight ranks,
        whose kernels do nothing, 1.
    collectives, hidden_inductor, hidden
        Of all graphs of the program: collectives, and calls between their launches and waits.
    less_hidden
        Collectives of the program with fewer such calls than by Inductor, or in another sequence.
    reason
        The reason for which Inductor's order was kept.
    """

    program: str
    device: str
    ranks: int
    rank: int
    graph: int
    inductor: int
    ours: int
    measured: int
    same: int
    collectives: int
    hidden_inductor: int
    hidden: int
    less_hidden: int
    reason: str


def _rows(
    program: str, device: str, ranks: int, rank: int, found: dict[str, Any]
) -> Iterator[CollectiveRow]:
    stock, ours = found["hidden"]
    pairs = list(zip(stock, ours, strict=False))
    less = abs(len(stock) - len(ours)) + sum(a[0] != b[0] or b[1] < a[1] for a, b in pairs)
    hidden = [sum(calls for _, calls in row) for row in (stock, ours)]
    for graph, (before, planned, measured, reason) in enumerate(found["figures"]):
        sizes = [-1 if x is None else x for x in (before, planned, measured)]
        counts = (len(ours), *hidden, less)
        yield CollectiveRow(
            program, device, ranks, rank, graph, *sizes, int(found["same"]), *counts, reason
        )


def two_processes(name: str) -> Iterator[CollectiveRow]:
    """Run a program in two processes; yield a row for each graph of each."""
    with tempfile.TemporaryDirectory() as folder:
        found = run_ranks("tests.support.two_processes", Path(folder), name)
    for rank, (row,) in enumerate(found):
        yield from _rows(name, "cpu", 2, rank, row)


def eight_ranks(name: str) -> Iterator[CollectiveRow]:
    """Compile and run a program as rank 0 of eight, if it can be; yield a row for each graph."""
    if name in REDUCED_OUTSIDE:
        return
    # DTensor keeps groups beyond their end, so all programs share one.
    if not distributed.is_initialized():
        distributed.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    mesh, codes = init_device_mesh("cpu", (8,)), []
    for ours in (nullcontext(), enabled(time_limit=2, min_gain=0, measure=True)):
        torch._dynamo.reset()
        plugins.forget()
        torch.manual_seed(0)
        program, x = STUDIED[name](mesh), torch.randn(128, 32)
        with no_kernels(), config.patch(NO_CACHE), ours:
            compiled = torch.compile(program, fullgraph=name not in BREAKS)
            _, code = run_and_get_code(lambda f=compiled, x=x: [run(name, f, x) for _ in "12"])
        codes.append([window for text in code for window in windows(text)])
    figures = [(r.before, r.planned, r.measured, r.reason) for r in plugins.records()]
    yield from _rows(name, "cpu", 8, 0, {"figures": figures, "hidden": codes, "same": True})


def eight_gpus(name: str) -> Iterator[CollectiveRow]:
    """Plan a program as rank 0 of eight on the fake device, if it can be; yield its rows."""
    if name not in NAMES:
        return
    command = [sys.executable, "-m", "tests.support.cuda.ranks", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    yield from _rows(name, "cuda", 8, 0, json.loads(done.stdout))


def collectives_table(rows: Sequence[CollectiveRow]) -> str:
    """Return a line for each program, device and number of ranks."""
    head = [
        "program",
        "device",
        "ranks",
        "graphs",
        "Inductor's order",
        "ours",
        "lower, %",
        "bits equal",
    ]
    head += ["measured as planned", "largest difference", "collectives", "calls beside, Inductor's"]
    head += ["ours", "less hidden"]
    groups: dict[tuple[str, str, int], list[CollectiveRow]] = {}
    for row in rows:
        groups.setdefault((row.program, row.device, row.ranks), []).append(row)
    return markdown(head, map(_line, groups.values()))


def _line(rows: Sequence[CollectiveRow]) -> list[str]:
    first = rows[0]
    own, ours = (max(getattr(row, name) for row in rows) for name in ("inductor", "ours"))
    seen = [row for row in rows if row.measured >= 0 <= row.ours]
    return [
        first.program,
        first.device,
        str(first.ranks),
        str(len({row.graph for row in rows})),
        f"{own:,}",
        f"{ours:,}",
        f"{100 * (own - ours) / max(1, own):.1f}",
        "yes" if all(row.same for row in rows) else "NO",
        f"{sum(row.measured == row.ours for row in seen)} of {len(rows)}",
        f"{max((abs(row.measured - row.ours) for row in seen), default=0):,}",
        str(first.collectives),
        str(first.hidden_inductor),
        str(first.hidden),
        str(sum(row.less_hidden for row in rows)),
    ]


def main() -> None:
    """Compile and measure programs."""
    parser = argparse.ArgumentParser(prog="experiments.runtimes.inductor.collectives")
    parser.add_argument("names", nargs="*", metavar="PROGRAM")
    chosen = parser.parse_args().names or list(STUDIED)
    if unknown := set(chosen) - set(STUDIED):
        parser.error(f"no program {min(unknown)!r}; there are {', '.join(STUDIED)}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    writer = csv.DictWriter(
        sys.stdout, [x.name for x in fields(CollectiveRow)], lineterminator="\n"
    )
    writer.writeheader()
    is_worse = False
    for name in chosen:
        for row in (*two_processes(name), *eight_ranks(name), *eight_gpus(name)):
            writer.writerow(asdict(row))
            sys.stdout.flush()
            is_worse |= not row.same or row.ours > row.inductor or row.less_hidden > 0
    sys.exit(is_worse)


if __name__ == "__main__":
    main()
