"""Building and loading the fake device; torch must not be imported before it is loaded.

The library is built once per version of torch and kept in the folder for temporary files.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

SOURCE = Path(__file__).with_name("device.cpp")


class NoDeviceError(RuntimeError):
    """Raised with the reason for which the fake device cannot be built."""


def load_device() -> None:
    """Load the fake device into this process.

    Raise `NoDeviceError` if torch or a C++ compiler is missing, or the library cannot be built.
    """
    if "torch" in sys.modules:
        raise NoDeviceError("torch is imported already")
    ctypes.CDLL(str(build_device()))


def build_device() -> Path:
    """Return the library, built if it is not there yet."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise NoDeviceError("torch is not installed")
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise NoDeviceError("no C++ compiler: install g++ or clang++, or name one in CXX")
    digest = hashlib.sha256(SOURCE.read_bytes() + version("torch").encode() + spec.origin.encode())
    library = Path(tempfile.gettempdir()) / f"fake-cuda-{os.getuid()}-{digest.hexdigest()[:16]}.so"
    if not library.exists():
        _compile(compiler, Path(spec.origin).parent, library)
    return library


def _compile(compiler: str, torch: Path, library: Path) -> None:
    include = [f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"]
    link = [f"-L{torch / 'lib'}", "-Wl,--no-as-needed", "-lc10", "-ltorch_cpu", "-ltorch"]
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        command = [compiler, "-O0", "-std=c++20", "-fPIC", "-shared", *include, str(SOURCE)]
        command += ["-o", str(made), *link, f"-Wl,-rpath,{torch / 'lib'}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            raise NoDeviceError(f"the fake device cannot be built: {(lines or ['?'])[0]}")
        # Another process may build it at the same time: the last one stays.
        made.replace(library)
