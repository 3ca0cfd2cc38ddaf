"""The first answer on a machine where no kernel is compiled yet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, random, time
# Processor time, so that other processes of the machine take nothing of the limit.
time.monotonic = time.process_time
from optsched import GraphBuilder, solve
from optsched.model.liveness import peak_memory
from optsched.runtime.kernel import is_warm

draw, build, live = random.Random(5), GraphBuilder("thousand"), ["x"]
build.input("x", 4096)
for i in range(1000):
    read = draw.sample(live[-12:], min(len(live[-12:]), draw.choice([1, 1, 2])))
    build.op(f"op{i}", reads=read, writes={f"t{i}": draw.choice([256, 1024, 4096, 16384])})
    live.append(f"t{i}")
build.output(live[-1])
graph, found = build.build(), []
solve(graph, time_limit=4, on_event=lambda e: found.append((is_warm(), e.incumbent)))
own = peak_memory(graph, tuple(range(1000)))
print(json.dumps([own, found]))
"""


def test_a_thousand_ops_have_a_plan_before_kernels_are_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True
    )
    own, found = json.loads(ran.stdout)
    # Kernels are compiled with numba, which is imported for the first of them.
    assert next(not warm for warm, value in found if value is not None and value < own)
