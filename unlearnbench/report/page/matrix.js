// Methods by dataset and model, their mean ranks, and the critical difference between them.

const blocks = document.getElementById("blocks");
let matrix = null;

// Every method with its row in each place that has this request.
function gather(request, isShown) {
  const places = drawn.places.filter((place) => place.request === request);
  const methods = new Map();
  for (const place of places) {
    for (const row of place.rows.filter(isShown)) {
      if (!methods.has(row.row)) methods.set(row.row, { name: row.row, label: row.label, colour: row.colour, shape: row.shape, kind: row.kind, cells: new Map() });
      methods.get(row.row).cells.set(place, row);
    }
  }
  for (const one of methods.values()) {
    const states = new Set([...one.cells.values()].map((row) => row.forgets));
    one.forgets = states.has("no") ? "no" : states.has("yes") ? "yes" : "unknown";
  }
  return { places: places.filter((place) => place.rows.some(isShown)), methods: [...methods.values()] };
}

// What may be ranked: for each number of pairs, the methods that have so many, on the pairs that all of them have.
function blockChoices(places, methods, view) {
  const has = (one, place) => one.cells.get(place)?.complete && valueOf(one.cells.get(place), `f1-${view}`) !== null;
  const ranked = methods.filter((one) => one.kind === "method");
  const counts = [...new Set(ranked.map((one) => places.filter((place) => has(one, place)).length))].filter(Boolean).sort((a, b) => b - a);
  const found = [];
  for (const count of counts) {
    const some = ranked.filter((one) => places.filter((place) => has(one, place)).length >= count);
    const common = places.filter((place) => some.every((one) => has(one, place)));
    if (some.length > 1 && common.length && found.at(-1)?.methods.length !== some.length) found.push({ methods: some, places: common });
  }
  return found;
}

function rankOver(choice, view) {
  const table = choice.places.map((place) => ranksOf(choice.methods.map((one) => valueOf(one.cells.get(place), `f1-${view}`))));
  return new Map(choice.methods.map((one, at) => [one, meanOf(table.map((ranks) => ranks[at]))]));
}

function showMatrix(request, isShown, view) {
  const { places, methods } = gather(request, isShown);
  const choices = blockChoices(places, methods, view);
  const before = blocks.value;
  blocks.replaceChildren(...choices.map((one, at) => html("option", { value: String(at) }, `${one.methods.length} methods on ${one.places.length} ${one.places.length === 1 ? "graph and model" : "graphs and models"}`)));
  const chosen = before && choices[before] ? before : String(Math.max(0, choices.findIndex((one) => one.methods.length > 2)));
  if (choices.length) blocks.value = chosen;
  blocks.parentElement.hidden = !choices.length;
  const choice = choices[blocks.value];
  const ranks = choice ? rankOver(choice, view) : new Map();
  const sorted = [...methods].sort((a, b) =>
    KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (ranks.get(a) ?? 1e6) - (ranks.get(b) ?? 1e6) ||
    b.cells.size - a.cells.size || a.label.localeCompare(b.label));
  matrix = { places, sorted, ranks, choice, view };
  document.getElementById("matrix").replaceChildren(...(places.length > 1 ? [matrixTable(matrix)] : [html("p", { class: "notice" }, "One dataset and model only has this request.")]));
  document.getElementById("critical").replaceChildren(...(choice && choice.methods.length > 1 && choice.places.length > 1 ? [criticalFigure(matrix)] : []));
}

function matrixTable({ places, sorted, ranks, choice, view }) {
  const best = new Map();
  const span = new Map();
  for (const place of places) {
    const values = sorted.filter((one) => one.kind === "method" && one.cells.get(place)?.complete).map((one) => valueOf(one.cells.get(place), `f1-${view}`)).filter((one) => one !== null);
    best.set(place, Math.max(...values));
    // Tukey's fence: one method that fails does not make all others look alike.
    const ascending = [...values].sort((a, b) => a - b);
    const quarter = (share) => ascending[Math.round(share * (ascending.length - 1))];
    span.set(place, [Math.max(ascending[0], quarter(0.25) - 1.5 * (quarter(0.75) - quarter(0.25))), ascending.at(-1)]);
  }
  const datasets = [...new Set(places.map((place) => place.dataset))];
  const top = datasets.map((name) => html("th", { scope: "colgroup", colspan: String(places.filter((place) => place.dataset === name).length), class: "first" }, name));
  const isFirst = (at) => !at || places[at - 1].dataset !== places[at].dataset;
  const models = places.map((place, at) => html("th", { scope: "col", class: `number${isFirst(at) ? " first" : ""}${choice?.places.includes(place) ? "" : " apart"}` }, html("button", { type: "button", "data-place": String(place.number), title: `Show ${place.name}` }, place.model)));
  const lines = sorted.map((one, at) => {
    const cells = places.map((place, along) => {
      const row = one.cells.get(place);
      const value = row ? valueOf(row, `f1-${view}`) : null;
      const classes = ["number"];
      if (isFirst(along)) classes.push("first");
      if (value !== null && row.kind === "method") {
        const [low, high] = span.get(place);
        classes.push(`t${Math.max(0, Math.min(5, Math.round((5 * (value - low)) / (high - low || 1))))}`);
        if (row.complete && value === best.get(place)) classes.push("best", ...(row.forgets === "no" ? ["hollow"] : []));
      }
      const title = row ? `${one.label}, ${place.name}: ${row.cells[place.heads.findIndex((head) => head.name === `f1-${view}`)].slice(1, 3).filter(Boolean).join(" ")}${row.kind === "method" ? `; ${drawn.words[row.forgets]}` : ""}` : "";
      return html("td", { class: classes.join(" "), title }, value === null ? "" : (100 * value).toFixed(1));
    });
    const mark = svg("svg", { width: 14, height: 14, class: "marker", "aria-hidden": "true" }, marker(one, 7, 7, 6.5));
    const isFirstOfKind = at > 0 && sorted[at - 1].kind !== one.kind;
    return html("tr", { class: `${one.kind}${isFirstOfKind ? " first-of-kind" : ""}` }, html("th", { scope: "row" }, mark, ...breakable(one.label)),
      html("td", { class: "number" }, ranks.has(one) ? ranks.get(one).toFixed(2) : ""), ...cells);
  });
  const table = html("table", { class: "matrix" },
    html("thead", {}, html("tr", {}, html("th", { rowspan: "2", scope: "col" }, "method"), html("th", { rowspan: "2", scope: "col", class: "number" }, "mean rank"), ...top), html("tr", {}, ...models)),
    html("tbody", {}, ...lines));
  table.addEventListener("click", (event) => {
    const number = event.target.closest("button[data-place]")?.dataset.place;
    if (number !== undefined) goTo(drawn.places[number]);
  });
  const legend = "Shade: from the lowest (pale) to the highest of the column. Bold: the highest; ○ beside it: an audit there did not show it to forget. A hollow mark: so somewhere. Pale heads: not in the mean rank, since a ranked method lacks a number there.";
  return html("div", {}, html("div", { class: "wide", role: "region", "aria-label": "Methods by dataset and model", tabindex: "0" }, table), html("p", { class: "small" }, legend));
}

// Demšar's diagram: mean ranks on an axis, and bars that join what does not differ.
function criticalFigure({ ranks, choice }) {
  const width = Math.min(760, document.getElementById("critical").clientWidth || 600);
  const sorted = [...ranks].sort((a, b) => a[1] - b[1]);
  const [k, n] = [sorted.length, choice.places.length];
  const difference = criticalDifference(k, n);
  const half = Math.ceil(k / 2);
  const named = sorted.map(([one, rank]) => `${one.label} ${rank.toFixed(2)}`);
  const inset = Math.min(width * 0.36, Math.max(...named.map(widthOf)) + 28);
  const x = linear(1, k, inset, width - inset);
  const groups = [];
  if (difference !== null) {
    sorted.forEach(([, rank], at) => {
      let end = at;
      while (end + 1 < k && sorted[end + 1][1] - rank < difference) end += 1;
      if (end > at && !(groups.at(-1) && groups.at(-1)[1] >= end)) groups.push([at, end]);
    });
  }
  const axis = 58;
  const below = axis + 14 + 9 * groups.length;
  const parts = [svg("line", { x1: x(1), x2: x(k), y1: axis, y2: axis, class: "axis" })];
  for (let rank = 1; rank <= k; rank += Math.ceil(k / 10)) {
    parts.push(svg("line", { x1: x(rank), x2: x(rank), y1: axis - 5, y2: axis, class: "axis" }), text(x(rank), axis - 9, String(rank), { "text-anchor": "middle", class: "soft" }));
  }
  if (difference !== null) {
    const end = x(Math.min(k, 1 + difference));
    parts.push(svg("line", { x1: x(1), x2: end, y1: 22, y2: 22, class: "span" }), text(x(1), 14, `critical difference ${difference.toFixed(2)}${1 + difference > k ? ", wider than the axis" : ""}`, { class: "soft" }));
  }
  groups.forEach(([from, to], at) => parts.push(svg("line", { x1: x(sorted[from][1]) - 4, x2: x(sorted[to][1]) + 4, y1: axis + 10 + 9 * at, y2: axis + 10 + 9 * at, class: "span thick" })));
  sorted.forEach(([one, rank], at) => {
    const isLeft = at < half;
    const y = below + 18 + 20 * (isLeft ? at : k - 1 - at);
    const edge = isLeft ? inset - 12 : width - inset + 12;
    parts.push(svg("polyline", { points: `${x(rank)},${axis} ${x(rank)},${y} ${edge},${y}`, class: "lead" }));
    parts.push(marker(one, x(rank), axis, 6));
    const name = clipped(named[at], inset - 16);
    parts.push(text(isLeft ? edge - 4 : edge + 4, y + 4, name, { "text-anchor": isLeft ? "end" : "start" }));
  });
  const caption = `Critical difference diagram: mean rank of ${k} methods on ${n} graphs and models`;
  const description = sorted.map(([one, rank]) => `${one.label}: mean rank ${rank.toFixed(2)}, ${drawn.words[one.forgets]}`).join("; ");
  const note = difference === null ? "There are too many methods for the table of critical values." : "A bar joins methods whose mean ranks do not differ (Nemenyi, level .05). Models on one graph are not independent, so that the true critical difference is larger.";
  return figure(width, below + 30 + 20 * half, caption, description, parts, [html("p", { class: "small" }, note)]);
}

function matrixLines() {
  const { places, sorted, ranks, view } = matrix;
  return sorted.map((one) => ({ one, rank: ranks.get(one), values: places.map((place) => (one.cells.get(place) ? valueOf(one.cells.get(place), `f1-${view}`) : null)) }));
}

function matrixCsv() {
  const heads = matrix.places.map((place) => `${place.dataset}/${place.model}`);
  return csvText([["method", "kind", "forgets", "mean rank", ...heads], ...matrixLines().map(({ one, rank, values }) => [one.label, one.kind, one.forgets, rank?.toFixed(4), ...values])]);
}

function matrixLatex() {
  const lines = matrixLines();
  const best = matrix.places.map((_, at) => Math.max(...lines.filter(({ one }) => one.kind === "method").map(({ values }) => values[at] ?? -1)));
  const rows = lines.map(({ one, rank, values }) => [
    latexCell(one.label) + (one.kind === "method" && one.forgets === "no" ? " $\\circ$" : ""), rank === undefined ? "" : rank.toFixed(2),
    ...values.map((value, at) => (value === null ? "" : one.kind === "method" && value === best[at] ? `\\textbf{${(100 * value).toFixed(1)}}` : (100 * value).toFixed(1))),
  ]);
  const heads = ["method", "mean rank", ...matrix.places.map((place) => `${place.dataset} ${place.model}`)];
  return latexText(`Mean F1 in percent, view ${matrix.view}. ○: not shown to forget.`, "tab:graphs", heads, rows);
}
