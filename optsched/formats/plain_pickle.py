"""Safe parser of pickles that builds only plain containers and numbers.

A pickle is a program for a small stack machine. The standard library's machine imports and calls
whichever functions the file names. This one supports only the instructions for dict, list, tuple,
str, bytes, int, float, bool and None. Any other instruction, in particular one that names a
function or a class, is rejected by name before it has an effect. `pickletools` splits the bytes
into instructions without running them.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import show

_VALUES = {
    *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4"),
    *("BINFLOAT", "FLOAT", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
}
"""Instructions whose argument is the value."""
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
_IMPORTS = {"GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"}


def parse_plain_pickle(data: bytes) -> object:
    """Return the content of a pickle of plain containers.

    `FormatError` is raised if it is truncated, malformed, or asks for anything else; the message
    names the request and its byte position.
    """
    machine = _Machine()
    try:
        for opcode, argument, at in pickletools.genops(data):
            if opcode.name == "STOP":
                return machine.result(at, len(data or b""))
            machine.run(opcode.name, argument, at or 0)
    except (ValueError, IndexError, TypeError, UnicodeDecodeError, OverflowError) as error:
        text = " ".join(str(error).split())[:120]
        raise FormatError(f"pickle: truncated or malformed ({text})") from None
    raise FormatError("pickle: truncated: no end")


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def result(self, at: int | None, size: int) -> object:
        # Bytes after the end could be a second pickle, which other readers would run.
        if at is None or at + 1 != size:
            raise FormatError(f"pickle: ends at byte {at}, but the file has {size} bytes")
        if len(self.stack) != 1 or self.marks:
            raise FormatError(f"pickle: malformed: {len(self.stack)} values left at its end")
        return self.stack[0]

    def run(self, name: str, argument: Any, at: int) -> None:
        """Execute one instruction; reject those that build more than containers."""
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name == "MARK":
            self.marks.append(len(self.stack))
        elif name == "POP":
            self.stack.pop()
        elif name == "POP_MARK":
            self._since_mark()
        elif name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            key = len(self.memo) if name == "MEMOIZE" else int(argument)
            # The memo holds the object itself, as later instructions change it in place.
            self.memo[key] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            # Only memoized values, so that no reference leads out of this pickle.
            if int(argument) not in self.memo:
                raise FormatError(
                    f"pickle: byte {at} gets value {argument}, which was never stored"
                )
            self.stack.append(self.memo[int(argument)])
        elif name not in ("PROTO", "FRAME"):
            self._build(name, argument, at)

    def _build(self, name: str, argument: Any, at: int) -> None:
        match name:
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                self.stack.append(tuple(self._take(int(name[-1]))))
            case "TUPLE":
                self.stack.append(tuple(self._since_mark()))
            case "LIST":
                self.stack.append(self._since_mark())
            case "DICT":
                self.stack.append(_pairs(self._since_mark()))
            case "APPEND" | "APPENDS":
                items = self._take(1) if name == "APPEND" else self._since_mark()
                self._top(list, at).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self._take(2) if name == "SETITEM" else self._since_mark()
                self._top(dict, at).update(_pairs(items))
            case _:
                raise FormatError(f"pickle: byte {at} asks for {self._asked(name, argument)}")

    def _asked(self, name: str, argument: Any) -> str:
        """Return a description of a rejected instruction."""
        if name == "STACK_GLOBAL" and len(self.stack) >= 2:
            argument = " ".join(str(part) for part in self.stack[-2:])
        what = f"{show(str(argument))} ({name})" if name in _IMPORTS else name
        return f"{what}: only plain containers and numbers are built"

    def _top(self, kind: type, at: int) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise FormatError(f"pickle: byte {at} adds to a value that is not a {kind.__name__}")
        return self.stack[-1]

    def _take(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise FormatError("pickle: malformed: missing values on the stack")
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def _since_mark(self) -> list[Any]:
        if not self.marks:
            raise FormatError("pickle: malformed: missing values on the stack")
        mark = self.marks.pop()
        taken = self.stack[mark:]
        del self.stack[mark:]
        return taken


def _pairs(values: list[Any]) -> dict[Any, Any]:
    if len(values) % 2:
        raise FormatError("pickle: malformed: a key without a value")
    return dict(zip(values[::2], values[1::2], strict=True))
