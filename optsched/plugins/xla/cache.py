"""jax's persistent compilation cache: a folder of its own for modules compiled with the plugin.

jax's key of an entry does not include the plugin. So modules with our orders go into a folder of
their own, named after the settings, where only processes with the same settings find them. The
folder also has the records of the plans, for a later process that compiles nothing.

Example: a process with `time_limit=5` compiles `jit(step)`. A second one with the same settings
loads it from the same folder and reports the record; one with `time_limit=60` has another folder
and compiles again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from optsched.plugins.records import CompiledGraph, remember
from optsched.plugins.sources import sources_digest

_LOG = logging.getLogger("optsched.plugins.xla")
_HIT = "/jax/compilation_cache/cache_hits"
_COMPILED = "/jax/core/compile/backend_compile_duration"
_LAYOUT = re.compile(r"entry_computation_layout=(\{.*?\})(?=, [a-z_]+=|\s*$)", re.MULTILINE)
RECORDS = "optsched-records.jsonl"
FOUND = "out of jax's compilation cache"


def layout_of(text: str) -> str:
    """Return the shapes of a module's arguments and results, as its text has them."""
    found = _LAYOUT.search(text)
    return found[1] if found else ""


class CachedRecords:
    """Records of the plans of the modules in one folder of jax's cache.

    `folder`: folder of the cache. `modules`: patterns of the names of modules that get orders.
    """

    def __init__(self, folder: str, modules: Sequence[str]) -> None:
        self.path = Path(folder) / RECORDS
        self.modules = modules
        self._thread = threading.local()

    def add(self, layout: str, record: CompiledGraph) -> None:
        """Append a record to the file; if the folder cannot be written, log a warning."""
        line = json.dumps({"layout": layout, **dataclasses.asdict(record)})
        # A warning only: the plan is valid without its record.
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            _LOG.warning("%s: cannot write the record of the plan: %s", record.name, error)

    def on_event(self, event: str, **_: Any) -> None:
        """Note that this thread is loading a module from the cache."""
        if event == _HIT:
            self._thread.hit = True

    def on_duration(self, event: str, _: float, **given: Any) -> None:
        """Report the record of a module that was loaded from the cache."""
        if event == _COMPILED and getattr(self._thread, "hit", False):
            self._thread.hit = False
            try:
                self._report(str(given.get("fun_name", "")))
            except Exception as error:
                _LOG.warning("%s: cannot find the record of the plan: %r", given, error)

    def _report(self, function: str) -> None:
        """Remember the record of the module that a function was compiled to last."""
        executable = _newest(function)
        module = executable.hlo_modules()[0]
        if any(fnmatchcase(module.name, pattern) for pattern in self.modules):
            found = self._find(module.name, layout_of(module.to_string()), _allocated(executable))
            remember(found)

    def _find(self, name: str, layout: str, allocated: int) -> CompiledGraph:
        """Return the latest record of a module that allocates so much."""
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        # From the end: the latest record is the one of the file in the cache.
        for line in reversed(lines):
            fields = json.loads(line)
            if (fields.pop("layout"), fields["name"]) == (layout, name):
                record = CompiledGraph(**fields)
                # None: the record of a module that kept its own order.
                if record.after in (None, allocated):
                    return dataclasses.replace(record, seconds=0.0, note=FOUND)
        note = f"{FOUND}, where it has no record of a plan"
        return CompiledGraph("xla", name, 0, before=allocated, note=note)


def _newest(function: str) -> Any:
    """Return the executable that was loaded last of a function, such as `jit(step)`."""
    from jax.extend.backend import get_backend

    loaded = get_backend().live_executables()
    wanted = _plain(function)
    return next(x for x in loaded if _plain(x.hlo_modules()[0].name) == wanted)


def _plain(name: str) -> str:
    """Return a name of a function or of its module without what only one of them has."""
    # jit(step) is the function's name, jit_step the module's.
    return re.sub(r"\W+", "_", name).strip("_")


def _allocated(executable: Any) -> int:
    """Return the bytes of temporaries and results, less donated bytes."""
    stats = executable.get_compiled_memory_stats()
    # Donated bytes are in `alias`: they were not allocated.
    total = stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    return int(total)


@contextlib.contextmanager
def own_folder(settings: str, modules: Sequence[str]) -> Iterator[CachedRecords | None]:
    """Let jax cache the modules compiled in the body in a subfolder of its cache.

    `settings`: all that decides an order, beside the sources of this project. `modules`: patterns
    of the names of modules that get orders.

    Yields
    ------
    CachedRecords or None
        The records in it; None where jax has no persistent cache.
    """
    import jax
    from jax import monitoring

    shared = jax.config.jax_compilation_cache_dir
    if not shared or not jax.config.jax_enable_compilation_cache:
        yield None
        return
    key = hashlib.sha256((sources_digest() + settings).encode()).hexdigest()[:16]
    own = f"{str(shared).rstrip('/')}/optsched-{key}"
    kept = CachedRecords(own, modules)
    _use_folder(own)
    monitoring.register_event_listener(kept.on_event)
    monitoring.register_event_duration_secs_listener(kept.on_duration)
    try:
        yield kept
    finally:
        monitoring.unregister_event_listener(kept.on_event)
        monitoring.unregister_event_duration_listener(kept.on_duration)
        # Someone else may have set a folder in the meantime; that one stays.
        if jax.config.jax_compilation_cache_dir == own:
            _use_folder(shared)


def _use_folder(folder: str) -> None:
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.set_cache_dir(folder)
    # jax reads the folder once, so its cache object must be made again.
    compilation_cache.reset_cache()
