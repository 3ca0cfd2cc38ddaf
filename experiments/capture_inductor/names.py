"""Names of captures; imports no torch."""

from __future__ import annotations


def variant_name(name: str, budget: float | None, fake_cuda: bool) -> str:
    """Return the name of a model lowered with a budget, for the imagined GPU or not."""
    suffix = "" if budget is None else f"_ac{budget}"
    return name + suffix + ("_cuda" if fake_cuda else "")
