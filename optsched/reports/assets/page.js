"use strict";
// What the pictures do beside being looked at: zoom, moves, tooltips, names on buffers, colors, search.
(() => {
  const WIDTH = 1000, HEIGHT = 400;
  const plots = [...document.querySelectorAll(".plot")].map((figure) => ({
    figure, svg: figure.querySelector("svg"), zoom: figure.dataset.zoom,
    across: figure.dataset.across.split(" ").map(Number), up: figure.dataset.up.split(" ").map(Number),
  }));
  const packings = plots.filter((plot) => plot.zoom === "xy");

  // Tooltips become lines of text, since a browser shows its own late and not at all on a phone.
  for (const title of document.querySelectorAll(".plot title")) {
    title.parentNode.tip = title.textContent.split("\n");
    title.remove();
  }
  for (const plot of packings) {
    plot.rects = [...plot.svg.querySelectorAll("rect")];
    for (const rect of plot.rects) {
      const [x, y, wide, high] = ["x", "y", "width", "height"].map((name) => Number(rect.getAttribute(name)));
      Object.assign(rect, {box: {x, y, wide, high}, colors: {by_size: rect.getAttribute("fill"), by_kind: rect.dataset.kind}});
    }
    plot.names = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    plot.names.setAttribute("class", "names");
    plot.names.setAttribute("aria-hidden", "true");
    plot.figure.append(plot.names);
  }

  // The part in sight of all pictures, in their own units; they share steps, packings addresses as well.
  const sight = {x: 0, y: 0, wide: WIDTH, high: HEIGHT};
  const within = (value, most) => Math.min(Math.max(0, value), most);
  const see = (x, y, wide, high) => {
    sight.wide = Math.min(wide, WIDTH);
    sight.high = Math.min(high, HEIGHT);
    sight.x = within(x, WIDTH - sight.wide);
    sight.y = within(y, HEIGHT - sight.high);
    plots.forEach(redraw);
    clearTimeout(waiting);
    waiting = setTimeout(() => packings.forEach(label), 60);
  };
  let waiting = 0;
  const redraw = ({figure, svg, zoom, across, up}) => {
    if (!zoom) return;
    const [y, high] = zoom === "xy" ? [sight.y, sight.high] : [0, HEIGHT];
    svg.setAttribute("viewBox", `${sight.x} ${y} ${sight.wide} ${high}`);
    const wide = across[1] - across[0], tall = up[1] - up[0];
    const left = across[0] + wide * sight.x / WIDTH, low = up[0] + tall * (HEIGHT - y - high) / HEIGHT;
    ticks(figure.querySelector(".high"), low, low + tall * high / HEIGHT, "bottom");
    ticks(figure.querySelector(".wide"), left, left + wide * sight.wide / WIDTH, "left");
  };
  const ticks = (axis, low, high, side) => {
    const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
    const width = [1, 2, 2.5, 5, 10].map((k) => k * power).find((each) => each >= rough * 0.999999);
    const name = side === "left" ? axis.lastElementChild : null;
    axis.replaceChildren();
    for (let k = Math.ceil(low / width - 1e-9); k * width < low + 0.93 * (high - low); k++) {
      const span = axis.appendChild(document.createElement("span"));
      span.style[side] = `${100 * (k * width - low) / (high - low)}%`;
      span.textContent = (Number((k * width).toPrecision(6)) || 0).toLocaleString("en");
    }
    if (name) axis.append(name);
  };

  // A name stands in the middle of what is in sight of its buffer, if there is room for it.
  const LETTER = 6.6, LINE = 12;
  const dark = (color) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
    return 299 * r + 587 * g + 114 * b < 140000;
  };
  const label = ({svg, names, rects}) => {
    const across = svg.clientWidth / sight.wide, up = svg.clientHeight / sight.high;
    names.replaceChildren();
    for (const rect of rects) {
      const {x, y, wide, high} = rect.box;
      const left = Math.max(x, sight.x), right = Math.min(x + wide, sight.x + sight.wide);
      const top = Math.max(y, sight.y), bottom = Math.min(y + high, sight.y + sight.high);
      const room = Math.floor((right - left) * across / LETTER) - 1, name = rect.tip[0];
      if ((bottom - top) * up < LINE || room < Math.min(name.length, 6)) continue;
      const text = names.appendChild(document.createElementNS(names.namespaceURI, "text"));
      text.setAttribute("x", ((left + right) / 2 - sight.x) * across);
      text.setAttribute("y", ((top + bottom) / 2 - sight.y) * up);
      // A buffer beside marked ones is nearly as light or dark as the page.
      const faint = svg.classList.contains("some") && !rect.classList.contains("marked");
      text.setAttribute("fill", faint ? "currentColor" : dark(rect.getAttribute("fill")) ? "#ffffff" : "#000000");
      text.textContent = name.length <= room ? name : `${name.slice(0, room - 1)}…`;
    }
  };

  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  const point = ({target, clientX, clientY}) => {
    tip.hidden = !target.tip;
    if (!target.tip) return;
    tip.replaceChildren(...target.tip.map((line, number) => {
      const part = document.createElement(number ? "div" : "b");
      part.textContent = line;
      return part;
    }));
    tip.style.left = `${within(clientX + 14, innerWidth - tip.offsetWidth - 4)}px`;
    tip.style.top = `${clientY + tip.offsetHeight + 24 > innerHeight ? clientY - tip.offsetHeight - 10 : clientY + 16}px`;
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);

  // Wheel and mouse on one picture move all; touch scrolls the page, which has buttons.
  for (const {svg, zoom} of plots.filter((plot) => plot.zoom)) {
    let drag = null;
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect(), factor = Math.exp(event.deltaY * 0.002);
      zoomed(factor, zoom === "xy" ? factor : 1, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    }, {passive: false});
    svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") drag = {x: event.clientX, y: event.clientY, from: {...sight}};
    });
    addEventListener("pointermove", (event) => {
      if (!drag) return;
      const across = sight.wide / svg.clientWidth, up = zoom === "xy" ? sight.high / svg.clientHeight : 0;
      see(drag.from.x - (event.clientX - drag.x) * across, drag.from.y - (event.clientY - drag.y) * up, sight.wide, sight.high);
    });
    addEventListener("pointerup", () => { drag = null; });
  }
  // The point at these parts of the picture stays where it is.
  const zoomed = (across, up, x, y) => {
    const wide = Math.min(sight.wide * across, WIDTH), high = Math.min(sight.high * up, HEIGHT);
    see(sight.x + x * (sight.wide - wide), sight.y + y * (sight.high - high), wide, high);
  };

  // Keys and buttons move by a fifth of what is in sight, or zoom to half and double of it.
  const STEP = 0.2, MOVES = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]};
  const move = (key) => {
    const factor = {"+": 0.5, "=": 0.5, "-": 2, "0": Infinity}[key];
    if (factor) zoomed(factor, factor, 0.5, 0.5);
    else if (MOVES[key]) {
      const [x, y] = MOVES[key];
      see(sight.x + x * STEP * sight.wide, sight.y + y * STEP * sight.high, sight.wide, sight.high);
    }
    return Boolean(factor || MOVES[key]);
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest?.("[data-moves]")) return;
    if (move(event.key)) event.preventDefault();
  });

  // Marks buffers in all plans, and zooms to what it has marked with some of the neighborhood.
  const mark = (chosen) => {
    let marked = 0, [left, top, right, bottom] = [WIDTH, HEIGHT, 0, 0];
    for (const {svg, rects} of packings) {
      for (const rect of rects) {
        const is = chosen(rect), {x, y, wide, high} = rect.box;
        rect.classList.toggle("marked", is);
        if (!is) continue;
        marked++;
        [left, top] = [Math.min(left, x), Math.min(top, y)];
        [right, bottom] = [Math.max(right, x + wide), Math.max(bottom, y + high)];
      }
      svg.classList.toggle("some", rects.some((rect) => rect.classList.contains("marked")));
    }
    if (!marked) see(0, 0, WIDTH, HEIGHT);
    else {
      const x = Math.max(0.5 * (right - left), 0.02 * WIDTH), y = Math.max(0.5 * (bottom - top), 0.02 * HEIGHT);
      const [from, over] = [Math.max(0, left - x), Math.max(0, top - y)];
      see(from, over, Math.min(WIDTH, right + x) - from, Math.min(HEIGHT, bottom + y) - over);
    }
    return marked;
  };
  const recolor = (by) => {
    for (const {rects} of packings) for (const rect of rects) rect.setAttribute("fill", rect.colors[by]);
    for (const key of document.querySelectorAll("[data-key]")) key.hidden = key.dataset.key !== by;
    packings.forEach(label);
  };
  const unpress = (but) => {
    for (const button of document.querySelectorAll("button[data-buffer]"))
      if (button !== but) button.setAttribute("aria-pressed", "false");
  };
  document.addEventListener("change", ({target}) => {
    if (target.name === "color") recolor(target.value);
  });
  document.addEventListener("input", ({target}) => {
    if (target.id !== "find") return;
    unpress();
    const text = target.value.toLowerCase();
    const has = ({tip: [name, , maker]}) =>
      name.toLowerCase().includes(text) || (/^from /.test(maker) && maker.slice(5).toLowerCase().includes(text));
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
    mark(on ? (rect) => rect.dataset.buffer === button.dataset.buffer : () => false);
  });
  addEventListener("resize", () => packings.forEach(label));
  packings.forEach(label);
  document.documentElement.dataset.ready = "";
})();
