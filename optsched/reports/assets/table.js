"use strict";
// Tables that a click sorts and a text filters; a button in a row unfolds its details.
(() => {
  const key = (row, column) => {
    const cell = row.cells[column], value = cell.querySelector("data")?.value ?? cell.textContent.trim();
    const number = Number(value);
    return value !== "" && Number.isFinite(number) ? number : value.toLowerCase();
  };
  const compare = (a, b) =>
    typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  // A row stays together with its details below it.
  const pairs = (body) =>
    [...body.rows].filter((row) => !row.classList.contains("more")).map((row) => [row, row.nextElementSibling]);

  const sort = (button) => {
    const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
    const up = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up);
    const sign = up === "ascending" ? 1 : -1;
    const sorted = pairs(body).sort(([a], [b]) =>
      sign * compare(key(a, head.cellIndex), key(b, head.cellIndex)));
    body.append(...sorted.flat());
  };
  const unfold = (row, open) => {
    row.querySelector("button[aria-expanded]").setAttribute("aria-expanded", String(open));
    row.nextElementSibling.hidden = !open;
  };
  const filter = (input) => {
    const table = document.getElementById(input.dataset.table), text = input.value.toLowerCase();
    let count = 0;
    for (const [row, more] of pairs(table.tBodies[0])) {
      const shown = row.textContent.toLowerCase().includes(text);
      row.hidden = !shown;
      if (!shown) more.hidden = true;
      else more.hidden = row.querySelector("button[aria-expanded]").getAttribute("aria-expanded") !== "true";
      count += shown;
    }
    input.closest(".controls").querySelector("output").textContent = text ? `${count} found` : "";
  };
  const follow = () => {
    const more = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    if (!more?.classList.contains("more")) return;
    unfold(more.previousElementSibling, true);
    more.previousElementSibling.scrollIntoView();
  };
  document.addEventListener("click", ({target}) => {
    const button = target.closest?.("table.sortable button");
    if (!button) return;
    if (button.closest("thead")) sort(button);
    else if (button.hasAttribute("aria-expanded"))
      unfold(button.closest("tr"), button.getAttribute("aria-expanded") !== "true");
  });
  document.addEventListener("input", ({target}) => target.dataset.table && filter(target));
  addEventListener("hashchange", follow);
  follow();
})();
