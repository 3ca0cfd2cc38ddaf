"""Plans that a runtime holds otherwise than a graph says, in words for headlines."""

from __future__ import annotations

from optsched.model.graph import Graph

_FUSE = "plan convert --to onnx-fused"


def held_among(graph: Graph, among: str) -> str:
    """Return the plans that a bound is about; where the runtime holds other bytes, it is said."""
    from optsched.formats.onnx.rules import IN_FLOATS

    if IN_FLOATS not in graph.memory_model:
        return among
    # The bound is one on the file's ops, and others run.
    return f"{among or 'plans'} in half floats, where floats run ({_FUSE})"


def fused_among(among: str, *, is_below: bool) -> str:
    """Return the plans that a bound is about where a runtime that fuses ops was measured.

    `is_below` is True if it was seen to hold less than the bound.
    """
    # A session fuses ops, so that fewer bytes than the bound contradict nothing.
    hint = f" ({_FUSE})" if is_below else ""
    return among if _FUSE in among else f"{among or 'plans'} of the file's ops, not fused{hint}"
