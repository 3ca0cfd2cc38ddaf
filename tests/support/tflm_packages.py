"""TFLite models inside installed packages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("tflite_micro", "basic_pitch", "mediapipe", "pymicro_wakeword", "pyopen_wakeword")
"""Packages that ship models; TFLite Micro runs some of them."""


def packaged_models() -> list[Path]:
    """Return the model files inside packages that are known to ship some."""
    found = []
    for name in PACKAGES:
        spec = find_spec(name)
        for folder in spec.submodule_search_locations or () if spec else ():
            found += sorted(Path(folder).rglob("*.tflite"))
    return found
