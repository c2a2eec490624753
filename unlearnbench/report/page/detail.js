// What stands behind a number: its meaning, its command and its records, in a row below it.

const TITLES = {
  status: "status", seed: "seed", repetition: "repetition", full: "F1 full %", shard: "F1 shard %",
  seconds: "unlearn s", quiet: "machine", started: "started", path: "file",
};
const WRITTEN = {
  shard: (value) => (100 * value).toFixed(2),
  full: (value) => (100 * value).toFixed(2),
  seconds: (value) => value.toPrecision(4),
  quiet: (value) => (value ? "quiet" : "may have been busy"),
};
let detail = null;

function fileOf(path) {
  const name = decodeURIComponent(path);
  const short = name.slice(name.lastIndexOf("/") + 1);
  if (drawn.base === null) return html("code", { title: name }, short);
  return html("a", { href: drawn.base + path, title: name }, short);
}

function closeDetail() {
  if (!detail) return;
  detail.button?.setAttribute("aria-expanded", "false");
  detail.line.remove();
  detail = null;
}

function recordTable(heads, lines) {
  return html("div", { class: "wide" }, html(
    "table", { class: "records" }, html("thead", {}, html("tr", {}, ...heads.map((one) => html("th", { scope: "col" }, one)))),
    html("tbody", {}, ...lines),
  ));
}

function runRecords(row, head) {
  const counted = column(head.kind === "score" || head.name === "n" ? "score" : "time");
  const names = Object.keys(TITLES);
  const lines = row.sources.map((record) => {
    const cells = names.map((name) => {
      const value = record[column(name)];
      const content = name === "path" ? fileOf(value) : value === null ? "–" : WRITTEN[name] ? WRITTEN[name](value) : String(value);
      return html("td", { "data-label": TITLES[name], class: name === "status" && value !== "ok" ? "bad" : "" }, content);
    });
    const first = html("td", { "data-label": "in the mean" }, record[counted] ? "yes" : "no");
    return html("tr", { class: record[counted] ? "" : "uncounted" }, first, ...cells);
  });
  return recordTable(["in the mean", ...names.map((name) => TITLES[name])], lines);
}

function auditRecords(records) {
  const lines = records.map(([path, status, repetition]) => html(
    "tr", {}, html("td", { "data-label": "repetition" }, String(repetition)),
    html("td", { "data-label": "status", class: status === "ok" ? "" : "bad" }, status), html("td", { "data-label": "file" }, fileOf(path)),
  ));
  return recordTable(["repetition", "status", "file"], lines);
}

function commandLine(command) {
  if (!command) return html("p", { class: "small" }, "No single command makes these records.");
  const button = html("button", { type: "button" }, "Copy");
  button.addEventListener("click", () => copy(command, button));
  return html("p", { class: "command" }, html("code", {}, command), button);
}

function showDetail(row, name) {
  const at = row.place.heads.findIndex((head) => head.name === name);
  if (at < 0) return false;
  const head = row.place.heads[at];
  closeDetail();
  const [, text, small, explanation, records] = row.cells[at];
  const more = head.kind === "score" ? scoreDetail(row, head.view, row.place.families[head.view]) : explanation ?? "";
  const close = html("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
  close.addEventListener("click", () => { closeDetail(); remember(); });
  const cell = html(
    "td", { colspan: String(row.line.cells.length) },
    html("div", { class: "detail" }, close,
      html("h3", {}, `${row.label}: ${head.title} ${text}${small ? ` ${small}` : ""}`),
      html("p", {}, head.meaning.charAt(0).toUpperCase() + head.meaning.slice(1), " ", more),
      commandLine(row.commands[head.audit]), head.kind === "audit" ? auditRecords(records) : runRecords(row, head)),
  );
  const button = row.line.querySelectorAll("td.number")[at].querySelector("button");
  const line = html("tr", { class: "detail-row" }, cell);
  button?.setAttribute("aria-expanded", "true");
  row.line.after(line);
  detail = { row, name, line, button };
  return true;
}

for (const place of drawn.places) {
  for (const row of place.rows) {
    row.line.querySelectorAll("td.number").forEach((cell, at) => cell.querySelector("button")?.addEventListener("click", () => {
      if (detail && detail.row === row && detail.name === place.heads[at].name) closeDetail();
      else showDetail(row, place.heads[at].name);
      remember();
    }));
  }
}
