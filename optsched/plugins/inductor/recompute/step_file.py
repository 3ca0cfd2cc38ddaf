"""Splits in files beside PyTorch's compile cache, for later processes.

A step of several regions is measured before its splits are chosen, so a later process would hold
more than the peak until then. With the file of a step it takes the splits of the process before.

The answer for each joint graph has a file as well. PyTorch's cache of joint graphs is without use
where a step was chosen, and where several ranks have to agree: a later process comes to the
partitioner, and takes the answer without a search.

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
    _write(_path(settings), {"peak": peak, "splits": chosen_data(chosen)})


def read_splits(settings: PeakSettings) -> KeptSplits:
    """Return the splits that an earlier process chose with equal settings, if there are any."""
    found = _read(_path(settings))
    with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
        return KeptSplits(read_chosen(found["splits"]), int(found["peak"]))
    return KeptSplits({}, 0)


def write_answer(settings: PeakSettings, digest: str, answer: Any) -> None:
    """Keep the answer for a joint graph, data for JSON."""
    _write(_path(settings, digest, _inductor_settings()), answer)


def read_answer(settings: PeakSettings, digest: str) -> Any:
    """Return the answer of an earlier process for an equal joint graph; None if there is none."""
    return _read(_path(settings, digest, _inductor_settings()))


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


def _write(path: Path, data: Any) -> None:
    if config.force_disable_caches:
        return
    part = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(data), encoding="utf-8")
        part.replace(path)


def _read(path: Path) -> Any:
    if not config.force_disable_caches:
        with contextlib.suppress(OSError, ValueError):
            return json.loads(path.read_text(encoding="utf-8"))
    return None


def _inductor_settings() -> str:
    """Return all that decides how Inductor lowers a graph, and so what a split needs."""
    found = config.save_config_portable(ignore_private_configs=False)
    # The pass that orders nodes sets these for each graph.
    rows = {**found, "reorder_for_peak_memory": None, "allow_buffer_reuse": None}
    threads, vectors = torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()
    return repr((sorted(rows.items()), threads, vectors))


def _path(settings: PeakSettings, *parts: str) -> Path:
    text = "".join((sources_digest(), torch.__version__, repr(astuple(settings)), *parts))
    return Path(cache_dir(), "optsched", f"{hashlib.sha256(text.encode()).hexdigest()}.json")
