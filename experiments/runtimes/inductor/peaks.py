"""Training steps that are asked to fit four peaks: what they hold, and at what price.

    python -m experiments.runtimes.inductor.peaks [STEP...] [--parts 90 75 60 50] [--run N]
        [--loops N] [--no-budgets] > FILE

A row has the bytes of the step with PyTorch's own splits, the bytes asked for, those that the
allocator counted, the extra compute and its bound, and the processor's seconds of the search. It
also has the least extra compute of PyTorch's activation memory budgets 0, 0.2 to 0.8 whose steps,
measured in the same way, hold no more than was asked for. Bytes
that kernel libraries take for themselves are apart. Generated kernels do nothing, as what a step
allocates does not depend on what they compute. `plan` is a digest of all splits: rows of several
runs, `--run 2` and so on, are to have equal ones, also beside busy loops (`--loops 4`). The command
ends with 1 if a step holds more than it was said to fit.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar
from unittest import mock

import torch
from torch import nn
from torch._functorch import config as functorch_config
from torch._inductor import config

from experiments.runtimes.inductor.foreign import TIMM, TRANSFORMERS
from experiments.tables import markdown
from optsched import plugins
from optsched.plugins.inductor import options
from optsched.plugins.inductor.recompute import partition
from optsched.plugins.inductor.recompute.answer import Answer, take_theirs
from optsched.plugins.inductor.recompute.joint_graph import Modules, computed
from optsched.plugins.inductor.recompute.joint_step import JointStep
from optsched.runtime.clock import Clock
from tests.support.compiled_memory import NO_CACHE, no_kernels

PARTS = (90, 75, 60, 50)
"""Peaks asked for, in % of what the step holds with PyTorch's own splits."""
CALLS = 9
"""Steps that are run: one of several graphs is measured and chosen up to three times."""
BUDGETS = (0.8, 0.6, 0.4, 0.2, 0.0)
"""Activation memory budgets of PyTorch that are run: every second one."""
NO_PEAK = "100TiB"
"""A peak that is never exceeded: a step of several graphs is measured, and nothing is chosen."""


@dataclass(frozen=True)
class PeakRow:
    """A step and a peak; bytes, and -1 for a figure that is missing."""

    step: str
    package: str
    graphs: int
    nodes: int
    part: int
    stock: int
    asked: int
    held: int
    apart: int
    extra_percent: float
    bound_percent: float
    theirs_percent: float
    """The least of PyTorch's budgets at this peak; -1 if no step of theirs fits or was run."""
    seconds: float
    plan: str
    answer: str
    run: int = 1
    loops: int = 0
    """Busy loops that ran beside it."""

    @property
    def fits(self) -> bool:
        """Return True if the step was said to fit."""
        is_chosen = self.answer.startswith("step") and "no choice" not in self.answer
        return is_chosen or self.answer.startswith("fits")


class Ode(nn.Module):
    """A neural ODE: six steps of Runge and Kutta."""

    def __init__(self) -> None:
        super().__init__()
        self.field = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))

    def forward(self, x: Any, h: float = 0.2) -> Any:
        """Return the loss."""
        for _ in range(6):
            a = self.field(x)
            b = self.field(x + h / 2 * a)
            c = self.field(x + h / 2 * b)
            d = self.field(x + h * c)
            x = x + h / 6 * (a + 2 * b + 2 * c + d)
        return x.square().mean()


class Regions(nn.Module):
    """Encoder layers that are compiled one by one, of one kind or of several."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(64, 4, width, dropout=0.0, batch_first=True)
            for width in widths
        )

    def compiled(self, how: dict[str, Any]) -> Callable[[Any], Any]:
        """Return the step with a compiled region for each layer."""
        regions = [torch.compile(layer, **how) for layer in self.layers]

        def run(x: Any) -> Any:
            for region in regions:
                x = region(x)
            return x.square().mean()

        return run


class Stage(nn.Module):
    """Two gated layers with a graph break between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(2))

    def forward(self, x: Any) -> Any:
        """Return the output."""
        a, b = self.layers[0](x).chunk(2, -1)
        x = x + torch.sigmoid(a) * torch.tanh(b)
        torch._dynamo.graph_break()
        a, b = self.layers[1](x).chunk(2, -1)
        return x + torch.sigmoid(a) * torch.tanh(b)


class Breaks(nn.Module):
    """Stages with graph breaks."""

    def __init__(self, stages: int, width: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList(Stage(width) for _ in range(stages))

    def forward(self, x: Any) -> Any:
        """Return the loss."""
        for stage in self.stages:
            x = stage(x)
        return x.square().mean()


def _diffusion() -> tuple[nn.Module, dict[str, Any]]:
    from diffusers import UNet2DModel

    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D")}
    blocks |= {"up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    sizes = {"sample_size": 16, "in_channels": 3, "out_channels": 3, "layers_per_block": 1}
    model = UNet2DModel(**sizes, block_out_channels=(16, 32), norm_num_groups=8, **blocks)
    given = {"sample": torch.randn(8, 3, 16, 16), "timestep": torch.arange(8)}
    return model, {**given, "return_dict": False}


def _graph_network() -> tuple[nn.Module, dict[str, Any]]:
    from torch_geometric.nn.models import GCN

    edges = torch.randint(0, 1000, (2, 6000))
    return GCN(32, 128, 4, 16), {"x": torch.randn(1000, 32), "edge_index": edges}


STEPS: dict[str, tuple[str, Callable[[], tuple[Any, dict[str, Any]]]]] = {
    "vit": ("timm", TIMM["vit"]),
    "resnet18": ("timm", TIMM["resnet18"]),
    "convnext": ("timm", TIMM["convnext"]),
    "gpt2": ("transformers", TRANSFORMERS["gpt2"]),
    "llama": ("transformers", TRANSFORMERS["llama"]),
    "unet2d": ("diffusers", _diffusion),
    "gcn": ("torch_geometric", _graph_network),
    "ode": ("own", lambda: (Ode(), {"x": torch.randn(256, 64)})),
    "regions": ("own", lambda: (Regions((256,) * 6), {"x": torch.randn(8, 32, 64)})),
    "regions3": ("own", lambda: (Regions((128, 256, 512)), {"x": torch.randn(8, 32, 64)})),
    "breaks": ("own", lambda: (Breaks(2, 64), {"x": torch.randn(512, 64)})),
    "breaks4": ("own", lambda: (Breaks(4, 48), {"x": torch.randn(512, 48)})),
}
"""By name: the package, and a model with its inputs."""


class Seen(partition.PeakPartitioner):
    """Partitioner that notes what the graphs of its splits run, and the processor's seconds."""

    plans: ClassVar[list[list[str]]] = []
    seconds: ClassVar[list[float]] = []

    def __call__(self, *args: Any, **how: Any) -> Modules:
        """Return forward and backward graph."""
        begun = time.thread_time()
        found = super().__call__(*args, **how)
        self.seconds.append(time.thread_time() - begun)
        self.plans.append(computed(found))
        return found


def run_step(name: str, **settings: Any) -> list[str]:
    """Run some steps; return the lines on them."""
    torch._dynamo.reset()
    plugins.forget()
    torch.manual_seed(0)
    model, given = STEPS[name][1]()
    how = {"options": options(measure=True, **settings), "dynamic": False}
    call = model.compiled(how) if isinstance(model, Regions) else torch.compile(model, **how)
    for _ in range(CALLS):
        model.zero_grad(set_to_none=True)
        found = call(**given)
        found = found[0] if isinstance(found, tuple) else found
        loss = found if isinstance(found, torch.Tensor) else found.loss
        loss = loss.square().mean() if loss.dim() else loss
        del found
        loss.backward()
        del loss
    return plugins.explain().splitlines()


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep the processor busy with some loops, which end with this process at the latest."""
    code = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()


def measure_step(
    name: str, parts: Sequence[int], budgets: Sequence[float] = BUDGETS
) -> Iterator[PeakRow]:
    """Yield a row for each part of what the step holds with PyTorch's own splits."""
    stock, _ = _at_budget(name, 1.0)
    theirs = [_at_budget(name, budget) for budget in budgets]
    for part in parts:
        Seen.plans.clear()
        Seen.seconds.clear()
        asked = stock * part // 100
        lines = run_step(name, peak=asked)
        held, apart, extra, bound, graphs, nodes, answer = _figures(lines)
        text = repr(Seen.plans).encode()
        plan = hashlib.sha256(text).hexdigest()[:12]
        seconds = round(sum(Seen.seconds), 1)
        package = STEPS[name][0]
        least = min((cost for peak, cost in theirs if peak <= asked), default=-1.0)
        numbers = (extra, bound, least, seconds, plan, answer)
        yield PeakRow(name, package, graphs, nodes, part, stock, asked, held, apart, *numbers)


def _at_budget(name: str, budget: float) -> tuple[int, float]:
    """Return the bytes held, and the extra compute in %, with PyTorch's splits at a budget."""

    def split(step: JointStep, _: Clock) -> Answer:
        # Of equal splits the first one is kept; the default one, at 1, is the first of all.
        known = [x for x in step.splits if x.budget <= budget]
        found = max(known, key=lambda x: x.budget, default=step.splits[0])
        made = take_theirs(step, found)
        return made._replace(record=replace(made.record, saved=found.saved))

    with mock.patch.object(partition, "search_split", split):
        held, _, extra, *_ = _figures(run_step(name, peak=NO_PEAK))
    return held, max(0.0, extra)


def _figures(lines: Sequence[str]) -> tuple[int, int, float, float, int, int, str]:
    """Return bytes held and apart, extra compute, its bound, graphs, nodes, and the answer."""
    rows = plugins.records()
    joints = [row for row in rows if row.name.endswith("joint")]
    others = [row for row in rows if not row.name.endswith("joint")]
    held = max((row.measured or row.planned or 0 for row in others), default=-1)
    apart = max((row.measured_apart or 0 for row in others), default=0)
    nodes = max((row.ops for row in joints), default=len(max(Seen.plans, key=len, default=[])))
    last = lines[-1] if lines else ""
    if last.startswith("step of"):
        graphs = int(re.findall(r"step of \d+ calls? of (\d+)", last)[0])
        found = re.findall(r"held ([\d,]+)", last)
        held = int(found[0].replace(",", "")) if found else held
        extra = _percent(r"for ([\d.]+)% more", last)
        return held, apart, extra, _percent(r"at least ([\d.]+)%", last), graphs, nodes, last
    text = f"{joints[-1].order} {joints[-1].answer}" if joints else ""
    answer = (joints[-1].answer or joints[-1].reason) if joints else ""
    extra, bound = _percent(r"extra ([\d.]+) %", text), _percent(r"bound ([\d.]+) %", text)
    return held, apart, extra, bound, len(joints), nodes, answer


def _percent(pattern: str, text: str) -> float:
    found = re.findall(pattern, text)
    return float(found[0]) if found else -1.0


def peaks_table(rows: Sequence[PeakRow]) -> str:
    """Return a line for each step and peak, over its runs."""
    head = ["step", "package", "graphs", "nodes", "asked, %", "asked", "held", "used, %"]
    head += ["extra, %", "bound, %", "PyTorch's, %", "seconds", "runs", "plans", "answer"]
    found: dict[tuple[str, int], list[PeakRow]] = {}
    for row in rows:
        found.setdefault((row.step, row.part), []).append(row)
    return markdown(head, (_line(same) for same in found.values()))


def _line(rows: Sequence[PeakRow]) -> list[str]:
    row = rows[0]
    return [
        row.step,
        row.package,
        str(row.graphs),
        str(row.nodes),
        str(row.part),
        f"{row.asked:,}",
        f"{row.held:,}",
        f"{100 * row.held / row.asked:.0f}",
        *(
            f"{x:.2f}" if x >= 0 else "-"
            for x in (row.extra_percent, row.bound_percent, row.theirs_percent)
        ),
        f"{max(x.seconds for x in rows):.0f}",
        str(len(rows)),
        str(len({x.plan for x in rows})),
        "fits" if row.fits else _refusal(row.answer),
    ]


def again_table(rows: Sequence[PeakRow]) -> str:
    """Return a line for each step and peak: in how many ways its runs differ."""
    head = ["step", "graphs", "nodes", "asked, %", "runs", "beside loops", "plans"]
    head += ["bytes held", "held", "extra computes", "extra, %", "seconds"]
    found: dict[tuple[str, int], list[PeakRow]] = {}
    for row in rows:
        found.setdefault((row.step, row.part), []).append(row)
    return markdown(head, (_line_of_runs(same) for same in found.values()))


def _line_of_runs(rows: Sequence[PeakRow]) -> list[str]:
    row, seconds = rows[0], [x.seconds for x in rows]
    ways = [len({getattr(x, name) for x in rows}) for name in ("plan", "held", "extra_percent")]
    return [
        row.step,
        *(str(x) for x in (row.graphs, row.nodes, row.part, len(rows))),
        str(sum(x.loops > 0 for x in rows)),
        str(ways[0]),
        str(ways[1]),
        f"{row.held:,}",
        str(ways[2]),
        f"{row.extra_percent:.2f}" if row.extra_percent >= 0 else "-",
        f"{min(seconds):.0f} to {max(seconds):.0f}",
    ]


def _refusal(answer: str) -> str:
    return "no choice of splits fits" if answer.startswith("step") else answer


def main() -> None:
    """Measure steps; exit with 1 if one fails, or holds more than it was said to fit."""
    parser = argparse.ArgumentParser(prog="experiments.runtimes.inductor.peaks")
    parser.add_argument("names", nargs="*", metavar="STEP")
    parser.add_argument("--parts", type=int, nargs="*", default=PARTS, help="in %%")
    parser.add_argument("--no-budgets", action="store_true", help="leave PyTorch's budgets out")
    parser.add_argument("--run", type=int, default=1, help="number of the run, for the rows")
    parser.add_argument("--loops", type=int, default=0, help="busy loops beside it")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(STEPS):
        parser.error(f"no step {min(unknown)!r}; there are {', '.join(STEPS)}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    writer = csv.DictWriter(sys.stdout, [x.name for x in fields(PeakRow)], lineterminator="\n")
    writer.writeheader()
    budgets = () if chosen.no_budgets else BUDGETS
    wrong = False
    with (
        busy(chosen.loops),
        no_kernels(),
        config.patch(NO_CACHE),
        functorch_config.patch(enable_autograd_cache=False),
        mock.patch.object(partition, "PeakPartitioner", Seen),
    ):
        for name in chosen.names or STEPS:
            try:
                for row in measure_step(name, chosen.parts, budgets):
                    writer.writerow({**asdict(row), "run": chosen.run, "loops": chosen.loops})
                    sys.stdout.flush()
                    wrong |= row.fits and row.held > row.asked
            except Exception as error:
                text = str(error).splitlines()[:1]
                print(f"{name}: {type(error).__name__}: {text}", file=sys.stderr, flush=True)
                wrong = True
    sys.exit(wrong)


if __name__ == "__main__":
    main()
