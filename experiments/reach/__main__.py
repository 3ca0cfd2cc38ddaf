"""Reach of exact ordering, in five measurements.

    python -m experiments.reach table|ablation|families|ladder|certificates [options]

Each has a module of that name and a section of the README.
"""

from __future__ import annotations

import sys

from experiments.reach import ablation, certificates, families, ladder, table

MEASUREMENTS = {
    module.__name__.rpartition(".")[2]: module
    for module in (table, ablation, families, ladder, certificates)
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in MEASUREMENTS:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    return MEASUREMENTS[name].main(sys.argv[2:])


if __name__ == "__main__":
    raise SystemExit(main())
