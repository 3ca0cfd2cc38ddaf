"""Documents of odd graphs: hubs, many sources, several components, repeated blocks, huge sizes."""

from __future__ import annotations

from random import Random

from tests.support.definition import Document

SHAPES = ("any", "deep", "hub", "sources", "components", "blocks")
ROOM = 2**62
"""Sizes add up to this much at most."""


def odd_document(rng: Random, most: int) -> Document:
    """Return a document of up to `most` ops."""
    ops = rng.randint(max(0, most - 6), most)
    return _Draft(rng, ops).document()


def wired_document(rng: Random, nodes: int) -> Document:
    """Return a ring of ops whose edges are mostly random: as many as two from each."""
    edges = set()
    for i in range(nodes):
        for far in (1, 2):
            # Watts and Strogatz's small world with a rewiring of 75 %, as in RandWire.
            j = rng.randrange(nodes) if rng.random() < 0.75 else (i + far) % nodes
            if i != j:
                # From lower to higher number: the graph is acyclic.
                edges.add((min(i, j), max(i, j)))
    sizes = sizes_of(rng, nodes)
    ops, inplace = [], []
    for v in range(nodes):
        reads = [f"b{u}" for u, w in sorted(edges) if w == v]
        ops.append({"name": f"o{v}", "reads": reads, "writes": [f"b{v}"]})
        inplace += [_pair(v, f"b{v}", b) for b in reads if rng.random() < 0.4]
    buffers = [{"name": f"b{v}", "size": rng.choice(sizes)} for v in range(nodes)]
    return _document(ops, buffers, inplace)


def sizes_of(rng: Random, buffers: int) -> list[int]:
    """Sizes to choose from: units, plateaus, mostly zeros, powers, nearly equal ones, huge ones."""
    most = ROOM // (4 * max(1, buffers))
    factor = rng.choice([4096, 1_000_003, 2**40, most // 9])
    kinds = [
        [1],
        [0, 0, 0, 0, 3, 7],
        [2**i for i in range(12)],
        [998, 999, 1000, 1001],
        [min(factor, most // 9) * i for i in range(10)],
        [0, 1, 2, 1000, 2**40, 2**40 + 1, most],
        [min(most, rng.randint(2**40, 2**61)) for _ in range(8)],
    ]
    return rng.choice(kinds)


def _pair(v: int, output: str, source: str) -> Document:
    return {"op": f"o{v}", "output": output, "input": source}


def _document(ops: list[Document], buffers: list[Document], inplace: list[Document]) -> Document:
    head = {"format": "optsched-graph/1", "name": "odd"}
    return {**head, "ops": ops, "buffers": buffers, "inplace": inplace}


class _Draft:
    def __init__(self, rng: Random, ops: int) -> None:
        self.rng, self.count, self.shape = rng, ops, rng.choice(SHAPES)
        self.sizes = sizes_of(rng, 6 * ops + 4)
        self.period = rng.randint(2, 4)
        self.ops: list[Document] = []
        self.inplace: list[Document] = []
        self.buffers = {
            f"i{i}": {"name": f"i{i}", "size": self.size(), "input": policy}
            for i, policy in enumerate(rng.choices(["freed", "kept", "excluded"], k=ops % 4))
        }
        self.readable = list(self.buffers)

    def size(self) -> int:
        return self.rng.choice(self.sizes)

    def document(self) -> Document:
        for v in range(self.count):
            self.add_op(v)
        used = {b for op in self.ops for b in (*op["reads"], *op["uses"])}
        often = self.rng.choice([0, 0.1, 0.5])
        for name in self.readable:
            buffer = self.buffers[name]
            if self.rng.random() < (often if name in used else 0.4):
                # Views and inputs cannot have memory of their own.
                live = "alias_of" in buffer or "input" in buffer or self.rng.random() < 0.85
                buffer["output"] = "live" if live else "own"
        buffers = list(self.buffers.values())
        if self.rng.random() < 0.5:
            self.rng.shuffle(self.ops)
            self.rng.shuffle(buffers)
        return _document(self.ops, buffers, self.inplace)

    def reads(self, v: int) -> list[str]:
        rng, known = self.rng, self.readable
        if self.shape == "components":
            # Even and odd ops never read from each other: two components at least.
            known = [b for b in known if b[0] == "b" and int(b[1:].split("_")[0]) % 2 == v % 2]
        few = 3 if self.shape in ("deep", "blocks") else len(known)
        many = rng.choice([0, 1, 1, 2, 2, 3, 5])
        if self.shape == "sources":
            # Most ops are sources, and the last ones read six of them each.
            many = 6 if v > 0.6 * self.count else 0
        found = [known[-1 - rng.randrange(min(few, len(known)))] for _ in range(many) if known]
        if self.shape == "hub" and known:
            found.append(known[0])
        return list(dict.fromkeys(found))

    def add_op(self, v: int) -> None:
        rng, reads = self.rng, self.reads(v)
        op = {"name": f"o{v}", "reads": reads, "uses": [], "writes": [], "control": []}
        if v and rng.random() < 0.2:
            op["control"] = sorted({f"o{rng.randrange(v)}" for _ in range(2)})
        if reads and rng.random() < 0.1:
            op["uses"] = [reads[-1]]
        if rng.random() < 0.15:
            op["workspace"] = self.size()
        outputs = rng.choice([0, 1, 1, 1, 2, 3])
        if self.shape == "blocks" and v >= self.period:
            outputs = len(self.ops[v - self.period]["writes"])
        if reads and rng.random() < 0.12:
            outputs -= 1
            self.add_view(v, reads, op)
        for i in range(outputs):
            self.add_output(v, f"b{v}_{i}", reads, op)
        self.ops.append(op)

    def add_view(self, v: int, reads: list[str], op: Document) -> None:
        view: Document = {"name": f"b{v}_v", "alias_of": reads[0]}
        if self.rng.random() < 0.4 and not self.is_view(reads[0]):
            view["mutates"] = True
            # The old contents are gone: only the view that overwrote them may be read.
            self.readable = [b for b in self.readable if not self.is_about(b, reads[0])]
        self.buffers[view["name"]] = view
        op["writes"].append(view["name"])
        self.readable.append(view["name"])

    def is_view(self, name: str) -> bool:
        return "alias_of" in self.buffers[name]

    def is_about(self, name: str, root: str) -> bool:
        while name != root and self.is_view(name):
            name = self.buffers[name]["alias_of"]
        return name == root

    def add_output(self, v: int, name: str, reads: list[str], op: Document) -> None:
        rng = self.rng
        buffer: Document = {"name": name, "size": self.size()}
        if self.shape == "blocks" and f"b{v - self.period}_{name[-1]}" in self.buffers:
            buffer["size"] = self.buffers[f"b{v - self.period}_{name[-1]}"]["size"]
        elif reads and rng.random() < 0.3:
            # Equal sizes make in-place writes possible.
            buffer["size"] = self.buffers[rng.choice(reads)].get("size", 1)
        if v and rng.random() < 0.07:
            buffer["birth"] = f"o{rng.randrange(v)}"
        self.buffers[name] = buffer
        self.inplace += [_pair(v, name, source) for source in reads if rng.random() < 0.5]
        op["writes"].append(name)
        self.readable.append(name)
