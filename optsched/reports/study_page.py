"""HTML pages of a study: bytes saved, a row per graph with folded details, and charts.

A page is a single file that needs no network and no optional package. It shows tooltips of the
browser instead of zooming (for which `optsched report` draws one graph), which keeps it small.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from optsched.compare import Comparison, Study
from optsched.fleet import Fleet
from optsched.fleet.since import page_rows
from optsched.model.limits import buffer_count
from optsched.model.saving import Saving, change
from optsched.reports import charts
from optsched.reports.page import asset, document, origin
from optsched.reports.saving import LARGEST, headline
from optsched.reports.sections import left_out, method_section, verdicts
from optsched.reports.slab_figure import STYLE, slab_figure
from optsched.reports.study_tables import (
    FLEET_TITLE,
    PROFILE,
    TITLE,
    methods_with_columns,
    profile_table,
    study_savings,
    study_sections,
    study_summary,
    trouble_lines,
)
from optsched.reports.tables import as_html, safe, scrolled
from optsched.reports.view import DRAWN, plan_view
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import counted

MOST_BYTES = 2_400_000
"""Bytes of a page that all pictures together may take; with more graphs each gets fewer."""
RECTANGLE_BYTES = 60
"""Bytes of a rectangle, and of the part of the line of live bytes that comes with it."""
FEW = 20
"""Number of graphs up to which every rectangle has a tooltip, which takes five times the bytes."""
_LEGEND = "An arrow marks the column that the table is sorted by; a click on a heading sorts."


def study_html(study: Study, *, fleet: Fleet | None = None, since: str = "") -> str:
    """Return a study as an HTML page.

    `fleet`: the fleet, if the plans are those of `optsched tune`: savings and graphs, without
    charts of methods, and its rows for a later run's `--diff`. `since`: part on what changed since
    an earlier run, in HTML.
    """
    savings = study_savings(study)
    lines = "".join(f"<li>{safe(line, 1000)}</li>" for line in trouble_lines(study))
    title = FLEET_TITLE if fleet else TITLE
    body = [
        f"<style>{STYLE}{charts.STYLE}</style>"
        "<noscript><style>tr.more{display:table-row!important}</style></noscript>"
        f"<h1>{title}</h1><p class=lead><b>{safe(headline(savings, study.equals), 1000)}</b></p>"
        f"<p class=lead>{escape(saved_on(study, savings))}</p>",
        f"<p>{safe(study_summary(study), 1000)}.</p>",
        since,
        "" if fleet else _charts(study, savings),
        f"<h2>Graphs and what they save</h2>{_graphs(study, savings)}",
        "" if fleet else _tables(study),
        f"<h2>Without figures</h2><ul>{lines}</ul>" if lines else "",
        "" if fleet is None else page_rows(fleet.rows()),
        f"<footer>{origin()}</footer><script>{asset('table.js')}</script>",
    ]
    return document(f"optsched: {title[0].lower()}{title[1:]}", "".join(body))


def saved_on(study: Study, savings: dict[str, Saving]) -> str:
    """Return on how many graphs bytes were saved, and how many have no figures."""
    count = sum((saving.saved or 0) > 0 for saving in savings.values())
    failed = sum(row.bad for row in study.skipped)
    text = f"Saved on {count:,} of {counted(len(study.comparisons), 'graph')}"
    return f"{text}; {failed:,} failed." if failed else f"{text}; no graph failed."


def _charts(study: Study, savings: dict[str, Saving]) -> str:
    shown = methods_with_columns(study)
    bars = charts.saving_bars(savings, 3 * LARGEST) if len(study.comparisons) > 1 else ""
    return (
        (f"<h2>Largest savings</h2>{bars}" if "<tr>" in bars else "")
        + f"<h2>Performance profile</h2>{charts.profile_chart(study, shown)}"
        "<p class=soft>The higher a curve, the more graphs a method solves within that factor; its "
        "left end is the share on which it is optimal, or as good as the best known.</p>"
        f"<details><summary>in figures</summary>{as_html(profile_table(study), PROFILE)}</details>"
    )


def _tables(study: Study) -> str:
    return "".join(
        f"<h2>{title}</h2><p>{safe(words.replace('`', ''), 1000)}</p>{as_html(table, title)}"
        for title, words, table in study_sections(study)
        if title != PROFILE
    )


_HEADS = ("graph", "ops", "before", "now", "saved", "change", "is less possible?", "proof", "s")
_KINDS = "tnnnnntsn"


def _graphs(study: Study, savings: dict[str, Saving]) -> str:
    """Return the table of graphs; the row after each graph has its details."""
    heads = "".join(
        f"<th scope=col class={kind}{' aria-sort=descending' if head == 'saved' else ''}>"
        f"<button type=button>{head}</button></th>"
        for head, kind in zip(_HEADS, _KINDS, strict=True)
    )
    # 1,000 graphs get 40 rectangles each: the largest buffers, and those at the peak.
    most = MOST_BYTES // max(1, len(study.comparisons)) // RECTANGLE_BYTES
    rows = "".join(
        _row(number, c, savings[c.graph.name]) + _details(number, c, study, min(DRAWN, most))
        for number, c in sorted(
            enumerate(study.comparisons), key=lambda x: -(savings[x[1].graph.name].saved or 0)
        )
    )
    return (
        '<div class=controls><label>Find <input type=search data-table=graphs placeholder="name or '
        f'proof"></label><output></output><span class=hint>{_LEGEND}</span></div>'
        f"{scrolled('Graphs')}<table id=graphs aria-label=Graphs class=sortable>"
        f"<thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _row(number: int, comparison: Comparison, saving: Saving) -> str:
    result, before, after = comparison.result, saving.before, saving.after
    saved = saving.saved
    share = "-" if before is None or after is None else change(before, after)
    # The column is sorted by this number and shows the text.
    rate = 0.0 if not before or after is None else (after - before) / before
    cells = [
        f"<button type=button aria-expanded=false aria-controls=graph-{number}>"
        f"{safe(comparison.graph.name)}</button>",
        _data(len(comparison.graph.ops), f"{len(comparison.graph.ops):,}"),
        _size(before),
        _size(after),
        _size(saved),
        _data(rate, share),
        escape(saving.verdict) or "-",
        f"{result.peak_proof or '-'} {result.slab_proof or '-'}",
        f"{result.runtime:.2f}",
    ]
    inside = "".join(f"<td class={k}>{cell}</td>" for k, cell in zip(_KINDS, cells, strict=True))
    return f"<tr>{inside}</tr>"


def _data(value: float, text: str) -> str:
    return f"<data value={value:.6g}>{escape(text)}</data>"


def _size(value: int | None) -> str:
    if value is None:
        return "-"
    sign = "-" if value < 0 else ""
    return f'<data value="{value}" title="{value:,} bytes">{sign}{format_bytes(abs(value))}</data>'


def _details(number: int, comparison: Comparison, study: Study, most: int) -> str:
    graph, result, picture = comparison.graph, comparison.result, ""
    if result.plan is not None and not graph.on_streams:
        shown = plan_view(graph, result.plan, "plan")
        named = len(study.comparisons) <= FEW
        picture = slab_figure(shown, result.slab_bound, most=most, named=named)
        picture += left_out(shown, most)
    of = f" among {comparison.among}" if comparison.among else ""
    known: Sequence[str] = verdicts(result, comparison.best_peak, comparison.best_slab, of=of)
    return (
        f"<tr class=more id=graph-{number} hidden><td colspan={len(_HEADS)}>"
        f"<p>{counted(len(graph.ops), 'op')}, {counted(buffer_count(graph), 'buffer')}; "
        f"memory model: {safe(graph.model_name)}. {safe(' '.join(known), 2000)}</p>{picture}"
        f"{method_section(comparison)}</td></tr>"
    )
