// F1 against time, time per phase, time against deletions.

const MOST = 6;
const spreadOf = (pair) => pair[1] ?? 0;
const looksOf = (place, points) => points.map(([name, ...rest]) => ({ row: place.byRow.get(name), name, rest })).filter(({ row }) => row);

// Many rows of one method tell a reader nothing apart: they are one line. A click hides the method.
function legend(rows, hidden) {
  const methods = new Map();
  for (const row of rows) methods.set(row.method, [...(methods.get(row.method) ?? []), row]);
  const items = [...methods].map(([method, some]) => {
    const mark = svg("svg", { width: 14, height: 14, class: "marker", "aria-hidden": "true" }, marker(some[0], 7, 7, 6.5));
    const name = some.length > 1 ? `${method}, ${some.length} rows` : some[0].label;
    const button = html("button", { type: "button", "aria-pressed": String(!hidden.has(method)), "data-method": method, title: hidden.has(method) ? "Show" : "Hide" }, mark, html("span", {}, ...breakable(name)));
    return html("li", {}, button);
  });
  return html("ul", { class: "legend" }, ...items);
}

function folded(title, names) {
  return html("details", {}, html("summary", {}, title), html("ul", {}, ...names.map((one) => html("li", {}, ...breakable(one)))));
}

// What a figure leaves out: said in a line, or folded where it would be a column of names.
function leftOut(title, names) {
  if (!names.length) return [];
  if (names.length > MOST) return [folded(`${title}: ${names.length} methods`, names)];
  return [html("p", { class: "small" }, ...breakable(`${title}: ${names.join(", ")}.`))];
}

// The mean of F1 with its standard deviation, 0 to 1; null without a mean.
function scoreOf(row, view) {
  const cell = row.cells[row.place.heads.findIndex((head) => head.name === `f1-${view}`)];
  if (cell[0] === null) return null;
  const spread = Number.parseFloat((cell[2] ?? "").replace("± ", ""));
  return [cell[0], Number.isNaN(spread) ? null : spread / 100];
}

function timeFigure(place, view, width, { shown, legendRows, hidden, hasControls }) {
  // Ratios to Retrain stand for times of several machines; without Retrain there are seconds alone.
  const time = shown.some((row) => valueOf(row, "ratio") !== null) ? "ratio" : "seconds";
  const all = shown.map((row) => ({ row, name: row.row, x: valueOf(row, time), y: scoreOf(row, view) }));
  const isDrawn = ({ row, x, y }) => x > 0 && y !== null && (hasControls || row.kind !== "control");
  const points = all.filter(isDrawn);
  const caption = `${place.name}, view ${view}`;
  const missing = all.filter((one) => !isDrawn(one)).map(({ row, name, x, y }) => `${name} (${row.bad || (y === null ? "no F1" : x > 0 ? "a control" : "no time")})`);
  const notes = [legend(legendRows, hidden), ...leftOut("Not drawn", missing)];
  if (!points.length) return html("figure", {}, html("figcaption", {}, caption), ...notes);
  const box = { left: 44, right: width - 14, top: 24, bottom: 310, margin: 12 };
  const x = logarithmic(Math.min(...points.map((one) => one.x)) / 1.5, Math.max(...points.map((one) => one.x)) * 1.5, box.left, box.right);
  // One axis for both views, so that they can be compared.
  const scores = VIEWS.flatMap((one) => points.map(({ row }) => scoreOf(row, one))).filter((one) => one !== null);
  const lowest = 100 * Math.min(...scores.map((one) => one[0] - spreadOf(one)));
  const highest = 100 * Math.max(...scores.map((one) => one[0] + spreadOf(one)));
  const room = Math.max(1, (highest - lowest) * 0.08);
  const y = linear(Math.max(0, lowest - room), Math.min(100, highest + room), box.bottom, box.top);
  const parts = frame(box, x, y, [time === "ratio" ? "unlearning time relative to Retrain" : "unlearning time, s", "F1, %"]);
  const base = points.find((one) => one.name === "retrain");
  const lines = [];
  if (base) {
    parts.push(svg("line", { x1: x(base.x), x2: x(base.x), y1: box.top, y2: box.bottom, class: "guide" }));
    parts.push(svg("line", { x1: box.left, x2: box.right, y1: y(100 * base.y[0]), y2: y(100 * base.y[0]), class: "guide" }));
  }
  for (const one of points) {
    const cx = x(one.x);
    if (one.y[1] !== null) {
      const ends = [y(100 * (one.y[0] + one.y[1])), y(100 * (one.y[0] - one.y[1]))];
      parts.push(svg("line", { x1: cx, x2: cx, y1: ends[0], y2: ends[1], class: "spread" }));
      lines.push([cx - 1, ends[0], cx + 1, ends[1]]);
    }
  }
  const descriptions = points.map((one) => `${one.name}: ${(100 * one.y[0]).toFixed(2)} % in ${shownNumber(one.x)} ${time === "ratio" ? "of Retrain's time" : "s"}${one.row.kind === "method" ? `, ${drawn.words[one.row.forgets]}` : ""}`);
  const places = points.map((one) => ({ x: x(one.x), y: y(100 * one.y[0]), name: one.row.label }));
  parts.push(...labels(places, box, lines));
  points.forEach((one, at) => {
    const point = marker(one.row, places[at].x, places[at].y, 7);
    point.append(svg("title", {}, descriptions[at]));
    parts.push(point);
  });
  return figure(width, 350, caption, descriptions.concat(missing.map((one) => `not drawn: ${one}`)).join("; "), parts, notes);
}

function phasesFigure(place, moment, width, { shown }) {
  const wanted = new Set(shown);
  const rows = looksOf(place, place.stacks[moment]).filter(({ row }) => wanted.has(row)).map(({ name, rest }) => ({ name, whole: rest[0], parts: rest[1] }));
  const caption = `${place.name}, ${moment === "fit" ? "first training" : "unlearning"}`;
  if (!rows.length) return html("figure", {}, html("figcaption", {}, caption), html("p", { class: "small" }, "No times."));
  const box = { left: 4, right: width - 64, top: 4, bottom: 10 };
  const x = linear(0, Math.max(...rows.map((one) => one.whole)), box.left, box.right);
  const parts = [];
  const descriptions = rows.map((row) => {
    const name = inLines(row.name, width - box.left);
    name.forEach((line, down) => parts.push(text(box.left, box.bottom + 6 + down * 15, line)));
    const top = box.bottom - 6 + (name.length - 1) * 15;
    box.bottom = top + 44;
    let left = 0;
    const told = [];
    for (const phase of drawn.phases[moment]) {
      const seconds = row.parts[phase] ?? 0;
      const isThin = x(seconds) - x(0) < 1.5;
      if (seconds > 0) told.push(`${phase} ${shownNumber(seconds)} s`);
      left += isThin && row.whole > seconds ? seconds : 0;
      if (isThin && row.whole > seconds) continue;
      parts.push(svg("rect", {
        x: x(left), y: top + 17, width: Math.max(0.5, x(left + seconds) - x(left)), height: 14,
        "fill-opacity": drawn.shades[phase], class: "phase",
      }, svg("title", {}, `${row.name}, ${phase}: ${shownNumber(seconds)} s`)));
      left += seconds;
    }
    parts.push(text(x(left) + 6, top + 29, `${shownNumber(row.whole)} s`, { class: "soft" }));
    return `${row.name}: ${shownNumber(row.whole)} s (${told.join(", ")})`;
  });
  return figure(width, box.bottom, caption, descriptions.join("; "), parts);
}

function phasesLegend() {
  const named = new Map();
  for (const phase of Object.values(drawn.phases).flat()) {
    const shade = drawn.shades[phase];
    named.set(shade, (named.get(shade) ?? new Set()).add(phase));
  }
  return [...named].sort((a, b) => b[0] - a[0]).map(([shade, names]) => {
    const swatch = svg("rect", { x: 1, y: 1, width: 12, height: 12, "fill-opacity": shade, class: "phase" });
    const box = svg("svg", { width: 14, height: 14, class: "marker", "aria-hidden": "true" }, swatch);
    return html("li", {}, box, html("span", {}, [...names].join(", ")));
  });
}

function costFigure(curve, width) {
  const box = { left: 46, right: width - 14, top: 24, bottom: 290, margin: 12 };
  const points = curve.lines.flatMap(({ line }) => line);
  const counts = points.map(([count]) => count);
  const x = logarithmic(Math.min(...counts) / 1.15, Math.max(...counts) * 1.15, box.left, box.right);
  x.ticks = [...new Set(counts)].sort((a, b) => a - b);
  const lows = points.map(([, mean, sd]) => Math.max(mean - (sd ?? 0), mean / 2));
  const y = logarithmic(Math.min(...lows) / 1.15, Math.max(...points.map(([, mean, sd]) => mean + (sd ?? 0))) * 1.15, box.bottom, box.top);
  const parts = frame(box, x, y, ["deletions in one request", "unlearning time, s"]);
  const marks = [];
  const base = curve.lines.find(({ break_even: even }) => even === "");
  for (const one of curve.lines) {
    const path = one.line.map(([count, mean]) => `${x(count)},${y(mean)}`).join(" ");
    parts.push(svg("polyline", { points: path, fill: "none", stroke: one.colour, "stroke-width": 2 }));
    for (const [count, mean, sd] of one.line) {
      if (sd !== null) parts.push(svg("line", { x1: x(count), x2: x(count), y1: y(mean - sd), y2: y(mean + sd), class: "spread" }));
      const mark = marker(one, x(count), y(mean), 6);
      mark.append(svg("title", {}, `${one.name}: ${shownNumber(mean)} s for ${count}`));
      marks.push(mark);
    }
    if (base && one.even > 0) {
      const place = { cx: x(one.even), cy: y(between(base.line, one.even)), r: 9 };
      marks.push(svg("circle", { ...place, class: "ring" }, svg("title", {}, `${one.name}: Retrain is as fast from ${shownNumber(one.even)} on`)));
    }
  }
  const ends = curve.lines.filter((one) => one.tag).map((one) => ({ x: x(one.line.at(-1)[0]), y: y(one.line.at(-1)[1]), name: one.tag }));
  marks.push(...labels(ends, box));
  const descriptions = curve.lines.map((one) => {
    const times = one.line.map(([count, mean]) => `${shownNumber(mean)} s for ${count}`).join(", ");
    return `${one.name}: ${times}${one.break_even ? `; break-even: ${one.break_even}` : ""}`;
  });
  const looks = curve.lines.map((one) => ({ ...one, label: one.break_even ? `${one.name} (break-even: ${one.break_even})` : one.name }));
  const notes = leftOut("Not drawn, with one number of deletions", curve.lacking);
  const items = looks.map((one) => html("li", {}, svg("svg", { width: 14, height: 14, class: "marker", "aria-hidden": "true" }, marker(one, 7, 7, 6.5)), html("span", {}, ...breakable(one.tag ? `${one.tag} ${one.label}` : one.label))));
  return figure(width, 330, curve.name, descriptions.join("; "), [...parts, ...marks], [html("ul", { class: "legend" }, ...items), ...notes]);
}

// A height on a line between its points; both axes are logarithmic, the line is straight on them.
function between(line, count) {
  for (let at = 1; at < line.length; at += 1) {
    const [[left, low], [right, high]] = [line[at - 1], line[at]];
    if (count <= right) return low * (high / low) ** (Math.log(count / left) / Math.log(right / left));
  }
  return line[line.length - 1][1];
}

function redraw(place, curves, state) {
  const probe = document.getElementById("time");
  probe.replaceChildren(html("figure"));
  const width = Math.min(620, probe.firstChild.clientWidth);
  const views = state.view ? [state.view] : [...VIEWS].reverse();
  const fill = (id, parts) => document.getElementById(id).replaceChildren(...parts);
  fill("time", views.map((one) => timeFigure(place, one, width, state)));
  fill("phases", Object.keys(drawn.phases).map((one) => phasesFigure(place, one, width, state)));
  fill("cost", curves.slice(0, MOST).map((one) => costFigure(one, width)));
}
