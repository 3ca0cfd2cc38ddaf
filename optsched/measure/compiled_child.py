"""Process that compiles a model twice, without and with our plugin, and runs it both times.

Compilers may abort, so each has a process of its own. Arguments: name of the runtime, path of the
model, seconds for the plugin, and the file for the answer: a JSON object with the fields of a
measurement, or an error.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from optsched.errors import OptschedError
from optsched.measure.runtimes import RUNTIMES


def main(runtime: str, path: str, seconds: str, answer: str) -> None:
    """Run a model in its runtime, and write the figures, or the error, as JSON."""
    try:
        module = import_module(f"optsched.measure.{RUNTIMES[runtime].module}")
        found = asdict(module.run(path, float(seconds)))
    except OptschedError as error:
        found = {"error": str(error)}
    except Exception as error:
        # Compilers have classes of their own for models that they do not take.
        lines = [line for line in str(error).splitlines() if line.strip()] or ["no message"]
        found = {"error": f"{type(error).__name__}: {lines[0].strip()[:300]}"}
        if isinstance(error, ModuleNotFoundError):
            found["missing"] = error.name or ""
    # Written last: a process that aborts leaves no file, by which the parent knows.
    Path(answer).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
