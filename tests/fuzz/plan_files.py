"""Every plan that `solve` writes is accepted by `check`.

Random small graphs of all features are solved by the command with random combinations of its
options: objective, pools, in-place, capacity, certificate, engine, warm start, trace, limits. Each
plan that is written is checked by the command as a user calls it, its certificate with it. The
command prints counts and exits with 1 if any plan was refused, any run crashed, or any answer was
none that the README lists.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

from optsched.cli import main as optsched
from optsched.formats import write_graph
from tests.support.generators import FEATURES, random_graph

ANSWERS = {0: "proved", 2: "refused", 3: "unproved", 4: "does not fit", 5: "nothing found"}
"""Exit codes of `solve` that are answers; 2 is for options that do not go together."""
ENGINES = ("auto", "auto", "auto", "heuristics", "cpsat", "milp")
TRIES = 8
"""Runs for each plan that is wanted, at most: some combinations are refused or do not fit."""


def run_command(*arguments: str) -> tuple[int, str]:
    """Run the command in this process; return its exit code and what it wrote, on both streams."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            code = optsched(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        except Exception:
            # What argparse or a bug lets through is a failure to be shown.
            return 1, traceback.format_exc()
    return code, text.getvalue()


def draw_options(rng: np.random.Generator, folder: Path, plans: list[Path]) -> list[str]:
    """Return a random combination of options, most of them with a chance of their own."""

    def by_chance(share: float, *options: str) -> list[str]:
        return list(options) if rng.random() < share else []

    engine = str(rng.choice(ENGINES))
    found = ["--objective", str(rng.choice(["slab", "peak"])), "--engine", engine]
    found += by_chance(0.4, "--inplace")
    found += by_chance(0.3, "--certificate", str(folder / "certificate.json"))
    found += by_chance(0.2, "--keep-trace")
    found += by_chance(0.3, "--seed", str(rng.integers(5)))
    pools = int(rng.choice([0, 0, 0, 1, 2, 3]))
    for name in rng.permutation(["", "a", "b", "fast"])[:pools]:
        size = "" if rng.random() < 0.4 else f"={rng.integers(1, 60)}"
        found += ["--pool", f"{name or 'pool'}{size}"]
    if not pools:
        found += by_chance(0.25, "--capacity", str(rng.integers(1, 80)))
    limit = rng.random()
    if limit < 0.2:
        found += ["--work", str(rng.choice([0, 10, 1000]))]
    else:
        found += ["--time-limit", str(rng.choice([0.0, 0.05, 2.0, 2.0]))]
    if plans:
        found += by_chance(0.3, "--warm-start", str(plans[-1]))
    return found


def fuzz_graph(rng: np.random.Generator, folder: Path, counts: Counter[str]) -> list[str]:
    """Solve one graph with four combinations of options; return what went wrong."""
    features = [x for x in sorted(FEATURES) if rng.random() < 0.5]
    graph = random_graph(rng, int(rng.integers(1, 13)), features=features)
    source = folder / "graph.json"
    write_graph(graph, source)
    wrong: list[str] = []
    plans: list[Path] = []
    for number in range(4):
        suffix = str(rng.choice([".json", ".json.gz"]))
        plan = folder / f"plan{number}{suffix}"
        options = draw_options(rng, folder, plans)
        problem = _solve_and_check(source, plan, options, counts)
        if problem:
            wrong.append(problem)
        elif plan.exists() and "--pool" not in options:
            plans.append(plan)
    return wrong


def _solve_and_check(source: Path, plan: Path, options: list[str], counts: Counter[str]) -> str:
    """Solve and check; return what went wrong, with all that is needed to see it again."""
    certificate = source.parent / "certificate.json"
    certificate.unlink(missing_ok=True)
    command = ["solve", str(source), "-o", str(plan), *options]
    code, text = run_command(*command)
    counts[ANSWERS.get(code, "failed")] += 1
    if code not in ANSWERS:
        return _report(command, code, text, source)
    if code == 2 and text.count("optsched: error: ") != 1:
        return _report(command, code, text, source)
    if not plan.exists():
        return ""
    checked = ["check", str(source), str(plan)]
    checked += [str(certificate)] if certificate.exists() else []
    checked += ["--inplace"] if "--inplace" in options else []
    code, text = run_command(*checked)
    counts["plans"] += 1
    counts["certificates"] += certificate.exists()
    return _report([*command, ";", *checked], code, text, source) if code else ""


def _report(command: list[str], code: int, text: str, source: Path) -> str:
    return f"{shlex.join(command)}\nexit code {code}: {text.strip()}\n{source.read_text()}"


def fuzz(plans: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Write and check this many plans; return counts and what went wrong."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    while counts["plans"] < plans:
        if sum(counts[x] for x in ANSWERS.values()) > TRIES * (plans + 100):
            return counts, [*wrong, "hardly any run writes a plan"]
        with tempfile.TemporaryDirectory() as folder:
            wrong += fuzz_graph(rng, Path(folder), counts)
        print(f"\r{counts['plans']:,} plans, {len(wrong):,} wrong", end="", file=sys.stderr)
    print(file=sys.stderr)
    return counts, wrong


def main(count: int = 2_000, seed: int = 0) -> int:
    counts, wrong = fuzz(count, seed)
    for problem in wrong[:10]:
        print(problem, end="\n\n")
    print(", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())))
    print(f"{len(wrong):,} wrong")
    return 1 if wrong else 0
