"""Names and texts made safe for a terminal: names in files cannot move the cursor.

Escape sequences, line ends and marks that change the direction of writing are shown as escapes.
JSON output is not affected; names stay exact there.
"""

from __future__ import annotations

import codecs
import locale
import os
import re
import sys
from collections.abc import Container, Iterable, Sequence
from itertools import chain, count
from typing import TextIO

LONGEST = 160
"""Maximum number of characters shown of a name."""


def readable(name: str, longest: int = LONGEST) -> str:
    """Return a name for display: on one line, without invisible characters, and not too long.

    Long names are shortened in the middle: exporters write a path to a tensor, and many paths begin
    alike, or end alike.

    Examples
    --------
    >>> readable("encoder/layers.11/attention/softmax", 20)
    'encoder/la…n/softmax'
    """
    # Escapes lengthen a text; this keeps a name of megabytes from being escaped in full.
    if len(name) > 2 * longest:  # of very long names only the ends are looked at
        name = f"{name[:longest]}{name[-longest:]}"
    shown = plain(name.replace("\n", "\\n"))
    if len(shown) <= longest:
        return shown
    # The end of a path gets the larger half, as it tells tensors apart more often.
    tail = (longest - 1) // 2
    return f"{shown[: longest - 1 - tail]}…{shown[len(shown) - tail :]}"


def plain(text: str) -> str:
    r"""Return a text with invisible characters as escapes; line breaks are kept.

    Examples
    --------
    >>> plain("a" + chr(27) + "[2J")
    'a\\x1b[2J'
    """
    text = decoded(text)
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


_RAW_BYTES = re.compile(r"(?:\\udc[89a-f][0-9a-f]|[\udc80-\udcff])+")


def decoded(text: str) -> str:
    r"""Return a text without surrogates that stand for bytes of a file name.

    Python uses a surrogate for each byte that the locale cannot decode, and `repr` writes it as an
    escape. Bytes that are valid UTF-8 are decoded; other bytes are shown as escapes.

    Examples
    --------
    >>> decoded("gr\udcc3\udca4ph"), decoded(repr("bad\udcff"))
    ('gräph', "'bad\\xff'")
    """

    def read(found: re.Match[str]) -> str:
        # `repr` has written '\udc80' as six characters: turn them into the surrogate again.
        halves = re.sub(r"\\udc(..)", lambda code: chr(0xDC00 + int(code[1], 16)), found[0])
        return halves.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")

    return _RAW_BYTES.sub(read, text)


def ending_of(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file name in lower case, without `.gz`.

    >>> ending_of("plan.JSON.gz")
    '.json'
    """
    return os.path.splitext(os.fspath(path).removesuffix(".gz"))[1].lower()


def free_name(wanted: str, taken: Container[str]) -> str:
    """Return the wanted name, or if it is taken, the first free one with a number appended.

    Examples
    --------
    >>> free_name("op.workspace", {"op.workspace", "op.workspace.2"})
    'op.workspace.3'
    """
    names = chain([wanted], (f"{wanted}.{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def counted(number: int, thing: str) -> str:
    """Return a number with a noun, which is given in the singular.

    Examples
    --------
    >>> counted(1, "op"), counted(1_625, "op"), counted(0, "search")
    ('1 op', '1,625 ops', '0 searches')
    """
    # Enough English for the nouns in our messages, such as branch and dependency.
    if number != 1 and thing.endswith("cy"):
        return f"{number:,} {thing[:-1]}ies"
    end = "" if number == 1 else "es" if thing.endswith("ch") else "s"
    return f"{number:,} {thing}{end}"


def percent(share: float, digits: int = 1, unit: str = " %") -> str:
    """Return a share in percent: only nothing is shown as 0, and only all of it as 100.

    Examples
    --------
    >>> percent(0), percent(0.25), percent(1e-9), percent(0.99999), percent(12.5, 0)
    ('0 %', '25.0 %', '<0.1 %', '>99.9 %', '1,250 %')
    """
    if share == 0:
        return f"0{unit}"
    if share < 0:
        return f"-{percent(-share, digits, unit)}"
    text, step = f"{100 * share:,.{digits}f}", 10.0**-digits
    if float(text.replace(",", "")) == 0:
        return f"<{step:.{digits}f}{unit}"
    if share < 1 and text.startswith("100"):
        return f">{100 - step:.{digits}f}{unit}"
    return f"{text}{unit}"


def most_less(value: int, bound: int) -> str:
    """Return in percent, rounded up, how much less than a value is possible by a bound: the gap.

    Examples
    --------
    >>> most_less(690, 600), most_less(10**9, 10**9 - 1), most_less(5, 5)
    ('13.1 %', '0.01 %', '0 %')
    """
    # Rounded to the nearest, "at most" could be wrong. A part of 1 % has a digit more.
    steps = -((bound - value) * 10**4 // max(1, value))
    if steps < 100:
        return percent(steps / 10**4, 2)
    return percent(-(-steps // 10) / 1000)


def percent_down(part: int, whole: int, digits: int = 1) -> str:
    """Return a share in percent, rounded down: a bound that is rounded up may be wrong.

    Examples
    --------
    >>> percent_down(1, 600), percent(1 / 600), percent_down(-1, 600)
    ('0.1 %', '0.2 %', '-0.2 %')
    """
    scale = 10 ** (digits + 2)
    return percent(part * scale // max(1, whole) / scale, digits)


def named(what: str, text: str) -> str:
    """Return a message with the name of the thing it is about before it, once.

    Examples
    --------
    >>> named("a.json", "no op 'x'"), named("a.json", "a.json: no op 'x'")
    ("a.json: no op 'x'", "a.json: no op 'x'")
    """
    return text if text.startswith(f"{what}:") else f"{what}: {text}"


def listed(words: Sequence[str], most: int) -> str:
    """Return the first `most` words, separated by commas, and the number of the others.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def listed_names(names: Iterable[str], most: int) -> str:
    """Return the first `most` names in readable form, and the number of the others."""
    return listed([*map(readable, names)], most)


def nearest(text: str, known: Sequence[str]) -> str:
    """Return the end of an error message about an unknown word: the nearest known word, or all.

    Examples
    --------
    >>> nearest("objectiv", ["capacity", "objective"])
    ": did you mean 'objective'?"
    """
    near = nearest_word(text, known)
    return f": did you mean {near!r}?" if near else f": known are {', '.join(known)}"


SYNONYMS = {
    "get": "show",
    "list": "ls",
    "load": "read_graph",
    "read": "read_graph",
    "open": "read_graph",
    "from_file": "read_graph",
    "from_onnx": "read_graph",
    "from_tflite": "read_graph",
    "from_torch": "from_fx",
    "optimize": "solve",
    "optimise": "solve",
    "minimize": "solve",
    "schedule": "solve",
    "plan": "solve",
    "compare": "compare_methods",
    "check": "check_plan",
    "verify": "check_plan check",
    "validate": "check_plan check",
    "save": "write_plan output",
    "write": "write_plan output",
    "plot": "report",
    "draw": "report",
    "visualize": "report",
    "remat": "recompute",
    "rematerialize": "recompute",
    "checkpoint": "recompute",
    "timeout": "time_limit budget",
    "time_limit": "budget seconds",
    "limit": "time_limit",
    "seconds": "time_limit",
    "time": "time_limit seconds",
    "threads": "workers jobs",
    "processes": "jobs workers",
    "callback": "on_event on_progress",
    "progress": "on_event on_progress",
    "verbose": "on_event on_progress log",
    "memory": "capacity peak",
    "limit_bytes": "capacity peak",
    "rules": "order_rules",
    "method": "engine methods",
    "solver": "engine",
    "nodes": "ops",
    "operators": "ops",
    "layers": "ops",
    "tensors": "buffers",
    "values": "buffers",
    "to_dataframe": "buffers",
    "edges": "predecessors",
    "successors": "predecessors",
    "inputs": "producers",
    "outputs": "kept",
    "html": "summary",
    "print": "summary",
    "quiet": "json",
    "split": "unfuse",
}
"""Words that people use, and ours in the sequence in which they are offered."""


def nearest_word(text: str, known: Iterable[str]) -> str | None:
    """Return the known word that means a text or is spelled like it, or None.

    >>> nearest_word("--threads", ["--workers", "--work"])
    '--workers'
    """
    from difflib import get_close_matches

    words = {_bare(word): word for word in known}
    for meant in SYNONYMS.get(_bare(text), "").split():
        if meant in words:
            return words[meant]
    # A lower cut-off offers words that share some letters only.
    return next(iter(get_close_matches(text, list(words.values()), n=1, cutoff=0.6)), None)


def _bare(word: str) -> str:
    """Return a name or option as the table of synonyms has it."""
    return word.lstrip("-").replace("-", "_").lower()


_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[\\nrt])")


def shield(name: str, separators: str = ',"') -> str:
    r"""Return a name that is safe in a cell of a CSV file opened by a spreadsheet.

    Names that start like a formula, contain invisible characters, or contain a separator get the
    prefix `'`, which spreadsheets take as a mark of text, and Python escapes inside.

    Parameters
    ----------
    name
        Any text.
    separators
        Characters that end a cell; empty if the writer quotes cells.

    Examples
    --------
    >>> shield("conv1"), shield("=1+1"), shield("a,b")
    ('conv1', "'=1+1", "'a\\x2cb")
    >>> unshield("'a\\x2cb")
    'a,b'
    """
    # Nothing to shield: the common case is left exactly as it is.
    harmless = name == name.strip() and name.isprintable() and not set(name) & set(separators)
    if harmless and not name.startswith(("=", "+", "-", "@", "'")):
        return name
    ends = (0, len(name) - 1)
    return "'" + "".join(
        # Spaces at the ends would be trimmed by spreadsheets.
        f"\\x{ord(c):02x}" if c in separators or (c == " " and i in ends) else _escape(c)
        for i, c in enumerate(name)
    )


def unshield(text: str, separators: str = ',"') -> str:
    """Return the name from which :func:`shield` made a text; other texts are returned as is."""
    if not text.startswith("'"):
        return text
    name = _ESCAPE.sub(lambda m: m[0].encode().decode("unicode_escape"), text[1:])
    # Only what `shield` has written is undone: a name that happens to start with ' stays.
    return name if shield(name, separators) == text else text


def _escape(character: str) -> str:
    seen = character.isprintable() and character != "\\"
    return character if seen else character.encode("unicode_escape").decode()


def prepare_streams() -> None:
    """Prepare standard output and error for any character.

    Characters that the encoding cannot represent are printed as escapes. If a stream was closed
    before the program started, output to it is discarded. Under an ASCII locale output is ASCII,
    unless UTF-8 was requested; Python's own default there is UTF-8.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - stays open
        elif hasattr(stream, "reconfigure"):
            # Python switches to UTF-8 under the C locale, and a terminal set to ASCII shows
            # rubbish.
            encoding = "ascii" if _is_ascii_asked_for() else None
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def _is_ascii_asked_for() -> bool:
    asked = "PYTHONIOENCODING" in os.environ or "PYTHONUTF8" in os.environ
    if asked or "utf8" in sys._xoptions:
        return False
    return codecs.lookup(locale.getencoding()).name == "ascii"


def is_stand_in(stream: TextIO) -> bool:
    """Return True if :func:`prepare_streams` has replaced a missing stream by this one."""
    return getattr(stream, "name", None) == os.devnull
