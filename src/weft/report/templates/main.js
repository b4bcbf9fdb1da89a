// The state of the page: the chosen engine, pattern and selection, and the elements that show them.

class App extends PageApp {
  constructor(page, fabric) {
    super(page, fabric);
    Object.assign(this, { run: null, automatic: true });
    this.loaded = new Map();
    this.details = new Details(byId("details"), this);
    this.busiest = new BusiestList(byId("busiest"), this);
    this.chart = new Chart(byId("chart"), byId("chart-key"), (engine) => this.choose({ engine }));
    this.controls();
  }

  controls() {
    const { page } = this;
    const engine = byId("engine"), pattern = byId("pattern");
    for (const entry of page.engines) {
      engine.append(element("option", { value: entry.name, disabled: !entry.ran }, entry.ran ? entry.name : `${entry.name} (${entry.refused ? "refused" : "not run"})`));
    }
    for (const entry of page.patterns) {
      pattern.append(element("option", { value: entry.name, disabled: !entry.ran }, entry.ran ? entry.name : `${entry.name} (n/a)`));
    }
    engine.addEventListener("change", () => this.choose({ engine: engine.value }));
    pattern.addEventListener("change", () => this.choose({ pattern: pattern.value }));
    for (const button of document.querySelectorAll("[data-choose]")) {
      button.addEventListener("click", () => this.choose({ engine: button.dataset.choose }));
    }
    byId("same-scale").addEventListener("change", () => this.colour());
    byId("all-links").addEventListener("change", () => this.listBusiest());
    byId("log-load").addEventListener("change", () => { this.scaleChosen = true; this.showChart(); });
    if (page.scopeIsAll) byId("all-links").parentElement.hidden = true;
    const refused = document.querySelector("details.refused");
    if (!refused) return;
    let open = false;
    // It cannot be unfolded on paper.
    window.addEventListener("beforeprint", () => { [open, refused.open] = [refused.open, true]; });
    window.addEventListener("afterprint", () => { refused.open = open; });
  }

  retheme(dark) {
    this.drawing.dark = dark;
    this.drawing.paint();
    this.colour();
    this.listBusiest();
    this.showChart();
    this.details.show(this.selection, this.run);
  }

  factsOf(engine, pattern) {
    return this.page.runs.find((run) => run.engineName === engine && run.patternName === pattern);
  }

  async choose({ engine = this.engine, pattern = this.pattern }) {
    this.engine = engine;
    this.pattern = pattern;
    byId("engine").value = engine;
    byId("pattern").value = pattern;
    const facts = this.factsOf(engine, pattern);
    let run = null;
    if (facts) {
      if (!this.loaded.has(facts.index)) {
        if (this.loaded.size >= 12) this.loaded.delete(this.loaded.keys().next().value);
        this.loaded.set(facts.index, unpack(`weft-run-${facts.index}`).then((found) => new RunData(found, facts)));
      }
      run = await this.loaded.get(facts.index);
      if (this.engine !== engine || this.pattern !== pattern) return; // overtaken by another choice
    }
    this.run = run;
    for (const row of document.querySelectorAll("table.engines tr[data-engine]")) row.classList.toggle("chosen", row.dataset.engine === engine);
    byId("pattern-text").textContent = this.page.patterns.find((entry) => entry.name === pattern)?.text ?? "";
    this.describeRun();
    this.sorted = null;
    if (this.automatic) this.selection = run && run.busiest.length ? this.linkSelection(run.busiest[0]) : null;
    this.colour();
    this.listBusiest();
    this.showSelection();
    this.showNumbers();
    this.showChart();
  }

  describeRun() {
    const text = byId("run-text");
    if (!this.run) {
      text.textContent = `${this.engine} did not run ${this.pattern}.`;
      return;
    }
    const { stats, unrouted } = this.run;
    text.textContent = `${this.engine} under ${this.pattern}: the busiest of ${number(stats.links)} ${this.page.scope} has load ${number(stats.max)}, the median ${number(stats.p50)}, and ${percent(stats.used)} carry ${this.page.words.amount.toLowerCase()}.`
      + (unrouted > 0 ? ` ${percent(unrouted)} of the flows have no path.` : "");
  }

  // -- colour -----------------------------------------------------------------------------------

  topLoad() {
    const hosts = this.drawing.showHosts;
    const of = (facts) => (hosts ? facts.topAll : facts.topScope);
    if (!this.run) return 1;
    if (!byId("same-scale").checked) return of(this.run);
    return Math.max(...this.page.runs.filter((run) => run.patternName === this.pattern).map(of));
  }

  colourOf(load) {
    const colours = this.page.colours[this.drawing.mode()];
    return load > 0 ? colours.scale[1 + Math.min(62, Math.floor((load / this.drawing.top) * 63))] : colours.idle;
  }

  colour() {
    this.drawing.setRun(this.run, this.topLoad());
    byId("legend-title").textContent = "Load of the busier direction";
    const top = this.drawing.top;
    const ticks = [...niceTicks(top, 4).filter((value) => value < top * 0.82), top];
    this.showRamp(ticks, top, compact);
  }

  // -- selection --------------------------------------------------------------------------------

  pick(what) {
    this.automatic = false;
    this.selection = what;
    this.showSelection();
  }

  step(by) {
    const links = this.busiest.links ?? [];
    if (!links.length) return;
    const at = links.indexOf(this.selection?.link ?? -1);
    this.selectLink(links[(at + (at < 0 && by < 0 ? 0 : by) + links.length) % links.length], true);
  }

  showSelection() {
    this.details.show(this.selection, this.run);
    this.busiest.mark(this.selection?.link);
    this.drawing.setSelection(this.selection, this.ends());
    this.showChart();
  }

  // Return the nodes at the ends of the flows on the selected link.
  ends() {
    if (!this.run || this.selection?.kind !== "cable") return null;
    const links = this.selection.link === undefined ? [2 * this.selection.cable, 2 * this.selection.cable + 1] : [this.selection.link];
    const nodes = (key) => links.flatMap((link) => (this.run.users.get(link)?.[key] ?? []).map(([node]) => node));
    const ends = { sources: nodes("sources"), destinations: nodes("destinations"), parts: {} };
    // If there are many, the page has only those with the most flows.
    for (const [kind, key] of [["sources", "sourceCount"], ["destinations", "destinationCount"]]) {
      const count = links.reduce((sum, link) => sum + (this.run.users.get(link)?.[key] ?? 0), 0);
      ends.parts[kind] = { marked: ends[kind].length, count };
    }
    return ends;
  }

  rankText(link) {
    if (!this.run || !this.fabric.inScope(link >> 1)) return "";
    if (!this.sorted) {
      const loads = [];
      for (let l = 0; l < this.run.load.length; l++) if (this.fabric.inScope(l >> 1)) loads.push(this.run.load[l]);
      this.sorted = Float64Array.from(loads).sort();
    }
    if (this.run.load[link] === this.sorted.at(-1)) return `none of the ${this.page.scope} is hotter`;
    let low = 0, high = this.sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.sorted[middle] < this.run.load[link]) low = middle + 1;
      else high = middle;
    }
    return low ? `hotter than ${percent(Math.floor((1000 * low) / this.sorted.length) / 1000)} of ${this.page.scope}` : "";
  }

  about(what) {
    const fabric = this.fabric, lines = [];
    if (what.kind === "cable") {
      const cable = what.cable;
      lines.push(element("b", {}, fabric.cableName(cable)), element("div", {}, fabric.rate(cable)));
      for (const link of this.run ? [2 * cable, 2 * cable + 1] : []) {
        const arrow = link & 1 ? "<-" : "->";
        lines.push(element("div", {}, `${arrow} load ${number(this.run.load[link])}, ${amount(this.run.flows[link], this.page.words)}`));
      }
      const busier = this.run ? 2 * cable + (this.run.load[2 * cable + 1] > this.run.load[2 * cable] ? 1 : 0) : -1;
      const users = this.run?.users.get(busier);
      if (users) lines.push(element("div", {}, userLine(users, fabric)));
    } else {
      const hosts = [...fabric.cablesOf(what.node)].filter((c) => fabric.kind[fabric.aNode[c]] === 1 || fabric.kind[fabric.bNode[c]] === 1).length;
      lines.push(element("b", {}, fabric.names[what.node]), element("div", {}, fabric.kindName(what.node)));
      if (fabric.kind[what.node] === 0 && hosts) lines.push(element("div", {}, plural(hosts, "host cable")));
    }
    return lines;
  }

  // -- lists and the chart ----------------------------------------------------------------------

  listBusiest() {
    const links = this.run ? (byId("all-links").checked ? this.run.busiestAll : this.run.busiest) : [];
    this.busiest.show(links, this.run, (load) => this.colourOf(load), byId("all-links").checked ? "links" : this.page.scope);
    this.busiest.mark(this.selection?.link);
  }

  runsOfPattern() {
    return this.page.engines.map((entry) => this.factsOf(entry.name, this.pattern)).filter(Boolean);
  }

  showNumbers() {
    const table = byId("numbers"), keys = [...table.tHead.querySelectorAll("[data-key]")].map((head) => head.dataset.key);
    const shares = new Set(["used", "unrouted"]);
    table.tBodies[0].replaceChildren(...this.runsOfPattern().map((run) => {
      const row = element("tr", {}, element("th", { scope: "row" }, element("button", { type: "button", class: "plain", onclick: () => this.choose({ engine: run.engineName }) }, run.engineName)),
        ...keys.map((key) => element("td", { class: "number" }, shares.has(key) ? percent(key === "unrouted" ? run.unrouted : run.stats[key]) : number(run.stats[key]))));
      row.classList.toggle("chosen", run.engineName === this.engine);
      return row;
    }));
  }

  showChart() {
    if (!this.pattern) return;
    const series = this.page.colours[this.drawing.mode()].series;
    const place = new Map(this.page.engines.filter((entry) => entry.ran).map((entry, i) => [entry.name, i]));
    const curves = this.runsOfPattern().map((run) => ({
      name: run.engineName, x: run.cdf[0], y: run.cdf[1], chosen: run.engineName === this.engine,
      colour: series[place.get(run.engineName) % series.length], dash: DASHES[place.get(run.engineName) % DASHES.length],
    }));
    if (!this.scaleChosen) {
      // Use a log axis if a linear one would squeeze the chosen curve into its first twentieth.
      const tops = curves.map((curve) => curve.x.at(-1) ?? 0), shown = curves.find((curve) => curve.chosen);
      byId("log-load").checked = Boolean(shown) && Math.max(...tops) > 20 * (shown.x.at(-1) ?? 0);
    }
    byId("spread-text").textContent = `Load of ${this.page.scope} under ${this.pattern}: the further left and the steeper a curve, the more even it is.`;
    const link = this.selection?.link;
    const mark = this.run && link !== undefined && this.fabric.inScope(link >> 1) ? { value: this.run.load[link], text: "selected" } : null;
    this.chart.show(curves, this.page.scope, byId("log-load").checked, mark, this.page.words.load);
  }
}

startPage("The drawing", async (page) => {
  for (const [index, run] of page.runs.entries()) run.index = index;
  const app = new App(page, new FabricData(await unpack("weft-fabric"), page));
  const first = page.runs[page.defaultRun];
  if (first) await app.choose({ engine: first.engineName, pattern: first.patternName });
  else {
    app.colour();
    app.details.show(null);
    byId("run-text").textContent = "No engine ran.";
    for (const id of ["engine", "pattern"]) byId(id).disabled = true;
    byId("spread").hidden = true;
  }
  return app;
});
