// Plots of a study as SVG elements whose attributes hold all of their style, so that a saved one is complete.

// Outlines of markers about (0, 0), of about equal area.
const MARKERS = [
  "M4 0A4 4 0 1 1 -4 0A4 4 0 1 1 4 0Z", "M-3.6 -3.6H3.6V3.6H-3.6Z", "M0 -4.8L4.6 3.6H-4.6Z", "M0 -5L5 0L0 5L-5 0Z",
  "M0 4.8L4.6 -3.6H-4.6Z", "M-1.5 -4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z", "M0 -5L1.5 -1.6L5 -1.4L2.3 .9L3.1 4.5L0 2.5L-3.1 4.5L-2.3 .9L-5 -1.4L-1.5 -1.6Z",
];
const TEXT = 12;
const seriesStyle = (colours, at) => ({
  colour: colours.series[at % colours.series.length],
  dash: DASHES[(at + Math.floor(at / DASHES.length)) % DASHES.length], marker: MARKERS[(at + 2 * Math.floor(at / MARKERS.length)) % MARKERS.length],
});

// A picture of a width; its height is set when it is finished.
class Picture {
  constructor(width, colours, label) {
    Object.assign(this, { width, colours });
    this.root = svg("svg", { xmlns: SVG, role: "img", "aria-label": label, "font-family": "system-ui, 'DejaVu Sans', sans-serif", "font-size": TEXT });
    this.background = this.add("rect", { width, fill: colours.page });
  }

  add(tag, attributes, title) {
    const made = svg(tag, attributes);
    if (title) made.append(svg("title", {}, title));
    this.root.append(made);
    return made;
  }

  text(x, y, text, more = {}) {
    const made = svg("text", { x: round(x), y: round(y), fill: this.colours.muted, ...more }, text);
    this.root.append(made);
    return made;
  }

  line(x1, y1, x2, y2, more = {}) {
    return this.add("line", { x1: round(x1), y1: round(y1), x2: round(x2), y2: round(y2), stroke: this.colours.muted, ...more });
  }

  marker(x, y, style, hollow, title) {
    return this.add("path", { d: style.marker, transform: `translate(${round(x)} ${round(y)})`, fill: hollow ? this.colours.page : style.colour, stroke: style.colour, "stroke-width": 1.6 }, title);
  }

  finish(height) {
    this.root.setAttribute("viewBox", `0 0 ${this.width} ${Math.ceil(height)}`);
    this.background.setAttribute("height", Math.ceil(height));
    return this.root;
  }

  // Names of series with their line and marker, from y on; return the lower end.
  legend(y, names, lines = true) {
    const wide = 46 + Math.min(this.width - 60, Math.max(...names.map(widthOf), 0));
    let x = 14;
    names.forEach((name, at) => {
      const style = seriesStyle(this.colours, at), shown = clipped(name, this.width - 70);
      if (x > 14 && x + wide > this.width) { x = 14; y += 20; }
      if (lines) this.line(x, y + 8, x + 28, y + 8, { stroke: style.colour, "stroke-width": 2, "stroke-dasharray": style.dash });
      this.marker(x + 14, y + 8, style, false);
      this.text(x + 34, y + 12, shown, { fill: this.colours.ink });
      x += wide;
    });
    return names.length ? y + 26 : y;
  }

  // A frame with both axes; return its scales and edges.
  frame(x, y, height) {
    const { width, colours } = this;
    const ticksY = ticksOf(y, 5), left = 22 + Math.max(...ticksY.map((value) => widthOf(compact(value))), 20) + 8;
    const box = { left, right: width - 16, top: 12, bottom: height - 42 };
    const toX = scaleOf(x, box.left, box.right), toY = scaleOf(y, box.bottom, box.top);
    for (const value of ticksY) {
      this.line(box.left, toY(value), box.right, toY(value), { stroke: colours.line });
      this.text(box.left - 6, toY(value) + 4, compact(value), { "text-anchor": "end" });
    }
    let end = -Infinity;
    for (const value of x.ticks ?? ticksOf(x, Math.max(3, Math.floor((box.right - box.left) / 90)))) {
      const text = compact(value), half = widthOf(text) / 2;
      this.line(toX(value), box.bottom, toX(value), box.bottom + 5);
      if (toX(value) - half < end + 6) continue;
      end = toX(value) + half;
      this.text(toX(value), box.bottom + 18, text, { "text-anchor": "middle" });
    }
    this.line(box.left, box.bottom, box.right, box.bottom);
    this.text((box.left + box.right) / 2, height - 6, x.title, { "text-anchor": "middle" });
    this.text(0, 0, y.title, { "text-anchor": "middle", transform: `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)` });
    return { toX, toY, box };
  }
}

const round = (value) => Math.round(value * 10) / 10;
const widthOf = (text) => 6.7 * text.length;
const shortened = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.ceil(most * 0.6) - 1)}…${text.slice(text.length - Math.floor(most * 0.4))}`);
// Shorten a label to a width: the longest of its parts first, so that every part can still be told.
function clipped(text, room) {
  const most = Math.max(5, Math.floor(room / 6.7)), parts = text.split(" · ");
  for (let over = text.length - most; over > 0; over = parts.join(" · ").length - most) {
    const lengths = parts.map((part) => part.length), longest = lengths.indexOf(Math.max(...lengths));
    if (lengths[longest] <= 5) return shortened(parts.join(" · "), most);
    parts[longest] = shortened(parts[longest], Math.max(5, lengths[longest] - over));
  }
  return parts.join(" · ");
}
// Four significant digits, with zeros at the end.
const four = (value) => (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4 ? value.toPrecision(4).replace(/\.$/, "") : number(value));
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
// Geometric mean, or the arithmetic mean if a value is not positive.
const average = (values, ratios) => (ratios ? Math.exp(mean(values.map(Math.log))) : mean(values));

function scaleOf({ low, high, log }, from, to) {
  const at = log ? Math.log : (value) => value, span = at(high) - at(low) || 1;
  return (value) => from + ((to - from) * (at(value) - at(low))) / span;
}

function ticksOf({ low, high, log }, count) {
  if (!log) return niceTicks(high - low || 1, count, low).filter((value) => value >= low && value <= high + 1e-9 * Math.abs(high));
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const part of Math.log10(high / low) > 3 ? [1] : [1, 2, 5]) ticks.push(part * 10 ** power);
  }
  return ticks.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

// Range of an axis that holds values: from zero if they vary enough and `zero` is set; logarithmic if they vary much.
function rangeOf(values, title, zero, room = 0.06) {
  const known = values.filter(Number.isFinite);
  let low = Math.min(...known), high = Math.max(...known);
  if (low > 0 && high / low > 30) return { low: low / 1.2, high: high * 1.2, log: true, title: `${title}, log scale` };
  if (zero && low >= 0 && low < 0.6 * high) low = 0;
  const pad = (high - low || Math.abs(high) || 1) * room;
  return { low: low === 0 ? 0 : low - pad, high: high + pad, log: false, title };
}

function barPlot({ width, colours }, rows, title, best) {
  const above = width < 560, room = above ? 0 : Math.min(0.46 * width, 20 + Math.max(...rows.map((row) => widthOf(row.label))));
  const picture = new Picture(width, colours, `${title}: one bar per point with its 95 % interval; the table has the numbers.`);
  const left = above ? 14 : room, right = width - 96, step = above ? 42 : 24;
  const ends = rows.map((row) => row.mean + (row.ci95 || 0)), least = Math.min(0, ...rows.map((row) => row.mean - (row.ci95 || 0)));
  const toX = scaleOf({ low: least, high: Math.max(...ends, 0) || 1 }, left, right);
  picture.text(left, 14, title, { fill: colours.ink });
  rows.forEach((row, at) => {
    const top = 24 + at * step + (above ? 16 : 0), middle = top + 9;
    if (above) picture.text(left, top - 5, clipped(row.label, width - 24), { fill: colours.ink });
    else picture.text(left - 8, middle + 4, clipped(row.label, room - 14), { fill: colours.ink, "text-anchor": "end" });
    const from = Math.min(toX(0), toX(row.mean));
    picture.add("rect", { x: round(from), y: top, width: round(Math.abs(toX(row.mean) - toX(0))), height: 18, fill: row.baseline ? colours.page : colours.series[0], stroke: colours.series[0], "fill-opacity": row === best ? 1 : 0.62, "stroke-width": row.baseline ? 1.5 : 0 }, `${row.label}: ${number(row.mean)}${row.ci95 >= 0 ? ` ± ${number(row.ci95)}` : ""}`);
    if (row.ci95 > 0) {
      const [a, b] = [toX(row.mean - row.ci95), toX(row.mean + row.ci95)];
      picture.line(a, middle, b, middle, { stroke: colours.ink, "stroke-width": 1.3 });
      for (const x of [a, b]) picture.line(x, middle - 4, x, middle + 4, { stroke: colours.ink, "stroke-width": 1.3 });
    }
    picture.text(toX(Math.max(row.mean + (row.ci95 || 0), 0)) + 6, middle + 4, four(row.mean) + (row === best ? " best" : ""), { fill: colours.ink, "font-weight": row === best ? 700 : 400 });
  });
  picture.line(toX(0), 22, toX(0), 24 + rows.length * step);
  return picture.finish(30 + rows.length * step + (above ? 6 : 0));
}

// curves: [{name, points: [{x, y, ci95}]}]
function curvePlot({ width, colours }, curves, titleX, titleY) {
  const picture = new Picture(width, colours, `${titleY} over ${titleX}, one line per combination of the other axes; the table has the numbers.`);
  const all = curves.flatMap((curve) => curve.points), height = Math.max(280, Math.min(400, width * 0.6));
  const ticks = [...new Set(all.map((point) => point.x))].sort((a, b) => a - b);
  const x = rangeOf(ticks, titleX, false), y = rangeOf(all.flatMap((point) => [point.y - (point.ci95 || 0), point.y + (point.ci95 || 0)]), titleY, true);
  const { toX, toY } = picture.frame({ ...x, ticks: ticks.length < 12 ? ticks : undefined }, y, height);
  curves.forEach((curve, at) => {
    const style = seriesStyle(colours, at), path = curve.points.map((point) => `${round(toX(point.x))} ${round(toY(point.y))}`).join("L");
    picture.add("path", { d: `M${path}`, fill: "none", stroke: style.colour, "stroke-width": 2, "stroke-dasharray": style.dash, "stroke-linejoin": "round" });
    for (const point of curve.points) {
      if (point.ci95 > 0) picture.line(toX(point.x), toY(point.y - point.ci95), toX(point.x), toY(point.y + point.ci95), { stroke: style.colour, "stroke-width": 1.3 });
      picture.marker(toX(point.x), toY(point.y), style, false, `${curve.name}, ${titleX} ${number(point.x)}: ${number(point.y)}${point.ci95 >= 0 ? ` ± ${number(point.ci95)}` : ""}`);
    }
  });
  return picture.finish(picture.legend(height + 4, curves.map((curve) => curve.name)));
}

// curves: [{name, x, y}], y the share of links of load up to x
function stepPlot({ width, colours }, curves, title) {
  const picture = new Picture(width, colours, `Cumulative distribution of ${title} over links, one line per point; the table has the numbers.`);
  const height = Math.max(280, Math.min(400, width * 0.6)), most = Math.max(...curves.map((curve) => curve.x.at(-1))) || 1;
  const { toX, toY, box } = picture.frame({ low: 0, high: most, title }, { low: 0, high: 1, title: "share of links" }, height);
  curves.forEach((curve, at) => {
    const style = seriesStyle(colours, at);
    let path = `M${round(toX(0))} ${round(toY(0))}`;
    for (let i = 0; i < curve.x.length; i++) path += `H${round(toX(curve.x[i]))}V${round(toY(curve.y[i]))}`;
    picture.add("path", { d: `${path}H${round(box.right)}`, fill: "none", stroke: style.colour, "stroke-width": 2, "stroke-dasharray": style.dash }, curve.name);
    // One marker on each curve, staggered, so that curves are told apart without colours.
    const middle = curve.y.findIndex((share) => share >= (at + 1) / (curves.length + 1));
    picture.marker(toX(curve.x[middle]), toY(curve.y[middle]), style, false, curve.name);
  });
  return picture.finish(picture.legend(height + 4, curves.map((curve) => curve.name)));
}

// cells[row][column]: {value, count, of} or null
function heatPlot({ width, colours }, rowNames, columnNames, cells, titles) {
  const picture = new Picture(width, colours, `${titles.measure} by ${titles.rows} and ${titles.columns}; the table has the numbers.`);
  const known = cells.flat().filter(Boolean).map((cell) => cell.value), low = Math.min(...known), high = Math.max(...known);
  const room = Math.min(0.34 * width, 20 + Math.max(...rowNames.map(widthOf), widthOf(titles.rows))), cell = (width - room - 12) / columnNames.length, tall = Math.max(26, Math.min(44, cell * 0.5));
  picture.text(room, 14, `${titles.measure}; ${titles.columns}:`);
  picture.text(room - 8, 34, `${titles.rows}:`, { "text-anchor": "end" });
  columnNames.forEach((name, column) => picture.text(room + (column + 0.5) * cell, 34, clipped(name, cell - 4), { "text-anchor": "middle", fill: colours.ink }));
  rowNames.forEach((name, row) => {
    const top = 42 + row * tall;
    picture.text(room - 8, top + tall / 2 + 4, clipped(name, room - 14), { "text-anchor": "end", fill: colours.ink });
    columnNames.forEach((columnName, column) => {
      const found = cells[row][column], x = room + column * cell;
      const colour = found ? rampColour(colours, high > low ? (found.value - low) / (high - low) : 0) : colours.page;
      picture.add("rect", { x: round(x + 1), y: round(top + 1), width: round(cell - 2), height: round(tall - 2), fill: colour, stroke: found ? "none" : colours.line }, `${name}, ${columnName}: ${found ? `${number(found.value)}, ${found.count} of ${found.of} points` : "no result"}`);
      const text = found ? (cell > 46 ? four(found.value) : compact(Number(found.value.toPrecision(2)))) + (found.count < found.of ? "*" : "") : "–";
      if (widthOf(text) < cell + 8) picture.text(x + cell / 2, top + tall / 2 + 4, text, { "text-anchor": "middle", fill: found ? inkOn(colour) : colours.muted });
    });
  });
  return picture.finish(ramp(picture, 50 + rowNames.length * tall, low, high, titles.measure));
}

const rampColour = (colours, share) => colours.scale[Math.min(colours.scale.length - 1, Math.floor(share * colours.scale.length))];

// A colour scale with its ends; return the lower end.
function ramp(picture, y, low, high, title) {
  const { scale } = picture.colours, wide = Math.min(260, picture.width - 40) / scale.length;
  scale.forEach((colour, at) => picture.add("rect", { x: round(14 + at * wide), y, width: round(wide + 1.2), height: 9, fill: colour }));
  picture.text(14, y + 24, number(Number(low.toPrecision(4))));
  picture.text(14 + scale.length * wide, y + 24, number(Number(high.toPrecision(4))), { "text-anchor": "end" });
  picture.text(14 + (scale.length * wide) / 2, y + 24, clipped(title, 150), { "text-anchor": "middle" });
  return y + 32;
}

// points: [{label, x, y, front, group}]
function paretoPlot({ width, colours }, points, titleX, titleY, groups, lowerX) {
  const picture = new Picture(width, colours, `${titleY} against ${titleX}: points on the Pareto front are filled and joined; the table has the numbers.`);
  const height = Math.max(300, Math.min(420, width * 0.65));
  const { toX, toY, box } = picture.frame(rangeOf(points.map((point) => point.x), titleX, false, 0.1), rangeOf(points.map((point) => point.y), titleY, false, 0.1), height);
  const front = points.filter((point) => point.front).sort((p, q) => p.x - q.x || p.y - q.y);
  picture.add("path", { d: front.map((point, at) => (at ? (lowerX ? `H${round(toX(point.x))}V${round(toY(point.y))}` : `V${round(toY(point.y))}H${round(toX(point.x))}`) : `M${round(toX(point.x))} ${round(toY(point.y))}`)).join(""), fill: "none", stroke: colours.ink, "stroke-width": 1.4, "stroke-dasharray": "5 3" });
  for (const point of [...points.filter((each) => !each.front), ...front]) {
    picture.marker(toX(point.x), toY(point.y), seriesStyle(colours, point.group), !point.front, `${point.label}: ${titleX} ${number(point.x)}, ${titleY} ${number(point.y)}`);
  }
  // Each label takes the first place beside its marker that is free.
  const taken = points.map((point) => [toX(point.x) - 6, toY(point.y) + 6, 12]);
  for (const point of front) {
    const [x, y] = [toX(point.x), toY(point.y)], text = clipped(point.label, 200), wide = widthOf(text);
    const places = [[x + 9, y - 7], [x - 9 - wide, y + 15], [x + 9, y + 15], [x - 9 - wide, y - 7]];
    const place = places.find(([left, low]) => left > box.left && left + wide < box.right && low < box.bottom && !taken.some(([a, b, w]) => Math.abs(b - low) < 13 && left < a + w && a < left + wide));
    if (!place) continue;
    taken.push([...place, wide]);
    picture.text(...place, text, { fill: colours.ink, stroke: colours.page, "stroke-width": 3, "paint-order": "stroke" });
  }
  return picture.finish(picture.legend(height + 4, groups, false));
}

// A fabric with the loads of its cables; width and colour of a cable show its load.
function fabricPlot({ width, colours }, fabric, load, title, most) {
  const picture = new Picture(width, colours, `Drawing of ${fabric.name} with its cables by ${title}; the table lists the most loaded.`);
  const [left, right] = [Math.min(...fabric.x), Math.max(...fabric.x)], [low, high] = [Math.min(...fabric.y), Math.max(...fabric.y)];
  const unit = Math.min((width - 60) / (right - left || 1), 560 / (high - low || 1)), height = (high - low) * unit + 60;
  const across = (width - (right - left) * unit) / 2;
  const toX = (x) => across + (x - left) * unit, toY = (y) => 30 + (high - y) * unit;
  const thick = Math.max(0.8, Math.min(4, 60 / Math.sqrt(load.length)));
  const order = load.map((_, at) => at).sort((p, q) => load[p] - load[q]);
  const lines = svg("g", { fill: "none", "stroke-linecap": "round" });
  for (const cable of order) {
    const [a, b] = [fabric.from[cable], fabric.to[cable]], dx = fabric.x[b] - fabric.x[a], dy = fabric.y[b] - fabric.y[a];
    const control = [(fabric.x[a] + fabric.x[b]) / 2 - fabric.bend[cable] * dy, (fabric.y[a] + fabric.y[b]) / 2 + fabric.bend[cable] * dx];
    const share = most ? load[cable] / most : 0;
    const path = svg("path", { d: `M${round(toX(fabric.x[a]))} ${round(toY(fabric.y[a]))}Q${round(toX(control[0]))} ${round(toY(control[1]))} ${round(toX(fabric.x[b]))} ${round(toY(fabric.y[b]))}`, stroke: share > 0 ? rampColour(colours, share) : colours.idle, "stroke-width": round(thick * (0.25 + share * share) * 10) / 10 });
    path.append(svg("title", {}, `${fabric.labels[a]} -- ${fabric.labels[b]}: ${number(load[cable])}`));
    lines.append(path);
  }
  picture.root.append(lines);
  const switches = fabric.switch.filter(Boolean).length, side = Math.max(3, Math.min(9, 90 / Math.sqrt(switches)));
  fabric.x.forEach((x, node) => {
    const px = toX(x), py = toY(fabric.y[node]);
    if (fabric.switch[node]) picture.add("rect", { x: round(px - side / 2), y: round(py - side / 2), width: round(side), height: round(side), fill: colours.ink }, fabric.labels[node]);
    else picture.add("circle", { cx: round(px), cy: round(py), r: round(side / 4), fill: colours.muted }, fabric.labels[node]);
  });
  if (switches <= 40) fabric.x.forEach((x, node) => {
    if (!fabric.switch[node]) return;
    picture.text(toX(x), toY(fabric.y[node]) - side, fabric.labels[node], { "text-anchor": "middle", "font-size": 10, fill: colours.ink, stroke: colours.page, "stroke-width": 3, "paint-order": "stroke" });
  });
  return picture.finish(ramp(picture, height, 0, most, title));
}

function matrixPlot({ width, colours }, matrix) {
  const picture = new Picture(width, colours, "Congestion matrix: a block per switch, with a cell per link into it; the table lists the longest waits.");
  const unit = Math.min(26, (width - 24) / matrix.size[0]), across = (width - matrix.size[0] * unit) / 2;
  const toX = (x) => across + x * unit, toY = (y) => 6 - y * unit;
  const cell = (x, y, wide, tall, share, title) => {
    const colour = share > 0 ? rampColour(colours, share) : colours.idle;
    picture.add("rect", { x: round(toX(x)), y: round(toY(y)), width: round(wide * unit), height: round(tall * unit), fill: colour, stroke: unit > 4 ? colours.page : "none", "stroke-width": 0.6 }, title);
    const size = Math.min(11, unit * tall * 0.62);
    if (wide * unit > 15 && size >= 6) picture.text(toX(x + wide / 2), toY(y - tall / 2) + size * 0.36, share > 0 && share < 0.005 ? "<1" : String(Math.round(100 * share)), { "text-anchor": "middle", "font-size": round(size), fill: inkOn(colour) });
  };
  matrix.share.forEach((share, at) => cell(matrix.cellX[at], matrix.cellY[at], matrix.cellWidth[at], matrix.cell, share, `${matrix.links[at]}: ${number(matrix.wait[at])} ns`));
  matrix.x.forEach((x, at) => {
    cell(x, matrix.centreY[at], matrix.width[at], matrix.centre, matrix.switchShare[at], `${matrix.switches[at]}: ${number(matrix.switchWait[at])} ns`);
    picture.add("rect", { x: round(toX(x)), y: round(toY(matrix.y[at])), width: round(matrix.width[at] * unit), height: round(matrix.height[at] * unit), fill: "none", stroke: colours.muted, "stroke-width": 0.7 });
  });
  for (const [text, x, y] of matrix.labels) picture.text(toX(x), toY(y), text);
  return picture.finish(ramp(picture, 16 + matrix.size[1] * unit, 0, 100, "wait, % of the largest"));
}
