// What is chosen: filters, order, and the number whose records are listed. The address holds it.

const board = document.getElementById("board");
const rows = [...board.tBodies[0].rows];
const controls = Object.fromEntries(["dataset", "model", "protocol", "view"].map((name) => [name, document.getElementById(`filter-${name}`)]));
const sortBy = document.getElementById("sort-by");
const sortOrder = document.getElementById("sort-order");
const PLACES = ["dataset", "model", "protocol"];

rows.forEach((row, at) => { row.dataset.at = at; });

const isChosen = (one, names) => names.every((name) => !controls[name].value || one[name] === undefined || one[name] === controls[name].value);

function sortRows() {
  const by = sortBy.value;
  const at = drawn.heads.findIndex((head) => head.name === by);
  const isWorst = sortOrder.value === "worst" ? -1 : 1;
  const sign = isWorst * (at < 0 ? 1 : drawn.heads[at].first);
  const value = (row) => (at < 0 ? null : drawn.values[row.dataset.at][at]);
  const ordered = [...rows].sort((one, other) => {
    if (at < 0) return sign * one.querySelector("th").textContent.localeCompare(other.querySelector("th").textContent) || one.dataset.at - other.dataset.at;
    const [a, b] = [value(one), value(other)];
    if (a === null || b === null) return (a === null) - (b === null) || one.dataset.at - other.dataset.at;
    return sign * (a - b) || one.dataset.at - other.dataset.at;
  });
  board.tBodies[0].append(...ordered);
  for (const head of board.tHead.querySelectorAll("th[data-head]")) {
    if (head.dataset.head === by) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
}

function apply() {
  let count = 0;
  let isWell = true;
  const numbers = new Set();
  for (const row of rows) {
    row.hidden = !isChosen(row.dataset, PLACES);
    if (row.hidden) continue;
    count += 1;
    numbers.add(drawn.of[row.dataset.at]);
    isWell = isWell && row.querySelector("td.c-status").textContent === "";
  }
  for (const name of PLACES) document.body.classList.toggle(`one-${name}`, Boolean(controls[name].value));
  for (const view of VIEWS) document.body.classList.toggle(`view-${view}`, controls.view.value === view);
  document.body.classList.toggle("all-well", isWell);
  for (const one of document.querySelectorAll(".placed")) one.hidden = !isChosen(one.dataset, PLACES);
  for (const one of document.querySelectorAll(".nothing")) {
    one.hidden = Boolean(one.parentElement.querySelector(".placed:not([hidden])"));
  }
  document.getElementById("count").textContent = count
    ? `${count} of ${rows.length} rows`
    : "No records match this choice. Set a filter to all.";
  redraw([...numbers].map((at) => drawn.groups[at]), drawn.curves.filter((one) => isChosen(one, ["dataset", "model"])), controls.view.value);
}

function remember(records = "") {
  const chosen = new URLSearchParams(Object.entries(controls).map(([name, control]) => [name, control.value]));
  chosen.set("sort", sortBy.value);
  chosen.set("order", sortOrder.value);
  if (records) chosen.set("records", records);
  history.replaceState(null, "", `#${chosen}`);
}

function choose(control, value) {
  if (value !== null && [...control.options].some((option) => option.value === value)) control.value = value;
}

function readAddress() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  for (const [name, control] of Object.entries(controls)) choose(control, chosen.get(name));
  choose(sortBy, chosen.get("sort"));
  choose(sortOrder, chosen.get("order"));
  sortRows();
  apply();
  const records = /^(\d+)-(\d+)$/.exec(chosen.get("records") ?? "");
  if (records) showRecords(Number(records[1]), Number(records[2]));
  const cell = /^(\d+)-(\d+)-(\d+)$/.exec(chosen.get("evidence") ?? "");
  if (cell) showEvidence(...cell.slice(1).map(Number));
}

for (const control of Object.values(controls)) control.addEventListener("change", () => { apply(); remember(); });
for (const control of [sortBy, sortOrder]) control.addEventListener("change", () => { sortRows(); remember(); });
for (const head of board.tHead.querySelectorAll("th[data-head]")) {
  head.querySelector("button").addEventListener("click", () => {
    const isSame = sortBy.value === head.dataset.head;
    sortOrder.value = isSame && sortOrder.value === "best" ? "worst" : "best";
    sortBy.value = head.dataset.head;
    sortRows();
    remember();
  });
}
document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
for (const mark of document.querySelectorAll("#board svg.marker")) mark.append(marker(mark.dataset, 7, 7, 6.5));
document.getElementById("phases-legend").append(...phasesLegend());
window.addEventListener("hashchange", () => { if (location.hash.includes("=")) readAddress(); });
let wait = 0;
let known = window.innerWidth;
window.addEventListener("resize", () => {
  clearTimeout(wait);
  wait = setTimeout(() => { if (window.innerWidth !== known) { known = window.innerWidth; apply(); } }, 150);
});
readAddress();
