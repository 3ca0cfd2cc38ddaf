"""Small exported programs, written as `.pt2`, and what planning them saves.

python -m experiments.runtimes.fx models       # writes instances/fx (needs the extra torch)
python -m experiments.runtimes.fx              # the table of README.md, without PyTorch
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.runtimes.fx.archive import program_table, write_programs
from experiments.tables import replace_table

FOLDER = Path(__file__).parents[3] / "instances" / "fx"
DIMS = {"open_batch": {"x.0": 16}}
"""Sizes for what a program leaves open."""


def programs() -> dict[str, Callable[[], Any]]:
    """Return what makes each program; PyTorch is imported here."""
    import torch
    from torch import Tensor, nn
    from torch.export import Dim, export

    class Branches(nn.Module):
        """Six wide branches; all are made before any is narrowed."""

        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ModuleList(nn.Linear(32, 1024) for _ in range(6))
            self.down = nn.ModuleList(nn.Linear(1024, 32) for _ in range(6))

        def forward(self, x: Tensor) -> Tensor:
            wide = [torch.relu(each(x)) for each in self.up]
            narrow = [each(y) for each, y in zip(self.down, wide, strict=True)]
            return torch.stack(narrow).sum(0)

    class Counter(nn.Module):
        """Overwrites a buffer after it was read, and a part of what it made."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(64, 64))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            before = self.seen * 2
            self.seen.add_(x)
            made = torch.cat([before, x], 1)
            made[:, :8].mul_(3)
            return made.t().reshape(-1), self.seen.sum()

    class Heads(nn.Module):
        """Attention, whose heads are views; its rows are an open number."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (
                y.view(x.shape[0], 16, 4, 16).transpose(1, 2) for y in self.qkv(x).chunk(3, -1)
            )
            mixed = (q @ k.transpose(2, 3)).softmax(-1) @ v
            return x + self.out(mixed.transpose(1, 2).reshape(x.shape))

    class Choice(nn.Module):
        """Runs one of two graphs."""

        def forward(self, x: Tensor) -> Tensor:
            return torch.cond(x.sum() > 0, lambda y: (y @ y).relu(), lambda y: y.sin(), (x,)) + x

    def plain(module: nn.Module, *shape: int) -> Callable[[], Any]:
        return lambda: export(module.eval(), (torch.zeros(shape),))

    def opened() -> Any:
        shapes = ({0: Dim("batch", min=2, max=512)},)
        return export(Heads().eval(), (torch.zeros(8, 16, 64),), dynamic_shapes=shapes)

    return {
        "branches": plain(Branches(), 64, 32),
        "counter": plain(Counter(), 64, 64),
        "open_batch": opened,
        "choice": plain(Choice(), 48, 48),
        "decomposed": lambda: plain(Branches(), 64, 32)().run_decompositions(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="experiments.runtimes.fx", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("models", "table"), default="table")
    if parser.parse_args().what == "models":
        import torch

        torch.manual_seed(0)
        write_programs(FOLDER, programs())
        return
    text = program_table(FOLDER, "fx", DIMS)
    replace_table(FOLDER / "README.md", "programs", text)
    print(text)


if __name__ == "__main__":
    main()
