"""Rows that a kernel is given and computes when it runs on a band of rows.

Example: a 3-row window at stride 1 pads its input of 8 rows by one row at each end (`SAME`). For
rows 4 and 5 of the output it is given rows 3 to 6. From their number the kernel concludes that it
pads again, and computes rows 3 to 6. The first and the last of these are wrong, as they lie at a
false edge.

>>> band_rows(SAME, 3, 1, 1, 1, 0, 8, 4, 6, 1, 1)
(3, 7, 3, 4)
"""

from __future__ import annotations

from optsched.runtime.kernel import inner

EXACT, SAME, SCALED = 0, 1, 2
"""Rules by which a kernel finds its rows, see :class:`optsched.model.rows.RowRule`."""


@inner
def band_rows(
    rule: int,
    window: int,
    stride: int,
    pad: int,
    up: int,
    more: int,
    height: int,
    first: int,
    last: int,
    step_in: int,
    step_out: int,
) -> tuple[int, int, int, int]:
    """Return the input rows `[low, high)` of a band, its first output row, and their number.

    The band is for the output rows `[first, last)`; `height` is the input's. It gets the fewest
    rows with which the kernel computes these rows as it does on the whole input: the ends move
    outwards until the padding that the kernel derives from the band agrees with the whole, `low` is
    a multiple of `step_in`, and the first output row is one of `step_out`. Four zeros mean that no
    band does.
    """
    low = max(0, (first * stride - pad) // up)
    high = min(height, -((pad - window - (last - 1) * stride) // up))
    if low >= high:
        return 0, 0, 0, 0
    # Rows added at both ends: few are needed until paddings agree, or steps are multiples.
    for added in range(2 * (window + stride) + step_in * step_out * stride):
        for above in range(added + 1):
            a, b = low - above, high + added - above
            if a < 0 or b > height or a % step_in:
                continue
            begin, count = made_rows(rule, window, stride, pad, up, more, height, a, b)
            if rule == EXACT:
                # The kernel is told what to pad, so its rows end where they should.
                if above < added or above % stride:
                    continue
                begin = first - above // stride
                count = last - begin
            if count > 0 and begin % step_out == 0 and begin <= first and begin + count >= last:
                return a, b, begin, count
    return 0, 0, 0, 0


@inner
def made_rows(
    rule: int,
    window: int,
    stride: int,
    pad: int,
    up: int,
    more: int,
    height: int,
    low: int,
    high: int,
) -> tuple[int, int]:
    """Return the first row that a kernel makes of rows `[low, high)`, and the number.

    The number is 0 if its rows do not fall on rows of the whole output.
    """
    given = high - low
    if rule == SCALED:
        return low * up, given * up + more
    count = (given + stride - 1) // stride
    above = max((count - 1) * stride + window - given, 0) // 2
    start = low - above + pad
    begin = start // stride
    whole = (height + stride - 1) // stride
    if start % stride or begin < 0 or begin + count > whole:
        return 0, 0
    return begin, count
