"""Dumps of the models by XLA, shortened: text, buffer assignment and live ranges."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

AFTER = "cpu_after_optimizations"
PARTS = {
    "unscheduled": "before_optimizations.txt",
    "module": f"{AFTER}.txt",
    "buffer-assignment": f"{AFTER}-buffer-assignment.txt",
    "live-range": f"{AFTER}-live-range.txt",
}
"""Names of the four texts here, and in XLA."""
_COMPILE = """
import pathlib, sys
from tests.support import xla_models, xla_recorded
place = pathlib.Path(sys.argv[1])
for call in sys.argv[2:]:
    eval(call, {**vars(xla_models), **vars(xla_recorded)}).compile()
    files = [path for path in place.iterdir() if path.suffix == ".txt"]
    (place / call).mkdir()
    for path in files:
        path.rename(place / call / path.name)
"""
"""Compiles models one by one, and puts the dump of each into a folder of its name."""
_TABLES = re.compile(
    r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:.+\n)*\n*", re.MULTILINE
)
_METADATA = re.compile(r', metadata=\{(?:"(?:[^"\\]|\\.)*"|[^{}"])*\}')
_REST = {
    "live-range": re.compile(r"^\s*Live ranges at.*", re.DOTALL | re.MULTILINE),
    "buffer-assignment": re.compile(r"^Used values:.*", re.DOTALL | re.MULTILINE),
}


def dump(calls: list[str], folder: Path, options: str = "") -> list[Path]:
    """Compile models, `network()` say, in a process of its own; write what XLA says of them."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory() as place:
        flags = f"--xla_dump_to={place} --xla_dump_hlo_as_text {options}"
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        subprocess.run([sys.executable, "-c", _COMPILE, place, *calls], env=environment, check=True)
        for call in calls:
            name = call.replace("(", "").replace(")", "")
            for part, ending in PARTS.items():
                # The last module is the model's own; jax compiles helpers before it.
                source = max(Path(place, call).glob(f"*.{ending}"))
                path = folder / f"{name}-{part}.txt"
                path.write_text(shorten(part, source.read_text()))
                written.append(path)
    return written


def shorten(part: str, text: str) -> str:
    """Take out of a dump what no reader asks for, and all that names places of a machine."""
    text = _METADATA.sub("", _TABLES.sub("", text))
    text = _REST[part].sub("", text) if part in _REST else text
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"
