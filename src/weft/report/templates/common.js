// Numbers as text, elements and axes: what all pages share.

const number = (value) => {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e12 || Math.abs(value) < 1e-3) return value.toExponential(2);
  if (Number.isInteger(value) || Math.abs(value) >= 1e4) return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
  return String(Number(value.toPrecision(4)));
};
// Return a number as a short text for a scale: 3.67M for 3674160.
const compact = (value) => {
  const [unit, letter] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1, ""]].find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return unit > 1 ? `${Number((value / unit).toPrecision(3))}${letter}` : number(value);
};
const percent = (share) => `${Number((100 * share).toPrecision(3))}\u00a0%`;
const plural = (count, one, many = one + "s") => `${number(count)} ${count === 1 ? one : many}`;
// What a link carries, in the words of the page.
const amount = (value, { unit, counted }) => (counted ? plural(value, unit) : `${number(value)} ${unit}`);

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role" || key === "colspan" || key === "scope") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Labels under a colour scale from 0 to top; a label that would run into the next is left out.
function showTicks(box, ticks, top, text) {
  const labels = ticks.map((value) => {
    const label = element("span", {}, text(value));
    label.style.left = `${(100 * value) / top}%`;
    return label;
  });
  box.replaceChildren(...labels);
  let limit = Infinity;
  for (const label of labels.reverse()) {
    const { left, right, width } = label.getBoundingClientRect();
    if (width && right + 6 > limit) label.remove();
    else limit = left;
  }
}

// Black or white, whichever has more contrast to a colour (by WCAG 2, at least 4.5).
function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 ? "#ffffff" : "#000000";
}

const byId = (id) => document.getElementById(id);

// Patterns of the lines of series, which so differ without colours too.
const DASHES = ["", "7 4", "2 3", "10 3 2 3", "4 2", "12 4", "1 4"];

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Ticks over a span of about `count` steps, from a multiple of the step that is at most `low` on.
function niceTicks(top, count, low = 0) {
  const rough = top / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const ticks = [];
  for (let at = Math.floor(low / step); at * step <= low + top * 1.0001; at++) ticks.push(Number((at * step).toPrecision(12)));
  return ticks;
}
