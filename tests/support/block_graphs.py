"""Documents of graphs made of identical blocks; in half of them one block is different."""

from __future__ import annotations

from random import Random

from tests.support.definition import Document
from tests.support.odd_graphs import sizes_of

NOISE = ("size", "control", "read", "output", "pair", "ring", "workspace")
"""Possible differences: a size; an edge between blocks; a common buffer read; a graph output; an
in-place pair; buffers that each block shares with the next one, and the last with the first; the
workspace of an op."""


def block_document(rng: Random, most: int) -> Document:
    """Return a document of up to `most` ops: some common, the rest in two or more blocks."""
    draft = _Draft(rng, most)
    if rng.random() < 0.5:
        draft.spoil(rng.choice(NOISE))
    return draft.document()


class _Draft:
    """Ops `p*` before the blocks, `o<block>_<op>` in them, `s*` after."""

    def __init__(self, rng: Random, most: int) -> None:
        self.rng = rng
        self.sizes = sizes_of(rng, 4 * most)
        common = rng.randint(0, min(3, most - 2))
        before = rng.randint(0, common)
        self.length = rng.randint(1, max(1, min(5, (most - common) // 2)))
        self.blocks = rng.randint(2, max(2, (most - common) // self.length))
        self.buffers: dict[str, Document] = {}
        self.ops: dict[str, Document] = {}
        self.inplace: list[Document] = []
        for i in range(rng.randint(0, 2)):
            self.buffer(f"i{i}", input=rng.choice(["freed", "kept"]))
        for i in range(before):
            self.op(f"p{i}", [*self.buffers], [f"p{i}"])
        known = [*self.buffers]
        self.inner: list[str] = []
        for i in range(self.length):
            self.add_to_blocks(i, known)
        for i in range(common - before):
            named = [b for b in self.inner if rng.random() < 0.5]
            behind = [f"s{j}" for j in range(i)]
            reads = [b.format(j) for b in named for j in range(self.blocks)]
            self.op(f"s{i}", [*reads, *behind], [f"s{i}"])

    def size(self) -> int:
        return self.rng.choice(self.sizes)

    def buffer(self, name: str, **more: object) -> Document:
        self.buffers[name] = {"name": name, "size": self.size(), **more}
        return self.buffers[name]

    def op(self, name: str, known: list[str], writes: list[str]) -> Document:
        """An op outside the blocks."""
        reads = [b for b in known if self.rng.random() < 0.6]
        self.ops[name] = {"name": name, "reads": reads, "writes": writes, "control": []}
        for b in writes:
            self.buffer(b)
        if self.rng.random() < 0.3:
            self.ops[name]["workspace"] = self.size()
        return self.ops[name]

    def add_to_blocks(self, i: int, known: list[str]) -> None:
        """One more op in each block; what is in braces is the number of the block."""
        rng = self.rng
        # The latest buffers twice: chains are more likely.
        choice = [*known, *self.inner, *self.inner[-2:]]
        reads = list(dict.fromkeys(rng.choice(choice) for _ in range(rng.randint(0, 3)) if choice))
        control = [f"o{{}}_{rng.randrange(i)}"] if i and rng.random() < 0.2 else []
        control += [p for p in self.ops if p[0] == "p" and rng.random() < 0.1]
        scratch = self.size() if rng.random() < 0.25 else None
        writes = [f"b{{}}_{i}_{n}" for n in range(rng.choice([0, 1, 1, 1, 2]))]
        views = rng.random() < 0.1 and len(self.inner) > 0
        details = []
        for name in writes:
            source = rng.choice(reads) if reads and rng.random() < 0.4 else None
            size = self.size()
            if source is not None:
                # As large as its source, so that the op may write in place.
                size = self.buffers[source.format(0)].get("size", size)
            kept = rng.random() < 0.2
            birth = f"o{{}}_{rng.randrange(i)}" if i and rng.random() < 0.15 else None
            details.append((name, source, size, kept, birth))
        for j in range(self.blocks):
            name = f"o{j}_{i}"
            op = self.ops[name] = {
                "name": name,
                "reads": [b.format(j) for b in reads],
                "writes": [b.format(j) for b in writes],
                "control": [u.format(j) for u in control],
            }
            if scratch is not None:
                op["workspace"] = scratch
            for b, source, size, kept, birth in details:
                made: Document = self.buffer(b.format(j))
                made["size"] = size
                if kept:
                    made["output"] = "live"
                if birth is not None:
                    made["birth"] = birth.format(j)
                elif source is not None:
                    self.pair(name, b.format(j), source.format(j))
            if views:
                view = f"v{j}_{i}"
                op["writes"].append(view)
                self.buffers[view] = {"name": view, "alias_of": self.inner[-1].format(j)}
        self.inner += writes

    def pair(self, op: str, output: str, source: str) -> None:
        self.inplace.append({"op": op, "output": output, "input": source})

    def spoil(self, kind: str) -> None:
        """Make something different in one block."""
        rng = self.rng
        j, i = rng.randrange(self.blocks), rng.randrange(self.length)
        op = self.ops[f"o{j}_{i}"]
        own = [b for b in op["writes"] if "size" in self.buffers[b]]
        if kind == "size" and own:
            self.buffers[own[0]]["size"] = self.size()
        elif kind == "control":
            other = f"o{(j + 1) % self.blocks}_{rng.randrange(i + 1)}"
            op["control"].append(other)
        elif kind == "read":
            op["reads"] += [b for b in ("i0", "p0") if b in self.buffers and b not in op["reads"]]
        elif kind == "output" and own:
            self.buffers[own[0]]["output"] = "live"
        elif kind == "pair" and self.inplace:
            del self.inplace[rng.randrange(len(self.inplace))]
        elif kind == "workspace":
            op["workspace"] = self.size()
        elif kind == "ring":
            size = self.size()
            for at in range(self.blocks):
                self.buffer(f"r{at}", input="freed")["size"] = size
                for user in (at, (at + 1) % self.blocks):
                    self.ops[f"o{user}_{i}"]["reads"].append(f"r{at}")

    def document(self) -> Document:
        ops, buffers = list(self.ops.values()), list(self.buffers.values())
        used = {b for op in ops for b in op["reads"]}
        for b in buffers:
            # Outside the blocks only: an output in one block would tell it apart.
            if b["name"][0] in "ps" and (b["name"] not in used) and self.rng.random() < 0.7:
                b["output"] = "live"
        if self.rng.random() < 0.5:
            self.rng.shuffle(ops)
            self.rng.shuffle(buffers)
        head = {"format": "optsched-graph/1", "name": "blocks"}
        return {**head, "ops": ops, "buffers": buffers, "inplace": self.inplace}
