// The records behind a number.

const TITLES = {
  path: "file", status: "status", seed: "seed", repetition: "repetition", shard: "F1 shard %", full: "F1 full %",
  seconds: "unlearn s", quiet: "machine", started: "started",
};
const WRITTEN = {
  shard: (value) => (100 * value).toFixed(2),
  full: (value) => (100 * value).toFixed(2),
  seconds: (value) => value.toPrecision(4),
  quiet: (value) => (value ? "quiet" : "may have been busy"),
};

function fileOf(path) {
  const name = decodeURIComponent(path);
  const short = name.slice(name.lastIndexOf("/") + 1);
  if (drawn.base === null) return html("code", { title: name }, short);
  return html("a", { href: drawn.base + path, title: name }, short);
}

function showRecords(at, head) {
  const row = document.getElementById("board").querySelectorAll(`tbody tr[data-at="${at}"]`)[0];
  if (!row || !drawn.heads[head]) return;
  const counted = drawn.columns.indexOf(drawn.counted[head]);
  const names = Object.keys(TITLES).filter((name) => name !== "path").concat("path");
  const group = drawn.groups[drawn.of[at]];
  const said = `${row.querySelector("th").textContent}, ${group.name}: ${drawn.heads[head].title} ${row.querySelectorAll("td.number")[head].textContent}`;
  const heads = ["in the mean", ...names.map((name) => TITLES[name])];
  const lines = drawn.sources[at].map((record) => {
    const cells = names.map((name) => {
      const value = record[drawn.columns.indexOf(name)];
      const content = name === "path" ? fileOf(value) : value === null ? "–" : WRITTEN[name] ? WRITTEN[name](value) : String(value);
      const isBad = name === "status" && value !== "ok";
      return html("td", { "data-label": TITLES[name], class: isBad ? "bad" : "" }, content);
    });
    const first = html("td", { "data-label": heads[0] }, record[counted] ? "yes" : "no");
    return html("tr", { class: record[counted] ? "" : "uncounted" }, first, ...cells);
  });
  const table = html(
    "table", {}, html("caption", {}, said),
    html("thead", {}, html("tr", {}, ...heads.map((one) => html("th", { scope: "col" }, one)))), html("tbody", {}, ...lines),
  );
  list(table);
}

function list(...content) {
  document.getElementById("records").replaceChildren(...content);
  const title = document.getElementById("records-title");
  title.focus({ preventScroll: true });
  title.scrollIntoView();
}
