"""Options that a plan file keeps, so that later commands need not repeat them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optsched.errors import UsageError
from optsched.formats.fields import Record, show
from optsched.formats.native_plan import PLAN_FORMAT
from optsched.formats.opening import extra_named, open_source
from optsched.formats.source import errors_named, label_of
from optsched.formats.table import find_format
from optsched.runtime.text import nearest_word


def planned_dims(
    model: str | Path, plan: str | Path, given: Mapping[str, int] | None
) -> dict[str, int]:
    """Return the sizes of a model's open dimensions: those that a plan's file keeps.

    Raise `UsageError` if a given size differs from that of the plan.

    `model`, `plan`: paths. Nothing is added for a file that is not a plan, and for a model in a
    format without open dimensions. `given`: sizes that the user gives. They are returned if the
    plan keeps no dimensions.
    """
    found = dict(given or {})
    document = _plan_document(plan)
    if "dims" not in document:
        return found
    with errors_named(label_of(plan)):
        kept = Record(Record(document, "plan").mapping("dims"), "dims")
        sizes = {name: kept.count(name) for name in kept.value}
    for name, size in found.items():
        if sizes.get(name) != size:
            # Given sizes must agree with the plan: another size would need another plan.
            raise UsageError(f"{label_of(plan)}: {_other_dimension(name, size, sizes)}")
    return _settable(model, sizes)


def _other_dimension(name: str, size: int, sizes: Mapping[str, int]) -> str:
    """Return the message for a dimension that differs from those of a plan."""
    made = " ".join(f"{key}={value}" for key, value in sizes.items())
    near = nearest_word(name, sizes) if name not in sizes else None
    if near:
        return f"unknown dimension {show(name)}; the plan is for {made}; did you mean {near!r}?"
    return (
        f"the plan is for {made}, not for {show(name)[1:-1]}={size}; "
        "leave out --dim, or plan the model with these dimensions"
    )


def is_plan_apart(plan: str | Path) -> bool:
    """Return True for a plan file in which no op writes an output into an input."""
    document = _plan_document(plan)
    return bool(document) and document.get("inplace", False) is False


def _plan_document(plan: str | Path) -> Mapping[str, Any]:
    """Return the document of a plan's file; empty for other files."""
    source = open_source(plan)
    return source.document if source.is_tagged(PLAN_FORMAT.partition("/")[0]) else {}


def _settable(model: str | Path, sizes: dict[str, int]) -> dict[str, int]:
    """Return the sizes that a model's reader takes: a model with a plan has its sizes already."""
    source = open_source(model)
    with errors_named(label_of(model)):
        row = find_format(source)
        # A format without open dimensions has nothing to set.
        if "dims" not in row.options:
            return {}
        if row.describe is None:
            return sizes
        with extra_named(row):
            names = row.describe(source).settable
    return sizes if names is None else {name: sizes[name] for name in sizes if name in names}
