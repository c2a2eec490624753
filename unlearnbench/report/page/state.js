// What is chosen: filters, order, and the number whose records are open. The address holds it.

const byId = (id) => document.getElementById(id);
const controls = Object.fromEntries(["dataset", "model", "request", "view"].map((name) => [name, byId(`filter-${name}`)]));
const sortBy = byId("sort-by");
const FACETS = ["dataset", "model", "request"];
const REVERSED = "-reversed";
const START = Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value]));
const hidden = new Set();
const off = new Set();
let isWorst = false;
let shownRows = [];

const placeNow = () => drawn.places.find((place) => FACETS.every((name) => place[name] === controls[name].value));

// Keeps the choice possible: a model or request that the dataset does not have gives way to one that it has.
function settle(changed) {
  if (placeNow()) return;
  const fits = (place) => FACETS.filter((name) => place[name] === controls[name].value).length;
  const some = drawn.places.filter((place) => place[changed] === controls[changed].value);
  const best = [...some].sort((a, b) => fits(b) - fits(a) || b.rows.length - a.rows.length)[0] ?? drawn.places[0];
  for (const name of FACETS) controls[name].value = best[name];
}

function goTo(place) {
  for (const name of FACETS) controls[name].value = place[name];
  apply();
  remember();
  byId("board-title").scrollIntoView();
}

function passes(row, ignoresHidden = false) {
  if (byId("defaults").checked && !row.default) return false;
  // Retrain stays: every method is compared with it.
  if (row.kind === "reference") return true;
  return !off.has(row.family) && (ignoresHidden || !hidden.has(row.method)) && matches(row);
}

function matches(row) {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${row.label} ${row.method} ${row.claim} ${row.verdict} ${row.kind}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function option(select, place) {
  const value = select.value;
  const heads = [["rank", "rank"], ["method", "method"], ...place.heads.map((head) => [head.name, head.title])];
  select.replaceChildren(...heads.flatMap(([name, title]) => [
    html("option", { value: name }, title), html("option", { value: `${name}${REVERSED}` }, `${title}, reversed`),
  ]));
  select.value = [...select.options].some((one) => one.value === value) ? value : "rank";
}

function familyChips(place) {
  const families = [...new Set(place.rows.filter((row) => row.kind !== "reference").map((row) => row.family))].sort();
  byId("families").replaceChildren(...families.map((name) => {
    const button = html("button", { type: "button", class: "chip", "aria-pressed": String(!off.has(name)), "data-family": name }, name.replaceAll("-", " "));
    button.addEventListener("click", () => { toggle(off, name); apply(); remember(); byId("families").querySelector(`[data-family="${CSS.escape(name)}"]`)?.focus(); });
    return button;
  }));
}

function methodMenu(place) {
  const methods = [...new Set(place.rows.filter((row) => row.kind !== "reference" && (!byId("defaults").checked || row.default)).map((row) => row.method))].sort();
  const boxes = methods.map((name) => {
    const box = html("input", { type: "checkbox", value: name });
    box.checked = !hidden.has(name);
    box.addEventListener("change", () => { toggle(hidden, name); apply(); remember(); });
    return html("label", {}, box, ` ${name}`);
  });
  const kept = methods.filter((name) => !hidden.has(name)).length;
  byId("methods").querySelector("summary").textContent = kept === methods.length ? "Methods: all" : `Methods: ${kept} of ${methods.length}`;
  byId("methods").querySelector("div").replaceChildren(...boxes);
}

function toggle(set, name) {
  if (!set.delete(name)) set.add(name);
}

function apply() {
  const place = placeNow();
  const view = controls.view.value;
  option(sortBy, place);
  const isReversed = sortBy.value.endsWith(REVERSED);
  const choice = { sort: sortBy.value.replace(REVERSED, ""), isWorst: isReversed, view };
  isWorst = isReversed;
  const rows = place.rows.filter((row) => passes(row));
  shownRows = showBoard(place, rows, choice);
  familyChips(place);
  methodMenu(place);
  for (const one of VIEWS) document.body.classList.toggle(`view-${one}`, view === one);
  document.body.classList.toggle("with-more", byId("more").checked);
  const isChosen = (one) => FACETS.every((name) => one[name] === undefined || one[name] === controls[name].value);
  for (const one of document.querySelectorAll(".placed")) one.hidden = !isChosen(one.dataset);
  for (const one of document.querySelectorAll(".nothing")) one.hidden = Boolean(one.parentElement.querySelector(".placed:not([hidden])"));
  for (const one of controls.request.options) one.hidden = !drawn.places.some((p) => p.request === one.value && p.dataset === controls.dataset.value && p.model === controls.model.value);
  for (const one of controls.model.options) one.hidden = !drawn.places.some((p) => p.model === one.value && p.dataset === controls.dataset.value);
  const methods = rows.filter((row) => row.kind === "method").length;
  byId("count").textContent = methods ? `${rows.length} of ${place.rows.length} rows` : `No method matches: ${rows.length} of ${place.rows.length} rows are left. Reset shows all.`;
  const curves = drawn.curves.filter((one) => ["dataset", "model"].every((name) => one[name] === controls[name].value));
  redraw(place, curves, { view, shown: rows, legendRows: place.rows.filter((row) => passes(row, true) && row.kind !== "reference"), hidden, hasControls: byId("controls-drawn").checked });
  showMatrix(place.request, (row) => passes(row), view || "full");
}

function remember() {
  const chosen = new URLSearchParams(Object.entries(controls).map(([name, control]) => [name, control.value]));
  const set = (name, value) => { if (value) chosen.set(name, value); };
  set("sort", sortBy.value === "rank" ? "" : sortBy.value);
  set("search", byId("search").value);
  set("defaults", byId("defaults").checked ? "" : "0");
  set("more", byId("more").checked ? "1" : "");
  set("off", [...off].sort().join(","));
  set("hide", [...hidden].sort().join(","));
  set("open", detail ? `${detail.row.row}|${detail.name}` : "");
  history.replaceState(null, "", `#${chosen}`);
}

function choose(control, value) {
  if (value !== null && [...control.options].some((one) => one.value === value)) control.value = value;
}

function readAddress() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  for (const [name, control] of Object.entries(controls)) choose(control, chosen.get(name) ?? START[name]);
  settle("dataset");
  byId("search").value = chosen.get("search") ?? "";
  byId("defaults").checked = chosen.get("defaults") !== "0";
  byId("more").checked = chosen.get("more") === "1";
  for (const [set, name] of [[off, "off"], [hidden, "hide"]]) {
    set.clear();
    for (const one of (chosen.get(name) ?? "").split(",").filter(Boolean)) set.add(one);
  }
  option(sortBy, placeNow());
  choose(sortBy, chosen.get("sort") ?? "rank");
  apply();
  const [row, name] = (chosen.get("open") ?? "").split("|");
  const found = placeNow().byRow.get(row);
  if (found && name && showDetail(found, name)) detail.row.line.scrollIntoView({ block: "center" });
}

for (const [name, control] of Object.entries(controls)) {
  control.addEventListener("change", () => { if (FACETS.includes(name)) settle(name); apply(); remember(); });
}
for (const id of ["defaults", "more", "controls-drawn", "blocks", "sort-by"]) byId(id).addEventListener("change", () => { apply(); remember(); });
let typing = 0;
byId("search").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => { apply(); remember(); }, 120); });
for (const one of boards) {
  for (const head of one.querySelectorAll("th[data-head]")) {
    head.querySelector("button").addEventListener("click", () => {
      const name = head.dataset.head;
      sortBy.value = sortBy.value === name ? `${name}${REVERSED}` : name;
      apply();
      remember();
    });
  }
}
document.addEventListener("click", (event) => {
  const button = event.target.closest(".legend button[data-method]");
  if (button) { toggle(hidden, button.dataset.method); apply(); remember(); }
  if (!event.target.closest("#methods")) byId("methods").open = false;
});
const nameNow = () => fileName(...FACETS.map((name) => controls[name].value));
byId("csv").addEventListener("click", () => save(`leaderboard-${nameNow()}.csv`, boardCsv(placeNow(), shownRows), "text/csv"));
byId("latex").addEventListener("click", () => {
  const heads = [...placeNow().heads.keys()].filter((at) => shownRows[0]?.line.querySelectorAll("td.number")[at].getClientRects().length);
  save(`leaderboard-${nameNow()}.tex`, boardLatex(placeNow(), shownRows, heads), "text/x-tex");
});
byId("matrix-csv").addEventListener("click", () => save("all-graphs.csv", matrixCsv(), "text/csv"));
byId("matrix-latex").addEventListener("click", () => save("all-graphs.tex", matrixLatex(), "text/x-tex"));
byId("link").addEventListener("click", () => { remember(); copy(location.href, byId("link")); });
byId("reset").addEventListener("click", () => { history.replaceState(null, "", location.pathname + location.search); readAddress(); });
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("phases-legend").append(...phasesLegend());
window.addEventListener("hashchange", () => { if (location.hash.includes("=")) readAddress(); });
let wait = 0;
let known = window.innerWidth;
window.addEventListener("resize", () => {
  clearTimeout(wait);
  wait = setTimeout(() => { if (window.innerWidth !== known) { known = window.innerWidth; apply(); } }, 150);
});
readAddress();
