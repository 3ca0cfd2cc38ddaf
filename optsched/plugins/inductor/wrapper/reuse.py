"""Second pass of the simulation: freed buffers are handed on to later allocations.

A reused buffer stays allocated between its two uses, which no graph of ops and buffers expresses.

Example: `a` is freed after step 1 and `b`, of the same kind, is allocated in step 3. `b` takes the
bytes of `a`, which are then held in step 2 as well, if that does not raise the estimated peak.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts
from optsched.plugins.inductor.wrapper.lines import Kind, Line, Pair


def hand_on(
    facts: WrapperFacts, order: Order, lines: list[Line], inplace: Sequence[Pair]
) -> list[Pair]:
    """Replace allocations by buffers that were freed before; return the pairs.

    A freed buffer is reused if the next allocation of its kind follows at once, or if holding it in
    between does not raise the peak of Inductor's estimate. The estimate ignores in-place writes, so
    its peak is above the true one, and reuse may raise the true peak.
    """
    misaligned = set(facts.misaligned)
    misaligned.update(output for output, source in inplace if source in misaligned)
    highest, live = estimate_peak(facts, order)
    pool: dict[Hashable, list[int]] = {}
    reused = []
    given: set[int] = set()
    for i, line in enumerate(lines):
        buffer = facts.buffers.get(line.name)
        if buffer is None or buffer.reuse_key is None:
            continue
        # Alignment decides too: a misaligned buffer serves a misaligned one only.
        key = (buffer.reuse_key, line.name in misaligned)
        if line.kind is Kind.FREE:
            pool.setdefault(key, []).append(i)
        elif line.kind is Kind.ALLOCATE and pool.get(key):
            # The buffer freed last is taken first, as in Inductor.
            free = lines[pool[key][-1]]
            between = range(free.step + 1, line.step)
            # If nothing runs in between, reuse costs nothing. Otherwise the buffer stays in memory
            # there.
            if between and buffer.size + max(live[s] for s in between) > highest:
                continue
            # Taken from the stack, and its line of release is dropped below.
            given.add(pool[key].pop())
            for s in between:
                live[s] += buffer.size
            reused.append((line.name, free.name))
            lines[i] = Line(Kind.SHARE, line.name, line.step, free.name)
    lines[:] = [line for i, line in enumerate(lines) if i not in given]
    return reused


def estimate_peak(facts: WrapperFacts, order: Order) -> tuple[int, list[int]]:
    """Return Inductor's own estimate of an order: its peak, and the live bytes of each step."""
    step_of = {v: step for step, v in enumerate(order)}
    change = [0] * (len(order) + 1)
    for buffer in facts.estimate:
        birth = 0 if buffer.producer is None else step_of[buffer.producer]
        last = max((step_of[v] for v in buffer.readers), default=birth)
        allocated, freed = buffer.allocated, buffer.freed
        if buffer.read_sizes:
            # The size depends on which reader is the last: a reader may see a part.
            latest = max(buffer.read_sizes, key=step_of.__getitem__)
            allocated = freed = buffer.read_sizes[latest]
        change[birth] += allocated
        if not buffer.kept:
            change[last + 1] -= freed
    # Prefix sums: bytes at a step are all changes up to it.
    live, total = [], 0
    for difference in change:
        total += difference
        live.append(total)
    return max(live, default=0), live
