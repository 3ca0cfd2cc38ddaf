"""The parts of the site that are made from code: topics, commands, examples, links of studies."""

from __future__ import annotations

import pytest

import optsched
from docs import hooks
from optsched.cli.commands import COMMANDS
from tests.support.examples import kept_by


def test_every_public_name_has_one_topic() -> None:
    named = [name for _, names in hooks.TOPICS.values() for name in names.split()]
    assert sorted(named) == sorted(optsched.__all__)
    table = hooks.python_api()
    assert all(f"[`{name}`](python/" in table for name in named)
    assert "::: optsched.solve" in hooks.topic_page("solve")


def test_every_command_has_a_page() -> None:
    assert {name for name, _ in hooks.command_pages()} == {*COMMANDS}
    table = hooks.command_line()
    for (name, page), text in zip(hooks.command_pages(), hooks.command_texts(), strict=True):
        assert page.removeprefix("reference/") in table
        assert text.startswith(f"# optsched {name}\n")
    assert (
        "## optsched store gc"
        in dict(zip(dict(hooks.command_pages()), hooks.command_texts(), strict=True))["store"]
    )


@pytest.mark.parametrize("path", hooks.examples(), ids=lambda path: path.name)
def test_the_page_of_an_example_shows_what_it_prints(path: hooks.Path) -> None:
    page = hooks.example_page(path)
    assert page.startswith("# ")
    for line in kept_by(path).splitlines():
        assert line in page
    if "# %%" in path.read_text():
        # The last value of the last cell is a picture.
        assert "<svg" in page
        shown = page[page.index("<div class=optsched>") :]
        assert "\n\n" not in shown[: shown.index("</svg>")]


def test_a_cell_prints_and_shows_its_last_value() -> None:
    names: dict[str, object] = {}
    assert hooks.run_cell("x = 3\nprint(x)", names) == ("3\n", "")
    assert hooks.run_cell("print(x)\nx", names) == ("3\n", "")
    shown = hooks.run_cell("import optsched\noptsched.example('alexnet')", names)[1]
    assert "alexnet_bs128.bwd" in shown


def test_links_lead_to_pages_of_the_site() -> None:
    known = {"experiments/a/README.md", "experiments/a/p.svg", "examples/solve.md", "proofs.md"}

    def replaced(text: str, page: str) -> str:
        return hooks.replace_links(text, page, None, known)

    guide, study = "guides/x.md", "experiments/a/README.md"
    assert replaced("[a](../../experiments/a/README.md#b)", guide) == (
        "[a](../experiments/a/README.md#b)"
    )
    assert replaced("![p](p.svg)", study) == "![p](p.svg)"
    assert replaced("[p](../../docs/proofs.md)", study) == "[p](../../proofs.md)"
    assert replaced("[s](solve.py)", "examples/README.md") == "[s](solve.md)"
    assert replaced("[c](run.py)", study) == "c (`experiments/a/run.py`)"
    assert replaced("[w](https://x.org/a)", study) == "[w](https://x.org/a)"
    assert hooks.replace_links("[c](run.py)", study, "https://h/o", known) == (
        "[c](https://h/o/blob/main/experiments/a/run.py)"
    )


def test_roles_of_docstrings_are_names() -> None:
    html = ":func:<code>optsched.solve</code> or :class:<code>~optsched.x.Limits</code>"
    page = hooks.on_page_content(html, page=None, config=None, files=None)
    assert page == "<code>solve</code> or <code>Limits</code>"


def test_parameters_that_share_a_description_get_an_entry_each() -> None:
    pytest.importorskip("griffe")
    from docs.split_names import split_names

    text = "A.\n\nParameters\n----------\na, b\n    Sizes.\n\nc\n    x, y\n\nReturns\n-------\nd\n"
    assert split_names(text) == text.replace("a, b\n    Sizes.\n", "a\n    Sizes.\nb\n    Sizes.\n")
