"""Speed of reports in a real browser, when opened and under the mouse, and a picture of one.

`python -m experiments.report_browser` writes `table.md` and `report.png`. Seconds and milliseconds
of the page's own thread stand beside wall-clock time: a busy machine does not move them much.
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from heuristics import ORDERINGS, PACKINGS
from optsched.formats import read_graph
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.reports.report import make_report
from optsched.reports.write import write_report
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from optsched.solver.schedule import Engine
from tests.support.browser import Browser

HERE = Path(__file__).parent
GRAPHS = ("albert_qa_bs4_ac0.5_cuda.bwd", "resnet50_bs32.bwd", "mobilebert_qa_bs128.bwd")
LARGE = 50_000
EVENTS = 30
READY = "document.documentElement.dataset.ready !== undefined"


def chain(ops: int) -> Graph:
    """A generated graph: each op reads the last buffer and perhaps one of those before."""
    rng = np.random.default_rng(0)
    build = GraphBuilder(f"generated_{ops}")
    build.input("x", 4096)
    names = ["x"]
    for v in range(ops):
        older = names[int(rng.integers(max(0, len(names) - 40), len(names)))]
        reads = dict.fromkeys([names[-1], *([older] if v % 3 == 0 else [])])
        size = int(rng.integers(1, 100)) * 1024
        build.op(f"op{v}", reads=reads, writes={f"b{v}": size}, kind=f"kind{v % 4}")
        names.append(f"b{v}")
    build.output(names[-1])
    return build.build()


def plain_plan(graph: Graph) -> Plan:
    """Breadth first, packed greedily by size: what a report shows as before."""
    order = ORDERINGS["bfs"](graph, 0)
    problem, _ = packing_problem(graph, order)
    return make_plan(graph, order, PACKINGS["greedy_by_size"](problem))


def measure(browser: Browser, page: Path) -> tuple[float, float, float, float]:
    """Return seconds of opening (thread, wall clock) and thread milliseconds of a zoom, a hover."""
    browser.send("Performance.enable", timeDomain="threadTicks")
    started = time.monotonic()
    browser.open(page, READY)
    wall, opened = time.monotonic() - started, _spent(browser)
    box = browser.evaluate(
        "(() => { const box = document.querySelector('#packing-0-0 svg').getBoundingClientRect();"
        "return [box.left, box.top, box.width]; })()"
    )
    spent = []
    for kind in ("mouseWheel", "mouseMoved"):
        before = _spent(browser)
        for number in range(EVENTS):
            x, y = box[0] + box[2] / 2 + number, box[1] + 150 + number
            turn = -60 if number < EVENTS / 2 else 60
            more = {"deltaX": 0, "deltaY": turn, "modifiers": 2} if kind == "mouseWheel" else {}
            browser.mouse(kind, x, y, **more)
            browser.evaluate(
                "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame("
                "() => done(1))))"
            )
        spent.append(1000 * (_spent(browser) - before) / EVENTS)
    browser.send("Performance.disable")
    return opened, wall, spent[0], spent[1]


def _spent(browser: Browser) -> float:
    metrics = browser.send("Performance.getMetrics")["metrics"]
    return float(next(x["value"] for x in metrics if x["name"] == "TaskDuration"))


def main() -> None:
    """Write the table and the picture."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    graphs = [read_graph(f"instances/inductor/{name}.json.gz") for name in GRAPHS]
    rows = [
        "| graph | plans | ops | buffers | drawn | file, MB | opens, s | thread, s | zoom, ms "
        "| hover, ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "profile")
        page = Path(folder) / "report.html"
        for number, graph in enumerate([*graphs, chain(LARGE)]):
            engine = Engine.AUTO if len(graph.ops) < LARGE else Engine.HEURISTICS
            result = solve(graph, engine=engine, limits=Limits(seconds=30))
            assert result.plan is not None
            plans = [
                ("breadth first, greedy packing", plain_plan(graph), ()),
                ("optsched", result.plan, ()),
            ]
            for shown in [plans[-1:], plans] if number else [plans]:
                write_report(make_report(graph, result, shown), {"html": str(page)})
                opened, wall, zoom, hover = measure(browser, page)
                drawn = browser.evaluate("document.querySelectorAll('#packing-0-0 rect').length")
                rows.append(
                    f"| {graph.name} | {len(shown)} | {len(graph.ops):,} | {len(graph.buffers):,} "
                    f"| {drawn:,} | {page.stat().st_size / 1e6:.1f} | {wall:.2f} | {opened:.2f} "
                    f"| {zoom:.1f} | {hover:.1f} |"
                )
                print(rows[-1], file=sys.stderr)
            if not number:
                _photograph(browser, page)
        browser.close()
    (HERE / "table.md").write_text("\n".join(rows) + "\n", "utf-8")


def _photograph(browser: Browser, page: Path) -> None:
    browser.open(page, READY, width=1280, height=1110)
    browser.evaluate("new Promise((done) => setTimeout(() => done(1), 500))")
    shot = browser.send("Page.captureScreenshot", format="png")
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    small = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(HERE / "report.png", optimize=True)


if __name__ == "__main__":
    main()
