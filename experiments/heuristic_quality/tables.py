"""Tables of the study: a row per sorter, packer or pair; a column per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.heuristic_quality.families import MADE_TO_FAIL
from experiments.heuristic_quality.measure import GraphFigures, excess, mean_excess
from optsched.compare import OUR_METHOD

Value = Callable[[GraphFigures], float]
"""The excess of a method on a graph."""


def peak_of(sorter: str) -> Value:
    """Return the excess of a sorter's peak over the least."""
    return lambda found: excess(found.peaks[sorter], found.least_peak)


def slab_of(sorter: str, packer: str) -> Value:
    """Return the excess of a pair's slab over the least of all orders and packings."""
    return lambda found: excess(found.slabs[sorter, packer], found.least_slab)


def sorters(found: Sequence[GraphFigures]) -> dict[str, Value]:
    """Return the sorters that were measured, by the peak of their order."""
    return {name: peak_of(name) for name in found[0].peaks if name != OUR_METHOD}


def packers(found: Sequence[GraphFigures]) -> dict[str, Value]:
    """Return the packers, by their slab for the order of our plan."""
    return {p: slab_of(s, p) for s, p in found[0].slabs if s == OUR_METHOD}


def pairs(found: Sequence[GraphFigures]) -> dict[str, Value]:
    """Return sorters with packers, by their slab."""
    return {f"{s}+{p}": slab_of(s, p) for s, p in found[0].slabs if s != OUR_METHOD}


def families(found: Sequence[GraphFigures]) -> dict[str, list[GraphFigures]]:
    """Return the proved graphs by family."""
    by_name: dict[str, list[GraphFigures]] = {}
    for x in found:
        if x.proved:
            by_name.setdefault(x.family, []).append(x)
    return by_name


def fair(found: Sequence[GraphFigures]) -> list[GraphFigures]:
    """Return the proved graphs that were not made so that a heuristic fails."""
    # Graphs that were looked for because a heuristic fails on them say nothing about its average.
    return [x for x in found if x.proved and x.family != MADE_TO_FAIL]


def by_family(methods: dict[str, Value], found: Sequence[GraphFigures]) -> list[list[str]]:
    """Lines of: method, mean excess by family in percent, then over all fair graphs.

    The last columns are the geometric mean, the worst, and the share of optimal graphs.
    """
    groups = families(found)
    lines = []
    for name, value in methods.items():
        cells = [_percent(mean_excess([value(x) for x in group])) for group in groups.values()]
        lines.append([name, *cells, *summary(value, fair(found))])
    return lines


def summary(value: Value, found: Sequence[GraphFigures]) -> list[str]:
    """Return mean and worst excess in percent, and how many percent of graphs are optimal."""
    values = [value(x) for x in found]
    optimal = sum(v == 0 for v in values) / len(values)
    return [_percent(mean_excess(values)), _percent(max(values)), f"{100 * optimal:.0f}"]


def best_pairs(found: Sequence[GraphFigures], count: int = 10) -> list[list[str]]:
    """Lines of the pairs of least mean excess over all fair graphs."""
    graphs, values = fair(found), pairs(found)
    ranked = sorted(values, key=lambda name: mean_excess([values[name](x) for x in graphs]))
    return [[name, *summary(values[name], graphs)] for name in ranked[:count]]


def winners(found: Sequence[GraphFigures]) -> list[list[str]]:
    """Lines of: family, graphs, the best sorter, packer and pair there with their mean excess."""
    lines = []
    for family, group in families(found).items():
        line = [family, str(len(group))]
        for methods in (sorters(found), packers(found), pairs(found)):
            means = {name: mean_excess([v(x) for x in group]) for name, v in methods.items()}
            least = min(means.values())
            # Equal up to rounding of the logarithms.
            names = [name for name, mean in means.items() if mean <= least + 1e-12]
            others = f" and {len(names) - 1} more" if len(names) > 1 else ""
            line.append(f"{names[0]}{others}: {_percent(least)}")
        lines.append(line)
    return lines


def _percent(value: float) -> str:
    return "0" if value == 0 else f"{100 * value:.1f}" if value >= 0.0005 else "<0.1"
