"""solve, check and export on files that hold computations which call each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optsched import read_module, solve_module
from optsched.cli import main
from tests.support.commands import Cli

SCAN = str(Path(__file__).parents[2] / "instances" / "hlo" / "scan-module.txt")


def test_a_module_is_solved_checked_and_exported(tmp_path: Path, cli: Cli) -> None:
    plan, proof = str(tmp_path / "plan.json"), str(tmp_path / "proof.json")
    solved = ["solve", SCAN, "-o", plan, "--certificate", proof, "--inplace", "--json"]
    record = json.loads(cli(*solved))
    assert list(record["computations"])[-1] == record["entry"] == "main.7"
    assert record["peak"] == record["peak_bound"] == record["certificate"]["bound"] == 34_056
    assert record["computations"]["region_0.5"]["slab"] == 24_580
    text = cli("check", SCAN, plan, proof, "--inplace", "--replay")
    assert "valid: peak 34,056 bytes, slab 34,116 bytes in 3 computations" in text
    assert "proved: no orders below 34,056 bytes, the peak is minimal" in text
    assert (
        json.loads(cli("export", plan, SCAN, "--to", "json", "--computation", "region_0.5"))["slab"]
        == 24_580
    )


def test_words_say_what_a_proof_covers(cli: Cli) -> None:
    text = cli("solve", SCAN, "--inplace")
    assert "main.7, the entry" in text
    scope = "layouts in which each callee has one block while it runs"
    assert f"bounds hold for all {scope}" in text
    assert text.splitlines()[0].endswith(f"smallest possible among {scope}, proved")
    found = solve_module(read_module(SCAN), time_limit=20)
    assert f"smallest possible among {scope}, proved" in found.summary().splitlines()[0]
    first = cli("compare", SCAN, "--methods", "lpmf").splitlines()[0]
    assert (
        f"as with XLA's own schedule and heap, estimated; smallest possible among {scope}, proved"
        in first
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pool", "fast"], "is a module of computations: no --pool for it"),
        (["--keep-trace", "--json"], "is a module of computations: no --keep-trace for it"),
        (["--last", "copy"], "is a module of computations: no --last for it"),
        (["--max-moved", "0"], "is a module of computations: no --max-moved for it"),
        (["--workspace-apart"], "called computations cannot have separate regions"),
        (["--dim", "n=3"], "files have no open dimensions to give"),
    ],
)
def test_options_that_modules_do_not_have_are_refused(
    options: list[str], message: str, cli: Cli
) -> None:
    assert message in cli.error("solve", SCAN, *options)


def test_info_says_what_xlas_schedulers_make_of_a_module(
    cli: Cli,
) -> None:
    found = cli.json("info", SCAN)["xla"]
    assert found["memory_by_computation"]["main.7"] == found["schedulers"]["xla_default"]["memory"]
    assert "xla_dfs        379,464; 552,812; 553,028" in cli("info", SCAN)


def test_a_module_is_converted_whole(tmp_path: Path, cli: Cli) -> None:
    path = str(tmp_path / "scan.json")
    assert cli.json("convert", SCAN, "-o", path, "--to", "optsched-module")["computations"] == 3
    assert read_module(path) == read_module(SCAN)
    assert main(["solve", path, "--inplace"]) == 0


def test_a_module_that_does_not_fit_has_its_certificate(tmp_path: Path, cli: Cli) -> None:
    proof = str(tmp_path / "proof.json")
    assert (
        cli.json("solve", SCAN, "--capacity", "20KiB", "--certificate", proof, code=4)[
            "certificate"
        ]["bound"]
        > 20 * 1024
    )
    assert "got a certificate of a module" in cli.error("check", SCAN, proof)


def test_order_rules_are_not_checked_of_modules(tmp_path: Path, cli: Cli) -> None:
    plan = str(tmp_path / "plan.json")
    assert main(["solve", SCAN, "-o", plan]) == 0
    assert "no --first for it" in cli.error("check", SCAN, plan, "--first", "copy.10")


def test_the_least_by_xlas_own_count_is_proved(tmp_path: Path, cli: Cli) -> None:
    path = str(tmp_path / "logical.json")
    assert main(["convert", SCAN, "-o", path, "--to", "xla-logical"]) == 0
    assert "only the objective 'peak' can be asked for" in cli.error("solve", path)
    found = cli.json("solve", path, "--objective", "peak")
    assert (found["status"], found["peak"], found["slab"]) == ("optimal", 379_432, None)
    methods = "program,xla_list,skyline,lpmf+skyline"
    rows = {x["method"]: x for x in cli.json("compare", path, "--methods", methods)["rows"]}
    assert rows["optsched"]["peak"] == 379_432 <= rows["program"]["peak"]
    assert "no offsets to choose" in rows["skyline"]["reason"]
    assert "xla-logical is for HLO text" in cli.error(
        "convert", path, "-o", tmp_path / "x", "--to", "xla-logical"
    )
