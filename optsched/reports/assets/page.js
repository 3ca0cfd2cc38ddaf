"use strict";
// What the page does beyond what the plotting library does: colours, search, marked buffers.
(() => {
  const packings = () => {
    const found = [];
    for (const doc of Bokeh.documents)
      for (const root of doc.roots())
        for (const renderer of root.renderers ?? [])
          if (/^packing-\d+-\d+-rects$/.test(renderer.name ?? "")) found.push(renderer);
    return found;
  };
  const plan = (renderer) => renderer.name.split("-")[1];

  const recolour = (by) => {
    for (const {glyph, hover_glyph, selection_glyph, nonselection_glyph} of packings())
      for (const each of [glyph, hover_glyph, selection_glyph, nonselection_glyph])
        each.fill_color = {field: by};
    for (const key of document.querySelectorAll("[data-key]")) key.hidden = key.dataset.key !== by;
  };

  const mark = (chosen) => {
    let count = 0;
    for (const renderer of packings()) {
      const data = renderer.data_source.data;
      const rows = [];
      for (let i = 0; i < data.buffer.length; i++)
        if (chosen(data, i, plan(renderer))) rows.push(i);
      renderer.data_source.selected.indices = rows;
      count += rows.length;
    }
    return count;
  };

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
    if (target.name === "colour") recolour(target.value);
  });
  document.addEventListener("input", ({target}) => {
    if (target.id !== "find") return;
    unpress();
    const text = target.value.toLowerCase();
    const has = (data, i) =>
      data.name[i].toLowerCase().includes(text) || data.producer[i].toLowerCase().includes(text);
    const count = mark(text ? has : () => false);
    document.getElementById("found").textContent = text ? `${count} marked` : "";
  });
  document.addEventListener("click", ({target}) => {
    const button = target.closest?.("button[data-buffer]");
    if (!button) return;
    const on = button.getAttribute("aria-pressed") !== "true";
    unpress(button);
    button.setAttribute("aria-pressed", String(on));
    const wanted = Number(button.dataset.buffer);
    mark(on ? (data, i) => data.buffer[i] === wanted : () => false);
  });
})();
