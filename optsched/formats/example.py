"""Captured training graphs that come with the package, for examples that run in any folder."""

from __future__ import annotations

from pathlib import Path

from optsched.errors import UsageError, expect
from optsched.formats import read_graph
from optsched.model.graph import Graph
from optsched.runtime.keywords import keywords
from optsched.runtime.text import nearest

NAMES = (
    "alexnet_bs128.bwd",
    "alexnet_bs128.fwd",
    "alexnet_bs128.infer",
    "llama_2l_bs1.bwd",
    "llama_2l_bs1.fwd",
    "llama_2l_bs1.infer",
    "mobilenet_v2_bs96.infer",
    "unet_bs4.infer",
    "vgg16_bs64.bwd",
    "vgg16_bs64.fwd",
    "vgg16_bs64.infer",
)
"""Stems of the files, which `pyproject.toml` puts into the wheel."""
_TOP = Path(__file__).parents[2]
_FOLDERS = (_TOP / "optsched" / "instances", _TOP / "instances" / "inductor")
"""In an installed package, and in a clone of the project."""


@keywords
def example(name: str) -> Graph:
    """Return a graph of TorchInductor that comes with the package.

    Parameters
    ----------
    name
        Name of the graph or its beginning, such as "alexnet" for the backward pass of AlexNet.

    Returns
    -------
    Graph
        Ops and buffers of a training or inference step as Inductor compiled it; sizes in bytes.

    Raises
    ------
    UsageError
        If no graph has such a name; the message lists all.

    Examples
    --------
    >>> from optsched import example
    >>> graph = example("alexnet")
    >>> graph.name, len(graph.ops)
    ('alexnet_bs128.bwd', 48)
    """
    expect("example", name, str)
    stem = next((known for known in NAMES if name and known.startswith(name)), None)
    if stem is None:
        raise UsageError(f"no example is named {name[:60]!r}{nearest(name, NAMES)}")
    folder = next((x for x in _FOLDERS if (x / f"{stem}.json.gz").is_file()), _FOLDERS[0])
    return read_graph(folder / f"{stem}.json.gz")
