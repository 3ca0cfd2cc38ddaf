"""HTML pages that work without a network: the report of plans, and the frame of all pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from optsched.reports import sections
from optsched.reports.colors import painting
from optsched.reports.figures import plan_figures, progress_figure
from optsched.reports.report import Report, among
from optsched.reports.slab_figure import STYLE
from optsched.reports.tables import safe
from optsched.reports.view import View
from optsched.runtime.bytes import format_bytes, unit_of
from optsched.runtime.facts import versions
from optsched.runtime.text import most_less, percent

# This policy makes the browser block any resource that is not in the file.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:"
)


def asset(name: str) -> str:
    """Return the text of a file in the folder `assets`."""
    return files("optsched.reports").joinpath("assets", name).read_text("utf-8")


def document(title: str, body: str) -> str:
    """Return an HTML page that is not allowed to load anything."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{safe(title)}</title>'
        f"<style>{asset('page.css')}</style></head><body>{body}</body></html>"
    )


def origin() -> str:
    """Return a paragraph with the versions of packages."""
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    return f"<p>Made with {escape(used)}.</p>"


def short_page(title: str, heading: str, saved: str, body: str) -> str:
    """Return a page of one picture: heading, saving in bold if there is one, body, versions."""
    lead = f"<p class=lead><b>{safe(saved, 1000)}</b></p>" if saved else ""
    return document(title, f"<h1>{safe(heading)}</h1>{lead}{body}<footer>{origin()}</footer>")


def report_page(report: Report) -> str:
    """Return the HTML page of a report."""
    paint, result, views = painting(report.views), report.result, report.views
    several, of = len(views) > 1, safe(among(result), 1000)
    drawn = plan_figures(paint, views, result.peak_bound, result.slab_bound)
    methods = "" if report.comparison is None else sections.method_section(report.comparison)
    model = safe(views[0].subject.memory_model, 1000)
    body = [
        f"<h1>{safe(views[0].subject.name)}</h1><p class=lead>{_saved(report)}{_lead(report)}</p>",
        sections.plan_table(result, views) if several else sections.facts(result, views[0]),
        f"<h2>The packed slab{'s' if several else ''}</h2>",
        _controls(views[0]),
        sections.color_keys(paint),
        "<div class=plans>",
        *(_plan(report, view, row) for view, row in zip(views, drawn, strict=True)),
        "</div>",
        f"<h2>Distance of each method from the optimum</h2>{methods}" if methods else "",
        f"<h2>Why no plan{of} needs less</h2>{sections.proof_section(report)}",
        *_searches(report),
        f"<h2>Memory model and versions</h2><p>Memory model: {model}.</p>{origin()}",
    ]
    page = f"<style>{STYLE}</style><main>{''.join(body)}</main><script>{asset('page.js')}</script>"
    return document(f"{views[0].subject.name}: memory plan", page)


def _searches(report: Report) -> Iterator[str]:
    """Yield how each search went: picture and table."""
    for number, (name, trace) in enumerate(report.traces.items()):
        if trace:
            # One unit for the whole axis: that of its highest value.
            highest = max(max(event.incumbent or 0, event.bound) for event in trace)
            picture = progress_figure(trace, *unit_of(highest), f"progress-{number}")
            yield f"<h2>How {safe(name)} went</h2>{picture}{sections.trace_table(trace)}"


def _saved(report: Report) -> str:
    """Return the saving as the first sentence of the page; empty if not worked out."""
    return "" if report.saving is None else f"<b>{safe(str(report.saving), 1000)}.</b><br>"


def _lead(report: Report) -> str:
    """Return the first paragraph: the last plan's slab and gap, and its change from the first."""
    first, last = report.views[0], report.views[-1]
    of = among(report.result)
    bound = report.result.slab_bound
    what = "packing" if last.subject.is_packing else "plan"
    where = "in a slab of" if len(last.slabs) < 2 else f"in {len(last.slabs)} slabs, together"
    # A proved minimum is the shortest sentence; a gap says what could be saved.
    words = f"{last.subject.counts} {where} {format_bytes(last.slab)}: "
    if last.slab > bound:
        most = most_less(last.slab, bound)
        words += f"at most {most} of it could be saved, since no {what}{of or ' at all'} needs "
        words += f"less than {format_bytes(bound)}."
    else:
        words += f"no {what}{of} needs less (proved)."
    if len(report.views) == 1:
        return safe(words, 1000)
    change = last.slab - first.slab
    how = "larger" if change > 0 else "smaller"
    much = f"{format_bytes(abs(change))} ({percent(abs(change) / max(1, first.slab))}) {how} than"
    before, after = (f"\u201c{safe(shown.name)}\u201d" for shown in (first, last))
    than = f"{much} that of" if change else "as large as that of"
    return f"The slab of {after} is {than} {before}. {after}: {safe(words, 1000)}"


_COLORS = """<fieldset><legend>Color by</legend>
<label><input type=radio name=color value=by_size checked> size</label>
<label><input type=radio name=color value=by_kind> op type</label></fieldset>"""


def _controls(shown: View) -> str:
    colors, what = (_COLORS, "buffer or op") if shown.subject.makers else ("", "buffer")
    return (
        f"<div class=controls>{colors}"
        f'<label>Find <input type=search id=find placeholder="{what}"></label>'
        "<output id=found for=find></output>"
        f'<div class=moves role=toolbar aria-label="Zoom and move all pictures">{_buttons()}</div>'
        "<span class=hint><span class=mouse>Ctrl and the wheel zoom, drag moves, pointing at a "
        "buffer names it; with a picture in focus + - and arrows zoom and move, 0 goes back.</span>"
        "<span class=touch>The buttons zoom and move all pictures; a tap on a buffer names it."
        "</span></span></div>"
    )


def _buttons() -> str:
    """Return a button per movement; the page's script also takes its key in a focused picture."""
    moves = {
        "+": "Zoom in",
        "-": "Zoom out",
        "ArrowLeft": "Move left",
        "ArrowRight": "Move right",
        "ArrowUp": "Move up",
        "ArrowDown": "Move down",
        "0": "Show all",
    }
    signs = {"ArrowLeft": "\u2190", "ArrowRight": "\u2192", "ArrowUp": "\u2191"}
    signs |= {"ArrowDown": "\u2193", "-": "\u2212", "0": "all"}
    return "".join(
        f'<button type=button data-move="{key}" aria-label="{name}" title="{name}">'
        f"{signs.get(key, key)}</button>"
        for key, name in moves.items()
    )


def _plan(report: Report, shown: View, row: Sequence[str]) -> str:
    slab_key, live_key = sections.line_keys(report.result, shown)
    name = f"<h3>{safe(shown.name)}</h3>" if len(report.views) > 1 else ""
    return (
        f"<section>{name}{''.join(row[:-1])}{slab_key}{sections.left_out(shown)}"
        f"{row[-1]}{live_key}<h3>Buffers live at the peak</h3>{sections.live_table(shown)}"
        "</section>"
    )
