"""One plan for all ranks of a program whose joint graphs have collectives.

Each rank compiles the graphs itself, and plans that differ from rank to rank could run collectives
in another sequence, so that all ranks wait forever. So the first rank decides, and the others
take what it has decided, through the store of their process group: the split of a graph, whether a
measured step needs another choice, and that choice.

The ranks are those of the process group whose collectives a graph calls, or all of them if it calls
those of several groups. Where one of them compiles another graph, asks for another peak, or does
not come, all of them raise an error: going on could let them wait in a collective.

Example: ranks 0 and 1 compile a graph of equal nodes. Rank 0 plans for a minute and writes the
recipe of its split to the store; rank 1 waits for it and splits its own graph by it.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import distributed
from torch._C._distributed_c10d import _resolve_process_group
from torch.fx import GraphModule

from optsched.errors import OptschedError
from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.joint_graph import is_collective

LONGEST_WAIT = timedelta(minutes=30)
"""Time to wait for a rank if the process group does not tell how long its collectives wait."""
MOST_LIMITS = 64
"""Least wall time that the first rank may take for a decision, in time limits, beside the timeout
of the process group."""
_numbers = Counter[tuple[str, str]]()
"""By ranks and kind of question: those that they have decided so far."""


class RanksError(OptschedError):
    """Raised if ranks disagree or do not answer, where going on could let all of them wait."""


@dataclass(frozen=True)
class Team:
    """The ranks that compile equal graphs, this one among them.

    `name`: name of their process group. `ranks`: their numbers; the first of them decides.
    """

    name: str
    ranks: tuple[int, ...]

    @property
    def leads(self) -> bool:
        """True on the rank that decides."""
        return len(self.ranks) == 1 or distributed.get_rank() == self.ranks[0]

    def settle(
        self,
        topic: str,
        row: Any,
        decide: Callable[[list[Any]], Any],
        *,
        wait: float | None = None,
        work: float = 0.0,
    ) -> Any:
        """Return the decision of the first rank.

        Parameters
        ----------
        topic
            Kind of the question, in words. All ranks must ask those of a kind in one sequence.
        row
            Data for JSON that this rank gives.
        decide
            Function of the rows of all ranks, called on the first rank; its result is data for
            JSON.
        wait
            Seconds in which all ranks must come; None for the timeout of the process group.
        work
            Seconds that `decide` may take; those of the first rank count.

        Raises
        ------
        RanksError
            On all ranks, if `decide` raises it or one of them does not come.
        KeptOrderError
            On the other ranks, if `decide` fails otherwise.
        """
        if len(self.ranks) == 1:
            return decide([row])
        store, own = distributed.distributed_c10d._get_default_store(), distributed.get_rank()
        seconds = _timeout().total_seconds() if wait is None else wait
        place = f"optsched/{self.name}/{topic}/{_numbers[self.name, topic]}"
        _numbers[self.name, topic] += 1
        store.set(f"{place}/{own}", json.dumps([row, work]))
        if not self.leads:
            # If the first rank does not come at all, no work of its own is waited for. How long
            # it may take is known to this rank alone, which has planned all graphs.
            _wait(store, f"{place}/{self.ranks[0]}", self.ranks[0], topic, seconds)
            _, work = json.loads(store.get(f"{place}/{self.ranks[0]}"))
            _wait(store, f"{place}/found", self.ranks[0], topic, seconds + work)
            return _read(json.loads(store.get(f"{place}/found")), self.ranks[0])
        found: dict[str, Any] = {"reason": "it was interrupted"}
        try:
            for rank in self.ranks:
                _wait(store, f"{place}/{rank}", rank, topic, seconds)
            rows = [json.loads(store.get(f"{place}/{x}"))[0] for x in self.ranks]
            found = {"found": decide(rows)}
        except RanksError as error:
            found = {"error": str(error)}
            raise
        except Exception as error:
            found = {"reason": str(error).strip().partition("\n")[0] or type(error).__name__}
            raise
        finally:
            # The others must not wait for an answer that failed.
            with suppress(RuntimeError):
                store.set(f"{place}/found", json.dumps(found))
        return found["found"]


def longest(time_limit: float, wall: float) -> float:
    """Return the seconds for a decision whose searches the wall's clock ends after `wall`."""
    # What follows a search, such as the splits of graphs, takes time as well.
    return max(MOST_LIMITS * time_limit, 2 * wall)


def _read(found: Mapping[str, Any], rank: int) -> Any:
    if "error" in found:
        raise RanksError(found["error"])
    if "reason" in found:
        raise KeptOrderError(f"rank {rank} has made no plan: {found['reason']}")
    return found["found"]


def _wait(store: Any, name: str, rank: int, topic: str, seconds: float) -> None:
    try:
        store.wait([name], timedelta(seconds=seconds))
    except RuntimeError as error:
        is_late = "timeout" in str(error).lower()
        when = f"within {seconds:.0f} seconds" if is_late else "as its store is gone"
        raise RanksError(
            f"rank {rank} said nothing about the {topic} {when}: "
            "it has ended, runs another program, or has no peak"
        ) from error


def _timeout() -> timedelta:
    """Return the time that a collective of all ranks waits for them."""
    group = distributed.group.WORLD
    with suppress(AttributeError, RuntimeError, StopIteration):
        backend = next(group._get_backend(device) for device in group._device_types)
        return timedelta(seconds=backend.options._timeout.total_seconds())
    return LONGEST_WAIT


def has_ranks() -> bool:
    """Return True if other ranks may compile the same graphs."""
    if not distributed.is_available() or not distributed.is_initialized():
        return False
    return distributed.get_backend() != "fake" and int(distributed.get_world_size()) > 1


def team_of(joint: GraphModule) -> Team | None:
    """Return the ranks that must split a joint graph in the same way; None without collectives.

    Raises
    ------
    RanksError
        If the graph has collectives, and a process group is missing.
    """
    nodes = [node for node in joint.graph.nodes if is_collective(node)]
    if not nodes:
        return None
    if not distributed.is_available() or not distributed.is_initialized():
        raise RanksError(
            "the graph has collectives, but the process group is missing: call "
            "torch.distributed.init_process_group, and destroy the group after the last step"
        )
    if distributed.get_backend() == "fake":
        # The other ranks of torch's fake group do not exist.
        return Team("fake", (distributed.get_rank(),))
    names = {name for node in nodes if (name := _group_name(node)) is not None}
    # A group that is an input of the graph has no name here, and may be any.
    ranks = {
        tuple(range(distributed.get_world_size())) if not name else _ranks(name) for name in names
    }
    return Team(min(names), ranks.pop()) if len(ranks) == 1 else all_ranks()


def _ranks(name: str) -> tuple[int, ...]:
    try:
        return tuple(distributed.get_process_group_ranks(_resolve_process_group(name)))
    except (RuntimeError, ValueError, KeyError) as error:
        raise RanksError(
            f"the graph has collectives of process group {name!r}, which is missing: "
            "destroy it after the last step"
        ) from error


def all_ranks() -> Team:
    """Return the ranks of the default process group."""
    return Team("all", tuple(range(distributed.get_world_size())))


def _group_name(node: Any) -> Any:
    """Return the name of the process group of a collective; None for a wait."""
    arguments = [x.name for x in node.target._schema.arguments]
    if "group_name" not in arguments:
        return None
    place = arguments.index("group_name")
    found = node.args[place] if place < len(node.args) else node.kwargs.get("group_name")
    return found if isinstance(found, str) else ""


class Structure(NamedTuple):
    """Digests of a joint graph without numbers that depend on the rank, and its number of nodes.

    `settings`: of the settings of the split. `ops`: of nodes and operands. `shapes`: of shapes and
    strides.
    """

    settings: str
    ops: str
    shapes: str
    nodes: int

    @property
    def key(self) -> str:
        """Text by which all ranks know the graph."""
        return self.ops + self.shapes


def joint_structure(joint: GraphModule, how: Mapping[str, Any], settings: str) -> Structure:
    """Return the structure of a joint graph, `how` as it is given to a partitioner."""
    ops: list[Any] = [how.get("num_fwd_outputs"), how.get("static_lifetime_input_indices")]
    shapes: list[Any] = []
    for node in joint.graph.nodes:
        value = node.meta.get("val")
        operands = [x.name for x in node.all_input_nodes]
        ops.append((node.name, node.op, str(node.target), operands))
        if isinstance(value, torch.Tensor):
            layout = tuple(value.shape), tuple(value.stride())
            shapes.append((value.dtype, value.device.type, *layout))
    first, second, third = (
        hashlib.sha256(repr(x).encode()).hexdigest() for x in (settings, ops, shapes)
    )
    return Structure(first, second, third, len(joint.graph.nodes))


def require_equal(rows: Sequence[Any], ranks: Sequence[int]) -> None:
    """Raise a :class:`RanksError` that names the first rank whose structure is another one."""
    first = Structure(*rows[0])
    for row, rank in zip(rows, ranks, strict=True):
        other, who = Structure(*row), f"rank {ranks[0]} and rank {rank}"
        if other.settings != first.settings:
            raise RanksError(f"{who} ask for different peaks, or have different settings")
        if other.ops != first.ops:
            counts = f"of {first.nodes} and {other.nodes} nodes"
            raise RanksError(f"{who} compile different graphs, {counts}: a peak needs equal ones")
        if other.shapes != first.shapes:
            raise RanksError(f"{who} compile graphs of different shapes: a peak needs equal ones")
