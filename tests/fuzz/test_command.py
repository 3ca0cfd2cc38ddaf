"""The one command of all fuzz programs: it lists them, and runs each with count and seed."""

from __future__ import annotations

from importlib import import_module
from inspect import signature

import pytest

from tests.fuzz.__main__ import main, programs


def test_programs_are_listed_with_what_they_compare(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(programs()) > 20
    assert "kernels" in [line.split()[0] for line in lines]
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("name", sorted(set(programs()) - {"fx_programs"}))
def test_each_program_takes_count_and_seed(name: str) -> None:
    if name in ("fx_steps", "held_steps"):
        pytest.importorskip("torch", reason="its programs need the extra `torch`")
    if name == "tiled_models":
        pytest.importorskip("tflite", reason="its networks need the extra `tflite`")
    given = list(signature(import_module(f"tests.fuzz.{name}").main).parameters.values())
    assert [option.name for option in given[:2]] == ["count", "seed"]
    assert all(option.default is not option.empty for option in given)
    assert all(option.kind is option.KEYWORD_ONLY for option in given[2:])


def test_a_program_runs_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "--count", "2", "--seed", "3", "--questions", "relation"]) == 0
    assert capsys.readouterr().out.startswith("relation   2 graphs")


def test_an_unknown_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stream"]) == 2
    assert "no program 'stream'; one of claims, " in capsys.readouterr().err
