"""Every link of a page leads to a file or a heading that exists; the network is not needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.documents import ROOT, pages

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
FENCED = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def links_of(text: str) -> list[str]:
    """Return the targets of links and pictures outside code."""
    return LINK.findall(FENCED.sub("", text))


def anchors_of(text: str) -> set[str]:
    """Return the anchors of headings, as GitHub and mkdocs form them."""
    heads = re.findall(
        r"^#+ (.+)$", FENCED.sub("", re.sub(r"`([^`\n]*)`", r"\1", text)), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    broken = []
    for link in links_of(page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text("utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    assert not broken_links(ROOT / page)


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` c\n[x](#a-b-c) [y](gone.md) ![z](page.md#d) `[not](one)` <https://x>\n"
    )
    assert broken_links(page) == ["gone.md", "page.md#d"]


def test_every_study_has_a_row() -> None:
    folder = ROOT / "experiments"
    listed = links_of((folder / "README.md").read_text("utf-8"))
    studies = {str(x.relative_to(folder)) for x in folder.rglob("README.md")} - {"README.md"}
    assert set(listed) == studies
