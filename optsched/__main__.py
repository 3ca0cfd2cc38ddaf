"""`python -m optsched` is the command `optsched`."""

from optsched.cli import run

run()
