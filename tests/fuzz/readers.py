"""Nothing that a file holds crashes a reader.

Small files of every format that can be read (found by content in `instances/` and `tests/data/`),
stores and their exports among them, are changed at random: bytes flipped, cut out, doubled and
mixed with those of another file, numbers made huge or negative, values of JSON dropped, swapped or
of another kind. What a reader makes of it is a value or one line of an error; anything else is
a result: another exception, a crash of the process, more than five seconds of processor time, more
than a gigabyte of memory. A result is written beside the command's output and named by reader,
seed and number, by which it is made again.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from optsched.errors import MissingDependencyError, OptschedError
from optsched.formats import FORMATS
from optsched.formats.format import Format, Source
from optsched.formats.opening import extra_named, stem_of
from optsched.formats.source import unpack
from optsched.formats.table import find_format
from optsched.model.graph import Graph
from optsched.model.module import Module
from tests.support.pt2_builder import archive_of

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "data" / "corpus"
FOLDERS = ("instances", "tests/data")
"""Folders in which seeds are looked for."""
LARGEST_SEED = 16 * 1024
"""Bytes of a seed, decompressed; larger ones are taken only where a format has no other."""
MOST_SEEDS = 12
SECONDS = 5
BYTES = 2**30

# Edges of machine integers and of JSON's exact integers; 2**62 is the most bytes of a graph.
NUMBERS = (
    0,
    -1,
    1,
    2,
    7,
    255,
    2**16,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**62,
    2**63,
    2**64,
    -(2**63),
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    "x",
    [],
    {},
    [[]],
    {"a": 1},
    1.5,
    -0.0,
    1e308,
    "0",
)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")

Read = Callable[[bytes], object]


def mutate(seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Return one of the seeds, changed in one to eight ways."""
    data = rng.choice(seeds)
    # Mostly one change: a file with many is refused early, at the first of them.
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = rng.choice(WAYS)(data, seeds, rng)
    # Doubling grows a file exponentially.
    return data[: 4 * LARGEST_SEED]


def _flip(data: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    if not data:
        return b"\0"
    at = rng.randrange(len(data))
    # A flipped bit, any byte, or a byte whose bits are all 0 or all 1.
    changed = rng.choice((data[at] ^ (1 << rng.randrange(8)), rng.randrange(256), 0, 255))
    return data[:at] + bytes([changed]) + data[at + 1 :]


def _cut(data: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    low, high = _span(data, rng)
    return data[:low] + data[high:]


def _double(data: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    low, high = _span(data, rng)
    return data[:high] + data[low:high] * rng.choice((1, 1, 3, 30)) + data[high:]


def _mix(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(seeds)
    low, high = _span(other, rng)
    at = rng.randint(0, len(data))
    return data[:at] + other[low:high] + data[rng.choice((at, min(len(data), at + high - low))) :]


def _truncate(data: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def _renumber(data: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    """Put another number in the place of one that is written in digits, or as a machine word."""
    found = list(_NUMBER.finditer(data))
    # In binary files, digits are rare and words are what counts.
    if found and rng.random() < 0.7:
        match = rng.choice(found)
        text = str(rng.choice(NUMBERS)).encode()
        return data[: match.start()] + text + data[match.end() :]
    if len(data) < 8:
        return data
    width = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(data) - width + 1)
    number = rng.choice(NUMBERS) % 2 ** (8 * width)
    return data[:at] + number.to_bytes(width, "little") + data[at + width :]


def _restructure(data: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    """Change one value somewhere in JSON: drop it, double it, swap it, make it of another kind."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _flip(data, _, rng)
    places = list(_places(document))
    if not places:
        return data
    holder, key = rng.choice(places)
    other_holder, other = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1:
            holder[key] = rng.choice((*VALUES, *NUMBERS))
        case 2:
            # Copied by way of text: shared or circular values cannot stand in a file.
            holder[key] = json.loads(json.dumps(other_holder[other]))
        case 3 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case _:
            holder[key] = [holder[key]] if rng.random() < 0.5 else str(holder[key])
    return json.dumps(document).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(value, dict | list):
        return
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        yield from _places(value[key])


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    low = rng.randint(0, len(data))
    return low, min(len(data), low + rng.choice((1, 2, 4, 16, 64, 512)))


WAYS = (_flip, _flip, _cut, _double, _mix, _truncate, _renumber, _renumber, *[_restructure] * 4)


@cache
def all_seeds() -> dict[str, list[bytes]]:
    """Return small files of each format that can be read, decompressed, of all sizes there are."""
    found: dict[str, list[bytes]] = {name: [] for name, row in FORMATS.items() if row.read}
    stores = ROOT / "tests" / "data" / "stores"
    found["pt2"] = [path.read_bytes() for path in CORPUS.glob("*.pt2.json")]
    found["store"] = [path.read_bytes() for path in stores.glob("*.db")]
    found["store-export"] = [path.read_bytes() for path in stores.glob("*.jsonl")]
    for path in [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]:
        if path.is_file() and path.suffix not in (".md", ".py", ".svg", ".db", ".jsonl"):
            with contextlib.suppress(OptschedError):
                data = unpack(path.read_bytes())
                found.get(find_format(Source(data)).name, []).append(data)
    return {name: _spread(seeds) for name, seeds in found.items()}


def _spread(seeds: list[bytes]) -> list[bytes]:
    """Return some of the seeds, from the smallest to the largest that is not too large."""
    by_size = sorted(set(seeds), key=lambda data: (len(data), data))
    small = [data for data in by_size if len(data) <= LARGEST_SEED] or by_size[:1]
    step = max(1, (len(small) - 1) // (MOST_SEEDS - 1))
    # Evenly by size, so that small and large files are among them.
    return small[::step][:MOST_SEEDS]


@cache
def _graphs() -> list[tuple[Graph, list[bytes]]]:
    """Graphs that plans and certificates among the seeds are of, and names that show it."""
    from optsched.formats import read_graph

    paths = [*CORPUS.glob("graph*.json"), *(ROOT / "instances" / "hlo").glob("*-module.txt")]
    graphs = [read_graph(path) for path in sorted(paths)]
    return [(g, [g.name.encode(), *(op.name.encode() for op in g.ops[:20])]) for g in graphs]


def _graph_of(data: bytes) -> Graph:
    """Return the graph that a plan or certificate is of, as far as that can still be read."""
    return max(_graphs(), key=lambda row: sum(name in data for name in row[1]))[0]


@cache
def _module() -> Module:
    """The module that plans and certificates of modules among the seeds are of."""
    from optsched.formats import read_module

    return read_module(CORPUS / "module.json")


def reader_of(row: Format) -> Read:
    """Return what reads bytes with a row of the table, as a command would."""
    assert row.read is not None
    read = row.read

    def ask(data: bytes) -> object:
        if row.name == "pt2" and data.startswith(b"{"):
            # The contents of an archive are reached only if its checksum is right.
            data = archive_of(data)
        source = Source(data, stem_of("fuzz.bin"))
        with extra_named(row):
            for more in (row.orders, row.modules):
                if more is not None:
                    with contextlib.suppress(OptschedError):
                        more(Source(data))
            if "module" in row.options:
                return read(source, module=_module())
            if "graph" not in row.options:
                return read(source)
            graph = _graph_of(data)
            return check(graph, read(source, graph=graph))

    return ask


def check(graph: Graph, found: Any) -> object:
    """Check a plan or a certificate as `optsched check` does."""
    from optsched.check.certificate import check_certificate
    from optsched.check.claims import check_claims
    from optsched.model.question import Question

    if isinstance(found, tuple):
        return check_claims(Question(graph), *found)
    return check_certificate(graph, found)


def readers() -> dict[str, Read]:
    """Return all readers that can be run here, by name."""
    known = {name: reader_of(row) for name, row in FORMATS.items() if row.read is not None}
    return {**known, "store": read_store, "store-export": read_exported}


def read_store(data: bytes) -> object:
    """Do one of the things with a store that read it, as with a file from elsewhere."""
    from optsched.store import PlanStore, export_store, verify
    from optsched.store.exchange import Parcel, dump_all

    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        store = PlanStore(Path(folder, "plans.db"))
        store.path.write_bytes(data)
        match zlib.crc32(data) % 8:
            # Chosen by the content, so that the same file makes the same find again.
            case 0 | 1:
                return verify(store)
            case 2 | 3:
                return store.records(), store.get(_graphs()[0][0])
            case 4:
                return export_store(store, Path(folder, "saved.jsonl"))
            case _:
                return [Parcel(document) for document in dump_all(store)]


_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Folder in which files cost least."""


def read_exported(data: bytes) -> object:
    """Take apart what another store has exported; or import it into a store, which stays sound."""
    from optsched.store import PlanStore, import_store, verify
    from optsched.store.exchange import Parcel, read_export

    if zlib.crc32(data) % 8 == 0:
        with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
            path, store = Path(folder, "plans.jsonl"), PlanStore(Path(folder, "plans.db"))
            path.write_bytes(data)
            import_store(store, path, trust=zlib.crc32(data) % 16 == 0)
            if troubles := verify(store):
                raise AssertionError(f"imported and unsound: {troubles[0]}")
            return store.records()
    found = []
    for document in read_export(data):
        with contextlib.suppress(OptschedError):
            found.append(Parcel(document))
    return found


class TooLong(Exception):  # noqa: N818
    """Raised where five seconds of processor time are over."""


def _give_up(*_: object) -> None:
    raise TooLong


def most_memory() -> int:
    """The most bytes of this process that were in memory at a time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_one(name: str, read: Read, seed: int, number: int, limit: int) -> str:
    """Read one input; return what went wrong, empty if nothing.

    The process may come to `limit` bytes of memory.
    """
    data = input_of(name, seed, number)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        read(data)
    except OptschedError as error:
        if "\n" in str(error):
            return f"an error of several lines: {error}"
    except TooLong:
        return f"more than {SECONDS} s"
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    if most_memory() > limit:
        return "more than a gigabyte of memory"
    return ""


def input_of(name: str, seed: int, number: int) -> bytes:
    """Return an input by its number."""
    return mutate(all_seeds()[name], random.Random(f"{name} {seed} {number}"))


MOST_FINDS = 20
"""After which a reader is left alone."""


def _work(name: str, seed: int, numbers: range, at: Any, finds: Path) -> None:
    """Read inputs one after the other; say which, for who finds this process dead."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGVTALRM, _give_up)
    read = readers()[name]
    read_quietly(read, all_seeds()[name][0])
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    # A file that asks for terabytes then gets a MemoryError, instead of a machine that swaps.
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    # A fork has the memory of its parent, which in a run of tests may be a gigabyte.
    limit = most_memory() + BYTES
    found = 0
    for number in numbers:
        at.value = number
        trouble = run_one(name, read, seed, number, limit)
        if trouble:
            (finds / f"{number}").write_text(trouble)
            found += 1
        if found == MOST_FINDS:
            break
    at.value = numbers.stop


def read_quietly(read: Read, data: bytes) -> None:
    """Read once, so that what is loaded on first use is there before memory is measured."""
    with contextlib.suppress(OptschedError):
        read(data)


def fuzz(name: str, inputs: int, seed: int = 0) -> dict[int, str]:
    """Read this many inputs in a process of its own; return what went wrong, by number."""
    # Forked, so that seeds and graphs need not be read again; a crash ends the child only.
    context = multiprocessing.get_context("fork")
    at = context.Value("q", 0)
    with tempfile.TemporaryDirectory() as place:
        finds = Path(place)
        while at.value < inputs and len(os.listdir(finds)) < MOST_FINDS:
            numbers = range(at.value, inputs)
            # After a crash, another child continues at the next number.
            worker = context.Process(target=_work, args=(name, seed, numbers, at, finds))
            worker.start()
            worker.join()
            if at.value < inputs:
                (finds / f"{at.value}").write_text(f"the process ended with {worker.exitcode}")
                at.value += 1
        return {int(path.name): path.read_text() for path in sorted(finds.iterdir())}


def main(
    count: int = 1_000, seed: int = 0, *, names: tuple[str, ...] = (), folder: str = "out/finds"
) -> int:
    """Read damaged inputs; write those that crash a reader into a folder."""
    wrong = 0
    for name in names or readers():
        started = os.times()
        try:
            readers()[name](all_seeds()[name][0])
        except MissingDependencyError as error:
            print(f"{name:22} left out: {error}", flush=True)
            continue
        except OptschedError:
            pass
        found = fuzz(name, count, seed)
        ended = os.times()
        # Entries 2 and 3 are times of finished children.
        seconds = sum(ended[2:4]) - sum(started[2:4])
        line = f"{count:,} inputs, {len(found)} finds, {seconds:.1f} s of processor time"
        print(f"{name:22} {line}", flush=True)
        finds = Path(folder)
        for number, trouble in found.items():
            finds.mkdir(parents=True, exist_ok=True)
            path = finds / f"{name}-{seed}-{number}"
            path.write_bytes(input_of(name, seed, number))
            print(f"  {path}: {trouble.strip().splitlines()[-1]}", flush=True)
            path.with_suffix(".txt").write_text(trouble)
        wrong += len(found)
    return int(wrong > 0)
