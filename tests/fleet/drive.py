"""A driver for tests to kill: `python -m tests.fleet.drive STORE [--jobs N ...] -- GRAPHS...`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace

from optsched.cli.common import INTERRUPTED
from optsched.fleet import tune
from optsched.reports.fleet import fleet_record
from optsched.runtime.interrupt import held_interrupts


def main() -> None:
    """Tune and print the record."""
    from tests.support.fleets import SETTINGS

    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--log")
    parser.add_argument("--engine", default="local")
    parser.add_argument("--address")
    parser.add_argument("--memory", type=int)
    parser.add_argument("--losses", type=int, default=SETTINGS.effort.losses)
    parser.add_argument("--work", type=int, default=SETTINGS.work)
    parser.add_argument("--budget", type=float, help="seconds, in place of work")
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    effort = replace(SETTINGS.effort, losses=args.losses)
    work = args.work if args.budget is None else None
    limits = {"budget": args.budget, "work": work}
    settings = replace(SETTINGS, memory=args.memory, effort=effort, **limits)
    with held_interrupts():
        fleet = tune(
            args.paths,
            args.store,
            settings=settings,
            jobs=args.jobs,
            engine=args.engine,
            address=args.address,
            log=args.log,
        )
    print(json.dumps(fleet_record(fleet)))
    sys.exit(INTERRUPTED if fleet.interrupted else 0)


if __name__ == "__main__":
    main()
