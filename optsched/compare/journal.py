"""Journal of a long run: an append-only file with one JSON object per finished measurement.

Each line has a key, a hash of everything that the outcome depends on: the bytes of the graph's
file, the memory model, the method with its options, and the code. A rerun looks up its keys and
skips the work that is already recorded. A truncated or damaged line is ignored, and its work is
repeated. The checksum in each line detects accidental damage, not forgery: trust a journal only as
far as you trust its owner.
"""

from __future__ import annotations

import errno
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Self

from heuristics import ORDERINGS, PACKINGS
from optsched.compare.methods import Heuristic, Kind, Method, PlanFile
from optsched.compare.rows import Failed, Measured, Outcome, Trouble, was_interrupted
from optsched.compare.task import GraphTask, digest_of
from optsched.errors import OptschedError, UsageError
from optsched.formats.source import is_compressed, parse_json, read_bytes
from optsched.model.plan import Plan
from optsched.runtime.facts import code_digest
from optsched.runtime.limits import Event, Objective, Proof, StopReason
from optsched.solver.result import Result

HEADER = {"format": "optsched-journal/1"}
_ENUMS: dict[str, type[StrEnum]] = {
    "kind": Kind,
    "trouble": Trouble,
    "peak_proof": Proof,
    "slab_proof": Proof,
    "objective": Objective,
    "stop_reason": StopReason,
}


class Journal:
    """Outcomes of earlier runs, and the file to which those of this run are appended.

    Raise `UsageError` if the file exists but is not a journal, or is compressed (it is left
    unchanged), or if it cannot be written.

    `path`: path of the journal; the file is created if it does not exist. `retry`: ignore recorded
    failures, so that these methods run again.
    """

    def __init__(self, path: str | Path, *, retry: bool = False) -> None:
        self.path = Path(path)
        self.retry = retry
        self.damaged = 0
        self.trouble = ""
        self._found: dict[str, Outcome] = {}
        whole = self._load() if self.path.exists() else b""
        with _said_in_one_line(self.path):
            self._file: BinaryIO = open(self.path, "ab", buffering=0)  # noqa: SIM115 - kept open
            if not whole:
                # The file is new, or was truncated within its header: it holds no outcome.
                self._file.truncate(0)
                self._write(HEADER)
            # The last line was cut off: end it, so that the next one is read as a line of its own.
            elif not whole.endswith(b"\n"):
                self._file.write(b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str | None) -> Outcome | None:
        """Return the outcome recorded under a key, or None."""
        return None if key is None else self._found.get(key)

    def put(self, key: str | None, instance: str, outcome: Outcome) -> None:
        """Append an outcome, unless it was interrupted and is therefore incomplete.

        If a line cannot be written, for example because the disk is full, the journal writes no
        more lines, stores the reason in :attr:`trouble`, and the run continues.
        """
        # An interrupted outcome would hide that the work is not done.
        if key is None or was_interrupted(outcome) or self.trouble:
            return
        body = {"key": key, "instance": instance, **_encode(outcome)}
        try:
            with _said_in_one_line(self.path):
                self._write({**body, "sum": _sum(body)})
        except UsageError as error:
            self.trouble = str(error)

    def _write(self, record: Mapping[str, Any]) -> None:
        # Each line is one unbuffered write: a killed process leaves at most one truncated line.
        line = _line(record)
        if self._file.write(line) != len(line):
            raise OSError(errno.ENOSPC, "no space left on device")

    def _load(self) -> bytes:
        """Read all complete lines; return the data, or nothing if the header is truncated."""
        data = read_bytes(self.path, compressed=False)
        # The beginning of the header, or nothing.
        if _line(HEADER).startswith(data):
            return b""
        if is_compressed(data):
            # Appending to a compressed file would destroy it.
            raise UsageError(f"{self.path}: journal is compressed; decompress it first (gunzip)")
        lines = data.split(b"\n")
        if _parse(lines[0]) != HEADER:
            raise UsageError(
                f"{self.path}: not an optsched journal, file left unchanged; "
                "name another file or remove this one"
            )
        for line in lines[1:]:
            if line:
                self._take(_parse(line))
        return data

    def _take(self, record: object) -> None:
        try:
            # The checksum is taken out before it is computed.
            if not isinstance(record, dict) or record.pop("sum", None) != _sum(record):
                raise ValueError("truncated or damaged")
            outcome = _decode(record)
        except (ValueError, KeyError, TypeError):
            self.damaged += 1
            return
        if not (self.retry and isinstance(outcome, Failed)):
            self._found[record["key"]] = outcome


def keys_of(task: GraphTask) -> dict[str, str]:
    """Return the key of each method of a task, by method name.

    A plan from a file has no key: checking it again takes no time, and its file may have changed.
    """
    shared = {
        "graph": digest_of(task.path),
        **task.settings.record(),
        # Outcomes do not depend on the number of processes.
        "jobs": None,
        "code": code_digest(),
    }
    found = {}
    for method in task.methods:
        if isinstance(method, PlanFile):
            continue
        own = {"method": method.name, "plugin": _plugin_digest(method)}
        if isinstance(method, Heuristic) and method.kind is Kind.PACKING:
            # A packing method packs the reference's order, so its outcome depends on the reference.
            own["reference"] = task.reference.name
        text = json.dumps({**shared, **own}, sort_keys=True)
        found[method.name] = hashlib.sha256(text.encode()).hexdigest()
    return found


def _plugin_digest(method: Method) -> str:
    """Return a digest of the modules that define a registered method's functions."""
    if not isinstance(method, Heuristic):
        return ""
    makers = (ORDERINGS.get(method.ordering or ""), PACKINGS.get(method.packing or ""))
    modules = [sys.modules.get(getattr(make, "__module__", "")) for make in makers]
    paths = [path for module in modules if (path := getattr(module, "__file__", None))]
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()


@contextmanager
def _said_in_one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or "cannot be opened").lower()
        raise UsageError(f"{path}: cannot write the journal: {reason}") from None


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, separators=(",", ":")) + "\n").encode()


def _parse(line: bytes) -> object:
    try:
        return parse_json(line.decode())
    except (OptschedError, UnicodeDecodeError):
        return None


# Sorted keys: the checksum must not depend on the sequence of fields.
def _sum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _encode(outcome: Outcome) -> dict[str, Any]:
    """Return the fields of an outcome; the order is left out if the plan contains it."""
    record = asdict(outcome)
    if result := record.get("result"):
        # Methods are compared under the graph's own rules only, so the question adds nothing.
        for key in ("question", "state", "packing", "shortage"):
            del result[key]
        result["trace"] = [tuple(event.values()) for event in result["trace"]]
        if result["plan"]:
            # The plan has the order already.
            del record["order"]
    return record


def _decode(record: Mapping[str, Any]) -> Outcome:
    values = {key: value for key, value in record.items() if key not in ("key", "instance")}
    for part in (values, values.get("result") or {}):
        for key in part.keys() & _ENUMS.keys():
            part[key] = None if part[key] is None else _ENUMS[key](part[key])
    if "trouble" in values:
        return Failed(**values)
    order = tuple(values.pop("order", ()))
    if (result := values.pop("result")) is not None:
        for key in ("objective", "capacity", "moved", "in_pools"):
            # Journals of older versions have these keys; what they say follows from the others.
            result.pop(key, None)
        result["trace"] = tuple(Event(*event) for event in result["trace"])
        if (plan := result["plan"]) is not None:
            result["plan"] = Plan(**{key: tuple(row) for key, row in plan.items()})
            order = result["plan"].order
        result = Result(**result)
    return Measured(**values, result=result, order=order)
