"""All sorters with all packers on all graphs: `python -m experiments.heuristic_quality --write`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from experiments.heuristic_quality import tables
from experiments.heuristic_quality.families import Maker, all_families
from experiments.heuristic_quality.measure import GraphFigures, measure, read_found, write_found
from experiments.heuristic_quality.pictures import draw
from experiments.tables import markdown, replace_table

HERE = Path(__file__).parent
RESULTS = HERE / "results.csv"
LAST = ("all", "worst", "optimal")


def main(argv: Sequence[str]) -> int:
    """Run the study, or make tables and pictures from its results again."""
    parser = argparse.ArgumentParser(prog="python -m experiments.heuristic_quality")
    parser.add_argument("--families", nargs="+", help="only these")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of each proof")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write results, README and pictures")
    parser.add_argument("--redraw", action="store_true", help="from results.csv, without a run")
    args = parser.parse_args(argv)
    makers = all_families()
    unknown = sorted(set(args.families or ()) - set(makers))
    if unknown:
        parser.error(f"no family {unknown[0]!r}; there are: {', '.join(makers)}")
    if args.redraw:
        found = list(read_found(RESULTS))
    else:
        chosen = {name: makers[name] for name in args.families or makers}
        found = measure_all(chosen, args.seconds, args.workers)
    texts = make_tables(found)
    print("\n".join(texts.values()))
    if args.write or args.redraw:
        write_found(RESULTS, found)
        for name, text in texts.items():
            replace_table(HERE / "README.md", name, text)
        draw(HERE, found)
    return 0


def measure_all(
    families: dict[str, list[Maker]], seconds: float, workers: int
) -> list[GraphFigures]:
    """Measure all graphs in some processes, with progress on standard error."""
    with ProcessPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(_measure, make, family, seconds)
            for family, makers in families.items()
            for make in makers
        ]
        for number, job in enumerate(as_completed(jobs), start=1):
            x = job.result()
            how = "proved" if x.proved else "NOT PROVED"
            print(f"{number}/{len(jobs)} {x.family}: {x.instance}, {how}", file=sys.stderr)
        return [job.result() for job in jobs]


def _measure(make: Maker, family: str, seconds: float) -> GraphFigures:
    return measure(make(), family, seconds)


def make_tables(found: Sequence[GraphFigures]) -> dict[str, str]:
    """Return all tables by name."""
    names = list(tables.families(found))
    left = [x.instance for x in found if not x.proved]
    said = f"{len(found) - len(left)} of {len(found)} graphs are measured against a proved optimum"
    return {
        "graphs": f"{said}{': not ' + ', '.join(left) if left else ''}.\n",
        "sorters": markdown(
            ["sorter", *names, *LAST], tables.by_family(tables.sorters(found), found)
        ),
        "packers": markdown(
            ["packer", *names, *LAST], tables.by_family(tables.packers(found), found)
        ),
        "pairs": markdown(["pair", *LAST], tables.best_pairs(found)),
        "winners": markdown(
            ["family", "graphs", "best sorter", "best packer", "best pair"], tables.winners(found)
        ),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
