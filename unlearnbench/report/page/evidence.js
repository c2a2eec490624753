// The table of forgetting: sorted by its heads, with what a cell says and the records behind it.

const evidence = [...document.querySelectorAll("table.evidence")];

function showEvidence(place, line, column) {
  const cell = drawn.evidence[place]?.[line]?.cells[column];
  if (!cell) return;
  const table = evidence[place];
  const head = table.tHead.rows[0].cells[column + 2];
  const caption = `${drawn.evidence[place][line].method}: ${head.textContent} ${cell.text}`;
  const lines = cell.records.map(([path, status, repetition]) =>
    html("tr", {}, html("td", { "data-label": "repetition" }, String(repetition)),
      html("td", { "data-label": "status", class: status === "ok" ? "" : "bad" }, status),
      html("td", { "data-label": "file" }, fileOf(path))));
  const heads = ["repetition", "status", "file"].map((one) => html("th", { scope: "col" }, one));
  list(
    html("p", {}, `${table.caption.textContent} ${head.textContent}: ${head.title}${cell.said ? ` (${cell.said})` : ""}`),
    html("table", {}, html("caption", {}, caption), html("thead", {}, html("tr", {}, ...heads)), html("tbody", {}, ...lines)),
  );
}

// Numbers by size, texts by letters; what has no number stands last either way.
function sortEvidence(table, at) {
  const head = table.tHead.rows[0].cells[at];
  const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const lines = [...table.tBodies[0].rows];
  const number = (row) => (row.cells[at].dataset.value === undefined ? null : Number(row.cells[at].dataset.value));
  const hasNumbers = lines.some((row) => number(row) !== null);
  lines.sort((one, other) => {
    const [a, b] = hasNumbers ? [number(one), number(other)] : [one.cells[at].textContent || null, other.cells[at].textContent || null];
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (hasNumbers ? a - b : a.localeCompare(b));
  });
  table.tBodies[0].append(...lines);
  for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
}

for (const table of evidence) {
  [...table.tHead.rows[0].cells].forEach((head, at) => head.querySelector("button").addEventListener("click", () => sortEvidence(table, at)));
}
