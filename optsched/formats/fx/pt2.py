"""`.pt2` files: the program inside is found without unpacking or loading anything else.

An archive is a zip whose member `models/NAME.json` is the program; weights, sample inputs and
custom objects beside it may be pickles, and are never opened.

References
----------
torch/export/pt2_archive/_package.py; before torch 2.7 the archive held
`serialized_exported_program.json`.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, Final

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.format import Source
from optsched.formats.fx.exported import EDGE, read_program, read_targets
from optsched.formats.fx.graph import build_graph
from optsched.formats.source import MAX_BYTES
from optsched.model.graph import Graph

MAX_MEMBERS: Final = 2**20
_MODEL: Final = re.compile(r"(?:.*/)?(?:models/([^/]+)\.json|serialized_exported_program\.json)")


def read_pt2(source: Source, *, dims: Mapping[str, int] | None = None) -> Graph:
    """Make a graph of a `.pt2` file; PyTorch is not needed, and no pickle inside is opened.

    `dims` are numbers for sizes that the program leaves open, by symbol or as `INPUT.AXIS`. It
    raises `FormatError` if the archive is damaged, holds no program, or the size of a tensor is
    unknown, `UsageError` if the program has no dimension of a name that is given.
    """
    return build_graph(read_program(_document(source), dims or {}), source.name)


def read_orders(source: Source) -> dict[str, tuple[int, ...]]:
    """Return the order of the program, which the interpreter of FX follows, and ExecuTorch."""
    targets = read_targets(_document(source))
    # ExecuTorch runs nodes in the same order as FX.
    names = ["fx", "executorch"] if any(x.startswith(EDGE) for x in targets) else ["fx"]
    return dict.fromkeys(names, tuple(range(len(targets))))


def _document(source: Source) -> Mapping[str, Any]:
    inner = Source(read_program_json(source.data))
    if inner.trouble is not None:
        raise inner.trouble
    return inner.document


def read_program_json(data: bytes) -> bytes:
    """Return the JSON of the one program that an archive holds; refuse others, or one too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            member = _find(archive.infolist())
            with archive.open(member) as stream:
                # One byte more than allowed tells a file that is too large, without reading it
                # all.
                text = stream.read(MAX_BYTES + 1)
    # All that zipfile raises on damaged archives.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, OverflowError):
        raise FormatError("the archive is damaged or truncated") from None
    except (NotImplementedError, RuntimeError):
        raise FormatError("the archive is encrypted, or compressed in an unknown way") from None
    if len(text) > MAX_BYTES:
        raise FormatError(f"the program decompresses to more than the limit of {MAX_BYTES} bytes")
    return text


def _find(members: list[zipfile.ZipInfo]) -> zipfile.ZipInfo:
    if len(members) > MAX_MEMBERS:
        raise FormatError(f"the archive has {len(members)} members, the limit is {MAX_MEMBERS}")
    found = []
    for member in members:
        # Nothing is unpacked, but a name that leaves the folder shows that the archive is crafted.
        if ".." in re.split(r"[/\\]", member.filename) or member.filename.startswith("/"):
            raise FormatError(f"the archive names a path outside: {show(member.filename)}")
        if _MODEL.fullmatch(member.filename):
            found.append(member)
    if not found:
        raise FormatError("the archive holds no exported program (models/NAME.json)")
    if len(found) > 1:
        names = ", ".join(show(member.filename) for member in found[:4])
        raise FormatError(f"the archive holds {len(found)} programs, one is wanted: {names}")
    return found[0]
