// The page of routing keys: the chosen key, its flows, and the drawing of their paths.

const LISTED_FLOWS = 100, TIP_FLOWS = 6;
// Pixels between the lines of flows on one cable, and their largest sum.
const APART = 3, SPREAD = 18;

class KeyData {
  constructor(found, facts, fabric, lid) {
    Object.assign(this, found, facts, { fabric, lid, count: found.flow.length });
    this.all = [...this.flow.keys()];
    const { aNode, bNode, aPort, bPort } = fabric, byPort = new Map();
    for (let c = 0; c < fabric.numCables; c++) byPort.set(aNode[c] * 65536 + aPort[c], 2 * c).set(bNode[c] * 65536 + bPort[c], 2 * c + 1);
    this.offset = new Int32Array(this.count + 1);
    this.link = new Int32Array(this.port.length);
    for (const flow of this.all) {
      let node = this.source[flow], at = this.offset[flow];
      const end = (this.offset[flow + 1] = at + this.hops[flow]);
      for (; at < end; at++) {
        const link = (this.link[at] = byPort.get(node * 65536 + this.port[at]));
        node = (link & 1 ? aNode : bNode)[link >> 1];
      }
    }
    this.load = new Int32Array(2 * fabric.numCables);
    for (const link of this.link) this.load[link]++;
    this.cable = Int32Array.from({ length: fabric.numCables }, (_, c) => Math.max(this.load[2 * c], this.load[2 * c + 1]));
    this.prefix = /^\p{L}+$/u.test(this.name) ? this.name : `${this.name}.`;
  }

  links(flow) { return this.link.subarray(this.offset[flow], this.offset[flow + 1]); }

  // The path in the form of the paper, as `RoutingKey.lines`.
  line(flow) {
    const { aNode, bNode } = this.fabric;
    const rows = [...this.links(flow)].slice(0, -1).map((link) => (link & 1 ? aNode : bNode)[link >> 1]);
    return `${this.prefix}${this.flow[flow] + 1}: ${[...rows, `DLID(${this.lid[this.destination[flow]]})`].join("→")}`;
  }

  // Return the flows on a link, on a cable in either direction, or at a node.
  at({ link, cable, node }) {
    const { aNode, bNode } = this.fabric;
    const fits = link !== undefined ? (l) => l === link : cable !== undefined ? (l) => l >> 1 === cable : (l) => aNode[l >> 1] === node || bNode[l >> 1] === node;
    return this.all.filter((flow) => this.links(flow).some(fits));
  }
}

class KeyDrawing extends Drawing {
  setPaths(paths) {
    this.paths = paths;
    this.draw();
  }

  paintNodes(context, mode) {
    const count = new Map(), next = new Map();
    for (const { links } of this.paths ?? []) for (const link of links) count.set(link >> 1, (count.get(link >> 1) ?? 0) + 1);
    for (const { links, colour, faint } of this.paths ?? []) {
      context.globalAlpha = faint ? 0.2 : 1;
      context.strokeStyle = colour;
      context.lineWidth = 2;
      for (const cable of [...links].map((link) => link >> 1)) {
        const place = next.get(cable) ?? 0, many = count.get(cable);
        next.set(cable, place + 1);
        if (this.hiddenCable(cable) || !this.inView(cable)) continue;
        context.save();
        context.translate((place - (many - 1) / 2) * Math.min(APART, SPREAD / many), 0);
        context.beginPath();
        this.trace(context, cable);
        context.stroke();
        context.restore();
      }
    }
    context.globalAlpha = 1;
    super.paintNodes(context, mode);
    for (const { ends, colour, faint } of this.paths ?? []) {
      for (const [grow, node] of faint ? [] : ends.entries()) {
        if (!this.visibleNode(node)) continue;
        context.beginPath();
        context.arc(this.screenX(this.fabric.x[node]), this.screenY(this.fabric.y[node]), Math.max(3, this.nodeSize(node) / 2) + 3 * grow, 0, 2 * Math.PI);
        context.fillStyle = context.strokeStyle = colour;
        context.lineWidth = 1.5;
        if (grow) context.stroke();
        else context.fill();
      }
    }
  }
}

class KeyApp extends PageApp {
  constructor(page, fabric, lid) {
    super(page, fabric, KeyDrawing);
    Object.assign(this, { lid, data: null, flow: null, listed: [] });
    byId("key").append(...page.keys.map(({ name }, index) => element("option", { value: index }, name)));
    byId("key").disabled = !page.keys.length;
    byId("key").addEventListener("change", () => this.choose(Number(byId("key").value)));
    for (const button of document.querySelectorAll("[data-choose]")) {
      button.addEventListener("click", () => { this.choose(Number(button.dataset.choose)); byId("fabric").scrollIntoView(); });
    }
    byId("all-flows").addEventListener("click", () => this.pick(null));
  }

  async choose(index) {
    this.index = index;
    byId("key").value = index;
    const found = await unpack(`weft-key-${index}`);
    if (this.index !== index) return; // overtaken by another choice
    this.data = new KeyData(found, this.page.keys[index], this.fabric, this.lid);
    byId("key-text").textContent = `${this.data.name}: ${this.data.text}.`;
    for (const button of document.querySelectorAll("[data-choose]")) button.closest("tr").classList.toggle("chosen", Number(button.dataset.choose) === index);
    this.pick(null);
  }

  // The whole fabric stays in view: paths cross it.
  selectNode(node) { super.selectNode(node); }

  pick(what) {
    this.selection = what;
    this.listed = this.data ? (what ? this.data.at(what) : this.data.all) : [];
    this.flow = null;
    this.drawing.setSelection(what, null);
    this.colour();
  }

  chooseFlow(flow) {
    this.flow = this.flow === flow ? null : flow;
    this.colour();
  }

  step(by) {
    const flows = this.listed, at = flows.indexOf(this.flow);
    if (flows.length) this.chooseFlow(flows[(at + (at < 0 && by < 0 ? 0 : by) + flows.length) % flows.length]);
  }

  paint(colour) {
    const { series } = this.page.colours[this.drawing.mode()], many = this.data.labels.length;
    if (colour < 0) return series.at(-1);
    return many < series.length ? series[colour] : `hsl(${(360 * colour) / many} 75% ${this.drawing.dark ? 65 : 40}%)`;
  }

  retheme(dark) {
    this.drawing.dark = dark;
    this.colour();
    this.drawing.paint();
  }

  // Draw the chosen flows or, if they are too many, the loads of links.
  colour() {
    const { data, drawing, page, listed } = this, most = page.mostFlows;
    if (!data) { drawing.setRun(null, 1); return; }
    const strong = this.flow !== null ? [this.flow] : listed.length <= most ? listed : [];
    const shown = strong.length && data.count <= most ? data.all : strong;
    drawing.setPaths(shown.map((flow) => ({
      links: data.links(flow), ends: [data.source[flow], data.destination[flow]], colour: this.paint(data.colour[flow]), faint: !strong.includes(flow),
    })));
    const top = data.cable.reduce((most, load, c) => (drawing.hiddenCable(c) ? most : Math.max(most, load)), 2);
    drawing.setRun(shown.length ? null : data, top);
    document.querySelector(".legend").hidden = shown.length > 0;
    byId("legend-title").textContent = "Flows in the busier direction";
    this.showRamp([...new Set([1, Math.ceil(top / 2), top])], top, number);
    const used = [...new Set(strong.map((flow) => data.colour[flow]))].sort((p, q) => (p < 0) - (q < 0) || p - q);
    byId("colour-key").replaceChildren(...(strong.length ? used.map((colour) => element("span", {}, this.dot(colour), data.labels[colour] ?? "within a leaf switch")) : []),
      ...(strong.length ? ["● source", "○ destination"].map((text) => element("span", {}, text)) : []));
    this.list();
  }

  dot(colour) {
    const made = element("i", { class: "dot" });
    made.style.background = this.paint(colour);
    return made;
  }

  list() {
    const { data, listed, selection, fabric } = this;
    const where = !selection ? "" : selection.kind === "node" ? ` through ${fabric.names[selection.node]}` : ` on ${selection.link === undefined ? fabric.cableName(selection.cable) : fabric.linkName(selection.link)}`;
    byId("flows-text").textContent = plural(listed.length, "flow") + where
      + (listed.length > LISTED_FLOWS ? `; the first ${LISTED_FLOWS} are listed. Select a host, a switch or a cable for its flows.` : ".")
      + (!selection && data.flows > data.count ? ` Not listed: ${plural(data.flows - data.count, "flow")} within a host, or between the same hosts as another.` : "");
    byId("all-flows").hidden = !selection && this.flow === null;
    const rows = new Set(listed.slice(0, LISTED_FLOWS));
    if (this.flow !== null) rows.add(this.flow);
    byId("flows").replaceChildren(...[...rows].map((flow) => {
      const button = selectionButton(data.line(flow), () => { this.chooseFlow(flow); byId("flows").querySelector(".chosen button")?.focus(); });
      button.setAttribute("aria-pressed", String(flow === this.flow));
      const cell = element("td", {}, button, element("small", {}, `${fabric.names[data.source[flow]]} → ${fabric.names[data.destination[flow]]}`));
      cell.style.borderLeftColor = this.paint(data.colour[flow]);
      const row = element("tr", {}, cell);
      row.classList.toggle("chosen", flow === this.flow);
      return row;
    }));
    byId("flows").querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }

  about(what) {
    const { fabric, data } = this, lines = [];
    const add = (title, flows) => lines.push(element("b", {}, title), element("div", {}, plural(flows.length, "flow")),
      ...flows.slice(0, TIP_FLOWS).map((flow) => element("div", {}, this.dot(data.colour[flow]), data.line(flow))),
      ...(flows.length > TIP_FLOWS ? [element("div", {}, `and ${number(flows.length - TIP_FLOWS)} more`)] : []));
    const at = (place) => (data ? data.at(place) : []);
    if (what.kind === "node") add(fabric.names[what.node] + (fabric.kind[what.node] ? "" : `, number ${what.node}`), at(what));
    else for (const link of [2 * what.cable, 2 * what.cable + 1]) add(fabric.linkName(link), at({ link }));
    return lines;
  }
}

startPage("The drawing", async (page) => {
  const [fabric, { lid }] = await Promise.all([unpack("weft-fabric"), unpack("weft-lids")]);
  const app = new KeyApp(page, new FabricData(fabric, page), lid);
  if (page.keys.length) await app.choose(0);
  else app.colour();
  return app;
});
