"""Splits chosen for a step, in a file beside PyTorch's compile cache, for later processes.

A step of several regions is measured before its splits are chosen, so a later process would hold
more than the peak until then. With the file it takes the splits of the process before.

Example: a training script with `peak="2GiB"` is run again; its regions have equal digests, and each
takes its split from the file. The step is measured all the same.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch._inductor import config
from torch._inductor.runtime.runtime_utils import cache_dir

from optsched.plugins.inductor.recompute.joint_step import PeakSettings
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.inductor.recompute.step_points import Chosen, SplitPoint
from optsched.plugins.sources import sources_digest
from optsched.solver.recompute.step_choice import RegionPoint


class KeptSplits(NamedTuple):
    """Splits by the digest of their region, and the bytes that their step holds as planned."""

    chosen: dict[str, Chosen]
    peak: int


def write_splits(settings: PeakSettings, chosen: Mapping[str, Chosen], peak: int) -> None:
    """Keep the splits of a step; a file that cannot be written costs later processes time only."""
    if config.force_disable_caches:
        return
    rows = chosen_data(chosen)
    path = _path(settings)
    part = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({"peak": peak, "splits": rows}), encoding="utf-8")
        part.replace(path)


def read_splits(settings: PeakSettings) -> KeptSplits:
    """Return the splits that an earlier process chose with equal settings, if there are any."""
    if config.force_disable_caches:
        return KeptSplits({}, 0)
    try:
        found = json.loads(_path(settings).read_text(encoding="utf-8"))
        return KeptSplits(read_chosen(found["splits"]), int(found["peak"]))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return KeptSplits({}, 0)


def chosen_data(chosen: Mapping[str, Chosen]) -> dict[str, Any]:
    """Return splits as data for JSON."""
    return {
        key: (one.point.figures, one.point.recipe.data, one.point.owned, one.limits)
        for key, one in chosen.items()
    }


def read_chosen(data: Mapping[str, Any]) -> dict[str, Chosen]:
    """Return the splits from their data, as JSON gives it back."""
    return {key: _chosen(*row) for key, row in data.items()}


def _chosen(figures: Any, recipe: Any, owned: Any, limits: Any) -> Chosen:
    forward, backward = limits
    point = SplitPoint(RegionPoint(*figures), Recipe.read(recipe), owned)
    return Chosen(point, (forward, backward))


def _path(settings: PeakSettings) -> Path:
    text = sources_digest() + torch.__version__ + repr(astuple(settings))
    return Path(cache_dir(), "optsched", f"{hashlib.sha256(text.encode()).hexdigest()}.json")
