// The chart: how loads are distributed, one step curve per engine.

class Chart {
  constructor(box, key, choose) {
    Object.assign(this, { box, key, choose });
    this.curves = [];
    new ResizeObserver(() => { if (box.clientWidth && box.clientWidth !== this.width) this.draw(); }).observe(box);
  }

  // curves: [{name, x, y, colour, dash, chosen}], mark: {value, text} or null
  show(curves, scope, log, mark, axis) {
    Object.assign(this, { curves, scope, log, mark, axis });
    this.draw();
  }

  draw() {
    this.width = this.box.clientWidth || 640;
    const width = this.width, height = Math.max(260, Math.min(360, width * 0.55));
    const edge = { left: 58, right: 18, top: 16, bottom: 46 };
    const innerWidth = width - edge.left - edge.right, innerHeight = height - edge.top - edge.bottom;
    const positive = this.curves.flatMap((curve) => [...curve.x].filter((value) => value > 0));
    const most = Math.max(...positive, 0) || 1, least = Math.min(...positive, most);
    const log = this.log && most > least;
    const lowest = log ? 10 ** Math.floor(Math.log10(least)) : 0;
    const span = log ? Math.log10(most / lowest) : most;
    const toX = (value) => edge.left + innerWidth * (log ? Math.log10(Math.max(value, lowest) / lowest) / span : value / most);
    const toY = (share) => edge.top + innerHeight * (1 - share);
    const toLoad = (px) => {
      const share = Math.max(0, Math.min(1, (px - edge.left) / innerWidth));
      return log ? lowest * 10 ** (share * span) : share * most;
    };

    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Cumulative distribution of the load of ${this.scope}, one curve per choice; the table beside it has the numbers.` });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      picture.append(
        svg("line", { class: "grid", x1: edge.left, x2: width - edge.right, y1: toY(share), y2: toY(share) }),
        svg("text", { x: edge.left - 8, y: toY(share) + 4, "text-anchor": "end" }, `${100 * share} %`));
    }
    const ticks = [];
    if (log) for (let value = lowest; value <= most * 1.0001; value *= 10) ticks.push(value);
    else ticks.push(...niceTicks(most, Math.max(3, Math.floor(innerWidth / 90))));
    if (log && ticks.length < 3) for (const value of [...ticks]) for (const part of [2, 5]) if (value * part <= most) ticks.push(value * part);
    let end = -Infinity;
    for (const value of ticks.sort((p, q) => p - q)) {
      const text = compact(value), half = 3.6 * text.length;
      picture.append(svg("line", { class: "axis", x1: toX(value), x2: toX(value), y1: toY(0), y2: toY(0) + 5 }));
      if (toX(value) - half < end + 6) continue;
      end = toX(value) + half;
      picture.append(svg("text", { x: toX(value), y: toY(0) + 19, "text-anchor": "middle" }, text));
    }
    picture.append(
      svg("line", { class: "axis", x1: edge.left, x2: width - edge.right, y1: toY(0), y2: toY(0) }),
      svg("text", { x: edge.left + innerWidth / 2, y: height - 8, "text-anchor": "middle" }, this.axis),
      svg("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(13 ${edge.top + innerHeight / 2}) rotate(-90)` }, `share of ${this.scope}`));
    for (const curve of [...this.curves].sort((p, q) => p.chosen - q.chosen)) {
      let path = `M${toX(log ? lowest : 0).toFixed(1)} ${toY(0).toFixed(1)}`;
      for (let i = 0; i < curve.x.length; i++) path += `H${toX(curve.x[i]).toFixed(1)}V${toY(curve.y[i]).toFixed(1)}`;
      path += `H${(width - edge.right).toFixed(1)}`;
      picture.append(svg("path", { class: curve.chosen ? "curve chosen" : "curve", d: path, stroke: curve.colour, "stroke-dasharray": curve.chosen ? "" : curve.dash }));
    }
    if (this.mark) {
      const px = toX(this.mark.value), right = px > width * 0.6;
      picture.append(
        svg("line", { class: "mark", x1: px, x2: px, y1: edge.top, y2: toY(0) }),
        svg("text", { class: "mark-text", x: px + (right ? -6 : 6), y: edge.top + innerHeight * 0.42, "text-anchor": right ? "end" : "start" }, this.mark.text));
    }
    const cursor = svg("line", { class: "mark", y1: edge.top, y2: toY(0), visibility: "hidden" });
    picture.append(cursor);
    const readout = element("div", { class: "readout", hidden: true });
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect(), px = ((event.clientX - box.left) * width) / box.width;
      if (px < edge.left || px > width - edge.right) { leave(); return; }
      const load = toLoad(px);
      cursor.setAttribute("x1", px); cursor.setAttribute("x2", px); cursor.setAttribute("visibility", "visible");
      readout.replaceChildren(element("b", {}, `load at most ${number(Number(load.toPrecision(3)))}`),
        ...this.curves.map((curve) => element("div", {}, `${curve.name}: ${percent(shareUpTo(curve, load))}`)));
      readout.hidden = false;
      const right = px > width / 2;
      readout.style.left = right ? "" : `${px + 20}px`;
      readout.style.right = right ? `${width - px + 14}px` : "";
      readout.style.top = `${edge.top + 20}px`;
    });
    const leave = () => { readout.hidden = true; cursor.setAttribute("visibility", "hidden"); };
    picture.addEventListener("pointerleave", leave);
    this.box.replaceChildren(picture, readout);
    this.key.replaceChildren(...this.curves.map((curve) => element("button",
      { type: "button", "aria-pressed": String(curve.chosen), onclick: () => this.choose(curve.name) },
      svg("svg", { viewBox: "0 0 26 8", "aria-hidden": "true" }, svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: curve.colour, "stroke-width": 3, "stroke-dasharray": curve.chosen ? "" : curve.dash })),
      curve.name)));
  }
}

function shareUpTo(curve, load) {
  let share = 0;
  for (let i = 0; i < curve.x.length && curve.x[i] <= load; i++) share = curve.y[i];
  return share;
}
