"""A small sample of what the fuzzer of readers does with a hundred thousand inputs each."""

from __future__ import annotations

import pytest

from optsched.errors import MissingDependencyError, OptschedError
from tests.fuzz import readers

SEED = 7
INPUTS = 150


@pytest.mark.parametrize("name", readers.readers())
def test_whatever_a_file_holds_is_a_value_or_one_line(name: str) -> None:
    seeds = readers.all_seeds()[name]
    assert seeds, f"put a small file of the format {name} into tests/data/corpus"
    try:
        readers.readers()[name](seeds[0])
    except MissingDependencyError as error:
        pytest.skip(str(error))
    except OptschedError:
        pass
    found = readers.fuzz(name, 20 if name == "store" else INPUTS, SEED)
    assert found == {}
