// Tests of the rows that are shown: the formulas of unlearnbench.statistics.

// Two-sided p-value of Student's t with a whole number of degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
function studentP(t, freedom) {
  const angle = Math.atan(Math.abs(t) / Math.sqrt(freedom));
  const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
  const isOdd = freedom % 2 === 1;
  let term = isOdd ? cosine : 1;
  let sum = freedom === 1 ? 0 : term;
  for (let at = isOdd ? 3 : 2; at < freedom; at += 2) {
    term *= ((at - 1) / at) * cosine * cosine;
    sum += term;
  }
  const inside = isOdd ? (2 / Math.PI) * (angle + sine * sum) : sine * sum;
  return Math.max(0, 1 - inside);
}

// The t that leaves .05 outside on both sides together.
function studentLimit(freedom) {
  let [low, high] = [0, 1000];
  for (let step = 0; step < 80; step += 1) {
    const middle = (low + high) / 2;
    if (studentP(middle, freedom) > 0.05) low = middle;
    else high = middle;
  }
  return high;
}

const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// The corrected paired t-test of Nadeau and Bengio; null where it cannot be made.
function paired(differences, ratio) {
  const n = differences.length;
  if (n < 2 || ratio === null) return null;
  const mean = meanOf(differences);
  const deviation = Math.sqrt(differences.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (n - 1));
  if (deviation < 1e-12) return { n, mean, low: mean, high: mean, p: Math.abs(mean) < 1e-12 ? 1 : 0 };
  const error = deviation * Math.sqrt(1 / n + ratio);
  const reach = studentLimit(n - 1) * error;
  return { n, mean, low: mean - reach, high: mean + reach, p: studentP(mean / error, n - 1) };
}

function holm(values) {
  const adjusted = values.map(() => null);
  const known = values.map((p, at) => [p, at]).filter(([p]) => p !== null).sort((a, b) => a[0] - b[0]);
  let least = 0;
  known.forEach(([p, at], before) => {
    least = Math.max(least, Math.min(1, (known.length - before) * p));
    adjusted[at] = least;
  });
  return adjusted;
}

// Ranks of numbers, the largest first; equal ones share the mean of their ranks.
function ranksOf(values) {
  return values.map((value) => {
    const above = values.filter((one) => one > value).length;
    return above + (values.filter((one) => one === value).length + 1) / 2;
  });
}

// How far apart the mean ranks of k methods on n data sets must be (Nemenyi); null beyond the table.
function criticalDifference(k, n) {
  const quantile = drawn.nemenyi[k - 2];
  return quantile === undefined ? null : quantile * Math.sqrt((k * (k + 1)) / (6 * n));
}
