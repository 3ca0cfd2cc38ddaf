"""Labels of rows: names, and as much of the paths as tells rows of one name apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from optsched.formats.opening import stem_of
from optsched.runtime.text import free_name


def distinct_labels(names: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return a label per row, all different.

    A name that no other row has is the label. Rows that share a name are labeled by the stem of
    their file, then by the end of its path: the fewest parts that tell them apart. Rows of one
    path, and rows without, are numbered.

    `names`, `paths`: name of each graph, and path of its file; empty if it has none.

    Examples
    --------
    >>> distinct_labels(["net", "model", "model"], ["", "a/model.json", "b/model.json"])
    ['net', 'a/model.json', 'b/model.json']
    >>> distinct_labels(["main", "main", "x", "x"], ["p/fwd.hlo", "p/bwd.hlo", "", ""])
    ['fwd', 'bwd', 'x', 'x.2']
    """
    left = [_candidates(*row) for row in zip(names, paths, strict=True)]
    labels = [row.pop() for row in left]
    # Rows that share a label show more, until they differ or their paths are used up.
    while shared := _shared(labels, left):
        for row in shared:
            labels[row] = left[row].pop()
    found: dict[str, None] = {}
    for label in labels:
        found[free_name(label, found)] = None
    return list(found)


def _candidates(name: str, path: str) -> list[str]:
    """Return the labels of a row, the shortest last."""
    parts = PurePath(path).parts
    ends = [str(PurePath(*parts[at:])) for at in range(len(parts))]
    return [*ends, stem_of(path), name] if path else [name]


def _shared(labels: Sequence[str], left: Sequence[Sequence[str]]) -> list[int]:
    """Return the rows that share a label and can show more."""
    times = Counter(labels)
    return [row for row, label in enumerate(labels) if times[label] > 1 and left[row]]
