// The view as a file, and text for the clipboard.

async function copy(content, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(content);
  } catch {
    const area = html("textarea", { readonly: "", class: "copied" });
    area.value = content;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1200);
}

function save(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  const link = html("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const csvCell = (value) => {
  const content = value === null || value === undefined ? "" : String(value);
  return /[",\n]/.test(content) ? `"${content.replaceAll('"', '""')}"` : content;
};
const csvText = (lines) => `${lines.map((line) => line.map(csvCell).join(",")).join("\n")}\n`;

const LATEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "−": "$-$", "–": "--", "ε": "$\\epsilon$", "†": "$\\dagger$", "○": "$\\circ$" };
const latexCell = (content) => String(content).replace(/[\\~^±−–ε†○]|[&%$#_{}]|-(?=[.\d])/g, (one) => LATEX[one] ?? (one === "-" ? "$-$" : `\\${one}`));

function latexText(caption, label, heads, lines) {
  return [
    "% Needs \\usepackage{booktabs}.", "\\begin{table}", "\\centering", `\\caption{${latexCell(caption)}}`, `\\label{${label}}`,
    `\\begin{tabular}{l${"r".repeat(heads.length - 1)}}`, "\\toprule", `${heads.map(latexCell).join(" & ")} \\\\`, "\\midrule",
    ...lines.map((line) => `${line.join(" & ")} \\\\`), "\\bottomrule", "\\end{tabular}", "\\end{table}", "",
  ].join("\n");
}

const fileName = (...parts) => parts.join("-").replace(/[^\w.]+/g, "-").replace(/-+$/, "");

function boardCsv(place, shown) {
  const heads = place.heads.flatMap((head) => [head.name, ...(head.kind === "score" ? [`${head.name} sd`] : [])]);
  const lines = shown.map((row) => [
    place.dataset, place.model, place.request, row.rank, row.label, row.kind, row.claim, row.verdict, row.forgets,
    ...place.heads.flatMap((head, at) => [row.cells[at][0], ...(head.kind === "score" ? [row.cells[at][2]?.replace("± ", "")] : [])]),
  ]);
  return csvText([["dataset", "model", "request", "rank", "method", "kind", "claim", "verdict", "forgets", ...heads], ...lines]);
}

function boardLatex(place, shown, heads) {
  const lines = shown.map((row) => [
    latexCell(row.label) + (row.kind === "method" && row.forgets === "no" ? " $\\circ$" : ""),
    ...heads.map((at) => {
      const cell = row.line.querySelectorAll("td.number")[at];
      const content = latexCell([row.cells[at][1], place.heads[at].kind === "score" ? row.cells[at][2] : ""].filter(Boolean).join(" "));
      return cell.classList.contains("best") ? `\\textbf{${content}}` : cell.classList.contains("near") ? `\\underline{${content}}` : content;
    }),
  ]);
  const caption = `${place.name}. Bold: the best; underlined: not distinguishable from it (corrected paired t-test, Holm); ○: not shown to forget.`;
  return latexText(caption, `tab:${fileName(place.dataset, place.model)}`, ["method", ...heads.map((at) => place.heads[at].title)], lines);
}
