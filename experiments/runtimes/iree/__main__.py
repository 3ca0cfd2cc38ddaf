"""Prints of IREE's slabs, and IREE's own layout of random ones against ours.

    python -m experiments.runtimes.iree prints instances/iree
    python -m experiments.runtimes.iree layouts --slabs 1000 --seed 0

Needs IREE's compiler: `pip install iree-base-compiler==3.13.0`, in an environment of its own; the
folder of its commands is given by `--bin`, or they are found on the path.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from optsched import pack
from optsched.formats.format import Source
from optsched.formats.iree import read_iree

CONFIG = (
    "#cfg = #stream.resource_config<{max_allocation_size = 1073741824, "
    "min_buffer_offset_alignment = 16, max_buffer_range = 1073741824, "
    "min_buffer_range_alignment = 32, index_bits = 32}>\n"
)
COMPILE = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=vmvx",
    "--compile-to=stream",
    "--mlir-print-ir-after=iree-stream-schedule-allocation",
)
LAYOUT = "--pass-pipeline=builtin.module(util.func(iree-stream-layout-slices))"


def matmul(result: str, left: str, right: str, shape: tuple[int, int, int]) -> str:
    """Return the lines of a product of `[rows, inner]` and `[inner, columns]`."""
    rows, inner, columns = shape
    a, b, c = (
        f"tensor<{n}x{m}xf32>" for n, m in ((rows, inner), (inner, columns), (rows, columns))
    )
    return (
        f"  %{result}_e = tensor.empty() : {c}\n"
        f"  %{result}_f = linalg.fill ins(%zero : f32) outs(%{result}_e : {c}) -> {c}\n"
        f"  %{result} = linalg.matmul ins(%{left}, %{right} : {a}, {b}) "
        f"outs(%{result}_f : {c}) -> {c}\n"
    )


def branches(widths: tuple[int, ...]) -> str:
    """Return a network: wide branches of one input, narrowed and multiplied into each other."""
    arguments = ["%x: tensor<64x64xf32>"]
    for i, width in enumerate(widths):
        arguments += [f"%w{i}: tensor<64x{width}xf32>", f"%v{i}: tensor<{width}x64xf32>"]
    lines = [matmul(f"a{i}", "x", f"w{i}", (64, 64, width)) for i, width in enumerate(widths)]
    lines += [matmul(f"b{i}", f"a{i}", f"v{i}", (64, n, 64)) for i, n in enumerate(widths)]
    last = "b0"
    for i in range(1, len(widths)):
        lines.append(matmul(f"c{i}", last, f"b{i}", (64, 64, 64)))
        last = f"c{i}"
    return (
        f"func.func @main({', '.join(arguments)}) -> tensor<64x64xf32> {{\n"
        f"  %zero = arith.constant 0.0 : f32\n{''.join(lines)}"
        f"  return %{last} : tensor<64x64xf32>\n}}\n"
    )


MODELS = {
    "branches": branches((256, 192, 320, 128)),
    "pyramid": branches((64, 128, 256, 512, 256, 128, 64)),
    "chain": branches((512,)),
}


def prints(folder: Path, commands: Path) -> None:
    """Compile each model, keep what the compiler prints, and tell what its slab takes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in MODELS.items():
        source = folder / f"{name}.mlir"
        source.write_text(text)
        command = [str(commands / "iree-compile"), str(source), *COMPILE, "-o", "/dev/null"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        kept = re.sub(r"^(.*IR Dump After [^(]*).*$", r"\1", told, count=1)
        (folder / f"{name}.stream.mlir").write_text(kept)
        source.unlink()
        table = read_iree(Source(kept.encode(), name))
        least = pack(table).slab
        print(f"{name}: {len(table.problem)} slices, IREE {sum(table.reserved.values())}, {least}")


def layouts(count: int, seed: int, commands: Path, scratch: Path) -> int:
    """Compare offsets and slabs of random slices, with the default alignment and another one."""
    bad = 0
    for config in ("", CONFIG):
        text, sizes = config, []
        for name, slices in enumerate(_random_slabs(np.random.default_rng(seed), count)):
            text += _slab(name, slices, "attributes {stream.resources = #cfg} " if config else "")
            sizes.append(len(slices))
        scratch.write_text(text)
        command = [str(commands / "iree-opt"), LAYOUT, str(scratch)]
        made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        table = read_iree(Source(text.encode()))
        assert table.offsets is not None
        ours = iter(table.offsets.tolist())
        slabs = list(table.reserved.values())
        for name, (k, values) in enumerate(zip(sizes, _returned(made, count), strict=True)):
            bad += values != [slabs[name], *(next(ours) for _ in range(k))]
    scratch.unlink()
    print(f"{2 * count} slabs, {bad} with other offsets or another size")
    return int(bad > 0)


def _random_slabs(rng: np.random.Generator, count: int) -> Iterator[list[tuple[int, int, int]]]:
    for _ in range(count):
        firsts = rng.integers(0, 10, int(rng.integers(2, 14)))
        yield [
            (int(x), int(x + rng.integers(0, 5)), int(rng.choice([16, 64, 100, 200, 500, 4096])))
            for x in firsts
        ]


def _slab(name: int, slices: list[tuple[int, int, int]], attributes: str) -> str:
    count = len(slices) + 1
    constants = "".join(
        f"  %c{n} = arith.constant {n} : index\n" for n in sorted({n for *_, n in slices})
    )
    listed = ",\n".join(f"    [{first}, {last}] = %c{n}" for first, last, n in slices)
    results = ", ".join(f"%t#{i}" for i in range(count))
    kinds = ", ".join(["index"] * count)
    return (
        f"util.func public @f{name}() -> ({kinds}) {attributes}{{\n{constants}"
        f"  %t:{count} = stream.resource.pack slices({{\n{listed}\n  }}) : index\n"
        f"  util.return {results} : {kinds}\n}}\n"
    )


def _returned(text: str, count: int) -> Iterator[list[int]]:
    """Yield what each function returns, as numbers."""
    for name in range(count):
        body = text[text.index(f"@f{name}(") :]
        body = body[: body.index("}\n")]
        known = dict(re.findall(r"(%\w+) = arith\.constant (\d+) : index", body))
        found = re.search(r"util\.return (.*?) :", body)
        assert found is not None
        yield [int(known[x]) for x in found[1].split(", ")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, default=Path(), help="folder of iree-compile")
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("prints")
    made.add_argument("folder", type=Path)
    laid = commands.add_parser("layouts")
    laid.add_argument("--slabs", type=int, default=1000)
    laid.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.command == "prints":
        prints(options.folder, options.bin)
        return 0
    return layouts(options.slabs, options.seed, options.bin, Path("slabs.mlir"))


if __name__ == "__main__":
    raise SystemExit(main())
