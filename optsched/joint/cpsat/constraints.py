"""The constraints of the joint model of order and offsets, with one function per family.

Example: op `q` needs `p`. :func:`add_precedences` adds `done[q][s]` implies `done[p][s - 1]` for
each step `s`.
"""

from __future__ import annotations

from typing import Any

from optsched.joint.cpsat.variables import Literal, ModelVariables, negated
from optsched.joint.instance import ModelInstance


def joint_model(
    instance: ModelInstance, peak_bound: int = 0, slab_bound: int = 0
) -> ModelVariables:
    """Return the model of order and offsets."""
    variables = ModelVariables(instance, peak_bound=peak_bound, slab_bound=slab_bound)
    # Order first: the constraints on offsets use its variables.
    for add in (*ORDER_FAMILIES, *PACKING_FAMILIES):
        add(variables)
    return variables


def add_monotony(variables: ModelVariables) -> None:
    """Require that ops stay done and items stay released."""
    for row in (*variables.done, *variables.released):
        for step, literal in row.items():
            if step + 1 in row:
                variables.model.add_implication(literal, row[step + 1])


def add_one_op_per_step(variables: ModelVariables) -> None:
    """Require that exactly `s + 1` ops are done after step `s`."""
    ops = range(variables.instance.op_count)
    for step in range(variables.instance.op_count):
        variables.model.add(sum(variables.done_by(v, step) for v in ops) == step + 1)


def add_precedences(variables: ModelVariables) -> None:
    """Require that the predecessors of an op are done by the step before it is done."""
    instance = variables.instance
    for v, before in enumerate(instance.preds):
        # Ancestors of the predecessors: reached through another predecessor in any case.
        passed = 0
        for u in before:
            passed |= instance.ancestors[u]
        for u in before:
            # A predecessor of another predecessor is implied, and each constraint costs propagation
            # time.
            if passed >> u & 1:
                continue
            early, late = variables.step_windows[v]
            for step in range(early, late + 1):
                add_clause(variables, variables.done_by(v, step), variables.done_by(u, step - 1))


def add_releases(variables: ModelVariables) -> None:
    """Require that all last users of an item are done before it is released."""
    for row, users in zip(variables.released, variables.last_users, strict=True):
        for step, literal in row.items():
            for u in users:
                add_clause(variables, literal, variables.done_by(u, step))


def add_times(variables: ModelVariables) -> None:
    """Tie integer positions and ends to the boolean variables."""
    model = variables.model
    for position, row in zip(variables.position, variables.done, strict=True):
        for step, literal in row.items():
            # Both directions: the position decides the literal, and the literal the position.
            model.add(position <= step).only_enforce_if(literal)
            model.add(position > step).only_enforce_if(~literal)
    for i, row in enumerate(variables.released):
        for step, literal in row.items():
            model.add(variables.end[i] <= step + 1).only_enforce_if(literal)
            model.add(variables.end[i] > step + 1).only_enforce_if(~literal)


def add_peak(variables: ModelVariables) -> None:
    """Require that the live units of each step are at most the peak."""
    for step in range(variables.instance.horizon):
        variables.model.add(_load(variables, step, None) <= variables.peak)


def add_load_below_slab(variables: ModelVariables) -> None:
    """Require that the live units of a pool at each step are at most its slab.

    The peak is then at most the sum of the slabs; with a single pool this is the only constraint
    needed.
    """
    variables.model.add(variables.peak <= variables.slab)
    if len(variables.slabs) == 1:
        return
    for pool, slab in variables.slabs.items():
        for step in range(variables.instance.horizon):
            variables.model.add(_load(variables, step, pool) <= slab)


def add_tops(variables: ModelVariables) -> None:
    """Require that every item ends at or below the top of its pool's slab."""
    for item, offset in zip(variables.instance.items, variables.offset, strict=True):
        variables.model.add(offset + item.room <= variables.slabs[item.pool])


def add_sum_of_slabs(variables: ModelVariables) -> None:
    """Define the total slab as the sum of the slabs of all pools."""
    if len(variables.slabs) != 1:
        variables.model.add(variables.slab == sum(variables.slabs.values()))


def add_no_overlap(variables: ModelVariables) -> None:
    """Require that items of a pool do not share bytes at the same step.

    The cumulative constraint, which limits the live units to the slab, is implied, but helps
    CP-SAT.
    """
    model = variables.model
    for pool in variables.instance.pools:
        items = [i for i, item in enumerate(variables.instance.items) if item.pool == pool]
        sizes = [variables.instance.items[i].room for i in items]
        times = [_time_interval(variables, i) for i in items]
        spaces = [
            model.new_fixed_size_interval_var(variables.offset[i], size, f"space[{i}]")
            for i, size in zip(items, sizes, strict=True)
        ]
        model.add_no_overlap_2d(times, spaces)
        # A single item is below its pool's slab by another constraint.
        if len(times) > 1:
            model.add_cumulative(times, sizes, variables.slabs[pool])


def add_apart(variables: ModelVariables) -> None:
    """Require that pairs to keep apart do not share a unit at any time."""
    model, items = variables.model, variables.instance.items
    for pair in variables.instance.apart:
        # In different pools two items never share a byte.
        if len({items[i].pool for i in pair}) == 1:
            rooms = [(variables.offset[i], items[i].room) for i in pair]
            model.add_no_overlap(
                [model.new_fixed_size_interval_var(at, room, "apart") for at, room in rooms]
            )


def add_shared(variables: ModelVariables) -> None:
    """Require that items of a group start at the same unit; their live ranges never overlap."""
    for first, *others in (group for group in variables.instance.shared if group):
        for i in others:
            variables.model.add(variables.offset[i] == variables.offset[first])


def _time_interval(variables: ModelVariables, i: int) -> Any:
    first, last, name = variables.start[i], variables.end[i], f"time[{i}]"
    if i in variables.inplace.written:
        return variables.inplace.time_interval(i, variables.start[i], variables.end[i], name)
    if isinstance(first, int) and isinstance(last, int):
        return variables.model.new_fixed_size_interval_var(first, last - first, name)
    horizon = variables.instance.horizon
    # The live range varies with the order, so its length is a variable as well.
    length = variables.integer(1, horizon, "length", lambda p, i: p.spans[i][1] - p.spans[i][0], i)
    return variables.model.new_interval_var(first, length, last, name)


def add_clause(variables: ModelVariables, first: Literal, then: Literal, *more: Literal) -> None:
    """Require that `first` implies `then` or one of `more`; each may be the constant 0 or 1."""
    # A constant 0 is left out of the clause; a constant 1 satisfies all of it.
    literals = []
    for literal in (negated(first), then, *more):
        if not isinstance(literal, int):
            literals.append(literal)
        elif literal:
            return
    variables.model.add_bool_or(literals)


def add_inplace(variables: ModelVariables) -> None:
    """Require that in-place pairs match outputs with inputs that die at the op.

    An output with `spared` set is not counted at the step of its op. An output with `shared` set
    has the offset of its input.
    """
    model, made = variables.model, variables.inplace
    for flags in (made.spared, made.shared):
        for pair, flag in zip(variables.instance.pairs, flags, strict=True):
            early, late = variables.step_windows[pair.op]
            for u in variables.instance.items[pair.source].users:
                for step in range(early, late + 1) if u != pair.op else ():
                    runs, before = variables.done_by(pair.op, step), variables.done_by(u, step - 1)
                    add_clause(variables, flag, negated(runs), before)
        # Each output takes one input, and each input is written over once.
        for group in made.groups():
            model.add_at_most_one(flags[k] for k in group)
    for (i, step), skipped in made.skipped.items():
        op = variables.instance.items[i].birth
        # Skipped only in the step of its own op, and only if one of its pairs is spared.
        add_clause(variables, skipped, variables.done_by(op, step))
        add_clause(variables, skipped, negated(variables.done_by(op, step - 1)))
        model.add_bool_or([~skipped, *(made.spared[k] for k in made.pairs_of(i))])
    for pair, flag in zip(variables.instance.pairs, made.shared, strict=True):
        output, source = variables.offset[pair.output], variables.offset[pair.source]
        if isinstance(output, int) and isinstance(source, int):
            # Both are pinned to the same offset; otherwise the pair would not be admissible.
            continue
        model.add(output == source).only_enforce_if(flag)
    for i, written in made.written.items():
        model.add(written == sum(made.shared[k] for k in made.pairs_of(i)))


def _load(variables: ModelVariables, step: int, pool: str | None) -> Any:
    return sum(
        item.size * (variables.live(i, step) - variables.inplace.skipped_at(i, step))
        for i, item in enumerate(variables.instance.items)
        if pool is None or item.pool == pool
    )


ORDER_FAMILIES = (
    add_monotony,
    add_one_op_per_step,
    add_precedences,
    add_releases,
    add_inplace,
    add_peak,
)
"""Constraints on the order: ops stay done, one op runs at each step, predecessors are done a step
before, in-place pairs use dying inputs, and live bytes are at most the peak.
"""
PACKING_FAMILIES = (
    add_times,
    add_load_below_slab,
    add_tops,
    add_sum_of_slabs,
    add_no_overlap,
    add_apart,
    add_shared,
)
"""Constraints on the offsets, and between offsets and order."""
