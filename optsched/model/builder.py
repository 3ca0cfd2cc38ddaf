"""Build a graph by name, in a few lines.

>>> build = GraphBuilder("diamond")
>>> build.input("x", 8)
>>> build.op("left", reads=["x"], writes={"a": 4})
>>> build.op("right", reads=["x"], writes={"b": 6}, workspace=2)
>>> build.op("join", reads=["a", "b"], writes={"y": 4})
>>> build.output("y")
>>> graph = build.build()
>>> len(graph.ops), len(graph.buffers)
(3, 5)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from optsched.errors import GraphError
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.runtime.keywords import keywords

_Policy = TypeVar("_Policy", InputPolicy, OutputPolicy)


@keywords
@dataclass
class GraphBuilder:
    """Builder that collects ops and buffers by name and makes a :class:`Graph` of them.

    Names may be used before they are defined; :meth:`build` resolves them.

    Parameters
    ----------
    name
        Name of the graph.
    memory_model
        One line that describes how sizes and live ranges were determined.
    alignment
        Default alignment of buffers in bytes.
    cost_unit
        Unit and origin of the costs of ops.

    Examples
    --------
    >>> from optsched import GraphBuilder
    >>> build = GraphBuilder("chain")
    >>> build.input("x", 8)
    >>> build.op("double", reads=["x"], writes={"y": 8})
    >>> build.output("y")
    >>> build.build()
    Graph('chain', 1 op, 2 buffers)
    """

    name: str = "graph"
    memory_model: str = "default"
    alignment: int = 1
    cost_unit: str = ""
    _ops: list[dict[str, Any]] = field(default_factory=list, repr=False)
    _buffers: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    _inplace: list[tuple[str, str, str]] = field(default_factory=list, repr=False)
    _apart: list[tuple[str, str]] = field(default_factory=list, repr=False)
    _shared: list[tuple[str, ...]] = field(default_factory=list, repr=False)

    def input(self, name: str, size: int, policy: InputPolicy | str = InputPolicy.FREED) -> None:
        """Add a graph input of `size` bytes."""
        self._add(name, size, input=_policy(InputPolicy, policy, name))

    def op(
        self,
        name: str,
        *,
        reads: Iterable[str] = (),
        writes: Mapping[str, int] | None = None,
        views: Mapping[str, str] | None = None,
        mutates: Mapping[str, str] | None = None,
        control: Iterable[str] = (),
        workspace: int = 0,
        kind: str = "",
        stream: str = "",
        cost: int = 0,
        once: bool = False,
    ) -> None:
        """Add an op.

        Parameters
        ----------
        name
            Name of the op.
        reads
            Buffers that the op reads, in operand order.
        writes
            New buffers and their sizes in bytes.
        views
            New names for existing buffers, `{view: buffer}`.
        mutates
            Like `views`, but the op overwrites the bytes: all users of the old name run before it.
        control
            Ops that must run before this one. If such an op is on another stream, this op waits for
            it.
        workspace
            Scratch bytes that the op needs while it runs; they become the buffer
            `<name>.workspace`.
        kind
            Operator type, shown in reports.
        stream
            Stream (queue) that runs the op.
        cost
            Cost of one more run, in the unit given by :attr:`cost_unit`.
        once
            True if the op must not run again.

        Raises
        ------
        GraphError
            If an argument has the wrong type, or a buffer is defined twice.
        """
        # A single string is a sequence of letters, which would all be taken for names.
        for what, listed in (("reads", reads), ("control", control)):
            if isinstance(listed, str):
                raise GraphError(f"op {name!r}: {what} must be a list of names: write [{listed!r}]")
        for what, named in (("writes", writes), ("views", views), ("mutates", mutates)):
            if not isinstance(named, Mapping | None):
                example = '{"a": 4}' if what == "writes" else '{"view": "buffer"}'
                raise GraphError(f"op {name!r}: {what} must be a dict such as {example}")
        # Names are kept as they are and resolved in `build`, so that they may be used before
        # definition.
        made = [self._add(buffer, size) for buffer, size in (writes or {}).items()]
        for mutating, names in ((False, views), (True, mutates)):
            for view, root in (names or {}).items():
                made.append(self._add(view, 0, alias_of=root, mutates=mutating))
        scratch = None
        if workspace:
            scratch = self._add(f"{name}.workspace", workspace)
            made.append(scratch)
        self._ops.append(
            {
                "name": name,
                "reads": list(reads),
                "writes": made,
                "control": list(control),
                "workspace": scratch,
                "kind": kind,
                "stream": stream,
                "cost": cost,
                "once": once,
            }
        )

    def output(self, *names: str, policy: OutputPolicy | str = OutputPolicy.LIVE) -> None:
        """Mark buffers as graph outputs.

        Raises
        ------
        GraphError
            If a buffer is not defined yet, or the policy is unknown.
        """
        for name in names:
            self._find(name, "graph output")["output"] = _policy(OutputPolicy, policy, name)

    def place(
        self,
        name: str,
        *,
        alignment: int | None = None,
        pool: str | None = None,
        pin: int | None = None,
        birth: str | None = None,
    ) -> None:
        """Set the alignment, pool or pin of a buffer, or the op at which it is allocated.

        Parameters
        ----------
        name
            Name of the buffer.
        alignment
            Number of bytes that divides the offset.
        pool
            Name of the pool that holds the buffer.
        pin
            Required offset in bytes.
        birth
            Name of the op that allocates the buffer, if that is not its producer.
        """
        # Only given fields change, so that `place` can be called more than once.
        given = {"alignment": alignment, "pool": pool, "pin": pin, "birth": birth}
        draft = self._find(name, "placement")
        draft.update({key: value for key, value in given.items() if value is not None})

    def inplace(self, op: str, output: str, source: str) -> None:
        """Allow `op` to write its `output` into its input `source`."""
        self._inplace.append((op, output, source))

    def keep_apart(self, one: str, other: str) -> None:
        """Forbid two buffers to share any byte, even if they are never live together."""
        self._apart.append((one, other))

    def must_share(self, *names: str) -> None:
        """Require buffers that are never live together, in any order, to have the same offset."""
        self._shared.append(names)

    def build(self) -> Graph:
        """Resolve names and return the checked graph.

        Raises
        ------
        GraphError
            If a name is unknown or defined twice, or a rule of :class:`Graph` is broken.
        """
        # Ids follow the order of definition, which is the program order.
        ids = {
            "op": {op["name"]: v for v, op in enumerate(self._ops)},
            "buffer": {name: b for b, name in enumerate(self._buffers)},
        }

        def find(what: str, name: str, by: str) -> int:
            if name not in ids[what]:
                raise GraphError(f"{by} unknown {what} {name!r}")
            return ids[what][name]

        ops = []
        for op in self._ops:
            label, scratch = f"op {op['name']!r}", op["workspace"]
            found = {
                "reads": tuple(find("buffer", b, f"{label} reads") for b in op["reads"]),
                "writes": tuple(ids["buffer"][b] for b in op["writes"]),
                "control": tuple(
                    find("op", u, f"{label} has a control edge from") for u in op["control"]
                ),
                "workspace": None if scratch is None else ids["buffer"][scratch],
            }
            ops.append(Op(**{**op, **found}))
        buffers = []
        for name, fields in self._buffers.items():
            links = {}
            for key, what, by in (("alias_of", "buffer", "a view of"), ("birth", "op", "born at")):
                if key in fields:
                    links[key] = find(what, fields[key], f"buffer {name!r} is {by}")
            buffers.append(Buffer(name, **{**fields, **links}))
        inplace = tuple(
            (
                find("op", op, "in-place candidate of"),
                find("buffer", output, f"op {op!r}: in-place candidate writes"),
                find("buffer", source, f"op {op!r}: in-place candidate reads"),
            )
            for op, output, source in self._inplace
        )
        apart, shared = (
            tuple(tuple(find("buffer", b, f"{what} names") for b in row) for row in rows)
            for what, rows in (("keep apart", self._apart), ("must share", self._shared))
        )
        return Graph(
            self.name,
            tuple(ops),
            tuple(buffers),
            inplace,
            self.memory_model,
            keep_apart=cast(tuple[tuple[int, int], ...], apart),
            must_share=shared,
            cost_unit=self.cost_unit,
        )

    def _add(self, name: str, size: int, **fields: Any) -> str:
        """Record the fields of a new buffer, with names in place of ids."""
        if name in self._buffers:
            raise GraphError(f"buffer {name!r} is defined twice")
        self._buffers[name] = {"size": size, "alignment": self.alignment, **fields}
        return name

    def _find(self, name: str, by: str) -> dict[str, Any]:
        if name not in self._buffers:
            raise GraphError(f"{by} names unknown buffer {name!r}")
        return self._buffers[name]


def _policy(kind: type[_Policy], value: str, name: str) -> _Policy:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise GraphError(
            f"buffer {name!r}: unknown policy {value!r}, expected one of {known}"
        ) from None
