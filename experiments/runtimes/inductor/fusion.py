"""Training steps with an activation memory budget: the order alone, cuts, and cuts with recompute.

    python -m experiments.runtimes.inductor.fusion NAME.. [--pairs N] [--seconds S] [--recompute]

Each step is compiled with real kernels by Inductor alone, with the order of the plugin (`order`),
and with cuts of fused nodes (`order + cuts`). A line has the bytes that the step was measured to
add at most, the simulated and the measured peak of each graph, and the largest difference of a
gradient from eager's. Step times are the processor's, medians over alternating
pairs against Inductor's step. With `--recompute`, the step is compiled for the peak that order and
cuts need, once with and once without cuts: what must be computed again says what cuts are worth.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from statistics import median
from typing import Any

import torch
from torch._functorch import config as functorch_config

from experiments.capture_inductor.attention import CAUSAL, language
from experiments.capture_inductor.branching import densenet
from experiments.capture_inductor.convolutional import on_images
from experiments.fusion.networks import vit
from optsched.plugins.inductor import options
from optsched.plugins.inductor.capture import Build
from optsched.plugins.records import forget, records
from tests.support.compiled_memory import measure_step

BUDGET = 0.5
SPLITS: dict[str, str | bool] = {
    "order": False,
    "order + cuts": "peak",
    "order + cheap cuts": "auto",
}

STEPS: dict[str, Build] = {
    "albert": language(
        "Albert",
        "AlbertForMaskedLM",
        4,
        256,
        CAUSAL,
        num_hidden_layers=4,
        hidden_size=256,
        embedding_size=64,
        intermediate_size=1024,
        num_attention_heads=8,
        vocab_size=1000,
    ),
    "gpt2": language(
        "GPT2",
        "GPT2LMHeadModel",
        2,
        256,
        CAUSAL,
        n_layer=3,
        n_embd=128,
        n_head=4,
        vocab_size=1000,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    ),
    "t5": language(
        "T5",
        "T5ForConditionalGeneration",
        2,
        128,
        CAUSAL,
        decoder_start_token_id=0,
        num_layers=2,
        d_model=128,
        d_kv=32,
        d_ff=512,
        num_heads=4,
        vocab_size=1000,
        dropout_rate=0.0,
    ),
    "vit": vit(8, 4, 128, 4, side=128),
    "densenet": on_images(densenet, 4, side=64),
}
"""Small networks, in which no random numbers are drawn: eager's would be others."""


class Step:
    """A training step, eager (no settings) or compiled."""

    def __init__(self, name: str, settings: dict[str, Any] | None, budget: float = BUDGET) -> None:
        # No reset of dynamo: steps compiled before would be compiled again, without their settings.
        torch.manual_seed(0)
        self.module, self.inputs, self.named = STEPS[name]()
        self.module.train()
        self.call: Any = self.module
        forget()
        start = time.perf_counter()
        if settings is not None:
            fixed = {
                "fx_graph_cache": False,
                "profiler_mark_wrapper_call": True,
                "compile_threads": 1,
                **settings,
            }
            uncached = {"enable_autograd_cache": False, "activation_memory_budget": budget}
            # As options, settings tell steps of one network apart: dynamo would otherwise run the
            # code that it has compiled before.
            self.call = torch.compile(self.module, dynamic=False, options=fixed)
            with functorch_config.patch(uncached):
                self.run()
        self.seconds = time.perf_counter() - start
        # The first two calls of a graph are measured.
        self.run()
        self.graphs = [row for row in records() if not row.name.endswith("joint")]
        self.joint = next((row for row in records() if row.name.endswith("joint")), None)

    def run(self) -> None:
        """Run the step, with gradients of its own."""
        for parameter in self.module.parameters():
            parameter.grad = None
        self.call(*self.inputs, **self.named).backward()

    def gradients(self) -> list[torch.Tensor]:
        """Return copies of the gradients."""
        self.run()
        return [p.grad.clone() for p in self.module.parameters() if p.grad is not None]

    def run_time(self) -> float:
        """Return the processor's seconds of a step."""
        start = time.process_time()
        self.run()
        return time.process_time() - start


def study(name: str, pairs: int, seconds: float, recompute: bool) -> None:
    """Print the lines of a network."""
    eager = Step(name, None).gradients()
    stock = Step(name, {})
    rows = {"Inductor": stock}
    for label, split in SPLITS.items():
        rows[label] = Step(name, options(time_limit=seconds, split=split, measure=True))
    peaks = {label: measure_step(step.run).peak for label, step in rows.items()}
    for label, step in rows.items():
        found = [
            f"{row.name.split()[-1]} simulated {row.planned:,} measured {row.measured or 0:,}"
            for row in step.graphs
            if row.planned is not None
        ]
        apart = max(
            (a - b).abs().max().item() for a, b in zip(eager, step.gradients(), strict=True)
        )
        print(
            f"{name}: {label}: step {peaks[label]:,} bytes, "
            f"gradients {apart:.1e} from eager's, compiled in {step.seconds:.0f} s; "
            + "; ".join(found),
            flush=True,
        )
        for row in step.graphs:
            if row.fusion:
                print(f"  {row.name}: {row.fusion}", flush=True)
    for label in SPLITS:
        times = [(stock.run_time(), rows[label].run_time()) for _ in range(pairs + 2)][2:]
        ratio = median(mine / other for other, mine in times)
        both = [1000 * median(column) for column in zip(*times, strict=True)]
        print(
            f"  {label}: {ratio:.3f} of Inductor's time, {pairs} pairs, medians {both[0]:.1f} and "
            f"{both[1]:.1f} ms, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    if recompute:
        _study_recompute(name, rows["order + cuts"], seconds)


def _study_recompute(name: str, cut: Step, seconds: float) -> None:
    asked = max(row.planned or 0 for row in cut.graphs)
    for split in (False, "peak"):
        settings = options(time_limit=seconds, split=split, measure=True, peak=asked)
        step = Step(name, settings, budget=1.0)
        joint = step.joint
        assert joint is not None
        used = max(row.measured or 0 for row in step.graphs)
        planned = max(row.planned or 0 for row in step.graphs)
        text = joint.order or joint.reason
        print(
            f"{name}: peak {asked:,}, {'cuts' if split else 'no cuts'}: {text} {joint.note}, "
            f"graphs planned {planned:,}, measured {used:,}, in {joint.seconds:.0f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.runtimes.inductor.fusion")
    parser.add_argument("names", nargs="*", default=list(STEPS), metavar="NAME")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0, help="for the solver, a graph")
    parser.add_argument("--recompute", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for name in given.names:
        study(name, given.pairs, given.seconds, given.recompute)


if __name__ == "__main__":
    main()
