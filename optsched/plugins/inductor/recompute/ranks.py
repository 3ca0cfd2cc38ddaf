"""One split for all ranks of a program whose joint graph has collectives.

Each rank compiles the graph itself, and a plan that differs from rank to rank could run collectives
in another sequence, so that all of them wait forever. So the ranks first tell each other a digest
of the graph, through the store of their process group; rank 0 makes the plan, and the others take
it. Where the digests differ, every rank leaves the split to PyTorch, for the same reason.

Example: ranks 0 and 1 compile a graph of equal nodes. Rank 0 plans for a minute and writes the runs
of its plan to the store; rank 1 waits for them and splits its own graph by them.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import torch
from torch import distributed
from torch.fx import GraphModule

from optsched.errors import OptschedError
from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.joint_graph import is_collective

MEET_SECONDS = 300.0
"""Seconds in which all ranks must come to the compilation of a graph."""
_numbers = count()
"""Graphs with collectives that this process has compiled with a peak."""


class RanksError(OptschedError):
    """Raised if other ranks do not answer, where going on alone could let all ranks wait."""


def has_collectives(joint: GraphModule) -> bool:
    """Return True if a joint graph communicates with other ranks."""
    return any(map(is_collective, joint.graph.nodes))


def agree(
    joint: GraphModule, settings: str, plan: Callable[[], Any], seconds: float
) -> tuple[Any, bool]:
    """Return the plan of rank 0, and True on the rank that has made it.

    Parameters
    ----------
    joint
        The joint graph.
    settings
        Text of the settings, which must be equal on all ranks.
    plan
        Function that makes the plan, as data for a file of JSON; called on rank 0 alone.
    seconds
        Time in which the plan must be there, beside the time to meet.

    Raises
    ------
    KeptOrderError
        On all ranks, if their graphs or settings differ, or if the plan fails.
    RanksError
        If another rank does not come.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        raise KeptOrderError("the graph communicates, and no process group is initialized")
    if distributed.get_backend() == "fake":
        raise KeptOrderError("the graph communicates, and ranks of a fake group cannot agree")
    store = distributed.distributed_c10d._get_default_store()
    rank, size = distributed.get_rank(), distributed.get_world_size()
    place = f"optsched/{next(_numbers)}"
    store.set(f"{place}/{rank}", joint_structure(joint, settings))
    names = [f"{place}/{other}" for other in range(size)]
    _wait(store, names, MEET_SECONDS, "did not compile this graph")
    digests = [store.get(name) for name in names]
    others = [i for i, digest in enumerate(digests) if digest != digests[0]]
    if others:
        raise KeptOrderError(f"rank 0 and rank {others[0]} compile different graphs or settings")
    if rank:
        _wait(store, [f"{place}/plan"], seconds, "has sent no plan")
        return _read(store.get(f"{place}/plan")), False
    found: dict[str, Any] = {"reason": "it was interrupted"}
    try:
        found = {"plan": plan()}
    except Exception as error:
        found = {"reason": str(error).strip().partition("\n")[0] or type(error).__name__}
        raise
    finally:
        # The others must not wait for a plan that failed.
        store.set(f"{place}/plan", json.dumps(found))
    return found["plan"], True


def _read(text: bytes) -> Any:
    found = json.loads(text)
    if "plan" not in found:
        raise KeptOrderError(f"rank 0 has made no plan: {found['reason']}")
    return found["plan"]


def _wait(store: Any, names: list[str], seconds: float, fault: str) -> None:
    for rank, name in enumerate(names):
        try:
            store.wait([name], timedelta(seconds=seconds))
        except Exception as error:
            raise RanksError(f"rank {rank} {fault} within {seconds:.0f} seconds") from error


def joint_structure(joint: GraphModule, settings: str) -> str:
    """Return a digest of nodes, operands and shapes, without numbers that depend on the rank."""
    rows: list[Any] = [settings]
    for node in joint.graph.nodes:
        value = node.meta.get("val")
        shape: Any = ()
        if isinstance(value, torch.Tensor):
            shape = (value.dtype, value.device.type, tuple(value.shape))
        operands = [x.name for x in node.all_input_nodes]
        rows.append((node.name, node.op, str(node.target), operands, shape))
    return hashlib.sha256(repr(rows).encode()).hexdigest()
