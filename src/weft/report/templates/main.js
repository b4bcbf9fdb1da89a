// The state of the page: the chosen engine, pattern and selection, and the elements that show them.

class App {
  constructor(page, fabric) {
    Object.assign(this, { page, fabric, run: null, selection: null, automatic: true });
    this.loaded = new Map();
    this.drawing = new Drawing(byId("canvas"), fabric, page.colours, {
      hover: (what, x, y) => this.hover(what, x, y),
      pick: (what) => this.pick(what),
      step: (by) => this.step(by),
      drawn: (text) => { if (byId("drawing-text").textContent !== text) byId("drawing-text").textContent = text; },
    });
    this.details = new Details(byId("details"), this);
    this.busiest = new BusiestList(byId("busiest"), this);
    this.chart = new Chart(byId("chart"), byId("chart-key"), (engine) => this.choose({ engine }));
    this.search = new Search(byId("search"), byId("found"), this);
    this.theme = matchMedia("(prefers-color-scheme: dark)");
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
    byId("zoom-in").addEventListener("click", () => this.drawing.zoom(1.5));
    byId("zoom-out").addEventListener("click", () => this.drawing.zoom(1 / 1.5));
    byId("zoom-all").addEventListener("click", () => this.drawing.fit());
    byId("same-scale").addEventListener("change", () => this.colour());
    byId("show-hosts").addEventListener("change", (event) => { this.drawing.setHosts(event.target.checked); this.colour(); });
    byId("show-names").addEventListener("change", (event) => { this.drawing.showNames = event.target.checked; this.drawing.draw(); });
    byId("all-links").addEventListener("change", () => this.listBusiest());
    byId("log-load").addEventListener("change", () => { this.scaleChosen = true; this.showChart(); });
    if (!page.hostsDrawn || !page.hosts) {
      byId("show-hosts").checked = false;
      byId("hosts-option").hidden = true;
    }
    if (page.scopeIsAll) byId("all-links").parentElement.hidden = true;
    this.theme.addEventListener("change", () => this.retheme(this.theme.matches));
    const refused = document.querySelector("details.refused");
    let open = false;
    window.addEventListener("beforeprint", () => {
      this.retheme(false);
      if (refused) [open, refused.open] = [refused.open, true]; // it cannot be unfolded on paper
    });
    window.addEventListener("afterprint", () => {
      this.retheme(this.theme.matches);
      if (refused) refused.open = open;
    });
    this.drawing.dark = this.theme.matches;
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
    text.textContent = `${this.engine} under ${this.pattern}: the busiest of ${number(stats.links)} ${this.page.scope} has load ${number(stats.max)}, the median ${number(stats.p50)}, and ${percent(stats.used)} carry flows.`
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
    const colours = this.page.colours[this.drawing.mode()];
    byId("legend-title").textContent = "Load of the busier direction";
    byId("ramp").style.background = `linear-gradient(to right, ${colours.scale.join(", ")})`;
    byId("idle-swatch").style.background = colours.idle;
    const top = this.drawing.top;
    const ticks = [...niceTicks(top, 4).filter((value) => value < top * 0.82), top];
    showTicks(byId("ramp-ticks"), ticks, top, compact);
  }

  // -- selection --------------------------------------------------------------------------------

  linkSelection(link) { return { kind: "cable", cable: link >> 1, link }; }

  selectLink(link, look = false) {
    this.selection = this.linkSelection(link);
    this.automatic = false;
    this.reveal(this.fabric.toHost(link >> 1));
    this.showSelection();
    if (look) this.drawing.lookAtCable(link >> 1);
  }

  selectNode(node, look = false) {
    this.selection = { kind: "node", node };
    this.automatic = false;
    this.reveal(this.fabric.kind[node] !== 0 && !this.fabric.forwards[node]);
    this.showSelection();
    if (look) this.drawing.lookAtNode(node);
  }

  // Show the hosts if a host is selected and the page can draw hosts.
  reveal(host) {
    if (!host || this.drawing.showHosts || !this.page.hostsDrawn) return;
    byId("show-hosts").checked = true;
    this.drawing.setHosts(true);
    this.colour();
  }

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

  hover(what, x, y) {
    const box = byId("hover");
    byId("canvas").classList.toggle("over", Boolean(what));
    box.hidden = !what;
    if (!what) return;
    const fabric = this.fabric, lines = [];
    if (what.kind === "cable") {
      const cable = what.cable;
      if (what.bundle) lines.push(element("div", {}, what.bundle), element("div", {}, "Its busiest cable:"));
      lines.push(element("b", {}, fabric.cableName(cable)), element("div", {}, fabric.rate(cable)));
      for (const link of this.run ? [2 * cable, 2 * cable + 1] : []) {
        const arrow = link & 1 ? "<-" : "->";
        lines.push(element("div", {}, `${arrow} load ${number(this.run.load[link])}, ${plural(this.run.flows[link], "flow")}`));
      }
      const busier = this.run ? 2 * cable + (this.run.load[2 * cable + 1] > this.run.load[2 * cable] ? 1 : 0) : -1;
      const users = this.run?.users.get(busier);
      if (users) lines.push(element("div", {}, userLine(users, fabric)));
    } else {
      const hosts = [...fabric.cablesOf(what.node)].filter((c) => fabric.kind[fabric.aNode[c]] === 1 || fabric.kind[fabric.bNode[c]] === 1).length;
      lines.push(element("b", {}, fabric.names[what.node]), element("div", {}, fabric.kindName(what.node)));
      if (fabric.kind[what.node] === 0 && hosts) lines.push(element("div", {}, plural(hosts, "host cable")));
    }
    box.replaceChildren(...lines);
    const frame = box.parentElement.getBoundingClientRect();
    const left = Math.min(x + 16, frame.width - box.offsetWidth - 6);
    const above = y + 18 + box.offsetHeight > frame.height;
    box.style.left = `${Math.max(6, left)}px`;
    box.style.top = `${above ? Math.max(4, y - box.offsetHeight - 12) : y + 18}px`;
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
    byId("spread-text").textContent = `Load of ${this.page.scope} under ${this.pattern}: the further left and the steeper a curve, the more evenly its engine spreads the flows.`;
    const link = this.selection?.link;
    const mark = this.run && link !== undefined && this.fabric.inScope(link >> 1) ? { value: this.run.load[link], text: "selected" } : null;
    this.chart.show(curves, this.page.scope, byId("log-load").checked, mark);
  }

  // Where a cable is drawn, in pixels of the window: for scripts that drive the page.
  cablePoint(cable, share = 0.5) {
    const box = byId("canvas").getBoundingClientRect();
    const [x, y] = this.drawing.onCable(cable, share);
    return { x: box.left + x, y: box.top + y };
  }
}

async function start() {
  const page = JSON.parse(byId("weft-page").textContent);
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old to unpack the drawing (it lacks DecompressionStream); the tables above are complete");
  }
  for (const [index, run] of page.runs.entries()) run.index = index;
  document.documentElement.classList.add("ready");
  const app = new App(page, new FabricData(await unpack("weft-fabric"), page));
  window.weftReport = app;
  const first = page.runs[page.defaultRun];
  if (first) await app.choose({ engine: first.engineName, pattern: first.patternName });
  else {
    app.colour();
    app.details.show(null);
    byId("run-text").textContent = "No engine ran.";
    for (const id of ["engine", "pattern"]) byId(id).disabled = true;
    byId("spread").hidden = true;
  }
  document.documentElement.dataset.state = "done";
}

start().catch((error) => {
  document.documentElement.classList.remove("ready");
  const box = byId("failure");
  box.textContent = `The drawing cannot be shown: ${error.message}`;
  box.hidden = false;
  console.error(error);
});
