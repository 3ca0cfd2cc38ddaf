"""The JSON Schemas of our formats, as they lie in the package."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a format: `"graph-1"`, `"plan-1"`, `"packing-1"` and so on."""
    text = files("optsched.formats").joinpath("schemas", f"{name}.schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
