"""Minimum cuts that PyTorch's partitioner shares: its splits are the same with them."""

from __future__ import annotations

import copy
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch
from torch._functorch import config, partitioners
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from optsched.plugins.inductor.recompute.joint_graph import Modules, computed
from optsched.plugins.inductor.recompute.minimum_cuts import shared_minimum_cuts
from tests.support.compiled_memory import NO_CACHE

BUDGETS = (1.0, 0.7, 0.4, 0.1, 0.0)


class Compared(CustomPartitionerFn):  # type: ignore[misc]
    """Partitioner that splits each joint graph at several budgets, with shared cuts and without."""

    def __init__(self) -> None:
        self.found: list[list[list[str]]] = []
        self.computed: list[int] = []

    def uuid(self) -> str:
        return "compared"

    def __call__(self, gm: Any, joint_inputs: Any, **how: Any) -> Modules:
        original = partitioners.solve_min_cut
        for shared in (False, True):
            with mock.patch.object(partitioners, "solve_min_cut", side_effect=original) as calls:
                self.found.append(self.splits(gm, joint_inputs, how, shared))
                assert partitioners.solve_min_cut is calls
            self.computed.append(calls.call_count)
        made: Modules = min_cut_rematerialization_partition(gm, joint_inputs, **how)
        return made

    def splits(self, gm: Any, inputs: Any, how: Any, shared: bool) -> list[list[str]]:
        if shared:
            with shared_minimum_cuts({}):
                return self.splits(gm, inputs, how, False)
        found = []
        for budget in BUDGETS:
            with config.patch(activation_memory_budget=budget):
                modules = min_cut_rematerialization_partition(copy.deepcopy(gm), inputs, **how)
            found.append(list(computed(modules)))
        return found


def test_splits_are_those_of_the_partitioner_and_few_cuts_are_computed() -> None:
    torch._dynamo.reset()
    compared = Compared()
    layers = [torch.nn.Linear(16, 16) for _ in range(4)]
    module = torch.nn.Sequential(*(x for layer in layers for x in (layer, torch.nn.GELU())))
    step = torch.compile(module, options={"custom_partitioner_fn": compared})
    # A graph out of a cache of an earlier process is not split.
    with inductor_config.patch(NO_CACHE):
        step(torch.randn(8, 16)).square().mean().backward()
    without, shared = compared.found
    assert without == shared
    assert len({*map(tuple, without)}) > 2
    computed_without, computed_shared = compared.computed
    assert 0 < computed_shared < computed_without / 2
