// The leaderboard of the chosen dataset and model: which rows are shown, their order, ranks and marks.

const FEWEST = 5;
const column = (name) => drawn.columns.indexOf(name);
const KINDS = ["reference", "method", "control"];
const STATES = ["yes", "unknown", "no"];
const boards = [...document.querySelectorAll(".place")];

drawn.places.forEach((place, number) => {
  place.number = number;
  place.byRow = new Map(place.rows.map((row) => [row.row, row]));
  const lines = [...boards[number].querySelectorAll("tbody tr")];
  place.rows.forEach((row, at) => {
    Object.assign(row, { at, place, line: lines[at] });
    row.scores = Object.fromEntries(VIEWS.map((view) => [view, new Map(
      row.sources.filter((one) => one[column("score")] && one[column(view)] !== null)
        .map((one) => [`${one[column("seed")]}/${one[column("repetition")]}`, one[column(view)]]),
    )]));
    lines[at].querySelector("svg.marker").append(marker(row, 7, 7, 6.5));
  });
});

const valueOf = (row, name) => row.cells[row.place.heads.findIndex((head) => head.name === name)]?.[0] ?? null;

// Those shown to forget first, then by F1; Retrain above, controls below.
function byRank(view) {
  return (a, b) =>
    KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (a.kind === "reference" ? a.at - b.at : 0) || STATES.indexOf(a.forgets) - STATES.indexOf(b.forgets) ||
    (valueOf(b, `f1-${view}`) ?? -1) - (valueOf(a, `f1-${view}`) ?? -1) || a.at - b.at;
}

function ordered(rows, sort, isWorst, view) {
  if (sort === "rank") return [...rows].sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (isWorst ? -1 : 1) * byRank(view)(a, b));
  const head = rows[0]?.place.heads.find((one) => one.name === sort);
  const sign = (isWorst ? -1 : 1) * (head?.best_first ?? 1);
  return [...rows].sort((a, b) => {
    const apart = KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind);
    if (apart) return apart;
    if (!head) return sign * a.label.localeCompare(b.label);
    const [one, other] = [valueOf(a, sort), valueOf(b, sort)];
    // What has no number stands last either way.
    if (one === null || other === null) return (one === null) - (other === null) || a.at - b.at;
    return sign * (one - other) || a.at - b.at;
  });
}

// Compares rows with the best of them in a view; the family of the test is what is shown.
function compare(rows, view, ratio) {
  const ranked = rows.filter((row) => row.kind === "method" && row.complete && row.scores[view].size);
  if (!ranked.length) return { best: null, found: new Map(), size: 0 };
  const mean = new Map(ranked.map((row) => [row, meanOf([...row.scores[view].values()])]));
  const best = ranked.reduce((one, other) => (mean.get(other) > mean.get(one) ? other : one));
  const others = ranked.filter((row) => row !== best);
  const tests = others.map((row) => {
    const common = [...row.scores[view].keys()].filter((unit) => best.scores[view].has(unit));
    return paired(common.map((unit) => row.scores[view].get(unit) - best.scores[view].get(unit)), ratio);
  });
  const adjusted = holm(tests.map((one) => one && one.p));
  const found = new Map(others.map((row, at) => [row, { ...tests[at], adjusted: adjusted[at] }]));
  return { best, found, size: others.length, isMarked: others.length > 0 && best.scores[view].size >= FEWEST };
}

const points = (value) => (100 * value).toFixed(2).replace(/^-0\.00$/, "0.00").replace("-", "−");
const shownP = (p) => (p < 0.001 ? "p < .001" : `p = ${p.toFixed(3).replace(/^0/, "")}`);

// What a cell of F1 says beside its number.
function scoreDetail(row, view, family) {
  if (row.kind !== "method") return "";
  if (row === family.best) {
    const doubt = row.forgets === "yes" ? "" : `; it is ${drawn.words[row.forgets]}`;
    return `The best of the methods shown${doubt}.`;
  }
  const test = family.found.get(row);
  if (!test || test.adjusted === null || test.mean === undefined) return row.complete ? "" : "Not ranked: repetitions are missing.";
  const count = family.size === 1 ? "1 method" : `${family.size} methods`;
  return `${points(test.mean)} points to the best, ${family.best.label} (95 % interval ${points(test.low)} to ${points(test.high)}); ${shownP(test.adjusted)} after Holm over ${count}.`;
}

function mark(place, shown, view) {
  const families = Object.fromEntries(VIEWS.map((one) => [one, compare(shown, one, place.ratio)]));
  place.families = families;
  for (const row of shown) {
    for (const one of VIEWS) {
      const at = place.heads.findIndex((head) => head.name === `f1-${one}`);
      const cell = row.line.querySelectorAll("td.number")[at];
      const family = families[one];
      const test = family.found.get(row);
      cell.classList.toggle("best", row === family.best && family.size > 0);
      cell.classList.toggle("hollow", row === family.best && family.size > 0 && row.forgets === "no");
      cell.classList.toggle("near", Boolean(family.isMarked && test && test.adjusted !== null && test.adjusted >= 0.05));
      cell.title = scoreDetail(row, one, family);
    }
    for (const [at, head] of place.heads.entries()) {
      if (row.cells[at][3]) row.line.querySelectorAll("td.number")[at].title = row.cells[at][3];
    }
  }
  let rank = 0;
  for (const row of [...shown].sort(byRank(view))) {
    const isRanked = row.kind === "method" && row.complete && valueOf(row, `f1-${view}`) !== null;
    rank += isRanked ? 1 : 0;
    row.rank = isRanked ? rank : null;
    row.line.querySelector("td.rank").textContent = isRanked ? rank : "";
  }
}

function showBoard(place, shown, choice) {
  boards.forEach((one, number) => { one.hidden = number !== place.number; });
  const body = boards[place.number].querySelector("tbody");
  closeDetail();
  for (const row of place.rows) row.line.hidden = true;
  const main = choice.view || "full";
  mark(place, shown, main);
  const sorted = ordered(shown, choice.sort, choice.isWorst, main);
  sorted.forEach((row, at) => {
    row.line.hidden = false;
    row.line.classList.toggle("first-of-kind", at > 0 && sorted[at - 1].kind !== row.kind);
  });
  body.append(...sorted.map((row) => row.line), ...place.rows.filter((row) => row.line.hidden).map((row) => row.line));
  for (const head of boards[place.number].querySelectorAll("th[data-head]")) {
    const sign = (place.heads.find((one) => one.name === choice.sort)?.best_first ?? 1) * (choice.isWorst ? -1 : 1);
    if (head.dataset.head === choice.sort) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
  return sorted;
}
