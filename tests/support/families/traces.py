"""Live ranges like those of training steps: what is saved for backward, and much that is brief."""

from __future__ import annotations

import numpy as np

from optsched.model.packing_problem import PackingProblem

SAVED = 0.3
"""Share of the forward ops whose output waits for backward."""


def training_trace(buffers: int, seed: int = 0, *, repeated: bool = True) -> PackingProblem:
    """Make the trace of one training step.

    A third of the ops are forward. The output of a forward op is saved until the op's backward
    runs, or lives a few steps; each backward op makes a gradient that lives a few steps, now and
    then workspace of one step, now and then a weight's gradient that is kept to the end.

    `buffers`: number of buffers. `seed`: of sizes and lifetimes. `repeated`: layers repeat a dozen
    sizes, as in most models; else every size is independent.
    """
    rng = np.random.default_rng(seed)
    forward = max(1, buffers // 3)
    horizon = buffers
    step = np.arange(buffers)
    brief = step + 1 + rng.geometric(0.4, buffers)
    is_forward = step < forward
    saved = is_forward & (rng.random(buffers) < SAVED)
    # Backward runs two ops for each forward op, in reverse.
    waits = horizon - 2 * step + rng.integers(0, 4, buffers)
    kept = ~is_forward & (rng.random(buffers) < 0.05)
    workspace = ~is_forward & ~kept & (rng.random(buffers) < 0.2)
    end = np.where(saved, waits, brief)
    end = np.where(workspace, step + 1, np.where(kept, horizon, end))
    if repeated:
        shapes = 512 * rng.integers(1, 2 ** rng.integers(4, 16, 12), 12)
        layer = rng.integers(0, 12, 24)
        size = shapes[layer[step % 24]]
    else:
        size = 2 ** rng.integers(9, 24, buffers) + 64 * rng.integers(0, 4096, buffers)
    size = np.where(kept, 512 * rng.integers(1, 64, buffers), size)
    return PackingProblem(
        names=tuple(f"b{i}" for i in range(buffers)),
        start=step,
        end=np.clip(end, step + 1, horizon),
        size=size.astype(np.int64),
        alignment=np.full(buffers, 64, np.int64),
        pin=np.full(buffers, -1, np.int64),
        name=f"{'repeated' if repeated else 'scattered'}_{buffers}",
    )
