"""Foreign models at first try: `python -m experiments.foreign_models FOLDER [--set NAME]`.

FOLDER keeps the downloads. Each model is solved by the command line as it is; if that is refused
with a line to try, once more with that line. The plan is then put into the model and measured in
its runtime, before and after.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from experiments.foreign_models.packages import (
    HELD_OUT,
    HELD_OUT_AGAIN,
    HELD_OUT_MODELS,
    PINNED,
    download,
    in_turns,
    take_models,
)
from experiments.tables import markdown, replace_table, write_rows

PACKAGES = ("onnx", "onnxruntime", "tflite", "tflite_micro")
"""Readers and runtimes that the models need."""
SETS = {"models": PINNED, "held-out": HELD_OUT, "held-out-again": HELD_OUT_AGAIN}
"""Packages of each set, by the name of its table; no set has a content of those before it."""
HERE = Path(__file__).parent
SECONDS = 10
"""Time limit of a solve."""


@dataclass(frozen=True)
class Row:
    """One model. Bytes are -1 if unknown."""

    model: str
    kilobytes: int
    """`model` and `kilobytes`: package and file, and its size."""
    tries: int
    """1 if the first try gave a plan, 2 if the suggested line did, 0 if neither did."""
    before: int = -1
    planned: int = -1
    proved: int = 0
    """`before`, `planned` and `proved`: bytes with the runtime's own order and planner, bytes of
    the plan, and whether it is proved to be the smallest."""
    held_before: int = -1
    held_after: int = -1
    held_fused: int = -1
    explained: int = 0
    """`held_before`, `held_after`, `held_fused` and `explained`: bytes that the runtime held before
    and after, those with all of ONNX Runtime's fusions on top of the plan, and whether their
    difference to what is planned is below 2 % or has a named cause."""
    cause: str = ""
    """Causes of the difference after."""
    same: int = 0
    """1 if the outputs before and after are equal bit for bit."""
    said: str = ""
    """Reason for a missing plan or measurement."""
    named: int = -1
    """Bytes held with the settings of the session that `optsched apply` names."""


def main() -> None:
    """Run all models and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder that keeps the downloads")
    parser.add_argument("--set", choices=SETS, default="models", help="set of models to run")
    args = parser.parse_args()
    folder: Path = args.folder
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        parser.error(f"{', '.join(missing)} not installed; run: make frameworks")
    rows = []
    for path in models_of(folder, args.set):
        rows.append(run_model(path, folder))
        print(rows[-1], flush=True)
    file = "table.csv" if args.set == "models" else f"{args.set.replace('-', '_')}.csv"
    write_rows(HERE / file, rows)
    replace_table(HERE / "README.md", args.set, table(rows))


def models_of(folder: Path, name: str) -> list[Path]:
    """Return the models of a set."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    models: dict[str, list[list[Path]]] = {}
    for each, pins in SETS.items():
        models[each] = take_models(download(wheels, pins), folder / each, seen)
        if each == name:
            break
    if name == "models":
        return [path for paths in models[name] for path in paths]
    return in_turns(models[name], HELD_OUT_MODELS)


def run_model(path: Path, folder: Path) -> Row:
    """Solve, apply and measure one model."""
    name, size = f"{path.parent.name}/{path.name}", path.stat().st_size // 1000
    plan = folder / "plan.json"
    plan.unlink(missing_ok=True)
    command = ["solve", str(path), "--time-limit", str(SECONDS), "-o", str(plan), "--json"]
    ran, tries = optsched(*command), 1
    line = ran.stderr.rpartition("; try ")[2] if "; try --dim" in ran.stderr else ""
    if line:
        ran, tries = optsched(*command, *shlex.split(line)), 2
    if not plan.exists():
        return Row(name, size, 0, said=first_line(ran, path))
    found = json.loads(ran.stdout)
    saving = found.get("saving") or {}
    figures = (int(saving.get("before", -1)), found["slab"], int(found["slab_proof"] is not None))
    measured = optsched("measure", str(path), str(plan), "--json")
    if not measured.stdout.startswith("{"):
        return Row(name, size, tries, *figures, said=first_line(measured, path))
    held = json.loads(measured.stdout)
    after = held["after"]
    causes = ", ".join(f"{cause} {value:+,}" for cause, value in after["causes"].items() if value)
    is_explained = int(measured.returncode == 0)
    fused = -1 if held["fused"] is None else held["fused"]
    bytes_held = (held["before"]["held"], after["held"], fused, is_explained)
    same, named = int(held["same_outputs"]), named_bytes(path, plan, folder)
    return Row(name, size, tries, *figures, *bytes_held, causes, same, named=named)


def named_bytes(path: Path, plan: Path, folder: Path) -> int:
    """Return the bytes held with the settings that `optsched apply` names; -1 if it names none."""
    ran = optsched(
        "apply", str(path), str(plan), "-o", str(folder / f"planned{path.suffix}"), "--json"
    )
    record = json.loads(ran.stdout) if ran.returncode == 0 else {}
    return int(record.get("held", {}).get("held", -1))


def optsched(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does."""
    command = [sys.executable, "-m", "optsched", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def first_line(ran: subprocess.CompletedProcess[str], path: Path) -> str:
    """Return the error of a command on a model, without the paths of this machine."""
    lines = ran.stderr.strip().splitlines() or ["no message"]
    said = re.sub(r"^optsched: error: (\S+\.(onnx|tflite): )?", "", lines[0])
    # Data beside the model is named by its file alone.
    return said.replace(f"{path.parent}/", "").replace("|", " ")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown, and their sums."""
    head = "model|kB|planned at try|own planner|planned|saved|held before|held after|explained"
    head += "|with named settings"
    lines = [cells(row) for row in rows]
    opened = [row for row in rows if row.tries]
    ran = [row for row in rows if row.held_after >= 0]
    named = [row for row in rows if row.named >= 0]
    saved = [row for row in opened if 0 <= row.planned < row.before]
    total = [
        f"**{len(rows)} models**",
        "",
        f"{sum(row.tries == 1 for row in rows)} + {sum(row.tries == 2 for row in rows)}",
        "",
        "",
        f"on {len(saved)}",
        "",
        f"{sum(row.same for row in ran)} of {len(ran)} bit for bit",
        f"{sum(row.explained for row in ran)} of {len(ran)}",
        f"at most held before: {sum(x.named <= x.held_before for x in named)} of {len(named)}",
    ]
    return markdown(head.split("|"), [*lines, total])


def cells(row: Row) -> list[str]:
    """Return the cells of one model."""
    first = [row.model, f"{row.kilobytes:,}"]
    if not row.tries:
        return [*first, f"refused: {row.said}", *[""] * 7]
    saved = f"{100 * (1 - row.planned / row.before):.1f} %" if row.before > 0 else ""
    proof = "" if row.proved else " (not proved)"
    figures = [str(row.tries), count(row.before), f"{row.planned:,}{proof}", saved]
    if row.held_after < 0:
        return [*first, *figures, f"not run: {row.said}", "", "", ""]
    why = row.cause or ("exactly" if row.held_after == row.planned else "within 2 %")
    if not row.explained:
        why = "no"
    held = (count(row.held_before), count(row.held_after), why, count(row.named))
    return [*first, *figures, *held]


def count(value: int) -> str:
    return f"{value:,}" if value >= 0 else ""


if __name__ == "__main__":
    main()
