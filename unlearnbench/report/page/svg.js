// Shapes, scales and axes.

const drawn = JSON.parse(document.getElementById("drawn").textContent);
const VIEWS = ["shard", "full"];

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Corners of a regular shape; with an inner radius every second corner lies there.
function corners(count, turn, inner = 1) {
  const all = inner === 1 ? count : 2 * count;
  return Array.from({ length: all }, (_, at) => {
    const angle = ((turn + (360 * at) / all) * Math.PI) / 180;
    const radius = at % 2 ? inner : 1;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  });
}

// A name that may end its line where a parameter begins.
function breakable(name) {
  return name.split(/(?<=[[=,])(?=\w)/).flatMap((part, at) => (at ? [html("wbr"), part] : [part]));
}

// A name cut into lines of a picture, which has no lines of its own: where a parameter begins, or at a blank.
function inLines(name, width) {
  const most = Math.max(1, Math.floor(width / 7));
  const lines = [""];
  for (const part of name.split(/(?<=[[=, ])(?=\S)/)) {
    if (lines.at(-1) && (lines.at(-1) + part).length > most) lines.push("");
    lines[lines.length - 1] += part;
  }
  return lines;
}

const PLUS = [[-1, -3], [1, -3], [1, -1], [3, -1], [3, 1], [1, 1], [1, 3], [-1, 3], [-1, 1], [-3, 1], [-3, -1], [-1, -1]].map(
  ([x, y]) => [x / 3, y / 3],
);
const SHAPES = {
  square: corners(4, 45), diamond: corners(4, 0), up: corners(3, -90), down: corners(3, 90), left: corners(3, 180),
  right: corners(3, 0), pentagon: corners(5, -90), hexagon: corners(6, 0), star: corners(5, -90, 0.45), plus: PLUS,
  cross: PLUS.map(([x, y]) => [(x - y) * Math.SQRT1_2, (x + y) * Math.SQRT1_2]),
};

// Hollow: not shown to forget; pale: not audited.
function marker(look, x, y, radius) {
  const isMethod = look.kind === "method";
  const common = isMethod && look.forgets === "no"
    ? { stroke: look.colour, class: "hollow" }
    : { fill: look.colour, class: "outlined", ...(isMethod && look.forgets === "unknown" ? { "fill-opacity": 0.35 } : {}) };
  if (!SHAPES[look.shape]) return svg("circle", { cx: x, cy: y, r: radius * 0.85, ...common });
  const points = SHAPES[look.shape].map(([dx, dy]) => `${x + radius * dx},${y + radius * dy}`).join(" ");
  return svg("polygon", { points, ...common });
}

function linear(low, high, from, to) {
  const scale = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  const raw = (high - low || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
  scale.ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) scale.ticks.push(at * step);
  return scale;
}

function logarithmic(low, high, from, to) {
  const scale = (value) => from + (Math.log(Math.max(value, low) / low) / Math.log(high / low)) * (to - from);
  const all = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const one of [1, 2, 5]) all.push(one * 10 ** power);
  }
  const inside = all.filter((one) => one >= low * 0.999 && one <= high * 1.001);
  const tens = inside.filter((one) => Math.abs(Math.log10(one) - Math.round(Math.log10(one))) < 1e-9);
  scale.ticks = inside.length > 6 && tens.length > 1 ? tens : inside;
  return scale;
}

const shownNumber = (value) => String(Number(value.toPrecision(3)));

function text(x, y, content, attributes = {}) {
  return svg("text", { x, y, ...attributes }, content);
}

// The frame of a plot: grid, axes, ticks and titles.
function frame(box, x, y, titles) {
  const parts = [];
  for (const tick of x.ticks) {
    parts.push(svg("line", { x1: x(tick), x2: x(tick), y1: box.top, y2: box.bottom, class: "grid" }));
    parts.push(text(x(tick), box.bottom + 16, shownNumber(tick), { "text-anchor": "middle", class: "soft" }));
  }
  for (const tick of y.ticks) {
    parts.push(svg("line", { x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), class: "grid" }));
    parts.push(text(box.left - 6, y(tick) + 4, shownNumber(tick), { "text-anchor": "end", class: "soft" }));
  }
  parts.push(svg("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "axis" }));
  parts.push(text((box.left + box.right) / 2, box.bottom + 34, titles[0], { "text-anchor": "middle", class: "soft" }));
  parts.push(text(2, 12, titles[1], { class: "soft" }));
  return parts;
}

let figures = 0;

// A figure with its caption and, for those who do not see it, what it shows.
function figure(width, height, caption, description, parts, below = []) {
  figures += 1;
  const id = `figure-${figures}`;
  const picture = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": `${id}-title ${id}-description` },
    svg("title", { id: `${id}-title` }, caption), svg("desc", { id: `${id}-description` }, description), ...parts,
  );
  return html("figure", {}, html("figcaption", {}, caption), picture, ...below);
}

const ruler = document.createElement("canvas").getContext("2d");

function widthOf(label) {
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(label).width;
}

// A text cut to a width.
function clipped(label, width) {
  let short = label;
  while (short.length > 4 && widthOf(short) > width) short = `${short.slice(0, -2)}…`;
  return short;
}

const overlaps = (a, b) => a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1];

// Names beside points, where there is room: first right beside them, then farther away with a line that leads there, or
// else nowhere. One longer than half of the figure would hide more than it says.
function labels(places, box, lines = []) {
  const taken = places.map(({ x, y }) => [x - 8, y - 8, x + 8, y + 8]);
  const parts = [];
  for (const { x, y, name } of places) {
    const width = widthOf(name);
    if (width > (box.right - box.left) / 2) continue;
    const found = spots(x, y, width).find(({ around }) => {
      const isInside = around[0] >= box.left && around[2] <= box.right + box.margin && around[1] >= box.top - 4 && around[3] <= box.bottom;
      return isInside && ![...taken, ...lines].some((one) => overlaps(one, around));
    });
    if (!found) continue;
    taken.push(found.around);
    if (found.lead) parts.push(svg("line", { x1: x, y1: y, x2: found.lead[0], y2: found.lead[1], class: "lead" }));
    parts.push(text(found.around[0], found.around[3] - 3, name, { class: "halo" }));
  }
  return parts;
}

// Where a name may stand, the nearest places first.
function spots(x, y, width) {
  const near = [[x + 11, y - 8], [x - 11 - width, y - 8], [x - width / 2, y - 25], [x - width / 2, y + 9]];
  const found = near.map(([left, top]) => ({ around: [left, top, left + width, top + 16] }));
  for (const far of [26, 40, 56, 74]) {
    for (const angle of [-40, 40, -140, 140, -70, 70, -110, 110, -15, 15, -165, 165]) {
      const [dx, dy] = [far * Math.cos((angle * Math.PI) / 180), far * Math.sin((angle * Math.PI) / 180)];
      const left = dx > 0 ? x + dx : x + dx - width;
      found.push({ around: [left, y + dy - 8, left + width, y + dy + 8], lead: [x + dx * 0.96, y + dy] });
    }
  }
  return found;
}
