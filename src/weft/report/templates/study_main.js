// The page of a study: filters, the table of points, and the plots.

// Largest numbers of bars, curves and rows that are shown at once.
const MOST_BARS = 30, MOST_CURVES = 14, MOST_STEPS = 8, MOST_ROWS = 60, MOST_VALUES = 200;

class StudyApp {
  constructor(page, points, runs, drawings) {
    Object.assign(this, { page, runs, drawings, labels: points.labels, notes: points.notes });
    const axes = page.axes.length;
    this.count = this.labels.length;
    this.at = Array.from({ length: this.count }, (_, point) => points.at.subarray(point * axes, (point + 1) * axes));
    this.stats = page.measures.map((_, number) => Object.fromEntries(page.statistics.map((name) => [name, points[name + number]])));
    this.allowed = page.axes.map((axis) => axis.values.map(() => true));
    this.sort = { key: "point", down: false };
    this.everyRow = false;
    this.theme = matchMedia("(prefers-color-scheme: dark)");
    this.plots = new Map();
    this.wireFilters();
    this.wirePlots();
    this.render();
  }

  get measure() { return Number(byId("measure").value); }
  get mode() { return this.printing || !this.theme.matches ? "light" : "dark"; }

  // A value in the shown unit of its measure.
  value(measure, name, point) {
    const raw = this.stats[measure][name][point];
    return ["n", "ratio", "ratio_low", "ratio_high", "p"].includes(name) ? raw : raw / this.page.measures[measure].factor;
  }

  heading(measure) {
    const { label, unit } = this.page.measures[measure];
    return unit ? `${label} (${unit})` : label;
  }

  // Whether the first of two values of a measure is better; without a direction, lower.
  isBetter(measure, one, other) { return this.page.measures[measure].better === "higher" ? one > other : one < other; }

  // Label of a point by some axes only.
  labelBy(point, axes) {
    return axes.map((axis) => {
      const { name, values, numeric } = this.page.axes[axis], value = values[this.at[point][axis]];
      return numeric ? `${name} ${value}` : value;
    }).join(" · ");
  }

  axisNumbers(test) { return this.page.axes.map((_, axis) => axis).filter((axis) => test(this.page.axes[axis], axis)); }
  isBaseline(point) {
    return this.page.hasBaseline && this.page.axes.every((axis, at) => axis.baseline === null || axis.values[this.at[point][at]] === axis.baseline);
  }

  // -- filters ----------------------------------------------------------------------------------

  wireFilters() {
    const filters = [...document.querySelectorAll(".filter")];
    for (const filter of filters) {
      const axis = Number(filter.dataset.axis), boxes = [...filter.querySelectorAll("input")];
      const changed = () => {
        boxes.forEach((box, at) => { this.allowed[axis][at] = box.checked; });
        this.render();
      };
      filter.addEventListener("change", changed);
      for (const button of filter.querySelectorAll("[data-all]")) {
        button.addEventListener("click", () => { for (const box of boxes) box.checked = button.dataset.all === "1"; changed(); });
      }
      filter.addEventListener("toggle", () => { if (filter.open) for (const other of filters) if (other !== filter) other.open = false; });
      filter.addEventListener("keydown", (event) => {
        if (event.key === "Escape") { filter.open = false; filter.querySelector("summary").focus(); }
      });
    }
    document.addEventListener("click", (event) => { for (const filter of filters) if (!filter.contains(event.target)) filter.open = false; });
    byId("reset").addEventListener("click", () => {
      for (const box of document.querySelectorAll(".filter input")) box.checked = true;
      for (const axis of this.allowed) axis.fill(true);
      this.render();
    });
    byId("measure").addEventListener("change", () => this.render());
    byId("more").addEventListener("click", () => { this.everyRow = !this.everyRow; this.showTable(); });
    byId("save-points").addEventListener("click", () => this.savePoints());
    byId("save-runs").addEventListener("click", () => {
      const { columns, values } = this.runs;
      this.save("runs.csv", csv(columns, values[0].map((_, row) => values.map((column) => column[row]))));
    });
    this.theme.addEventListener("change", () => this.showPlots());
    window.addEventListener("beforeprint", () => { this.printing = true; this.showPlots(); });
    window.addEventListener("afterprint", () => { this.printing = false; this.showPlots(); });
  }

  render() {
    this.shown = [];
    for (let point = 0; point < this.count; point++) {
      if (this.at[point].every((value, axis) => this.allowed[axis][value])) this.shown.push(point);
    }
    const parts = this.page.axes.map((axis, at) => {
      const on = axis.values.filter((_, value) => this.allowed[at][value]);
      const filter = document.querySelector(`.filter[data-axis="${at}"]`), part = on.length < axis.values.length;
      filter.classList.toggle("part", part);
      filter.querySelector("summary span").textContent = part ? `${on.length} of ${axis.values.length}` : "all";
      return part ? `${axis.name} ${on.join(", ") || "none"}` : "";
    }).filter(Boolean);
    byId("shown-text").textContent = `${number(this.shown.length)} of ${plural(this.count, "point")} shown${parts.length ? `: ${parts.join("; ")}` : ""}.`;
    this.everyRow = false;
    const { meaning, better } = this.page.measures[this.measure];
    byId("measure-text").textContent = `${this.heading(this.measure)}: ${meaning.replace(/\.$/, "")}.${better ? ` ${better === "lower" ? "Lower" : "Higher"} is better.` : ""}`;
    for (const row of document.querySelectorAll("#effects tr[data-measure]")) row.hidden = Number(row.dataset.measure) !== this.measure;
    this.order();
    this.showTable();
    this.showPoints();
    this.showPlots();
  }

  // -- table ------------------------------------------------------------------------------------

  columns() {
    const { measure } = this, show = (name) => (point) => numberText(this.value(measure, name, point));
    const stat = (title, name, more = {}) => ({ key: name, title, of: (point) => this.value(measure, name, point), text: show(name), numeric: true, ...more });
    const range = (point) => {
      const [ratio, low, high] = ["ratio", "ratio_low", "ratio_high"].map((name) => this.value(measure, name, point));
      return Number.isFinite(ratio) ? ratio.toFixed(3) + (Number.isFinite(low) ? ` (${low.toFixed(3)} to ${high.toFixed(3)})` : "") : "–";
    };
    return [
      { key: "point", title: "Point", of: (point) => point, text: (point) => String(point + 1), numeric: true },
      ...this.page.axes.map((axis, at) => ({ key: `axis ${at}`, title: axis.name, of: (point) => this.at[point][at], text: (point) => axis.values[this.at[point][at]] })),
      stat("n", "n", { text: (point) => (this.value(measure, "deterministic", point) ? "deterministic" : numberText(this.value(measure, "n", point))) }),
      stat(`Mean ± 95 % ${unitText(this.page.measures[measure])}`, "mean", { text: (point) => plusMinus(this.value(measure, "mean", point), this.value(measure, "ci95", point)), badge: true }),
      stat("Median", "median"), stat("Least", "min"), stat("Largest", "max"),
      ...(this.page.hasBaseline ? [
        stat("Ratio to the baseline (95 %)", "ratio", { text: (point) => (this.isBaseline(point) ? "baseline" : range(point)) }),
        stat("Significant", "p", { numeric: false, whole: true, text: (point) => verdictText(this.value(measure, "p", point), this.isBaseline(point) || !Number.isFinite(this.value(measure, "ratio", point)) ? "–" : this.value(measure, "deterministic", point) ? "deterministic" : this.value(measure, "n", point) > 1 ? "no variation" : "one run: no test") }),
      ] : []),
      ...(this.notes.some(Boolean) ? [{ key: "note", title: "Missing", of: (point) => this.notes[point], text: (point) => this.notes[point], note: true }] : []),
    ];
  }

  order() {
    const column = this.columns().find((each) => each.key === this.sort.key) ?? this.columns()[0];
    const keys = new Map(this.shown.map((point) => [point, column.of(point)]));
    const sign = this.sort.down ? -1 : 1;
    this.shown.sort((p, q) => {
      const [a, b] = [keys.get(p), keys.get(q)];
      // Points without a value are last in either order.
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b) || p - q;
      return sign * (a < b ? -1 : a > b ? 1 : 0) || p - q;
    });
  }

  // The best of the points shown under each combination of conditions.
  bestShown() {
    const { measure } = this, best = new Map(), conditions = this.axisNumbers((axis) => axis.condition);
    if (!this.page.measures[measure].better || conditions.length === this.page.axes.length) return new Set();
    for (const point of this.shown) {
      const under = this.labelBy(point, conditions), value = this.value(measure, "mean", point), found = best.get(under);
      if (Number.isFinite(value) && (found === undefined || this.isBetter(measure, value, this.value(measure, "mean", found)))) best.set(under, point);
    }
    return new Set(best.values());
  }

  showTable() {
    const columns = this.columns(), table = byId("points-table"), best = this.bestShown();
    const focused = document.activeElement?.dataset?.sort;
    table.tHead.replaceChildren(element("tr", {}, ...columns.map((column) => {
      const chosen = column.key === this.sort.key;
      const button = element("button", { type: "button", "data-sort": column.key, onclick: () => {
        this.sort = { key: column.key, down: chosen && !this.sort.down };
        this.order();
        this.showTable();
        this.showPlots();
      } }, column.title + (chosen ? (this.sort.down ? " ▼" : " ▲") : ""));
      return element("th", { scope: "col", class: column.numeric ? "number" : "", ...(chosen ? { "aria-sort": this.sort.down ? "descending" : "ascending" } : {}) }, button);
    })));
    if (focused) table.tHead.querySelector(`[data-sort="${focused}"]`)?.focus();
    const rows = this.everyRow ? this.shown : this.shown.slice(0, MOST_ROWS);
    table.tBodies[0].replaceChildren(...rows.map((point) => {
      const row = document.createElement("tr");
      if (best.has(point)) row.className = "chosen";
      for (const column of columns) {
        const cell = row.insertCell();
        if (column.numeric) cell.className = "number";
        if (column.note) cell.className = "note";
        if (column.whole) cell.className = "whole";
        cell.textContent = column.text(point);
        if (column.badge && best.has(point)) cell.append(" ", element("span", { class: "badge ok" }, "best"));
      }
      return row;
    }));
    const more = this.shown.length > MOST_ROWS;
    byId("rows-text").textContent = more && !this.everyRow ? `The first ${MOST_ROWS} of ${number(this.shown.length)} rows.` : "";
    byId("more").hidden = !more;
    byId("more").textContent = this.everyRow ? `Show ${MOST_ROWS} rows` : "Show all rows";
  }

  savePoints() {
    const names = this.page.statistics, rows = [];
    this.page.measures.forEach((measure, number) => {
      for (const point of this.shown) rows.push([point + 1, ...this.page.axes.map((axis, at) => axis.values[this.at[point][at]]), measure.name, ...names.map((name) => this.stats[number][name][point]), this.notes[point]]);
    });
    this.save("points.csv", csv(["point", ...this.page.axes.map((axis) => axis.name), "measure", ...names, "note"], rows));
  }

  // -- plots ------------------------------------------------------------------------------------

  wirePlots() {
    const makers = { bars: () => this.bars(), curves: () => this.curves(), heat: () => this.heat(), pareto: () => this.pareto(), links: () => this.links(), fabric: () => this.fabric(), matrix: () => this.matrix() };
    for (const [id, make] of Object.entries(makers)) {
      const figure = byId(`plot-${id}`);
      if (!figure) continue;
      this.plots.set(id, { figure, make, near: false, stale: true });
      for (const choice of figure.querySelectorAll("select")) choice.addEventListener("change", () => this.showPlot(id));
      figure.querySelector("[data-save=svg]").addEventListener("click", () => {
        const made = this.fresh(id);
        if (!made.draw) return;
        const picture = made.draw({ width: 720, colours: this.page.colours.light });
        const [, , width, height] = picture.getAttribute("viewBox").split(" ");
        picture.setAttribute("width", width);
        picture.setAttribute("height", height);
        this.save(`${id}.svg`, `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(picture)}\n`, "image/svg+xml");
      });
      figure.querySelector("[data-save=csv]").addEventListener("click", () => {
        const { columns, rows } = this.fresh(id);
        this.save(`${id}.csv`, csv(columns, rows));
      });
      figure.querySelector(".values").addEventListener("toggle", () => { this.fresh(id); this.showValues(id); });
      const box = figure.querySelector(".picture");
      new ResizeObserver(() => {
        const plot = this.plots.get(id);
        if (plot.made && box.clientWidth !== plot.width) this.draw(id);
      }).observe(box);
    }
    // Plots far from the part of the page in view are drawn when they come near it.
    const near = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const id = entry.target.id.slice("plot-".length), plot = this.plots.get(id);
        plot.near = entry.isIntersecting;
        if (plot.near && plot.stale) this.showPlot(id);
      }
    }, { rootMargin: "400px" });
    for (const plot of this.plots.values()) near.observe(plot.figure);
    byId("point")?.addEventListener("change", () => { this.showPlot("fabric"); this.showPlot("matrix"); });
  }

  choice(id, name) { return byId(`plot-${id}`).querySelector(`[data-name=${name}]`).value; }
  axisOf(name) { return this.page.axes.findIndex((axis) => axis.name === name); }

  showPlots() {
    for (const [id, plot] of this.plots) {
      plot.stale = true;
      if (plot.near || this.printing) this.showPlot(id);
    }
  }

  // What a plot shows, made anew if it is out of date.
  fresh(id) {
    const plot = this.plots.get(id);
    if (plot.stale) this.showPlot(id);
    return plot.made;
  }

  // A plot is what its `make` returns: {draw, columns, rows, text}; without `draw` there is nothing to draw.
  showPlot(id) {
    const plot = this.plots.get(id);
    if (!plot) return;
    plot.made = plot.make();
    plot.stale = false;
    plot.figure.querySelector(".text").textContent = plot.made.text ?? "";
    for (const button of plot.figure.querySelectorAll("[data-save]")) button.disabled = !plot.made.draw;
    this.draw(id);
    this.showValues(id);
  }

  draw(id) {
    const plot = this.plots.get(id), box = plot.figure.querySelector(".picture");
    plot.width = box.clientWidth;
    const width = Math.max(300, plot.width - 14);
    box.replaceChildren(plot.made.draw ? plot.made.draw({ width, colours: this.page.colours[this.mode] }) : element("p", { class: "none" }, "Nothing to draw for the points shown."));
  }

  showValues(id) {
    const { figure, made } = this.plots.get(id), details = figure.querySelector(".values");
    if (!details.open) return;
    const text = (value) => (typeof value === "number" ? numberText(value) : String(value ?? ""));
    details.querySelector("div").replaceChildren(
      element("table", { class: "numbers" }, element("thead", {}, element("tr", {}, ...made.columns.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, ...made.rows.slice(0, MOST_VALUES).map((row) => element("tr", {}, ...row.map((value) => element("td", { class: typeof value === "number" ? "number" : "" }, text(value))))))),
      ...(made.rows.length > MOST_VALUES ? [element("p", { class: "quiet" }, `The first ${MOST_VALUES} of ${number(made.rows.length)} rows; the CSV file has all.`)] : []));
  }

  // Points shown that have a mean.
  known(measure) { return this.shown.filter((point) => Number.isFinite(this.stats[measure].mean[point])); }

  bars() {
    const { measure } = this, all = this.known(measure), best = this.bestShown();
    const rows = all.slice(0, MOST_BARS).map((point) => ({ point, label: this.labels[point] || "all runs", mean: this.value(measure, "mean", point), ci95: this.value(measure, "ci95", point), baseline: this.isBaseline(point) }));
    const columns = ["point", "label", `mean of ${this.heading(measure)}`, "95 % half-width"];
    const text = [all.length > MOST_BARS ? `The first ${MOST_BARS} of ${number(all.length)} points in the order of the table.` : "", this.page.hasBaseline ? "Baselines are hollow." : "", "Whiskers are 95 % intervals."].filter(Boolean).join(" ");
    const found = best.size === 1 ? rows.find((row) => best.has(row.point)) : undefined;
    return { columns, rows: all.map((point) => [point + 1, this.labels[point], this.value(measure, "mean", point), this.value(measure, "ci95", point)]), text, draw: rows.length ? (size) => barPlot(size, rows, this.heading(measure), found) : null };
  }

  curves() {
    const axis = this.axisOf(this.choice("curves", "x")), wanted = this.choice("curves", "y"), measure = wanted === "" ? this.measure : Number(wanted);
    const others = this.axisNumbers((_, at) => at !== axis), groups = new Map(), { values, name } = this.page.axes[axis];
    for (const point of this.known(measure)) {
      const label = this.labelBy(point, others);
      if (!groups.has(label)) groups.set(label, []);
      groups.get(label).push({ x: Number(values[this.at[point][axis]]), y: this.value(measure, "mean", point), ci95: this.value(measure, "ci95", point) });
    }
    const curves = [...groups].map(([label, points]) => ({ name: label || "all runs", points: points.sort((p, q) => p.x - q.x) }));
    return {
      columns: ["curve", name, `mean of ${this.heading(measure)}`, "95 % half-width"], rows: curves.flatMap((curve) => curve.points.map((point) => [curve.name, point.x, point.y, point.ci95])),
      text: curves.length > MOST_CURVES ? `The first ${MOST_CURVES} of ${number(curves.length)} curves in the order of the table; filters choose others.` : "",
      draw: curves.length ? (size) => curvePlot(size, curves.slice(0, MOST_CURVES), name, this.heading(measure)) : null,
    };
  }

  heat() {
    const { measure } = this, [down, across] = ["rows", "columns"].map((name) => this.axisOf(this.choice("heat", name)));
    const used = (axis) => this.page.axes[axis].values.map((_, value) => value).filter((value) => this.allowed[axis][value]);
    const rows = used(down), columns = down === across ? [] : used(across), found = new Map(), total = new Map();
    for (const point of this.shown) {
      const key = `${this.at[point][down]} ${this.at[point][across]}`, value = this.value(measure, "mean", point);
      total.set(key, (total.get(key) ?? 0) + 1);
      if (Number.isFinite(value)) found.set(key, [...(found.get(key) ?? []), value]);
    }
    const cells = rows.map((row) => columns.map((column) => {
      const key = `${row} ${column}`, values = found.get(key);
      return values ? { value: average(values, this.page.measures[this.measure].ratios), count: values.length, of: total.get(key) } : null;
    }));
    const [rowAxis, columnAxis] = [this.page.axes[down], this.page.axes[across]], partial = cells.flat().some((cell) => cell && cell.count < cell.of);
    return {
      columns: [rowAxis.name, columnAxis.name, this.heading(measure), "points averaged", "points"],
      rows: cells.flatMap((line, row) => line.map((cell, column) => [rowAxis.values[rows[row]], columnAxis.values[columns[column]], cell?.value ?? null, cell?.count ?? 0, total.get(`${rows[row]} ${columns[column]}`) ?? 0])),
      text: columns.length ? `Geometric mean of the points shown with the same ${rowAxis.name} and ${columnAxis.name}.${partial ? " * Some of these points have no result, so the cell is not comparable." : ""}` : "Choose two different axes.",
      draw: cells.flat().some(Boolean) ? (size) => heatPlot(size, rows.map((value) => rowAxis.values[value]), columns.map((value) => columnAxis.values[value]), cells, { rows: rowAxis.name, columns: columnAxis.name, measure: this.heading(measure) }) : null,
    };
  }

  pareto() {
    const [x, y] = ["x", "y"].map((name) => Number(this.choice("pareto", name)));
    const free = this.axisNumbers((axis) => !axis.condition), under = this.axisNumbers((axis) => axis.condition);
    const conditions = new Set(), groups = new Map();
    for (const point of this.shown) {
      const label = this.labelBy(point, free), condition = this.labelBy(point, under);
      conditions.add(condition);
      if (!groups.has(label)) groups.set(label, { label, x: [], y: [], group: this.at[point][free[0]] ?? 0 });
      const [px, py] = [this.value(x, "mean", point), this.value(y, "mean", point)];
      if (Number.isFinite(px) && Number.isFinite(py)) { groups.get(label).x.push(px); groups.get(label).y.push(py); }
    }
    const whole = [...groups.values()].filter((group) => group.x.length === conditions.size);
    const points = whole.map((group) => ({ ...group, x: average(group.x, this.page.measures[x].ratios), y: average(group.y, this.page.measures[y].ratios) }));
    const as = (measure, one, other) => (one === other ? 0 : this.isBetter(measure, one, other) ? 1 : -1);
    for (const point of points) {
      point.front = !points.some((other) => as(x, other.x, point.x) >= 0 && as(y, other.y, point.y) >= 0 && as(x, other.x, point.x) + as(y, other.y, point.y) > 0);
    }
    const left = groups.size - whole.length, used = [...new Set(points.map((point) => point.group))].sort((p, q) => p - q), axis = this.page.axes[free[0]];
    for (const point of points) point.group = used.indexOf(point.group);
    const named = axis && used.length > 1 && used.length <= MARKERS.length;
    if (!named) for (const point of points) point.group = 0;
    const text = [conditions.size > 1 ? `Averages over ${number(conditions.size)} conditions.` : "", "Filled: no other choice is at least as good in both and better in one.", left ? `${plural(left, "choice")} left out: runs are missing or do not count.` : "", this.shown.some((point) => this.notes[point]) ? "Some means lack runs, as the table of points says." : ""].filter(Boolean).join(" ");
    return {
      columns: ["choice", this.heading(x), this.heading(y), "on the front"], rows: points.map((point) => [point.label, point.x, point.y, point.front ? "yes" : "no"]).sort((p, q) => (p[3] < q[3]) - (p[3] > q[3])), text,
      draw: points.length && x !== y ? (size) => paretoPlot(size, points, this.directed(x), this.directed(y), named ? used.map((value) => axis.values[value]) : [], this.page.measures[x].better !== "higher") : null,
    };
  }

  directed(measure) {
    const { better } = this.page.measures[measure];
    return this.heading(measure) + (better ? `, ${better} is better` : "");
  }

  links() {
    const { name, unit, curves } = this.drawings.links, title = unit ? `${name} (${unit})` : name;
    const points = this.shown.filter((point) => curves[point]), chosen = points.slice(0, MOST_STEPS).map((point) => ({ name: this.labels[point] || "all runs", ...curves[point] }));
    return {
      columns: ["point", "label", title, "share of links up to it"], rows: points.flatMap((point) => curves[point].x.map((x, at) => [point + 1, this.labels[point], x, curves[point].y[at]])),
      text: `Links between switches, if there are any, of all runs of a point.${points.length > MOST_STEPS ? ` The first ${MOST_STEPS} of ${number(points.length)} points in the order of the table; filters choose others.` : ""}`,
      draw: chosen.length ? (size) => stepPlot(size, chosen, title) : null,
    };
  }

  // -- pictures of single runs ------------------------------------------------------------------

  showPoints() {
    const box = byId("point");
    if (!box) return;
    const { fabrics, matrices } = this.drawings, before = box.value;
    const points = this.shown.filter((point) => fabrics.loads?.[point] || matrices[point]);
    box.replaceChildren(...points.map((point) => element("option", { value: point }, this.labels[point] || "all runs")));
    if (points.includes(Number(before)) && before !== "") box.value = before;
  }

  fabric() {
    const { fabrics } = this.drawings, found = fabrics.loads[byId("point").value];
    if (!found) return { columns: [], rows: [], text: "" };
    const fabric = fabrics.fabrics[found.fabric], title = fabrics.unit ? `${fabrics.name} (${fabrics.unit})` : fabrics.name;
    // One scale for all runs, so that pictures can be compared.
    this.mostLoad ??= Object.values(fabrics.loads).reduce((most, each) => Math.max(most, ...each.load), 0);
    const rows = found.load.map((load, cable) => [fabric.labels[fabric.from[cable]], fabric.labels[fabric.to[cable]], load]).sort((p, q) => q[2] - p[2]);
    return {
      columns: ["from", "to", title], rows,
      text: `${this.labels[byId("point").value]}, on ${fabric.name}. Cables are thicker and darker with the larger ${fabrics.name} of their two directions; the scale is that of all runs.${fabric.hosts ? "" : " Hosts are not drawn."}`,
      draw: (size) => fabricPlot(size, fabric, found.load, title, this.mostLoad),
    };
  }

  matrix() {
    const found = this.drawings.matrices[byId("point").value];
    if (!found) return { columns: [], rows: [], text: "" };
    const rows = found.links.map((link, at) => [found.switches[found.block[at]], link, found.wait[at], found.share[at]]).sort((p, q) => q[2] - p[2]);
    return {
      columns: ["switch", "link", "wait (ns)", "share of the largest"], rows,
      text: `${this.labels[byId("point").value]}. A block is a switch: above, links from higher levels; below, links from lower ones; in the centre, their sum. Numbers are the total waits in % of the most loaded link, or switch. ${found.notes.join(" ")}`,
      draw: (size) => matrixPlot(size, found),
    };
  }

  save(name, text, type = "text/csv") {
    const slug = this.page.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 40) || "study";
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: `${slug}-${name}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
}

const numberText = (value) => (Number.isFinite(value) ? number(Number(value.toPrecision(5))) : "–");
const unitText = ({ unit }) => (unit ? `(${unit})` : "");
const verdictText = (p, otherwise) => {
  if (!Number.isFinite(p)) return otherwise;
  return `${p <= 0.05 ? "yes" : "no"} (p ${p < 0.001 ? "< 0.001" : `= ${p.toFixed(p < 0.1 ? 3 : 2)}`})`;
};
// A mean with the half-width of its interval to two significant digits.
function plusMinus(middle, half) {
  if (!Number.isFinite(middle)) return "–";
  if (!(half > 1e-6 * Math.abs(middle))) return numberText(middle);
  const places = Math.min(9, Math.max(0, 1 - Math.floor(Math.log10(half))));
  const fixed = (value) => value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }).replaceAll(",", "\u202f");
  return `${fixed(middle)} ± ${fixed(half)}`;
}
function csv(columns, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

startPage("The points and plots", async (page) => new StudyApp(page, await unpack("weft-points"), await unpack("weft-runs"), await unpack("weft-drawings")));
