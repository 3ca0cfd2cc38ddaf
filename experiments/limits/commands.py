"""Commands on files of many ops: what reading, planning and showing take in all.

`step` is a training step, a chain of forward ops and their gradients; `fused` has parts in nodes of
six, with in-place candidates.
"""

from __future__ import annotations

import io
import json
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optsched.cli import main
from optsched.formats import read_module, write_graph
from optsched.formats.fused import read_fused
from optsched.model.builder import GraphBuilder

NODE = 6
"""Parts of a fused node."""


@dataclass(frozen=True)
class File:
    """A file in a folder of its own, and a part of its bytes as a peak."""

    folder: tempfile.TemporaryDirectory[str]
    path: Path
    peak: int = 0
    is_fused: bool = False


def reading_seconds(file: File) -> float:
    """Return the seconds of the processor that reading a file takes, without any command."""
    seconds = []
    # Twice, since the first time imports the reader.
    for _ in range(2):
        started = time.process_time()
        found = read_fused(file.path) if file.is_fused else read_module(file.path)
        seconds.append(time.process_time() - started)
        # Freeing it takes time as well, which is not that of reading.
        del found
    return min(seconds)


def step(ops: int) -> File:
    """Write a chain of forward ops, each read again by its gradient."""
    rng, build, sizes = random.Random(3), GraphBuilder("step"), []
    build.input("x", 0, "excluded")
    build.input("tangents_1", 0, "excluded")
    last = "x"
    for v in range(ops // 2):
        sizes.append(rng.randint(1, 1000))
        build.op(f"f{v}", reads=[last], writes={f"a{v}": sizes[-1]}, cost=rng.randint(0, 50))
        last = f"a{v}"
    build.output(last)
    last = "tangents_1"
    for v in reversed(range(ops // 2)):
        build.op(f"g{v}", reads=[last, f"a{v}"], writes={f"d{v}": rng.randint(1, 1000)}, cost=3)
        last = f"d{v}"
    build.output(last)
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "step.json"
    write_graph(build.build(), path)
    return File(folder, path, 6 * sum(sizes) // 10)


def fused(parts: int) -> File:
    """Write parts that read up to three of the last twelve results, in nodes of several."""
    rng = random.Random(5)
    ops: list[dict[str, Any]] = []
    users: dict[str, set[int]] = {f"t{v}": {v // NODE} for v in range(parts)}
    for v in range(parts):
        near = range(max(0, v - 12), v)
        reads = sorted({f"t{rng.choice(near)}" for _ in range(rng.randint(1, 3))}) if v else []
        ops.append({"name": f"p{v}", "reads": reads, "writes": [f"t{v}"]})
        for name in reads:
            users[name].add(v // NODE)
    read = {name for op in ops for name in op["reads"]}
    buffers: list[dict[str, Any]] = [
        {"name": name, "size": rng.choice([64, 128, 256, 512, 1024])}
        | ({} if name in read else {"output": "live"})
        for name in users
    ]
    pairs = [
        {"op": op["name"], "output": op["writes"][0], "input": name}
        for op in ops
        for name in op["reads"]
        if rng.random() < 0.3
    ]
    graph = {"format": "optsched-graph/1", "name": "fused", "ops": ops}
    graph |= {"buffers": buffers, "inplace": pairs}
    nodes = [[f"p{v}" for v in range(k, min(parts, k + NODE))] for k in range(0, parts - 1, NODE)]
    local = [name for name in users if len(users[name]) == 1 and name in read]
    fusion = {"graph": graph, "nodes": nodes, "local": local, "blockers": [], "absorbed": []}
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "fused.json"
    path.write_text(json.dumps({"extra": {"fusion": fusion}}))
    return File(folder, path, is_fused=True)


def said(*command: object) -> str:
    """Run a command; return the first line that it prints."""
    with redirect_stdout(io.StringIO()) as text:
        main(list(map(str, command)))
    return text.getvalue().splitlines()[0]


def unfused_check(file: File) -> Callable[[float], str]:
    """Check a split, which was made before."""
    made = file.path.with_name("split.json")
    said("solve", file.path, "--unfuse", "--time-limit", 1, "-o", made)
    return lambda limit: said("check", file.path, made)


def planned(file: File) -> Path:
    """Return the path of a plan, which is made once."""
    made = file.path.with_name("plan.json")
    said("solve", file.path, "--time-limit", 1, "-o", made)
    return made


def with_plan(*command: str) -> Callable[[File], Callable[[float], str]]:
    """Run a command that takes a file and a plan for it, which was made before."""

    def case(file: File) -> Callable[[float], str]:
        made = planned(file)
        return lambda limit: said(command[0], file.path, made, *command[1:])

    return case


def limited(*command: str) -> Callable[[File], Callable[[float], str]]:
    """Run a command on a file under a limit; `PEAK`, `PLAN` and `PAGE` are those of the file.

    `NEAR` is a peak that a few repeats suffice for.
    """

    def case(file: File) -> Callable[[float], str]:
        beside = {"PLAN": file.path.with_suffix(".plan"), "PAGE": file.path.with_suffix(".html")}
        words = {"PEAK": file.peak, "NEAR": 3 * file.peak // 2, **beside}
        rest = [words.get(word, word) for word in command[1:]]
        return lambda limit: said(command[0], file.path, *rest, "--time-limit", limit)

    return case


def hunted(file: File) -> Callable[[float], str]:
    """Shrink a file."""
    made = file.path.with_name("shrunk.json")
    command = ("hunt", "--method", "lpmf", "--from", file.path, "-o", made)
    return lambda limit: said(*command, "--time-limit", limit)


def packed(file: File) -> Callable[[float], str]:
    """Pack the live ranges of a plan, which are written before."""
    table = file.path.with_name("ranges.csv")
    said("export", planned(file), file.path, "--to", "minimalloc", "-o", table)
    return lambda limit: said("pack", table, "--time-limit", limit)


FILES: dict[str, Callable[[int], File]] = {"step": step, "fused": fused}
"""Makers of files for a number of ops."""
COMMANDS: dict[str, tuple[str, Callable[[File], Callable[[float], str]]]] = {
    "recompute": ("step", limited("recompute", "--peak", "PEAK")),
    "recompute a little": ("step", limited("recompute", "--peak", "NEAR")),
    "recompute front": ("step", limited("recompute", "--points", "5")),
    "unfuse": ("fused", limited("solve", "--unfuse")),
    "check unfused": ("fused", unfused_check),
    "compare unfused": ("fused", limited("compare", "--unfuse")),
    "info": ("step", lambda f: lambda s: said("info", f.path)),
    "solve file": ("step", limited("solve")),
    "solve and write": ("step", limited("solve", "-o", "PLAN")),
    "solve in pools": ("step", limited("solve", "--pool", "fast=1MiB", "--pool", "slow")),
    "report file": ("step", limited("report", "-o", "PAGE")),
    "check plan": ("step", with_plan("check")),
    "compare methods": ("step", limited("compare", "--methods", "program,lpmf")),
    "explain file": ("step", limited("explain")),
    "explain repeats": ("step", limited("explain", "--peak", "PEAK")),
    "hunt from a file": ("step", hunted),
    "pack ranges": ("step", packed),
}
"""Commands by name: the file that each is for, and how it runs."""
