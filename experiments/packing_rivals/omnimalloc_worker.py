"""Packs CSV files with omnimalloc: one JSON line a file. Runs under a Python that has omnimalloc.

python omnimalloc_worker.py {supermalloc,default} SECONDS THREADS FILE...
"""

import csv
import json
import sys
import time

from omnimalloc import Allocation, allocate
from omnimalloc.allocators import SupermallocAllocator


def main() -> None:
    method, seconds, threads, *files = sys.argv[1:]
    for file in files:
        with open(file, encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        buffers = tuple(
            Allocation(
                id=row["id"],
                size=int(row["size"]),
                start=int(row["lower"]),
                end=int(row["upper"]),
            )
            for row in rows
        )
        started = time.perf_counter()
        proved = False
        if method == "supermalloc":
            solver = SupermallocAllocator(timeout=float(seconds), num_threads=int(threads))
            result = solver.solve(buffers)
            placed, proved = result.allocations, result.proved_optimal
        else:
            placed = allocate(buffers)
        took = time.perf_counter() - started
        at = {str(buffer.id): buffer.offset for buffer in placed}
        offsets = [at[row["id"]] for row in rows]
        print(json.dumps({"seconds": took, "proved": proved, "offsets": offsets}), flush=True)


if __name__ == "__main__":
    main()
