"""Typed access to parsed JSON, with errors that name place, key and value."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from reprlib import Repr
from typing import Any

from optsched.errors import FormatError, UnknownDimensionError
from optsched.runtime.text import nearest

# A sentinel of its own, as a default may be None.
_REQUIRED: Any = object()
_TEXT = frozenset([str])
_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxstring = 3, 4, 4, 60
_NEWER = "this file may need a newer optsched"


class Record:
    """A JSON object whose fields are checked when they are read.

    `where` is its name in messages. `FormatError` is raised if the value is not an object, or a
    field is missing or has the wrong type.
    """

    def __init__(self, value: object, where: str) -> None:
        # Nearly all values are plain dicts, for which a check of the abstract class would be slow.
        if type(value) is not dict and not isinstance(value, Mapping):
            raise FormatError(f"{where}: expected an object, got {show(value)}")
        self.value: Mapping[str, Any] = value
        self.where = where

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise `FormatError` if there is a key that is not in `known`."""
        unknown = [key for key in self.value if key not in known]
        if unknown:
            names = ", ".join(show(key) for key in unknown[:5])
            raise FormatError(f"{self.where}: unknown key {names}; {_NEWER}")

    def has(self, key: str) -> bool:
        """Return True if the key is present and not null."""
        return self.value.get(key) is not None

    def text(self, key: str, default: str = _REQUIRED) -> str:
        """Return a field that is a string."""
        return str(self._take(key, str, "a string", default))

    def flag(self, key: str, default: bool = _REQUIRED) -> bool:
        """Return a field that is a boolean."""
        return bool(self._take(key, bool, "true or false", default))

    def count(self, key: str, default: int = _REQUIRED) -> int:
        """Return a field that is an integer of at least 0."""
        value = self._take(key, int, "an integer of at least 0", default)
        if value < 0:
            raise FormatError(f"{self.where}: {key} must be at least 0, got {value}")
        return int(value)

    def items(self, key: str, default: list[Any] | None = _REQUIRED) -> list[Any]:
        """Return a field that is an array."""
        found: list[Any] = self._take(key, list, "an array", default)
        return found

    def texts(self, key: str, default: list[str] = _REQUIRED) -> list[str]:
        """Return a field that is an array of strings."""
        items = self.items(key, default)
        if not _TEXT.issuperset(map(type, items)):
            for item in items:
                if not isinstance(item, str):
                    raise FormatError(f"{self.where}: {key} holds {show(item)}, expected strings")
        return items

    def mapping(self, key: str, default: dict[str, Any] = _REQUIRED) -> dict[str, Any]:
        """Return a field that is an object."""
        found: dict[str, Any] = self._take(key, dict, "an object", default)
        return found

    def _take(self, key: str, kind: type, wanted: str, default: Any) -> Any:
        value = self.value.get(key, _REQUIRED)
        if value is _REQUIRED:
            if default is _REQUIRED:
                raise FormatError(f"{self.where}: {_label(key)} is missing")
            return default
        # A bool is an int in Python, but not in a file.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise FormatError(f"{self.where}: {_label(key)} must be {wanted}, got {show(value)}")
        return value


# A key with a line break in it must not break the message.
def _label(key: str) -> str:
    return key if key.isprintable() else repr(key)


def show(value: object) -> str:
    """Return a value as short text on one line, for messages."""
    text = _SHORT.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def json_bytes(
    document: Mapping[str, Any],
    *,
    rows: Collection[str] | None = None,
    separators: tuple[str, str] = (", ", ": "),
) -> bytes:
    """Return a JSON object as bytes, one key per line, and one item per line of its lists.

    `rows` are the keys whose lists are split into lines; None for all. `separators` are those
    within an item, as for :func:`json.dumps`.
    """
    parts = []
    # `json.dumps` would make an encoder per row.
    encode = json.JSONEncoder(separators=separators).encode
    for key, value in document.items():
        if isinstance(value, list) and value and (rows is None or key in rows):
            # As `encode` writes text, without a call per name.
            is_text = _TEXT.issuperset(map(type, value))
            lines = ",\n  ".join(map(encode_basestring_ascii if is_text else encode, value))
            text = f"[\n  {lines}\n ]"
        else:
            text = json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def check_format(top: Record, wanted: str) -> None:
    """Raise `FormatError` for a document of another format or version."""
    found = top.text("format")
    if found != wanted:
        raise FormatError(
            f"format is {found[:60]!r}, this optsched reads {wanted!r}; "
            "the file may need a newer optsched"
        )


def unknown_dimension(name: str, known: Sequence[str], inputs: str = "") -> UnknownDimensionError:
    """Return the error for a dimension that the model does not leave open.

    `known` are the names of its open dimensions, `inputs` the names and shapes of its inputs.
    """
    if known:
        # Sizes that follow from others have names like `floor(n/2) + 1`; nobody gives those.
        given = [x for x in known if not set(x) & set("()+*/ ")] or list(known)
        these = ", ".join(map(show, given[:8])) + (", ..." if len(given) > 8 else "")
        near = nearest(name, given)
        found = f"open dimensions: {these}" + (f";{near[1:]}" if near.endswith("?") else "")
    else:
        static = f": its inputs are {inputs}; leave out --dim" if inputs else ""
        found = f"the model has no open dimensions{static}"
    error = UnknownDimensionError(f"unknown dimension {show(name)}; {found}")
    error.dimension = name
    return error
