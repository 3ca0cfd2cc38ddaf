"""Results in notebooks: the saving and the verdict, the packed slab, and data frames.

Each function takes a :class:`Result`, :class:`PackingResult`, :class:`ModuleResult`,
:class:`Comparison` or :class:`Study`; :class:`optsched.runtime.shown.Shown` has them as methods.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.compare import Comparison, Study, StudySettings
from optsched.compare.methods import Exact
from optsched.compare.saving import figures_of, packing_saving, saving_of, stock_plan
from optsched.counterexamples import Hunt
from optsched.errors import MissingDependencyError, UsageError
from optsched.explanation import Explanation
from optsched.fleet import Fleet
from optsched.formats import packing_of, write_bytes, write_packing
from optsched.model.graph import Graph
from optsched.reports.fleet import fleet_csv, fleet_record, fleet_savings, fleet_table, print_fleet
from optsched.reports.front import recompute_text
from optsched.reports.hunt import hunt_text
from optsched.reports.hunt import picture as hunt_picture
from optsched.reports.module import result_text, write_result
from optsched.reports.report import make_packing_report, make_report, report_saving
from optsched.reports.results import describe, info_text, packing_record, packing_text
from optsched.reports.saving import headline, saving_table
from optsched.reports.sections import left_out, method_section, verdicts
from optsched.reports.slab_figure import STYLE, slab_figure
from optsched.reports.study_tables import method_table, print_study, study_savings
from optsched.reports.tables import as_html, safe
from optsched.reports.tiling import front_picture as tiling_picture
from optsched.reports.tiling import tiling_text
from optsched.reports.view import View, packing_view, plan_view
from optsched.reports.write import write_report
from optsched.runtime.text import ending_of, readable
from optsched.solver.module_result import ModuleResult
from optsched.solver.packing_result import PackingResult
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.result import Result
from optsched.solver.tiling.result import TilingResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Found = Result | PackingResult | ModuleResult | Comparison | Study | Fleet
Words = Graph | Explanation | Hunt | RecomputeResult | TilingResult
"""Things that are shown in words, with a picture where there is one."""
RECTANGLES = 400
"""Maximum number of buffers drawn in a notebook, which keeps every picture."""
WIDTH = 100
"""Columns of tables in a summary."""
_ENDINGS = {
    Result: (".json", ".html", ".png", ".svg", ".pdf"),
    PackingResult: (".csv", ".html", ".png", ".svg", ".pdf"),
    ModuleResult: (".json",),
    Comparison: (".html", ".csv", ".md", ".json"),
    Study: (".html", ".csv", ".md", ".json"),
    Fleet: (".csv", ".json"),
}
"""Endings of the files that each class can be written to, before `.gz`."""


def summary(found: Found | Words) -> str:
    """Return the text that the command prints: the saving first, then the figures and proofs."""
    if isinstance(found, Words):
        return _words(found)
    if isinstance(found, Comparison | Study | Fleet):
        return _table_text(found)
    lines = [line for line in (_saving(found), _text(found)) if line]
    return "\n".join(lines)


def _words(found: Words) -> str:
    if isinstance(found, Explanation):
        return str(found)
    if isinstance(found, Graph):
        return info_text(describe(found))
    if isinstance(found, Hunt):
        return hunt_text(found, {})
    return recompute_text(found) if isinstance(found, RecomputeResult) else tiling_text(found)


def _picture_of(found: Words) -> str:
    if isinstance(found, Hunt) and found.counterexample is not None:
        return hunt_picture(found.counterexample)
    return tiling_picture(found) if isinstance(found, TilingResult) and found.front else ""


def _saving(found: Result | PackingResult | ModuleResult) -> str:
    """Return the saving in one line; empty if the framework's own plan is unknown."""
    if isinstance(found, PackingResult):
        # Packings into pools have no single saving.
        if found.problem is None or found.in_pools:
            return ""
        table = packing_of(found.problem)
        return str(packing_saving(table, found.slab, found.slab_bound, found.restriction))
    question = found.entry.question
    if question is None:
        return ""
    planned = found.module if isinstance(found, ModuleResult) else question.graph
    return str(saving_of(planned, stock_plan(planned), **figures_of(found)))


def _text(found: Result | PackingResult | ModuleResult) -> str:
    # Numbers alone may lack what they are about.
    if (found.problem if isinstance(found, PackingResult) else found.entry.question) is None:
        return repr(found)
    if isinstance(found, PackingResult):
        return packing_text(found, packing_record(found))
    return result_text(found)


def _table_text(found: Comparison | Study | Fleet) -> str:
    from rich.console import Console

    screen = io.StringIO()
    to = Console(file=screen, width=WIDTH, emoji=False)
    if isinstance(found, Fleet):
        print_fleet(found, to, top=10)
    else:
        print_study(as_study(found), to, top=10)
    return screen.getvalue().rstrip()


def as_study(found: Comparison | Study) -> Study:
    """Return a study; a comparison is one of a single graph."""
    if isinstance(found, Study):
        return found
    # Tables read names and kinds of the methods only.
    methods = tuple(Exact(outcome.method, kind=outcome.kind) for outcome in found.outcomes)
    return Study(methods, StudySettings(methods), (found,), ())


def html(found: Found | Words) -> str:
    """Return the result for a notebook: saving, verdict, packed slab, and the text folded."""
    if isinstance(found, Words):
        first, _, rest = _words(found).partition("\n")
        lines = f"<pre>{escape(readable(rest, 20_000))}</pre>" if rest else ""
        return _page(first, lines.replace("\\n", "\n") + _picture_of(found))
    if isinstance(found, Fleet):
        table = fleet_table(found, [graph for graph in found.graphs if graph.peak is not None])
        return _page(headline(fleet_savings(found), found.equals), as_html(table, "Graphs"))
    if isinstance(found, Comparison | Study):
        study = as_study(found)
        return _page(headline(study_savings(study), study.equals), _study_body(found))
    # The record is long and kept for those who unfold it.
    text = f"<details><summary>figures and proofs</summary><pre>{safe(_text(found), 4000)}</pre>"
    # Line ends are part of this text, which `safe` would show as escapes.
    text = text.replace("\\n", "\n") + "</details>"
    body = "".join(f"<p>{escape(line)}</p>" for line in _verdicts(found))
    shown = _view(found)
    # A module has several slabs and no common bound.
    bound = 0 if isinstance(found, ModuleResult) else found.slab_bound
    figure = "" if shown is None else _figure(shown, bound)
    return _page(_saving(found), body + figure + text)


def _figure(shown: View, bound: int) -> str:
    return slab_figure(shown, bound, most=RECTANGLES) + left_out(shown, RECTANGLES)


def _page(first: str, body: str) -> str:
    style = STYLE + ".optsched .n{text-align:right}.optsched pre{white-space:pre-wrap}"
    lead = f"<p><b>{escape(first)}</b></p>" if first else ""
    return f"<div class=optsched><style>{style}</style>{lead}{body}</div>"


def _verdicts(found: Result | PackingResult | ModuleResult) -> list[str]:
    of = f" among {found.restriction}" if found.restriction else ""
    if isinstance(found, ModuleResult):
        found = found.entry
    if isinstance(found, Result) and found.peak is not None and found.slab is not None:
        return verdicts(found, found.peak, found.slab, of=of)
    return [] if found.slab is not None else ["No plan was found."]


def _study_body(found: Comparison | Study) -> str:
    if isinstance(found, Comparison):
        plan, figure = found.result.plan, ""
        if plan is not None and not found.graph.on_streams:
            shown = plan_view(found.graph, plan, found.graph.name)
            figure = _figure(shown, found.slab_bound)
        return figure + method_section(found)
    several = (
        as_html(saving_table(study_savings(found)), "Savings") if len(found.comparisons) > 1 else ""
    )
    return several + as_html(method_table(found), "Methods")


def _view(found: Result | PackingResult | ModuleResult) -> View | None:
    """Return the view of the plan; None without one, or if it has no single sequence of steps."""
    if isinstance(found, PackingResult):
        if found.problem is None or found.offsets is None:
            return None
        own_pools, offsets = found.places(len(found.problem))
        return packing_view(
            found.problem, offsets, found.problem.name, own_pools if any(own_pools) else ()
        )
    if isinstance(found, ModuleResult) or found.plan is None or found.graph is None:
        return None
    return None if found.graph.on_streams else plan_view(found.graph, found.plan, found.graph.name)


def _drawn(found: Result | PackingResult | ModuleResult) -> View:
    shown = _view(found)
    if shown is None:
        raise UsageError(f"{type(found).__name__} has no plan on a single stream to show")
    return shown


def save(found: Found, path: str | Path) -> None:
    """Write a result to a file; its ending decides the kind of content."""
    name = ending_of(path)
    endings = _ENDINGS[type(found)]
    if name not in endings:
        raise UsageError(f"{path}: a {type(found).__name__} is saved as {', '.join(endings)}")
    if isinstance(found, Fleet):
        text = fleet_csv(found) if name == ".csv" else json.dumps(fleet_record(found), indent=2)
        return write_bytes(path, f"{text.rstrip()}\n".encode())
    if isinstance(found, Comparison | Study):
        return _save_study(as_study(found), path, name)
    if name in (".html", ".png", ".svg", ".pdf"):
        return _save_report(found, path, name[1:])
    _save_plan(found, path)
    return None


def _save_study(study: Study, path: str | Path, ending: str) -> None:
    from optsched.reports import study_files
    from optsched.reports.study_page import study_html

    if ending == ".json":
        text = json.dumps(study_files.study_record(study), indent=2) + "\n"
    elif ending == ".html":
        text = study_html(study)
    else:
        made = {".csv": study_files.study_csv, ".md": study_files.study_markdown}
        text = made[ending](study)
    write_bytes(path, text.encode())


def _save_report(found: Result | PackingResult | ModuleResult, path: str | Path, kind: str) -> None:
    # Tested first, so that nothing is written for a result without a plan.
    _drawn(found)
    if isinstance(found, PackingResult):
        assert found.problem is not None
        own_pools, offsets = found.places(len(found.problem))
        packings = [("optsched", offsets, own_pools if any(own_pools) else ())]
        results = [part.result for part in found.packed] or [found]
        return write_report(
            make_packing_report(found.problem, results, packings), {kind: str(path)}
        )
    assert isinstance(found, Result)
    assert found.graph is not None
    assert found.plan is not None
    made = make_report(found.graph, found, [("optsched", found.plan, ())])
    made = replace(made, saving=report_saving(made, found.graph, stock_plan(found.graph)))
    return write_report(made, {kind: str(path)})


def _save_plan(found: Result | PackingResult | ModuleResult, path: str | Path) -> None:
    if isinstance(found, PackingResult):
        if found.problem is None or found.offsets is None:
            raise UsageError("the result has no packing to save")
        return write_packing(packing_of(found.problem), path, found.offsets)
    plans = found.plans if isinstance(found, ModuleResult) else found.plan
    if plans is None or found.entry.graph is None:
        raise UsageError("the result has no plan to save")
    return write_result(found, path)


def plot(found: Found) -> Figure:
    """Return a figure: slab and live bytes of a plan, or the excess of each method."""
    try:
        import matplotlib as mpl  # noqa: F401 - imported for the error alone
    except ImportError:
        raise MissingDependencyError("matplotlib", "report") from None
    from optsched.reports import static

    if isinstance(found, Fleet):
        raise UsageError("a Fleet has nothing to draw: summary() has its table")
    if isinstance(found, Comparison | Study):
        return _with_picture(static.excess_figure(as_study(found)))
    shown = _drawn(found)
    peak_bound = found.peak_bound if isinstance(found, Result) else shown.peak
    slab_bound = 0 if isinstance(found, ModuleResult) else found.slab_bound
    return _with_picture(static.plan_figure([shown], peak_bound, slab_bound))


def _with_picture(figure: Figure) -> Figure:
    """Return the figure with a PNG that a notebook shows.

    Matplotlib's own hook is there only after `%matplotlib inline`.
    """

    def png() -> bytes:
        data = io.BytesIO()
        figure.savefig(data, format="png", bbox_inches="tight")
        return data.getvalue()

    vars(figure)["_repr_png_"] = png
    return figure


def dataframe(found: Found) -> DataFrame:
    """Return a data frame: one row per buffer, per method and graph, or per computation."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingDependencyError("pandas", "report") from None
    return pd.DataFrame(rows(found))


def rows(found: Found) -> Sequence[dict[str, Any]]:
    """Return the rows of the data frame, bytes and steps as integers."""
    if isinstance(found, Fleet):
        return found.rows()
    if isinstance(found, Comparison | Study):
        from optsched.reports.study_files import FIGURES, study_rows

        return [{name: row[name] for name in FIGURES} for row in study_rows(as_study(found))]
    if isinstance(found, ModuleResult):
        names = ("peak", "peak_bound", "slab", "slab_bound", "status")
        return [
            {"computation": name, **{key: getattr(result, key) for key in names}}
            for name, result in found.results.items()
        ]
    shown = _drawn(found)
    subject = shown.subject
    return [
        {
            "buffer": subject.buffers[b],
            "bytes": int(subject.sizes[b]),
            "start": int(start),
            "end": int(end),
            "offset": int(offset),
            "pool": slab.pool,
            **({"op": subject.makers[b]} if subject.makers else {}),
        }
        for slab in shown.slabs
        for b, start, end, offset in zip(
            slab.buffers.tolist(), slab.start, slab.end, slab.offset, strict=True
        )
    ]
