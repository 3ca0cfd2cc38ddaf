"""Trees of any depth."""

from __future__ import annotations

from optsched.runtime.fold import fold


def test_parts_keep_their_sequence_and_depth_has_no_limit() -> None:
    tree = {"a": ("b", "c"), "b": (), "c": ("d", "e"), "d": (), "e": ()}
    assert fold("a", tree.__getitem__, lambda at, found: at + "".join(found)) == "abcde"
    chain = fold(0, lambda at: (at + 1,) if at < 50_000 else (), lambda at, found: at + sum(found))
    assert chain == 50_000 * 50_001 // 2
