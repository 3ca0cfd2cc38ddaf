"use strict";
// What the page does beyond what the plotting library does: names on buffers, colors, search.
(() => {
  const figures = () =>
    Bokeh.documents.flatMap((doc) => doc.roots()).filter((f) => /^packing-/.test(f.name ?? ""));
  const part = (figure, what) => figure.renderers.find((r) => r.name === `${figure.name}-${what}`);
  const packings = () => figures().map((figure) => part(figure, "rects"));
  const all = ({glyph, hover_glyph, selection_glyph, nonselection_glyph}) =>
    [glyph, hover_glyph, selection_glyph, nonselection_glyph].filter((each) => each?.fill_color || each?.text_color);

  // A name stands in the middle of what is in sight of its buffer, if there is room for it.
  const LETTER = 6.6, LINE = 12;
  const label = (figure) => {
    const {data} = part(figure, "rects").data_source;
    const {x_range: across, y_range: up, inner_width, inner_height} = figure;
    const wide = inner_width / (across.end - across.start);
    const high = inner_height / (up.end - up.start);
    const shown = {x: [], y: [], label: [], on_size: [], on_kind: []};
    for (let i = 0; i < data.left.length; i++) {
      const left = Math.max(data.left[i], across.start), right = Math.min(data.right[i], across.end);
      const low = Math.max(data.bottom[i], up.start), top = Math.min(data.top[i], up.end);
      const room = Math.floor((right - left) * wide / LETTER) - 1, name = data.name[i];
      if ((top - low) * high < LINE || room < Math.min(name.length, 6)) continue;
      shown.label.push(name.length <= room ? name : `${name.slice(0, room - 1)}…`);
      shown.x.push((left + right) / 2);
      shown.y.push((low + top) / 2);
      for (const by of ["on_size", "on_kind"]) shown[by].push(data[by][i]);
    }
    part(figure, "labels").data_source.data = shown;
  };
  let waiting = 0;
  const relabel = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => figures().forEach(label), 80);
  };
  const begin = () => {
    if (!Bokeh.documents.length || !Bokeh.documents.every((doc) => doc.is_idle))
      return setTimeout(begin, 50);
    for (const figure of figures()) {
      for (const range of [figure.x_range, figure.y_range]) range.change.connect(relabel);
      figure.properties.inner_width.change.connect(relabel);
    }
    relabel();
  };
  begin();

  const recolor = (by) => {
    for (const figure of figures()) {
      for (const glyph of all(part(figure, "rects"))) glyph.fill_color = {field: by};
      for (const glyph of all(part(figure, "labels")))
        glyph.text_color = {field: by.replace("by", "on")};
    }
    for (const key of document.querySelectorAll("[data-key]")) key.hidden = key.dataset.key !== by;
  };

  // Marks buffers in all plans, which share their axes, and zooms to what it has marked.
  const mark = (chosen) => {
    let count = 0;
    const box = [Infinity, -Infinity, Infinity, -Infinity];
    for (const renderer of packings()) {
      const data = renderer.data_source.data, rows = [];
      for (let i = 0; i < data.buffer.length; i++)
        if (chosen(data, i)) {
          rows.push(i);
          box[0] = Math.min(box[0], data.left[i]);
          box[1] = Math.max(box[1], data.right[i]);
          box[2] = Math.min(box[2], data.bottom[i]);
          box[3] = Math.max(box[3], data.top[i]);
        }
      renderer.data_source.selected.indices = rows;
      count += rows.length;
    }
    const [figure] = figures();
    if (figure) {
      show(figure.x_range, count ? box.slice(0, 2) : figure.x_range.bounds);
      show(figure.y_range, count ? box.slice(2) : figure.y_range.bounds);
    }
    return count;
  };
  const show = (range, [from, to]) => {
    const [low, high] = range.bounds;
    // With something of the neighborhood around it.
    const room = Math.max(0.5 * (to - from), 0.02 * (high - low));
    range.setv({start: Math.max(low, from - room), end: Math.min(high, to + room)});
  };

  // Keys and buttons move all pictures: by a fifth of what is in sight, or to half and double of it.
  const STEP = 0.2, DIRECTIONS = {ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowDown: ["y", -1], ArrowUp: ["y", 1]};
  const set = (range, middle, width) => {
    const [low, high] = range.bounds, wide = Math.min(width, high - low);
    const start = Math.min(Math.max(low, middle - wide / 2), high - wide);
    range.setv({start, end: start + wide});
  };
  const move = (key) => {
    const [figure] = figures();
    if (!figure) return false;
    const ranges = {x: figure.x_range, y: figure.y_range};
    const zoom = {"+": 0.5, "=": 0.5, "-": 2, "0": Infinity}[key];
    for (const [axis, range] of Object.entries(ranges)) {
      const middle = (range.start + range.end) / 2, width = range.end - range.start;
      if (zoom) set(range, middle, width * zoom);
      else if (DIRECTIONS[key]?.[0] === axis) set(range, middle + DIRECTIONS[key][1] * STEP * width, width);
    }
    return Boolean(zoom || DIRECTIONS[key]);
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest?.("[data-moves]")) return;
    if (move(event.key)) event.preventDefault();
  });

  const unpress = (but) => {
    for (const button of document.querySelectorAll("button[data-buffer]"))
      if (button !== but) button.setAttribute("aria-pressed", "false");
  };

  // A picture is as wide as the window; paper is narrower.
  addEventListener("beforeprint", () => {
    for (const figure of document.querySelectorAll("figure"))
      figure.style.setProperty("--fit", Math.min(1, 700 / figure.clientWidth));
  });
  document.addEventListener("change", ({target}) => {
    if (target.name === "color") recolor(target.value);
  });
  document.addEventListener("input", ({target}) => {
    if (target.id !== "find") return;
    unpress();
    const text = target.value.toLowerCase();
    const has = (data, i) =>
      data.name[i].toLowerCase().includes(text) || data.producer?.[i].toLowerCase().includes(text);
    const count = mark(text ? has : () => false);
    document.getElementById("found").textContent = text ? `${count} marked` : "";
  });
  document.addEventListener("click", ({target}) => {
    const mover = target.closest?.("button[data-move]");
    if (mover) return move(mover.dataset.move);
    const button = target.closest?.("button[data-buffer]");
    if (!button) return;
    const on = button.getAttribute("aria-pressed") !== "true";
    unpress(button);
    button.setAttribute("aria-pressed", String(on));
    const wanted = Number(button.dataset.buffer);
    mark(on ? (data, i) => data.buffer[i] === wanted : () => false);
  });
})();
