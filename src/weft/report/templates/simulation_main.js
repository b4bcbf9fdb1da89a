// The state of a simulation's page: the moment and the selection, and the elements that show them.

const QUANTITIES = {
  use: ["Utilisation of the busier direction", "nothing sent"],
  held: ["Buffer occupancy: fullest lane of the fuller direction", "empty"],
  waiting: ["Packets that wait for the link, on average", "none"],
};
const LISTED_NODES = 150;

class Simulation extends PageApp {
  constructor(page, fabric, moments, trees, ranks, matrix) {
    super(page, fabric, SimulationDrawing);
    Object.assign(this, { moments, trees, ranks, chosenTree: null, quantity: "use", playing: false });
    this.frame = page.firstFrame;
    this.openTrees = new Set();
    this.chart = new TimeChart(byId("time-canvas"), this);
    this.matrix = new MatrixView(byId("matrix-canvas"), fabric, matrix, page.colours, {
      hover: (what, x, y) => this.hover(what, x, y, "matrix-"),
      pick: (what) => this.pickInMatrix(what),
      step: (by) => this.stepInMatrix(by),
      drawn: (text) => { byId("matrix-text").textContent = text; },
    });
    this.matrix.dark = this.drawing.dark;
    this.zoomButtons(this.matrix, "matrix-");
    this.controls();
    this.setStrips();
  }

  controls() {
    const slider = byId("slider");
    slider.max = this.moments.count - 1;
    slider.addEventListener("input", () => { this.pause(); this.show(Number(slider.value)); });
    byId("play").addEventListener("click", () => this.toggle());
    byId("quantity").addEventListener("change", (event) => { this.quantity = event.target.value; this.show(this.frame); });
    byId("time-in").addEventListener("click", () => this.chart.zoom(2));
    byId("time-out").addEventListener("click", () => this.chart.zoom(0.5));
    byId("show-trees").addEventListener("change", () => this.show(this.frame));
    for (const button of document.querySelectorAll("[data-link]")) button.addEventListener("click", () => this.selectLink(Number(button.dataset.link), true));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const tag = event.target.tagName, typing = tag === "SELECT" || (tag === "INPUT" && event.target.type !== "range" && event.target.type !== "checkbox");
    if (typing) return;
    const steps = { ",": -1, ".": 1 };
    if (tag !== "INPUT" && event.target.id !== "canvas") Object.assign(steps, { ArrowLeft: -1, ArrowRight: 1 });
    if (event.key === " " && tag !== "BUTTON" && tag !== "SUMMARY" && event.target.type !== "checkbox") this.toggle();
    else if (steps[event.key]) { this.pause(); this.show(this.frame + steps[event.key]); }
    else if (event.key === "Home" && tag !== "INPUT") { this.pause(); this.show(0); }
    else if (event.key === "End" && tag !== "INPUT") { this.pause(); this.show(this.moments.count - 1); }
    else return;
    event.preventDefault();
  }

  colour() { this.show(this.frame); }

  retheme(dark) {
    this.drawing.dark = dark;
    this.show(this.frame);
    this.drawing.paint();
    this.matrix.dark = dark;
    for (const part of [this.chart, this.matrix]) { part.draw(); part.paint(); }
  }

  // -- time ---------------------------------------------------------------------------------------

  now() { return this.moments.endNs[this.frame]; }

  goTo(ns) {
    this.pause();
    this.show(this.moments.frameAt(ns));
  }

  toggle() { if (this.playing) this.pause(); else this.play(); }

  play() {
    if (this.frame === this.moments.count - 1) this.show(0);
    this.playing = true;
    byId("play").textContent = "❚❚";
    byId("play").setAttribute("aria-label", "Pause");
    let before = performance.now(), due = this.frame;
    const tick = (at) => {
      if (!this.playing) return;
      due += ((at - before) / 1000) * (this.moments.count / Number(byId("speed").value));
      before = at;
      const frame = Math.min(this.moments.count - 1, Math.floor(due));
      if (frame !== this.frame) this.show(frame);
      if (frame === this.moments.count - 1) this.pause();
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pause() {
    this.playing = false;
    byId("play").textContent = "▶";
    byId("play").setAttribute("aria-label", "Play");
  }

  show(frame) {
    this.frame = Math.max(0, Math.min(this.moments.count - 1, frame));
    const { moments, quantity } = this, slider = byId("slider");
    slider.value = this.frame;
    slider.setAttribute("aria-valuetext", timeText(this.now()));
    byId("now").textContent = timeText(this.now());
    byId("moment").textContent = `moment ${number(this.frame + 1)} of ${number(moments.count)}`;
    const cable = new Float64Array(this.fabric.numCables);
    for (let c = 0; c < cable.length; c++) {
      cable[c] = Math.max(moments.value(quantity, this.frame, 2 * c), moments.value(quantity, this.frame, 2 * c + 1));
    }
    const top = quantity === "waiting" ? moments.topWaiting || 1 : 1;
    this.drawing.run = null;
    this.drawing.setRun({ cable }, top);
    this.legend(top);
    const trees = byId("show-trees").checked ? this.trees.at(this.frame) : [];
    if (this.chosenTree !== null && !trees.some((tree) => tree.root === this.chosenTree)) this.drawing.setTrees(trees, null);
    else this.drawing.setTrees(trees, this.chosenTree);
    this.listTrees();
    this.showSelection();
    this.chart.follow(this.now());
  }

  legend(top) {
    const colours = this.page.colours[this.drawing.mode()], share = this.quantity !== "waiting";
    byId("legend-title").textContent = QUANTITIES[this.quantity][0];
    byId("idle-text").textContent = QUANTITIES[this.quantity][1];
    const ticks = share ? [0, 0.25, 0.5, 0.75, 1] : [...niceTicks(top, 4).filter((value) => value < top * 0.82), top];
    this.showRamp(ticks, top, (value) => (share ? percent(value) : compact(Number(value.toPrecision(3)))));
    byId("matrix-legend-title").textContent = "Wait, share of the most loaded link or switch";
    this.showRamp([0, 0.25, 0.5, 0.75, 1], 1, percent, "matrix-");
    for (const swatch of document.querySelectorAll("[data-series]")) swatch.style.background = colours.series[Number(swatch.dataset.series)];
  }

  // -- links over time ------------------------------------------------------------------------------

  setStrips() {
    const { moments } = this;
    const sizes = this.trees.sizes(), most = Math.max(...sizes, 0) || 1;
    const strips = [{
      label: ["all hosts receive", `up to ${number(Number(moments.topDelivered.toPrecision(4)))} Gb/s`],
      area: moments.deliveredGbps, top: moments.topDelivered || 1, line: sizes, lineTop: most,
      say: (frame) => [`${number(Number(moments.deliveredGbps[frame].toPrecision(4)))} Gb/s received`, `${plural(sizes[frame], "buffer")} in congestion trees`],
    }];
    const chosen = this.selection?.link ?? (this.selection?.kind === "cable" ? 2 * this.selection.cable : undefined);
    const links = [...this.page.strips];
    if (chosen !== undefined && !links.includes(chosen)) links.unshift(chosen);
    for (const link of links) {
      const short = this.page.insideNames[link] ?? this.fabric.linkName(link, (node) => this.fabric.label(node));
      const [from, to] = short.split(" -> ");
      strips.push({
        link, label: [from, to ? `→ ${to}` : ""], area: moments.series("use", link), top: 1, line: moments.series("held", link),
        say: (frame) => this.linkLines(link, frame),
      });
    }
    this.chart.setStrips(strips);
  }

  linkName(link) { return this.page.insideNames[link] ?? this.fabric.linkName(link); }

  linkLines(link, frame) {
    const { moments } = this;
    return [
      `${shareText(moments.value("use", frame, link))} busy, ${number(Number(moments.value("waiting", frame, link).toPrecision(3)))} packets wait for it`,
      `${shareText(moments.value("held", frame, link))} of the buffer at its far end occupied`,
    ];
  }

  // -- congestion trees -------------------------------------------------------------------------------

  listTrees() {
    const trees = this.trees.at(this.frame), box = byId("trees");
    byId("trees-text").textContent = trees.length
      ? `Packets in full buffers wait for ${plural(trees.length, "link")}. Colour marks the buffers in which packets wait (broad if full); a number marks the link for which they wait.`
      : "No packet waits because of a full buffer.";
    box.replaceChildren(...trees.map((tree) => this.treeEntry(tree)));
  }

  treeEntry(tree) {
    const badge = element("i", { class: "tree-badge" }, String(tree.number + 1));
    badge.style.background = this.drawing.treeColour(tree);
    const held = tree.hosts ? `; ${plural(tree.hosts, "host")} held up with ${plural(tree.messages, "message")}${tree.elsewhere > 0 ? `, ${number(tree.elsewhere)} of them to other hosts` : ""}` : "";
    const entry = element("li", {}, badge,
      element("button", { type: "button", class: "plain name", title: "Show this tree alone", "aria-pressed": String(this.chosenTree === tree.root), onclick: () => this.chooseTree(tree) }, this.linkName(tree.root)),
      element("small", {}, `${plural(tree.count, "buffer")}, ${number(tree.full)} full, ${number(tree.height)} deep${held}`),
      ...(tree.cause === "link" ? [] : [element("small", { class: "cause" }, `${tree.cause}: ${tree.causeText}`)]));
    entry.classList.toggle("chosen", this.chosenTree === tree.root);
    const details = element("details", { open: this.openTrees.has(tree.root) }, element("summary", {}, "waiting buffers"));
    const fill = () => {
      if (details.children.length > 1) return;
      const nodes = depthFirst(tree.nodes).slice(0, LISTED_NODES);
      const list = element("ul", { class: "branches" }, ...nodes.map((node) => {
        const said = [WHY[node.why], node.full ? "full" : "", this.page.lanes > 1 ? `lane ${node.vl}` : ""].filter(Boolean).join(", ");
        const row = element("li", {}, element("button", { type: "button", class: "plain name", onclick: () => this.selectLink(node.link, true) }, this.linkName(node.link)), element("span", {}, said));
        row.style.paddingLeft = `${(node.depth - 1) * 0.8}rem`;
        return row;
      }));
      if (tree.count > nodes.length) list.append(element("li", {}, `and ${number(tree.count - nodes.length)} more`));
      details.append(list);
    };
    details.addEventListener("toggle", () => {
      if (details.open) { this.openTrees.add(tree.root); fill(); } else this.openTrees.delete(tree.root);
    });
    if (details.open) fill();
    entry.append(details);
    return entry;
  }

  chooseTree(tree) {
    this.chosenTree = this.chosenTree === tree.root ? null : tree.root;
    this.drawing.setTrees(this.trees.at(this.frame), this.chosenTree);
    this.listTrees();
  }

  step(by) {
    const trees = this.trees.at(this.frame);
    if (!trees.length) return;
    const at = trees.findIndex((tree) => tree.root === this.chosenTree);
    this.chosenTree = null;
    this.chooseTree(trees[(at + (at < 0 && by < 0 ? 0 : by) + trees.length) % trees.length]);
  }

  // -- selection --------------------------------------------------------------------------------------

  selectLink(link, look = false) {
    const inside = this.drawing.insideNode(link);
    if (inside >= 0) this.selectNode(inside, look);
    else super.selectLink(link, look);
  }

  pick(what) {
    this.selection = what;
    this.setStrips();
    this.showSelection();
  }

  showSelection() {
    const box = byId("details"), { selection, fabric, moments, frame } = this;
    this.drawing.setSelection(selection, null);
    this.matrix.setSelection(selection);
    if (!selection) {
      box.replaceChildren(element("p", { class: "about" }, "Point at a cable or a node in the drawing, or choose a link in a list."));
      return;
    }
    if (selection.kind === "cable") {
      const { cable } = selection, first = selection.link ?? 2 * cable;
      const facts = [fabric.rate(cable)];
      if (Number.isFinite(fabric.length[cable])) facts.push(`${number(fabric.length[cable])} m`);
      box.replaceChildren(element("p", { class: "about" }, facts.join(", ")), ...[first, first ^ 1].map((link) => element("div", { class: "way" },
        element("p", { class: "name" }, fabric.linkName(link)),
        element("p", {}, element("span", { class: "big" }, shareText(moments.value("use", frame, link))), " busy, ", element("span", { class: "big" }, shareText(moments.value("held", frame, link))), " of the buffer at its far end occupied"),
        element("p", { class: "about" }, [`${plural(Number(moments.value("waiting", frame, link).toPrecision(3)), "packet")} wait for it on average`, ...this.treesOf(link)].join("; ")))));
      return;
    }
    const { node } = selection, cables = [...fabric.cablesOf(node)];
    const rows = cables.map((cable) => (fabric.aNode[cable] === node ? 2 * cable : 2 * cable + 1))
      .sort((p, q) => moments.value("use", frame, q) - moments.value("use", frame, p) || p - q).slice(0, DETAIL_CABLES)
      .map((out) => element("tr", {},
        element("td", {}, selectionButton(`[${out & 1 ? fabric.bPort[out >> 1] : fabric.aPort[out >> 1]}] ${fabric.port(out >> 1, out & 1 ? 0 : 1)}`, () => this.selectLink(out, true))),
        ...[out, out ^ 1].map((link) => element("td", { class: "number" }, shareText(moments.value("use", frame, link)))),
        element("td", { class: "number" }, shareText(moments.value("held", frame, out ^ 1)))));
    box.replaceChildren(element("h4", { class: "name" }, fabric.names[node]), element("p", { class: "about" }, fabric.kindName(node)),
      element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Its cables" }, element("table", {},
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Port and far end"), ...["Out", "In", "Buffer here"].map((text) => element("th", { scope: "col", class: "number" }, text)))),
        element("tbody", {}, ...rows))));
  }

  // -- congestion matrix ------------------------------------------------------------------------------

  pickInMatrix(what) {
    const { canvas, matrix } = this.matrix, top = () => canvas.getBoundingClientRect().top, before = top();
    if (!what) this.pick(null);
    else if (what.cell === undefined) this.selectNode(matrix.node[what.block], true);
    else this.selectLink(matrix.link[what.cell], true);
    // The chart above gets or loses the strip of the selected link: the matrix stays below the pointer.
    window.scrollBy(0, top() - before);
  }

  stepInMatrix(by) {
    const { order } = this.matrix;
    if (!order.length) return;
    const at = order.findIndex((cell) => this.matrix.chosen(cell));
    this.pickInMatrix({ cell: order[(at + (at < 0 && by < 0 ? 0 : by) + order.length) % order.length] });
  }

  aboutMatrix({ cell, block }) {
    const { matrix } = this.matrix, name = this.fabric.names[matrix.node[block]];
    const wait = cell === undefined ? matrix.switchWait[block] : matrix.wait[cell];
    const share = cell === undefined ? matrix.switchShare[block] : matrix.share[cell];
    return [
      element("b", {}, cell === undefined ? name : this.linkName(matrix.link[cell])),
      element("div", {}, wait > 0 ? `${timeText(wait)} of waits in ${name}` : `no waits in ${name}`),
      ...(wait > 0 ? [element("div", {}, `${percent(share)} of the most loaded ${cell === undefined ? "switch" : "link"}`)] : []),
    ];
  }

  // Return the congestion trees that contain a link, in words.
  treesOf(link) {
    const found = [];
    for (const tree of this.trees.at(this.frame)) {
      if (tree.root === link) found.push(`root of congestion tree ${tree.number + 1}`);
      for (const node of tree.nodes) if (node.link === link) found.push(`congestion tree ${tree.number + 1}: its buffer ${this.page.lanes > 1 ? `of lane ${node.vl} ` : ""}waits (${WHY[node.why]})${node.full ? " and is full" : ""}`);
    }
    return found.slice(0, 4);
  }

  about(what) {
    if (what.block !== undefined) return this.aboutMatrix(what);
    const { fabric } = this, lines = [];
    if (what.kind === "cable") {
      for (const link of [2 * what.cable, 2 * what.cable + 1]) {
        lines.push(element("b", {}, fabric.linkName(link)), ...this.linkLines(link, this.frame).map((text) => element("div", {}, text)),
          ...this.treesOf(link).map((text) => element("div", {}, text)));
      }
    } else lines.push(element("b", {}, fabric.names[what.node]), element("div", {}, fabric.kindName(what.node)));
    return lines;
  }
}

startPage("The run over time", async (page) => {
  const [fabric, frames, trees, ranks, matrix] = await Promise.all(["fabric", "frames", "trees", "ranks", "matrix"].map((name) => unpack(`weft-${name}`)));
  const numLinks = 2 * fabric.aNode.length + Object.keys(page.insideNames).length;
  const app = new Simulation(page, new FabricData(fabric, page), new Moments(frames, numLinks), new Trees(trees), new RankData(ranks), matrix);
  app.show(app.frame);
  return app;
});
