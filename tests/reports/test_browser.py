"""The report in a real browser: it is drawn, answers the mouse, and asks the network for nothing.

Debian's `chromium` will do; it needs no display.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optsched import GraphBuilder, compare_methods, tile, write_graph
from optsched.cli import main
from optsched.model.graph import Graph
from optsched.reports.report import Report, make_report
from optsched.reports.tiling import tiling_page
from optsched.reports.write import write_report
from optsched.solver.pipeline import solve
from tests.reports.hostile import NAMES, hostile_graph
from tests.support.browser import PATIENCE, Browser, find_browser
from tests.support.families.small import chain, diamond, two_towers
from tests.support.row_maps import banded

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine")

LARGE = Path("instances/inductor/mobilebert_qa_bs128.bwd.json.gz")
READY = "document.documentElement.dataset.ready !== undefined"
HELPERS = """
const rects = (name) => [...document.querySelectorAll(`#${name} rect`)];
const labels = (name) => [...document.querySelectorAll(`#${name} text`)];
const marked = (name) => rects(name).filter((rect) => rect.classList.contains("marked"));
const largest = (name) => {
  document.getElementById(name).scrollIntoView({block: "center"});
  const area = ({box}) => box.wide * box.high;
  const best = rects(name).reduce((one, other) => (area(other) > area(one) ? other : one));
  const {left, right, top, bottom} = best.getBoundingClientRect();
  const [title, bytes, maker] = best.tip;
  const [x, y] = [0.3 * left + 0.7 * right, (top + bottom) / 2];
  return {x, y, name: title, bytes, producer: maker.slice(5)};
};
const tooltip = () => {
  const tip = document.querySelector(".tip");
  return tip.hidden ? "" : tip.textContent;
};
const ranges = (name) => {
  const box = document.querySelector(`#${name} svg`).getAttribute("viewBox");
  const [x, y, wide, high] = box.split(" ").map(Number);
  return [x, x + wide, 400 - y - high, 400 - y];
};
const point = (selector) => {
  const element = document.querySelector(selector);
  element.scrollIntoView({block: "center"});
  const box = element.getBoundingClientRect();
  return {x: box.left + box.width / 2, y: box.top + box.height / 2};
};
const frames = (count) => new Promise((done) => {
  const next = () => (count-- > 0 ? requestAnimationFrame(next) : done(true));
  next();
});
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of 1,625 ops and 2,748 buffers."""
    path = tmp_path_factory.mktemp("large") / "report.html"
    assert main(["report", str(LARGE), "-o", str(path), "--engine", "heuristics"]) == 0
    return path


def show(browser: Browser, path: Path, ready: str = READY, **size: int) -> None:
    browser.open(path, ready, **size)
    browser.evaluate(HELPERS.replace("const ", "var "))
    browser.evaluate("frames(3)")


def click(browser: Browser, selector: str) -> None:
    at = browser.evaluate(f"point({selector!r})")
    for kind in ("mousePressed", "mouseReleased"):
        browser.mouse(kind, at["x"], at["y"], button="left", clickCount=1)


def hover(browser: Browser, name: str) -> dict[str, Any]:
    """Point at the largest buffer; return what it is once a tooltip is there."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        at: dict[str, Any] = browser.evaluate(f"largest({name!r})")
        browser.mouse("mouseMoved", at["x"] - 3, at["y"])
        browser.mouse("mouseMoved", at["x"], at["y"])
        browser.evaluate("frames(3)")
        if tooltip := browser.evaluate("tooltip()"):
            return {**at, "tooltip": tooltip}
    raise TimeoutError("no tooltip")


def assert_quiet(browser: Browser, path: Path) -> None:
    """No error, no warning, and nothing was asked for but the file itself."""
    browser.evaluate("frames(2)")
    assert browser.named("Runtime.exceptionThrown") == []
    said = browser.named("Runtime.consoleAPICalled")
    assert [x for x in said if x["type"] not in ("log", "info", "debug")] == []
    assert [x["entry"] for x in browser.named("Log.entryAdded")] == []
    asked = [x["request"]["url"] for x in browser.named("Network.requestWillBeSent")]
    assert path.as_uri() in asked
    assert [url for url in asked if url != path.as_uri() and not url.startswith("data:")] == []


def test_a_large_report_opens_quickly_and_quietly(browser: Browser, large_page: Path) -> None:
    assert large_page.stat().st_size < 2e6
    # Seconds of the page's thread, so that a busy machine does not matter.
    browser.send("Performance.enable", timeDomain="threadTicks")
    show(browser, large_page)
    metrics = browser.send("Performance.getMetrics")["metrics"]
    spent = next(x["value"] for x in metrics if x["name"] == "TaskDuration")
    browser.send("Performance.disable")
    assert 0 < spent < 3
    drawn = browser.evaluate("rects('packing-0-0').length")
    assert drawn > 2_500
    assert browser.evaluate("document.title") == "mobilebert_qa_bs128.bwd: memory plan"
    assert_quiet(browser, large_page)


def test_hovering_names_the_buffer(browser: Browser, large_page: Path) -> None:
    show(browser, large_page)
    found = hover(browser, "packing-0-0")
    for part in ("name", "producer"):
        assert found[part] in found["tooltip"]
    assert found["bytes"].split(" ")[0] in found["tooltip"]
    assert "live at step" in found["tooltip"]
    assert_quiet(browser, large_page)


def test_the_wheel_zooms_with_ctrl_and_the_mouse_pans_all_figures_at_once(
    browser: Browser, two_plans: Report, tmp_path: Path
) -> None:
    path = tmp_path / "two.html"
    write_report(two_plans, {"html": str(path)})
    show(browser, path)
    at = hover(browser, "packing-0-0")
    whole = browser.evaluate("ranges('packing-0-0')")
    # Without Ctrl the wheel belongs to the page.
    browser.evaluate("scrollTo(0, 40)")
    before = browser.evaluate("scrollY")
    browser.mouse("mouseWheel", at["x"], at["y"], deltaX=0, deltaY=120)
    browser.wait_for(f"scrollY !== {before}")
    assert browser.evaluate("ranges('packing-0-0')") == whole
    at = hover(browser, "packing-0-0")
    browser.mouse("mouseWheel", at["x"], at["y"], deltaX=0, deltaY=-240, modifiers=2)
    browser.wait_for(f"ranges('packing-0-0')[1] < {whole[1]}")
    start, end, low, high = browser.evaluate("ranges('packing-0-0')")
    assert end - start < 0.9 * (whole[1] - whole[0])
    assert high - low < 0.9 * (whole[3] - whole[2])
    # The figure beside it shows the same, and so do the live bytes below.
    assert browser.evaluate("ranges('packing-1-0')") == [start, end, low, high]
    assert browser.evaluate("ranges('live-1')")[:2] == [start, end]
    browser.mouse("mousePressed", at["x"], at["y"], button="left", buttons=1, clickCount=1)
    for step in range(1, 6):
        browser.mouse("mouseMoved", at["x"] + 4 * step, at["y"], button="left", buttons=1)
    browser.mouse("mouseReleased", at["x"] + 20, at["y"], button="left", clickCount=1)
    browser.wait_for(f"ranges('packing-1-0')[0] !== {start}")
    assert_quiet(browser, path)


def test_keys_and_named_buttons_zoom_and_move(
    browser: Browser, two_plans: Report, tmp_path: Path
) -> None:
    path = tmp_path / "two.html"
    write_report(two_plans, {"html": str(path)})
    show(browser, path)
    whole = browser.evaluate("ranges('packing-0-0')")
    names = "[...document.querySelectorAll('[data-move]')].map((x) => x.getAttribute('aria-label'))"
    assert {"Zoom in", "Zoom out", "Move left", "Show all"} <= set(browser.evaluate(names))
    click(browser, "[data-move='+']")
    browser.wait_for(f"ranges('packing-1-0')[1] < {whole[1]}")
    browser.evaluate("document.querySelector('[data-moves]').focus(); true")
    press = (
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))"
    )
    zoomed = browser.evaluate("ranges('packing-0-0')")
    browser.evaluate(f"for (const key of ['ArrowRight', 'ArrowUp']) {press}; true")
    moved = browser.evaluate("ranges('packing-1-0')")
    assert moved[0] > zoomed[0]
    assert moved[2] > zoomed[2]
    browser.evaluate(f"for (const key of ['0']) {press}; true")
    assert browser.evaluate("ranges('packing-0-0')") == whole
    assert_quiet(browser, path)


def test_a_study_is_sorted_searched_and_unfolded(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "study.html"
    compare_methods([diamond(), chain(), two_towers()], methods="program,lpmf").save(page)
    show(browser, page, "document.readyState === 'complete'")
    rows = "[...document.querySelectorAll('#graphs > tbody > tr:not(.more):not([hidden])')]"
    names = f"{rows}.map((row) => row.cells[0].textContent)"
    assert browser.evaluate(names)[0] == "diamond"  # saves most
    click(browser, "#graphs th button")
    assert browser.evaluate(names) == ["two_towers", "diamond", "chain"]
    click(browser, "#graphs th button")
    assert browser.evaluate(names) == ["chain", "diamond", "two_towers"]
    click(browser, "[data-table=graphs]")
    browser.send("Input.insertText", text="TOWER")
    browser.wait_for("document.querySelector('output').textContent === '1 found'")
    assert browser.evaluate(names) == ["two_towers"]
    click(browser, "#graphs tr:not([hidden]) button[aria-expanded]")
    assert browser.evaluate("document.querySelectorAll('tr.more:not([hidden])').length") == 1
    assert_quiet(browser, page)


def test_colors_switch_and_buffers_are_found(
    browser: Browser, two_plans: Report, tmp_path: Path
) -> None:
    path = tmp_path / "two.html"
    write_report(two_plans, {"html": str(path)})
    show(browser, path)
    shown = "[...document.querySelectorAll('[data-key]')].filter((x) => !x.hidden)"
    has = "rects('packing-1-0').every((rect) => rect.getAttribute('fill') === rect.colors.{})"
    assert browser.evaluate(has.format("by_size"))
    click(browser, "input[value=by_kind]")
    browser.wait_for(has.format("by_kind"))
    assert browser.evaluate(f"{shown}.map((x) => x.dataset.key)") == ["by_kind"]
    click(browser, "button[data-buffer]")
    marked = "marked('packing-0-0')"
    assert browser.wait_for(f"{marked}.length") == 1
    first = browser.evaluate("document.querySelector('button[data-buffer]').textContent")
    assert browser.evaluate(f"{marked}[0].tip[0]") == first
    click(browser, "button[data-buffer]")
    browser.wait_for(f"{marked}.length === 0")
    click(browser, "#find")
    browser.send("Input.insertText", text="RIGHT")
    # b and the workspace, in both plans: found by the op that makes them.
    browser.wait_for("document.getElementById('found').textContent === '4 marked'")
    # Both plans are shown: in one of them the workspace lies high, in the other low.
    whole = browser.evaluate("ranges('packing-0-0')")
    click(browser, "#find")
    browser.evaluate("document.getElementById('find').value = ''")
    browser.send("Input.insertText", text="workspace")
    browser.wait_for("document.getElementById('found').textContent === '2 marked'")
    start, end, low, high = browser.evaluate("ranges('packing-1-0')")
    assert high - low < whole[3] - whole[2]
    assert browser.evaluate("ranges('packing-0-0')") == [start, end, low, high]
    browser.evaluate(
        "{const box = document.getElementById('find'); box.value = '';"
        "box.dispatchEvent(new Event('input', {bubbles: true}))}"
    )
    browser.wait_for("ranges('packing-0-0')[0] === 0 && ranges('packing-0-0')[1] === 1000")
    assert_quiet(browser, path)


def test_buffers_bear_their_names_where_there_is_room(
    browser: Browser, two_plans: Report, large_page: Path, tmp_path: Path
) -> None:
    path = tmp_path / "two.html"
    write_report(two_plans, {"html": str(path)})
    show(browser, path)
    labels = "labels('packing-0-0')"
    browser.wait_for(f"{labels}.length")
    assert {"x", "b", "a"} <= set(browser.evaluate(f"{labels}.map((text) => text.textContent)"))
    dark = f"{labels}.map((text) => text.getAttribute('fill'))"
    assert set(browser.evaluate(dark)) == {"#ffffff", "#000000"}
    # Hardly any of 2,700 buffers has room; zooming in makes some.
    show(browser, large_page)
    few = browser.evaluate(f"{labels}.length")
    for _ in range(6):
        click(browser, "[data-move='+']")
    browser.wait_for(f"{labels}.length > {few}")
    assert_quiet(browser, large_page)


def test_given_live_ranges_have_a_page(browser: Browser, tmp_path: Path) -> None:
    csv, page = tmp_path / "p.csv", tmp_path / "p.html"
    csv.write_text("id,lower,upper,size,offset\na,0,4,8,0\nb,2,6,4,8\nc,4,6,8,12\n")
    assert main(["report", str(csv), "--best", "-o", str(page)]) == 0
    show(browser, page)
    assert "no packing needs less" in browser.evaluate("document.body.textContent")
    found = hover(browser, "packing-0-0")
    assert found["name"] in found["tooltip"]
    click(browser, "#find")
    browser.send("Input.insertText", text="c")
    browser.wait_for("document.getElementById('found').textContent === '2 marked'")
    assert_quiet(browser, page)


@pytest.mark.parametrize("width", [1280, 800, 360])
def test_nothing_is_wider_than_the_window(
    browser: Browser, two_plans: Report, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "two.html"
    write_report(two_plans, {"html": str(path)})
    show(browser, path, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    inside = f"[...document.querySelectorAll('figure')].every((x) => x.scrollWidth <= {width})"
    assert browser.evaluate(inside)
    columns = browser.evaluate(
        "new Set([...document.querySelectorAll('.plans > *')]"
        ".map((x) => x.getBoundingClientRect().left)).size"
    )
    assert columns == (2 if width == 1280 else 1)


NAMELESS = """
[...document.querySelectorAll("table, .scroll, button, input, svg")].filter(
  (x) => !(x.getAttribute("aria-label") || x.caption || x.textContent.trim() || x.labels?.length)
  || (x.tagName === "TABLE" && !x.getAttribute("aria-label"))
).map((x) => x.outerHTML.slice(0, 80))
"""
CONTRAST = """
(() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (x) => {
    for (; x; x = x.parentElement) {
      const color = parts(getComputedStyle(x).backgroundColor);
      if (color.length === 3) return color;
    }
    return [255, 255, 255];
  };
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((v) => v / 255).map(
      (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const found = [];
  for (const x of document.querySelectorAll("body *")) {
    const shown = x.getBoundingClientRect().width && !x.closest("script, style, .plot rect, g");
    const own = [...x.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    // Names on buffers are black or white, whichever is better on the buffer's color.
    if (!shown || !own || x.closest(".plot .names")) continue;
    const {color, fill} = getComputedStyle(x);
    const ink = parts(x.closest("svg") ? fill : color);
    const [low, high] = [light(ink), light(ground(x))].sort((one, other) => one - other);
    found.push([Math.round(100 * high / low) / 100, x.textContent.slice(0, 40)]);
  }
  return found;
})()
"""


PAGES = ("compare", "tune", "recompute", "hunt", "report", "tile")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One small page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    found = {name: folder / f"{name}.html" for name in PAGES}
    small = [f"instances/small/{name}.json" for name in ("diamond", "chain", "two_towers")]
    assert main(["compare", *small, "--report", str(found["compare"])]) == 0
    store = str(folder / "plans.store")
    assert (
        main(["tune", *small, "--store", store, "--work", "1000", "--report", str(found["tune"])])
        == 0
    )
    step = folder / "step.json"
    write_graph(training_step(), step)
    assert main(["recompute", str(step), "--points", "3", "--page", str(found["recompute"])]) == 0
    hunt = ["hunt", "--method", "lpmf", "--max-ops", "7", "--max-tries", "60"]
    assert main([*hunt, "-o", str(folder / "hunt.json")]) == 0
    assert main(["report", small[0], "-o", str(found["report"])]) == 0
    tiled = tile(banded(), points=4, objective="head", time_limit=5)
    found["tile"].write_text(tiling_page(tiled, 512))
    return found


def training_step() -> Graph:
    build = GraphBuilder("step", cost_unit="ms")
    build.input("tangents_1", 0, "excluded")
    for i in range(4):
        build.op(f"f{i}", reads=[f"x{i - 1}"] if i else [], writes={f"x{i}": 10}, cost=3 + i)
    build.op("loss", reads=["x3"], writes={"loss": 1}, cost=1, once=True)
    for i in reversed(range(4)):
        after = f"g{i + 1}" if i < 3 else "tangents_1"
        build.op(f"b{i}", reads=[after, f"x{i}"], writes={f"g{i}": 10})
    build.output("loss")
    build.output("g0")
    return build.build()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_legible_on_a_phone_and_at_night(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    for theme in ("light", "dark"):
        wish = [{"name": "prefers-color-scheme", "value": theme}]
        browser.send("Emulation.setEmulatedMedia", features=wish)
        for width in (400, 800, 1280):
            show(browser, pages[name], "document.readyState === 'complete'", width=width)
            assert browser.evaluate("document.documentElement.scrollWidth") == width
            found = browser.evaluate(CONTRAST)
            assert len(found) > 5
            assert [x for x in found if x[0] < 4.5] == []
        assert browser.evaluate(NAMELESS) == []
        if name in ("recompute", "hunt", "tile"):
            show(browser, pages[name], "document.readyState === 'complete'", width=400)
            high = "[...document.querySelectorAll('svg text')]"
            high += ".map((x) => x.getBoundingClientRect().height)"
            assert min(browser.evaluate(high)) >= 11
    browser.send("Emulation.setEmulatedMedia", features=[])
    assert_quiet(browser, pages[name])


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    graph = hostile_graph()
    result = solve(graph)
    assert result.plan is not None
    path = tmp_path / "hostile.html"
    report = make_report(graph, result, [(NAMES[0], result.plan, ())] * 2)
    write_report(report, {"html": str(path)})
    show(browser, path, width=800)
    assert browser.evaluate("window.broken === undefined")
    assert browser.evaluate("document.querySelector('h1').textContent") == NAMES[0]
    # Every buffer is in the picture under its own name, and pointing at one shows it as text.
    names = browser.evaluate("rects('packing-0-0').map((rect) => rect.tip[0])")
    assert {NAMES[0], NAMES[1], NAMES[3]} <= set(names)
    found = hover(browser, "packing-0-0")
    assert found["name"] in found["tooltip"]
    assert browser.evaluate("document.documentElement.scrollWidth") == 800
    assert browser.evaluate("window.broken === undefined")
    assert_quiet(browser, path)
