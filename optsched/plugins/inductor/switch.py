"""The environment variable `OPTSCHED`: the plugin for programs that cannot be edited.

`OPTSCHED=1 python train.py` does what :func:`optsched.plugins.inductor.enabled` does, for the full
program. `OPTSCHED="time_limit=2,store=plans.db,cuda=1"` has settings. Torch calls the function when
it is imported, by the entry point `torch.backends` of this package.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

VARIABLE = "OPTSCHED"
_SWITCHES = {"cuda", "measure"}
_NUMBERS = {"time_limit"}
_TEXTS = {"store", "min_gain", "peak"}
_OFF = ("", "0")


@cache
def switch_on() -> None:
    """Install the plugin in Inductor's settings if the variable asks for it.

    Only the first call of a process has an effect, since torch calls it once for each installed
    package that names it, and a package may be found twice. It never fails, since `import torch`
    would fail with it: the logger `optsched.plugins.inductor` has one line.
    """
    text = os.environ.get(VARIABLE, "")
    # The usual case costs no import.
    if text in _OFF:
        return
    import logging

    try:
        from torch._inductor import config

        from optsched.plugins.inductor import options

        # Set until the process ends: only a context could take it back.
        for name, value in options(**parse(text)).items():
            setattr(config, name, value)
    except Exception as error:
        log = logging.getLogger("optsched.plugins.inductor")
        log.warning("%s=%s: no order is changed: %s", VARIABLE, text, error)


def parse(text: str) -> dict[str, Any]:
    """Return the settings that a value of the variable names.

    Raise `UsageError` if a setting is unknown or has no value of its kind.
    """
    from optsched.errors import UsageError

    if text == "1":
        return {}
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, given, value = part.strip().partition("=")
        known = ", ".join(sorted(_SWITCHES | _NUMBERS | _TEXTS))
        if not given or name not in _SWITCHES | _NUMBERS | _TEXTS:
            raise UsageError(f"expected 1 or NAME=VALUE with a name of {known}, got {part!r}")
        if name in _SWITCHES and value not in ("0", "1"):
            raise UsageError(f"{name} must be 0 or 1, got {value!r}")
        if name in _NUMBERS:
            try:
                found[name] = float(value)
            except ValueError:
                raise UsageError(f"{name} must be a number, got {value!r}") from None
        else:
            found[name] = value == "1" if name in _SWITCHES else value
    return found
