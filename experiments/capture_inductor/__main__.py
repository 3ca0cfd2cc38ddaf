"""Command line: `python -m experiments.capture_inductor NAME... [--phase ...] [--out DIR]`."""

from __future__ import annotations

import argparse
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from experiments.capture_inductor.models import MODELS
from optsched.plugins.inductor_capture import CapturedGraph, capture, write

HEADER = ("file", "ops", "buffers", "baseline", "lpmf", "bfs", "dfs", "chosen")

STANDARD = tuple((name, None, False) for name in MODELS) + (
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


def main() -> None:
    options = _parser().parse_args()
    if options.list:
        print("\n".join(MODELS))
        return
    # Inductor's CPU fusion looks at the number of threads.
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    runs = [(name, options.budget, options.fake_cuda) for name in options.names]
    print("| " + " | ".join(HEADER) + " |")
    print("|---" * len(HEADER) + "|")
    for name, budget, fake_cuda in STANDARD if options.all else runs:
        for phase in options.phase:
            # Checkpointing and the GPU variants are about training.
            if phase == "infer" and (budget is not None or (options.all and fake_cuda)):
                continue
            for graph in _capture(name, phase, budget, fake_cuda):
                write(options.out / graph.file_name, graph)
                print(_row(graph), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.capture_inductor")
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--all", action="store_true", help="capture the shipped set")
    parser.add_argument("--phase", nargs="+", choices=["train", "infer"], default=["train", "infer"])
    parser.add_argument("--budget", type=float, help="share of activations kept (checkpointing)")
    parser.add_argument("--fake-cuda", action="store_true", help="lower for an imagined GPU")
    parser.add_argument("--out", type=Path, default=Path("out"))
    return parser


def _capture(
    name: str, phase: str, budget: float | None, fake_cuda: bool
) -> list[CapturedGraph]:
    suffix = "" if budget is None else f"_ac{budget}"
    suffix += "_cuda" if fake_cuda else ""
    graphs = capture(
        MODELS[name],
        phase=phase,
        activation_memory_budget=budget,
        fake_cuda=fake_cuda,
        model=name + suffix,
    )
    for graph in graphs:
        graph.document["extra"].update(
            activation_memory_budget=budget, transformers=_version("transformers")
        )
    return graphs


def _row(graph: CapturedGraph) -> str:
    extra = graph.document["extra"]
    cells = [
        graph.file_name,
        len(graph.document["nodes"]),
        len(graph.document["buffers"]),
        *(extra["peaks"][method] for method in HEADER[3:7]),
        extra["chosen"],
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
