"""The least peak by definition, from the JSON document of a graph: plain Python, nothing imported.

Live bytes are added up again for every set of ops, in-place writes are found by trying
all choices, and the least peak is the cheapest way through all downsets.
"""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


class Model:
    """A graph document in one of the two memory models.

    `document`: as of `optsched-graph/1`; has been found valid. `in_place`: True if ops may write
    outputs into candidate inputs that die at them.
    """

    def __init__(self, document: Document, *, in_place: bool) -> None:
        ops, self.buffers = document["ops"], {b["name"]: b for b in document["buffers"]}
        self.n = len(ops)
        place = {op["name"]: v for v, op in enumerate(ops)}
        producer = {b: v for v, op in enumerate(ops) for b in op.get("writes", ())}
        used = [{*op.get("reads", ()), *op.get("uses", ())} for op in ops]
        self.needs = [0] * self.n
        for v, op in enumerate(ops):
            before = {place[u] for u in op.get("control", ())}
            before |= {producer[b] for b in used[v] if b in producer}
            for b in op.get("writes", ()):
                shown, birth = (self.buffers[b].get(key) for key in ("alias_of", "birth"))
                before |= {producer[shown]} if shown in producer else set()
                before |= {place[birth]} if birth else set()
                if self.buffers[b].get("mutates"):
                    old = self.contents(shown)
                    # All readers of the old contents come before the op that overwrites them.
                    before |= {u for u in range(self.n) if self.shows(ops[u], used[u], old)}
            self.needs[v] = sum(1 << u for u in before - {v})
        self.users = dict.fromkeys(map(self.root, self.buffers), 0)
        for v, op in enumerate(ops):
            for b in {*used[v], *op.get("writes", ())}:
                self.users[self.root(b)] |= 1 << v
        self.kept = {self.root(name) for name, b in self.buffers.items() if "output" in b}
        self.kept |= {name for name, b in self.buffers.items() if b.get("input") == "kept"}
        self.rows: list[tuple[int, int, int, bool]] = []
        for name in self.users:
            made = place.get(self.buffers[name].get("birth"), producer.get(name))
            held = self.users[name] or name in self.kept
            if not self.outside(name) and (made is not None or held):
                birth = 0 if made is None else 1 << made
                row = self.buffers[name]["size"], birth, self.users[name], name in self.kept
                self.rows.append(row)
        for v, op in enumerate(ops):
            if isinstance(op.get("workspace"), int):
                self.rows.append((op["workspace"], 1 << v, 1 << v, False))
        self.pairs: list[set[tuple[str, str]]] = [set() for _ in ops]
        for row in document.get("inplace", ()) if in_place else ():
            if self.may_share(ops[place[row["op"]]], row["output"], row["input"]):
                self.pairs[place[row["op"]]].add((row["output"], self.root(row["input"])))

    def root(self, name: str) -> str:
        """Return the buffer that a view shows."""
        while "alias_of" in self.buffers[name]:
            name = self.buffers[name]["alias_of"]
        return name

    def contents(self, name: str) -> str:
        """The buffer, or the view that overwrote it, whose contents a name shows."""
        while "alias_of" in self.buffers[name] and not self.buffers[name].get("mutates"):
            name = self.buffers[name]["alias_of"]
        return name

    def shows(self, op: Document, used: set[str], old: str) -> bool:
        """Return True if an op uses some contents, other than by overwriting them."""
        fresh = {b for b in op.get("writes", ()) if not self.buffers[b].get("mutates")}
        return any(self.contents(b) == old for b in used | fresh)

    def outside(self, name: str) -> bool:
        """Return True if the bytes of a buffer are never counted."""
        buffer = self.buffers[name]
        return buffer.get("input") == "excluded" or buffer.get("output") == "own"

    def may_share(self, op: Document, output: str, named: str) -> bool:
        """Return True if an op may write an output into an input that has no other users left."""
        made, root = self.buffers[output], self.root(named)
        own = "alias_of" not in made and made.get("birth", op["name"]) == op["name"]
        overwritten = root in {self.root(b) for b in op["writes"]}
        if not own or overwritten or root in self.kept or self.outside(root):
            return False
        size, room = made["size"], self.buffers[root]["size"]
        # Through a view, all bytes of the input must be taken; else a smaller output fits as well.
        fits = size == room if named != root else size <= room
        return fits and size > 0 and not self.outside(output) and op.get("workspace") != output

    def live(self, started: int, ended: int) -> int:
        """Bytes born at ops of `started` that are kept or used outside `ended`."""
        return sum(
            size
            for size, birth, users, kept in self.rows
            if not birth & ~started and (kept or users & ~ended)
        )

    def during(self, done: int, v: int) -> int:
        """Least live bytes while an op runs after the ops of a downset."""
        # The input is dead when all its users have run, this op included.
        able = [pair for pair in self.pairs[v] if not self.users[pair[1]] & ~(done | 1 << v)]
        return self.live(done | 1 << v, done) - self.saved(able)

    def saved(self, pairs: list[tuple[str, str]]) -> int:
        """Most bytes of outputs that can be written in place, each into an input of its own."""
        if not pairs:
            return 0
        (output, source), rest = pairs[0], pairs[1:]
        others = [pair for pair in rest if pair[0] != output and pair[1] != source]
        # Either the first pair is not used, or it is, and its output and input are taken.
        return max(self.saved(rest), self.buffers[output]["size"] + self.saved(others))

    def ready(self, done: int) -> list[int]:
        """Ops that may run next."""
        return [v for v in range(self.n) if not done >> v & 1 and not self.needs[v] & ~done]

    def peak(self, order: tuple[int, ...]) -> int:
        """Peak memory of an order."""
        done, peak = 0, self.live(0, 0)
        for v in order:
            assert v in self.ready(done)
            peak, done = max(peak, self.during(done, v)), done | 1 << v
        assert done == (1 << self.n) - 1
        return peak

    def least_peak(self, most: int) -> int | None:
        """Least peak over all orders; None if there are more than `most` downsets."""
        # By number of finished ops: of each set the least peak of an order that gets there.
        layer = {0: self.live(0, 0)}
        for _ in range(self.n):
            following: dict[int, int] = {}
            for done, peak in layer.items():
                for v in self.ready(done):
                    reached, after = max(peak, self.during(done, v)), done | 1 << v
                    following[after] = min(following.get(after, reached), reached)
            layer, most = following, most - len(following)
            if most < 0:
                return None
        return layer[(1 << self.n) - 1]
