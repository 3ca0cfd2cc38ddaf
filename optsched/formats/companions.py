"""Files next to a model, such as external weights, which are copied along with the model."""

from __future__ import annotations

import filecmp
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from optsched.errors import FormatError, UsageError
from optsched.formats.fields import show
from optsched.formats.pipes import STANDARD_STREAM
from optsched.formats.source import label_of


def copy_companions(folder: str, names: Sequence[str], output: str | Path) -> None:
    """Copy files from a model's folder to the folder of the model's copy.

    Raise `UsageError` if the copy would not find its files, or one of them would be overwritten.
    Raise `FormatError` if a file is missing or cannot be copied.

    `folder`: folder of the model; empty for standard input. `names`: paths relative to this folder.
    `output`: path of the copy of the model, which is written afterwards.
    """
    if not names:
        return
    if not folder or str(output) == STANDARD_STREAM:
        raise UsageError(
            f"the model keeps data in {show(names[0])} beside it: give files, no standard stream"
        )
    target = Path(os.path.realpath(output)).parent
    wanted = [(Path(folder) / name, target / name) for name in names]
    # All tests first, then all copies: an error leaves nothing half done.
    require_companions(folder, names)
    for kept, copied in wanted:
        _check(copied, kept, output)
    for kept, copied in wanted:
        # A copy that is the same file stays. A missing folder is reported when the model is
        # written.
        if not copied.exists() and target.is_dir():
            _copy(kept, copied)


def require_companions(folder: str, names: Sequence[str]) -> None:
    """Raise `FormatError` if a file next to a model in this folder is missing."""
    for name in names:
        path = Path(folder) / name
        if not path.is_file():
            raise FormatError(f"{path}: the model's data is not there; put the file beside it")


def _check(copied: Path, kept: Path, output: str | Path) -> None:
    if copied == Path(os.path.realpath(output)):
        raise UsageError(f"{label_of(output)}: the output would overwrite the data of the model")
    if copied.exists() and not _is_same(kept, copied):
        raise UsageError(f"{copied}: other data is there already; choose another folder")


def _is_same(one: Path, other: Path) -> bool:
    return other.is_file() and (one.samefile(other) or filecmp.cmp(one, other, shallow=False))


def _copy(kept: Path, copied: Path) -> None:
    """Copy a file so that the copy is there whole or not at all."""
    # A random name in the same folder, so that the last step is a rename.
    beside = copied.with_name(f".optsched-{secrets.token_hex(8)}.tmp")
    try:
        copied.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(kept, beside)
            os.replace(beside, copied)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise FormatError(f"{copied}: cannot be written: {error.strerror}") from None
