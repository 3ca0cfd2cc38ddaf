"""Command line: `python -m experiments.capture_inductor NAME... [--phase ...] [--out DIR]`."""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.capture_inductor.capture import capture_model
from experiments.capture_inductor.families import FAMILIES
from experiments.capture_inductor.models import DEEP, MODELS, SHIPPED
from experiments.reach.ablation import needs_search
from optsched.formats.inductor import read_inductor
from optsched.plugins.inductor.capture import Phase, write

HEADER = ("file", "ops", "buffers", "baseline", "lpmf", "bfs", "dfs", "chosen")

STANDARD: tuple[tuple[str, float | None, bool], ...] = (
    *((name, None, False) for name in SHIPPED),
    ("albert_mlm_bs4", 0.5, False),
    ("albert_qa_bs4", 0.5, False),
    ("mobilebert_qa_bs128", 0.5, False),
    ("gpt2_bs4", 0.5, False),
    ("albert_mlm_bs4", None, True),
    ("albert_mlm_bs4", 0.5, True),
    ("albert_qa_bs4", 0.5, True),
    ("resnet50_bs32", None, True),
)
"""The shipped set: model, activation memory budget, whether for the imagined GPU."""


SMALL: tuple[tuple[str, float | None, bool], ...] = (
    *((name, budget, True) for budget in (0.3, 0.5) for name in FAMILIES),
    *((name, None, True) for name in DEEP),
)
"""Models from which `instances/searched` was chosen, likewise."""


def main() -> None:
    parser = _parser()
    options = parser.parse_args()
    for name in options.names:
        if name not in MODELS:
            parser.error(f"no model {name!r}; --list prints their names")
    if options.list:
        print("\n".join(MODELS))
    elif options.table:
        _tabulate(options.table)
    else:
        _capture_all(options)


def _tabulate(folder: Path) -> None:
    _print_header()
    for path in sorted(folder.glob("*.json.gz")):
        print(_row(path.name, json.loads(gzip.decompress(path.read_bytes()))))


def _capture_all(options: argparse.Namespace) -> None:
    warnings.filterwarnings("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    _print_header()
    written: set[str] = set()
    for name, budget, fake_cuda, phase in _runs(options):
        for graph in capture_model(name, phase, budget, fake_cuda):
            content = json.dumps([graph.document["nodes"], graph.document["buffers"]])
            if options.families and (
                content in written or not needs_search(read_inductor(graph.document))
            ):
                continue
            written.add(content)
            write(options.out / graph.file_name, graph)
            print(_row(graph.file_name, graph.document), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.capture_inductor")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--all", action="store_true", help="capture the shipped set")
    parser.add_argument(
        "--families",
        action="store_true",
        help="capture small models of many families, and write the graphs that need a search (of "
        "equal graphs, the first)",
    )
    parser.add_argument(
        "--phase", nargs="+", choices=["train", "infer"], default=["train", "infer"]
    )
    parser.add_argument("--budget", type=float, help="share of activations kept (checkpointing)")
    parser.add_argument("--fake-cuda", action="store_true", help="lower for an imagined GPU")
    parser.add_argument("--table", type=Path, metavar="DIR", help="print the table of a folder")
    parser.add_argument("--out", type=Path, default=Path("out"))
    return parser


def _runs(options: argparse.Namespace) -> Iterator[tuple[str, float | None, bool, Phase]]:
    """Yield model, budget, whether for the imagined GPU, and phase of each capture."""
    if not options.all and not options.families:
        for name, phase in itertools.product(options.names, options.phase):
            yield name, options.budget, options.fake_cuda, phase
        return
    for name, budget, fake_cuda in SMALL if options.families else STANDARD:
        yield name, budget, fake_cuda, "train"
        # The variants are about training.
        if budget is None and not fake_cuda:
            yield name, budget, fake_cuda, "infer"


def _print_header() -> None:
    print("| " + " | ".join(HEADER) + " |")
    print("|---" * len(HEADER) + "|")


def _row(file_name: str, document: Mapping[str, Any]) -> str:
    extra = document["extra"]
    cells = [
        file_name,
        len(document["nodes"]),
        len(document["buffers"]),
        *(extra["peaks"][method] for method in HEADER[3:7]),
        extra["chosen"],
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
