"""Writer of TorchInductor's simulator file, with facts that the file cannot express in `extra`.

The keys are those of `export_graph_for_simulator`, whose simulator reads the file. Our own reader
also uses the predecessors, raw dependencies, in-place candidates and alternative names from
`extra`, and so restores the same live ranges and orders. Uncounted buffers are written without
bytes. The format cannot express alignments, pins, pools, pairs kept apart and groups that share an
offset.
"""

from __future__ import annotations

from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import json_bytes
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph


def write_inductor(graph: Graph) -> bytes:
    """Return the simulator file of a graph.

    `FormatError`, naming the buffer, is raised if a buffer has an alignment, a pin or a pool, is
    kept apart or shares an offset; `UsageError` if ops run on several streams.
    """
    graph.refuse_streams("a simulator file")
    _refuse_places(graph)
    return json_bytes(_Writer(graph).document(), rows=("nodes", "buffers"))


def _refuse_places(graph: Graph) -> None:
    for what, rows in (("is kept apart", graph.keep_apart), ("must share", graph.must_share)):
        for row in rows:
            name = graph.buffers[row[0]].name
            raise FormatError(f"buffer {name!r} {what}, which a simulator file cannot express")
    for buffer in graph.buffers:
        for what, value, usual in (
            ("alignment", buffer.alignment, 1),
            ("pin", buffer.pin, None),
            ("pool", buffer.pool, ""),
        ):
            if value != usual:
                raise FormatError(
                    f"buffer {buffer.name!r} has the {what} {value!r}, which a simulator file "
                    "cannot express"
                )


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = [buffer.name for buffer in graph.buffers]
        taken = set(graph.buffer_ids)
        # Dependencies are expressed through buffers, so an op without writes gets a buffer of 0
        # bytes.
        self.token = {
            v: _fresh(f"{op.name}.done", taken) for v, op in enumerate(graph.ops) if not op.writes
        }
        # Bytes allocated by another op are allocated with a buffer of that op, which frees none.
        births = {
            b.birth: None
            for i, b in enumerate(graph.buffers)
            if b.birth is not None and b.birth != graph.producers[i] and not b.external
        }
        self.parent = {v: _fresh(f"{graph.ops[v].name}.parts", taken) for v in births}

    def document(self) -> dict[str, Any]:
        graph = self.graph
        inputs = [b for b in range(len(graph.buffers)) if self._is_written_input(b)]
        buffers = [self._input(b) for b in inputs]
        named = {row["name"] for row in buffers}
        for v, op in enumerate(graph.ops):
            deps = self._deps(v)
            if v in self.parent:
                buffers.append(_row(self.parent[v], self._born_apart(v), 0, deps))
            buffers += [self._made(b, v, deps) for b in op.writes]
            if v in self.token:
                buffers.append(_row(self.token[v], 0, 0, deps))
        for row in buffers:
            # Inductor's simulator lists the dependencies that no input satisfies.
            row["unmet_deps"] = [name for name in row["deps"] if name not in named]
        nodes = [
            {"name": op.name, "buffer_names": self._made_by(v)} for v, op in enumerate(graph.ops)
        ]
        return {"nodes": nodes, "buffers": buffers, "extra": self._extra()}

    def _made_by(self, v: int) -> list[str]:
        parent = [self.parent[v]] if v in self.parent else []
        token = [self.token[v]] if v in self.token else []
        return [*parent, *(self.names[b] for b in self.graph.ops[v].writes), *token]

    def _deps(self, v: int) -> list[str]:
        op, graph = self.graph.ops[v], self.graph
        names = dict.fromkeys(self.names[b] for b in (*op.reads, *op.uses) if self._is_known(b))
        for b in op.writes:
            birth, root = graph.buffers[b].birth, graph.roots[b]
            # The part's maker depends on the op that allocated it.
            if birth is not None and birth in self.parent and birth != v:
                names[self.parent[birth]] = None
            if root != b and self._is_known(root) and root not in op.writes:
                names[self.names[root]] = None
        return list(names)

    def _is_known(self, b: int) -> bool:
        """Return True if a buffer is in the file: all but inputs that are not counted."""
        return self.graph.producers[b] is not None or self._is_written_input(b)

    def _is_written_input(self, b: int) -> bool:
        policy = self.graph.buffers[b].input
        return policy in (InputPolicy.FREED, InputPolicy.KEPT, InputPolicy.SCRATCH)

    def _bytes(self, b: int) -> int:
        return 0 if self.graph.buffers[b].external else self.graph.buffers[b].size

    def _input(self, b: int) -> dict[str, Any]:
        row = _row(self.names[b], self._bytes(b), self._bytes(b), [])
        return {**row, "is_input": True, "is_output": self.graph.kept[b]}

    def _made(self, b: int, v: int, deps: list[str]) -> dict[str, Any]:
        buffer = self.graph.buffers[b]
        apart = buffer.birth is not None and buffer.birth != v
        if buffer.birth in self.parent and apart:
            # The reader uses the first dependency that has the bytes, so the parent comes first.
            deps = list(dict.fromkeys([self.parent[buffer.birth], *deps]))
        row = _row(buffer.name, 0 if apart else self._bytes(b), self._bytes(b), deps)
        kept = self.graph.roots[b] == b and self.graph.kept[b] and not buffer.external
        return {**row, "is_output": kept}

    def _born_apart(self, v: int) -> int:
        graph = self.graph
        return sum(
            self._bytes(b)
            for b, buffer in enumerate(graph.buffers)
            if buffer.birth == v and graph.producers[b] != v
        )

    def _extra(self) -> dict[str, Any]:
        graph = self.graph
        direct = [[self.names[b] for b in op.reads if self._is_known(b)] for op in graph.ops]
        candidates: dict[str, list[list[str]]] = {}
        for v, output, source in graph.inplace_candidates:
            if self._is_known(source):
                pair = [self.names[output], self.names[source]]
                candidates.setdefault(graph.ops[v].name, []).append(pair)
        views = {
            b.name: self.names[b.alias_of]
            for i, b in enumerate(graph.buffers)
            if b.alias_of is not None and self._is_known(graph.roots[i])
        }
        return {
            "source": graph.memory_model,
            # Predecessors state the order exactly; without them the reader would have to guess it.
            "pred_nodes": [list(row) for row in graph.predecessors],
            "unmet_dep_names": [list(dict.fromkeys(row)) for row in direct],
            "kinds": [op.kind for op in graph.ops],
            "mutation_real_name": views,
            "inplace_candidates": candidates,
        }


def _row(name: str, alloc: int, free: int, deps: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "size_alloc": alloc,
        "size_free": free,
        "size": free,
        "is_input": False,
        "is_output": False,
        "deps": deps,
        "unmet_deps": [],
    }


def _fresh(name: str, taken: set[str]) -> str:
    """Return a name that no buffer has yet."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}{number}"
    taken.add(found)
    return found
