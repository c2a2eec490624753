// F1 against time, time per phase, time against deletions.

const MOST = 6;
const ALIKE = 3;
const spreadOf = (pair) => pair[1] ?? 0;

// Many rows of one look tell a reader nothing apart: they are folded under what their names have in common.
function legend(looks) {
  const kind = (one) => one.name.split(/[ [(]/)[0];
  const alike = new Map();
  for (const one of looks) {
    const look = one.tag ? one.name : `${one.colour} ${one.shape} ${kind(one)}`;
    alike.set(look, [...(alike.get(look) ?? []), one]);
  }
  const items = [...alike.values()].flatMap((rows) => {
    const marked = (...parts) => {
      const mark = svg("svg", { width: 14, height: 14, class: "marker", "aria-hidden": "true" }, marker(rows[0], 7, 7, 6.5));
      return html("li", {}, mark, ...parts);
    };
    const said = rows.map((one) => `${one.tag ? `${one.tag} ` : ""}${one.said ?? one.name}`);
    if (rows.length > ALIKE) return [marked(folded(`${kind(rows[0])}, ${rows.length} rows`, said))];
    return said.map((one) => marked(html("span", {}, ...breakable(one))));
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

function timeFigure(group, view, width) {
  const points = group.points[view];
  const caption = `${group.name}, view ${view}`;
  const missing = Object.entries(group.lacking[view]).map(([name, why]) => `${name} (${why})`);
  const notes = leftOut("Not drawn", missing);
  if (!points.length) return html("figure", {}, html("figcaption", {}, caption), ...notes);
  const box = { left: 40, right: width - 14, top: 24, bottom: 290, margin: 12 };
  const lows = points.map(({ x }) => Math.max(x[0] - spreadOf(x), x[0] / 2));
  const x = logarithmic(Math.min(...lows) / 1.25, Math.max(...points.map((p) => p.x[0] + spreadOf(p.x))) * 1.25, box.left, box.right);
  // One axis for both views, so that they can be compared.
  const scores = VIEWS.flatMap((one) => group.points[one]);
  const lowest = 100 * Math.min(...scores.map((one) => one.y[0] - spreadOf(one.y)));
  const highest = 100 * Math.max(...scores.map((one) => one.y[0] + spreadOf(one.y)));
  const room = Math.max(1, (highest - lowest) * 0.08);
  const y = linear(Math.max(0, lowest - room), Math.min(100, highest + room), box.bottom, box.top);
  const parts = frame(box, x, y, ["unlearning time, s", "micro-F1, %"]);
  const base = points.find((one) => one.name === "retrain");
  if (base) {
    parts.push(svg("line", { x1: x(base.x[0]), x2: x(base.x[0]), y1: box.top, y2: box.bottom, class: "guide" }));
    parts.push(svg("line", { x1: box.left, x2: box.right, y1: y(100 * base.y[0]), y2: y(100 * base.y[0]), class: "guide" }));
  }
  for (const one of points) {
    const [cx, cy] = [x(one.x[0]), y(100 * one.y[0])];
    if (one.x[1] !== null) parts.push(svg("line", { x1: x(one.x[0] - one.x[1]), x2: x(one.x[0] + one.x[1]), y1: cy, y2: cy, class: "spread" }));
    if (one.y[1] !== null) parts.push(svg("line", { x1: cx, x2: cx, y1: y(100 * (one.y[0] - one.y[1])), y2: y(100 * (one.y[0] + one.y[1])), class: "spread" }));
  }
  const said = points.map((one) => `${one.name}: ${(100 * one.y[0]).toFixed(2)} % in ${shown(one.x[0])} s`);
  points.forEach((one, at) => {
    const point = marker(one, x(one.x[0]), y(100 * one.y[0]), 7);
    point.append(svg("title", {}, said[at]));
    parts.push(point);
  });
  parts.push(...labels(points.map((one) => ({ x: x(one.x[0]), y: y(100 * one.y[0]), name: one.tag ?? one.name })), box));
  return figure(width, 330, caption, said.concat(missing.map((one) => `not drawn: ${one}`)).join("; "), parts, [legend(points), ...notes]);
}

function phasesFigure(group, moment, width) {
  const rows = group.stacks[moment];
  const caption = `${group.name}, ${moment === "fit" ? "first training" : "unlearning"}`;
  if (!rows.length) return html("figure", {}, html("figcaption", {}, caption), html("p", { class: "small" }, "No times."));
  const box = { left: 4, right: width - 64, top: 4, bottom: 10 };
  const x = linear(0, Math.max(...rows.map((one) => one.whole)), box.left, box.right);
  const parts = [];
  const said = rows.map((row) => {
    const name = inLines(row.name, width - box.left);
    name.forEach((line, down) => parts.push(text(box.left, box.bottom + 6 + down * 15, line)));
    const top = box.bottom - 6 + (name.length - 1) * 15;
    box.bottom = top + 44;
    let left = 0;
    const told = [];
    for (const phase of drawn.phases[moment]) {
      const seconds = row.parts[phase] ?? 0;
      const isThin = x(seconds) - x(0) < 1.5;
      if (seconds > 0) told.push(`${phase} ${shown(seconds)} s`);
      left += isThin && row.whole > seconds ? seconds : 0;
      if (isThin && row.whole > seconds) continue;
      parts.push(svg("rect", {
        x: x(left), y: top + 17, width: Math.max(0.5, x(left + seconds) - x(left)), height: 14, fill: row.colour,
        "fill-opacity": drawn.shades[phase], class: "outlined",
      }, svg("title", {}, `${row.name}, ${phase}: ${shown(seconds)} s`)));
      left += seconds;
    }
    parts.push(text(x(left) + 6, top + 29, `${shown(row.whole)} s`, { class: "soft" }));
    return `${row.name}: ${shown(row.whole)} s (${told.join(", ")})`;
  });
  return figure(width, box.bottom, caption, said.join("; "), parts);
}

function phasesLegend() {
  const named = new Map();
  for (const phase of Object.values(drawn.phases).flat()) {
    const shade = drawn.shades[phase];
    named.set(shade, (named.get(shade) ?? new Set()).add(phase));
  }
  return [...named].sort((a, b) => b[0] - a[0]).map(([shade, names]) => {
    const swatch = svg("rect", { x: 1, y: 1, width: 12, height: 12, fill: "#5A5A5A", "fill-opacity": shade, class: "outlined" });
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
  const base = curve.lines.find(({ said }) => said === "");
  for (const one of curve.lines) {
    const path = one.line.map(([count, mean]) => `${x(count)},${y(mean)}`).join(" ");
    parts.push(svg("polyline", { points: path, fill: "none", stroke: one.colour, "stroke-width": 2 }));
    for (const [count, mean, sd] of one.line) {
      if (sd !== null) parts.push(svg("line", { x1: x(count), x2: x(count), y1: y(mean - sd), y2: y(mean + sd), class: "spread" }));
      const mark = marker(one, x(count), y(mean), 6);
      mark.append(svg("title", {}, `${one.name}: ${shown(mean)} s for ${count}`));
      marks.push(mark);
    }
    if (base && one.even > 0) {
      const place = { cx: x(one.even), cy: y(between(base.line, one.even)), r: 9 };
      marks.push(svg("circle", { ...place, class: "ring" }, svg("title", {}, `${one.name}: Retrain is as fast from ${shown(one.even)} on`)));
    }
  }
  const ends = curve.lines.filter((one) => one.tag).map((one) => ({ x: x(one.line.at(-1)[0]), y: y(one.line.at(-1)[1]), name: one.tag }));
  marks.push(...labels(ends, box));
  const said = curve.lines.map((one) => {
    const times = one.line.map(([count, mean]) => `${shown(mean)} s for ${count}`).join(", ");
    return `${one.name}: ${times}${one.said ? `; break-even: ${one.said}` : ""}`;
  });
  const looks = curve.lines.map((one) => ({ ...one, said: one.said ? `${one.name} (break-even: ${one.said})` : one.name }));
  const notes = leftOut("Not drawn, with one number of deletions", curve.lacking);
  return figure(width, 330, curve.name, said.join("; "), [...parts, ...marks], [legend(looks), ...notes]);
}

// A height on a line between its points; both axes are logarithmic, the line is straight on them.
function between(line, count) {
  for (let at = 1; at < line.length; at += 1) {
    const [[left, low], [right, high]] = [line[at - 1], line[at]];
    if (count <= right) return low * (high / low) ** (Math.log(count / left) / Math.log(right / left));
  }
  return line[line.length - 1][1];
}

function redraw(groups, curves, view) {
  const probe = document.getElementById("time");
  probe.replaceChildren(html("figure"));
  const width = Math.min(600, probe.firstChild.clientWidth);
  const some = groups.slice(0, MOST);
  const rest = groups.length > MOST ? [html("p", { class: "notice" }, `${groups.length - MOST} more groups match; choose a dataset and a model to see them.`)] : [];
  const views = view ? [view] : VIEWS;
  const fill = (id, parts) => document.getElementById(id).replaceChildren(...parts);
  fill("time", [...some.flatMap((group) => views.map((one) => timeFigure(group, one, width))), ...rest]);
  fill("phases", [...some.flatMap((group) => Object.keys(drawn.phases).map((one) => phasesFigure(group, one, width))), ...rest.map((one) => one.cloneNode(true))]);
  fill("cost", curves.slice(0, MOST).map((one) => costFigure(one, width)));
}
