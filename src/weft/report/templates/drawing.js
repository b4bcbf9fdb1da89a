// The drawing: cables by load, nodes, names, the selection. It does not depend on the rest of the page.

// Up to this many cables in view are drawn one by one; if there are more, one line stands for all cables between two groups.
const MOST_CABLES = 5000;
// Share of the drawing that lines may cover; where two lines overlap, the area counts twice.
const MOST_INK = 0.3;
const BINS = 64;
const SELECTED = { light: "#0b5fc0", dark: "#74b5ff" };
const MARK = { light: "#c1121f", dark: "#ff6b6b" };
const SOURCE = { light: "#0a7d4f", dark: "#4ade80" }, DESTINATION = { light: "#b3187a", dark: "#ff7ac6" };

class Drawing extends FabricView {
  constructor(canvas, fabric, colours, events) {
    super(canvas, fabric, colours, events);
    this.showNames = true;
    this.selection = null;
    this.ends = null;
    this.run = null;
    this.top = 1;
    this.labelWidths = new Map();
    const switches = fabric.kind.reduce((count, kind) => count + (kind === 0 ? 1 : 0), 0);
    this.fewSwitches = switches <= 64;
    this.leastSwitch = this.fewSwitches ? 9 : switches <= 700 ? 5 : 2.5;
    this.bin = new Uint8Array(fabric.numCables);
    this.order = new Int32Array(0);
    this.drawn = new Uint8Array(fabric.numCables);
    this.bundled = false;
    this.lines = fabric.numCables;
    this.thin = 1;
    this.bundles = new Bundles(fabric);
    this.start();
  }

  // -- what is shown ----------------------------------------------------------------------------

  setRun(run, top) {
    this.run = run;
    this.top = top > 0 ? top : 1;
    const count = new Int32Array(BINS + 1);
    for (let c = 0; c < this.fabric.numCables; c++) {
      const load = run ? run.cable[c] : 0;
      this.bin[c] = load > 0 ? 1 + Math.min(BINS - 2, Math.floor((load / this.top) * (BINS - 1))) : 0;
      count[this.bin[c]]++;
    }
    const start = new Int32Array(BINS + 1);
    for (let b = 0; b < BINS; b++) start[b + 1] = start[b] + count[b];
    this.order = new Int32Array(this.fabric.numCables);
    // Sort each class, so that hotter cables are drawn later.
    const next = start.slice();
    for (let c = 0; c < this.fabric.numCables; c++) this.order[next[this.bin[c]]++] = c;
    if (run) {
      for (let b = 1; b < BINS; b++) {
        this.order.subarray(start[b], start[b + 1]).sort((p, q) => run.cable[p] - run.cable[q] || q - p);
      }
    }
    this.bundles.load(run);
    this.draw();
  }

  setSelection(selection, ends) {
    this.selection = selection;
    this.ends = ends;
    this.draw();
  }

  setHosts(shown) {
    this.showHosts = shown;
    this.resize();
    this.fit();
  }

  cableWidth(bin, host) {
    const zoom = Math.sqrt(this.scale / this.fitScale);
    const most = Math.max(0.5, Math.min(4.5, 72 / Math.sqrt(this.lines + 1))) * Math.min(zoom, 3);
    const share = bin / (BINS - 1);
    return Math.max(0.3, (0.2 * most + 0.3 + most * share * share) * (host ? 0.55 : 1) * this.thin);
  }

  // Make lines thinner where together they would cover the drawing.
  thinLines(lines) {
    this.lines = this.bundled ? this.bundles.between.length : this.fabric.numCables;
    this.thin = 1;
    let ink = 0;
    for (const [bin, host, dx, dy] of lines) {
      ink += this.cableWidth(bin, host) * Math.min(Math.hypot(dx, dy) * this.scale, this.height);
    }
    this.thin = Math.min(1, (MOST_INK * this.width * this.height) / Math.max(ink, 1));
  }

  // -- drawing ----------------------------------------------------------------------------------

  inView(cable) {
    const { aNode, bNode, x, y } = this.fabric;
    const a = aNode[cable], b = bNode[cable];
    const x1 = this.screenX(x[a]), x2 = this.screenX(x[b]), x3 = this.screenX(this.controlX[cable]);
    if ((x1 < 0 && x2 < 0 && x3 < 0) || (x1 > this.width && x2 > this.width && x3 > this.width)) return false;
    const y1 = this.screenY(y[a]), y2 = this.screenY(y[b]), y3 = this.screenY(this.controlY[cable]);
    return !((y1 < 0 && y2 < 0 && y3 < 0) || (y1 > this.height && y2 > this.height && y3 > this.height));
  }

  trace(context, cable) {
    const { aNode, bNode, x, y } = this.fabric;
    const a = aNode[cable], b = bNode[cable];
    context.moveTo(this.screenX(x[a]), this.screenY(y[a]));
    context.quadraticCurveTo(
      this.screenX(this.controlX[cable]), this.screenY(this.controlY[cable]),
      this.screenX(x[b]), this.screenY(y[b]));
  }

  paint() {
    const context = this.context, mode = this.mode();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = this.colours[mode].page;
    context.fillRect(0, 0, this.width, this.height);
    context.lineCap = "round";

    // The busiest last, so that nothing hides them.
    this.drawn.fill(0);
    const shown = [];
    for (const cable of this.order) {
      if (this.hiddenCable(cable) || !this.inView(cable)) continue;
      shown.push(cable);
    }
    this.bundled = shown.length > MOST_CABLES;
    const { aNode, bNode, x, y } = this.fabric, { groups } = this.bundles;
    this.thinLines(this.bundled
      ? this.bundles.between.filter((bundle) => this.visibleBundle(bundle))
        .map(({ a, b, cable }) => [this.bin[cable], false, groups[a].x - groups[b].x, groups[a].y - groups[b].y])
      : shown.map((c) => [this.bin[c], this.hostCable[c] === 1, x[aNode[c]] - x[bNode[c]], y[aNode[c]] - y[bNode[c]]]));
    if (this.bundled) this.paintBundles(context, mode);
    for (const host of this.bundled ? [] : [1, 0]) {
      let bin = -1, inPath = 0;
      for (const cable of shown) {
        this.drawn[cable] = 1;
        if (this.hostCable[cable] !== host) continue;
        if (this.bin[cable] !== bin || inPath === 256) {
          if (inPath) context.stroke();
          bin = this.bin[cable];
          inPath = 0;
          context.beginPath();
          context.strokeStyle = bin ? this.colours[mode].scale[bin] : this.colours[mode].idle;
          context.lineWidth = this.cableWidth(bin, host === 1);
        }
        this.trace(context, cable);
        inPath++;
      }
      if (inPath) context.stroke();
    }
    if (!this.moving) this.events.drawn(this.caption(shown.length));
    this.paintNodes(context, mode);
    this.paintMarks(context, mode);
    this.paintSelection(context, mode);
    if (this.showNames) this.paintNames(context, mode);
  }

  // Explain how to read the drawing and what its symbols stand for.
  caption(inView) {
    const { facts } = this.fabric, parts = [facts.layoutText, facts.marksText];
    if (!facts.hostsDrawn && facts.hosts) parts.push(`The ${number(facts.hosts)} hosts and their cables are too many to draw. Point at a switch for its number of hosts; search for a single host.`);
    if (this.bundled) {
      const lines = this.bundles.between.filter((bundle) => this.visibleBundle(bundle));
      const switches = this.bundles.groups.filter((group) => !group.hosts), inside = this.bundles.inside.some(Boolean);
      parts.push(`No cable is left out: ${number(inView)} cables in view are too many to draw one by one. A box stands for neighbouring switches (${number(switches.length)} such boxes) or for their hosts. A line stands for all cables between two boxes (${plural(lines.length, "line")}), in the colour of the busiest cable.`
        + (inside ? " A box has the colour of the busiest cable inside it." : "") + " Zoom in for single cables.");
    }
    for (const [kind, { marked, count }] of Object.entries(this.ends?.parts ?? {}))
      if (marked < count) parts.push(`Of the ${number(count)} ${kind} of the selected link's flows, the ${number(marked)} with most flows are marked.`);
    return parts.filter(Boolean).join(" ");
  }

  visibleBundle({ a, b, cable }) {
    if (this.hiddenCable(cable)) return false;
    const [p, q] = [this.bundles.groups[a], this.bundles.groups[b]];
    const px = this.screenX(p.x), py = this.screenY(p.y), qx = this.screenX(q.x), qy = this.screenY(q.y);
    return Math.max(px, qx) > 0 && Math.min(px, qx) < this.width && Math.max(py, qy) > 0 && Math.min(py, qy) < this.height;
  }

  paintBundles(context, mode) {
    const { between, groups } = this.bundles;
    for (const bundle of between) {
      if (!this.visibleBundle(bundle)) continue;
      const bin = this.bin[bundle.cable], p = groups[bundle.a], q = groups[bundle.b];
      context.beginPath();
      context.strokeStyle = bin ? this.colours[mode].scale[bin] : this.colours[mode].idle;
      context.lineWidth = this.cableWidth(bin, false);
      context.moveTo(this.screenX(p.x), this.screenY(p.y));
      context.lineTo(this.screenX(q.x), this.screenY(q.y));
      context.stroke();
    }
  }

  // Nodes are drawn one by one where there is room between them, else as boxes.
  boxed(node) {
    return this.bundled && this.fabric.group[node] >= 0 && this.scale * this.fabric.facts.switchGap < 8;
  }

  box(group) {
    const half = this.nodeSize(group.nodes[0]) / 2;
    const left = this.screenX(group.left) - half, top = this.screenY(group.high) - half;
    return [left, top, this.screenX(group.right) + half - left, this.screenY(group.low) + half - top];
  }

  paintGroups(context, mode) {
    for (const [number, group] of this.bundles.groups.entries()) {
      if (this.hiddenNode(group.nodes[0]) || !this.boxed(group.nodes[0])) continue;
      const inside = this.bundles.inside[number], [left, top, width, height] = this.box(group);
      const ink = group.hosts ? this.colours[mode].host : this.colours[mode].ink;
      context.fillStyle = inside ? this.colours[mode].scale[this.bin[inside.cable]] ?? ink : ink;
      // Leave a gap between neighbouring boxes.
      context.fillRect(left + 0.5, top, Math.max(width - 1, 1), height);
      if (inside) {
        context.strokeStyle = ink;
        context.lineWidth = 1;
        context.strokeRect(left + 1, top + 0.5, Math.max(width - 2, 1), height - 1);
      }
    }
  }

  nodeSize(node) {
    return this.fabric.kind[node] === 0
      ? Math.max(this.leastSwitch, Math.min(14, 0.42 * this.scale * this.fabric.facts.switchGap))
      : Math.max(1.6, Math.min(9, 0.3 * this.scale));
  }

  visibleNode(node, margin = 20) {
    if (this.hiddenNode(node)) return false;
    const x = this.screenX(this.fabric.x[node]), y = this.screenY(this.fabric.y[node]);
    return x > -margin && y > -margin && x < this.width + margin && y < this.height + margin;
  }

  paintNodes(context, mode) {
    const { kind, x, y, numNodes } = this.fabric;
    if (this.bundled) this.paintGroups(context, mode);
    for (const isSwitch of [false, true]) {
      context.fillStyle = isSwitch ? this.colours[mode].ink : this.colours[mode].host;
      context.beginPath();
      for (let n = 0; n < numNodes; n++) {
        if ((kind[n] === 0) !== isSwitch || this.boxed(n) || !this.visibleNode(n)) continue;
        const size = this.nodeSize(n), px = this.screenX(x[n]), py = this.screenY(y[n]);
        if (isSwitch || size < 3) context.rect(px - size / 2, py - size / 2, size, size);
        else { context.moveTo(px + size / 2, py); context.arc(px, py, size / 2, 0, 2 * Math.PI); }
      }
      context.fill();
    }
  }

  paintSelection(context, mode) {
    if (!this.selection) return;
    const accent = SELECTED[mode];
    if (this.ends) {
      for (const [nodes, colour] of [[this.ends.sources, SOURCE[mode]], [this.ends.destinations, DESTINATION[mode]]]) {
        context.strokeStyle = colour;
        context.lineWidth = 2;
        const grow = colour === SOURCE[mode] ? 3 : 8;
        const boxes = new Set();
        for (const node of nodes) {
          if (!this.visibleNode(node)) continue;
          if (this.boxed(node)) { boxes.add(this.fabric.group[node]); continue; }
          context.beginPath();
          context.arc(this.screenX(this.fabric.x[node]), this.screenY(this.fabric.y[node]), (this.nodeSize(node) + grow) / 2, 0, 2 * Math.PI);
          context.stroke();
        }
        for (const number of boxes) {
          const [left, top, width, height] = this.box(this.bundles.groups[number]);
          context.strokeRect(left - grow / 3, top - grow / 2, width + grow / 1.5, height + grow);
        }
      }
    }
    if (this.selection.kind === "cable") {
      const cable = this.selection.cable, bin = this.bin[cable];
      const width = Math.max(2.5, this.cableWidth(bin, this.hostCable[cable] === 1));
      for (const [colour, extra] of [[accent, 7], [this.colours[mode].page, 3], [bin ? this.colours[mode].scale[bin] : this.colours[mode].idle, 0]]) {
        context.beginPath();
        this.trace(context, cable);
        context.strokeStyle = colour;
        context.lineWidth = width + extra;
        context.stroke();
      }
      if (this.selection.link !== undefined) this.paintArrow(context, accent);
      for (const node of [this.fabric.aNode[cable], this.fabric.bNode[cable]]) this.ring(context, node, accent);
    } else {
      this.ring(context, this.selection.node, accent);
    }
  }

  // Cross out what fails, dash its cables, and ring what is marked for another reason.
  paintMarks(context, mode) {
    const { x, y } = this.fabric;
    context.font = `bold 12px ${FONT}`;
    context.textAlign = "left";
    for (const { node, cable, fails, text } of this.fabric.facts.marks ?? []) {
      if (cable >= 0 ? this.hiddenCable(cable) || !this.inView(cable) : !this.visibleNode(node)) continue;
      const [px, py] = cable >= 0 ? this.onCable(cable, 0.5) : [this.screenX(x[node]), this.screenY(y[node])];
      const half = cable >= 0 ? 5 : this.nodeSize(node) / 2 + 4;
      for (const [colour, extra] of [[this.colours[mode].page, 2.5], [MARK[mode], 0]]) {
        context.strokeStyle = colour;
        context.lineWidth = 2.5 + extra;
        context.beginPath();
        if (fails) {
          context.moveTo(px - half, py - half); context.lineTo(px + half, py + half);
          context.moveTo(px + half, py - half); context.lineTo(px - half, py + half);
        } else context.arc(px, py, half, 0, 2 * Math.PI);
        context.stroke();
      }
      if (cable >= 0) {
        context.setLineDash([5, 4]);
        context.lineWidth = 1.5;
        context.beginPath();
        this.trace(context, cable);
        context.stroke();
        context.setLineDash([]);
      }
      context.lineWidth = 3.5;
      context.strokeStyle = this.colours[mode].page;
      context.strokeText(text, px + half + 2, py + half + 4);
      context.fillStyle = MARK[mode];
      context.fillText(text, px + half + 2, py + half + 4);
    }
  }

  ring(context, node, colour) {
    const size = this.nodeSize(node) + 8;
    context.strokeStyle = colour;
    context.lineWidth = 2.5;
    context.strokeRect(this.screenX(this.fabric.x[node]) - size / 2, this.screenY(this.fabric.y[node]) - size / 2, size, size);
  }

  paintArrow(context, colour) {
    const { cable, link } = this.selection;
    const tail = link & 1 ? this.fabric.bNode[cable] : this.fabric.aNode[cable];
    const head = link & 1 ? this.fabric.aNode[cable] : this.fabric.bNode[cable];
    const forward = tail < head;
    const [fromX, fromY] = this.onCable(cable, forward ? 0.52 : 0.48);
    const [toX, toY] = this.onCable(cable, forward ? 0.56 : 0.44);
    const angle = Math.atan2(toY - fromY, toX - fromX);
    context.save();
    context.translate(toX, toY);
    context.rotate(angle);
    context.beginPath();
    context.moveTo(11, 0); context.lineTo(-7, 8); context.lineTo(-3, 0); context.lineTo(-7, -8);
    context.closePath();
    context.fillStyle = colour;
    context.strokeStyle = this.colours[this.mode()].page;
    context.lineWidth = 2;
    context.stroke();
    context.fill();
    context.restore();
  }

  paintNames(context, mode) {
    const { kind, names, x, y, numNodes } = this.fabric;
    const important = new Set();
    if (this.selection) {
      const { cable, node } = this.selection;
      if (cable !== undefined) important.add(this.fabric.aNode[cable]).add(this.fabric.bNode[cable]);
      else important.add(node);
    }
    const crowded = 24, crowdedHosts = 44;
    const wanted = [...important];
    if (this.scale * this.fabric.facts.switchGap >= crowded || this.fewSwitches || numNodes < 200) {
      for (let n = 0; n < numNodes; n++) if (kind[n] === 0 && !important.has(n) && this.visibleNode(n, 0)) wanted.push(n);
    }
    if (this.scale >= crowdedHosts) {
      for (let n = 0; n < numNodes; n++) if (kind[n] !== 0 && !important.has(n) && this.visibleNode(n, 0)) wanted.push(n);
    }
    context.font = `11px ${FONT}`;
    context.textAlign = "center";
    context.lineJoin = "round";
    const taken = [];
    for (const node of wanted.slice(0, 1500)) {
      if (taken.length > 350) break;
      const text = important.has(node) && names[node].length <= 40 ? names[node] : this.fabric.label(node);
      let width = this.labelWidths.get(text);
      if (width === undefined) this.labelWidths.set(text, width = context.measureText(text).width);
      const size = this.nodeSize(node), half = width / 2 + 3;
      const px = Math.max(half, Math.min(this.screenX(x[node]), this.width - half));
      // Put the label above a switch or below a host, or on the other side if that place is taken.
      const sides = kind[node] === 0 ? [-1, 1] : [1, -1];
      for (const side of sides) {
        const py = this.screenY(y[node]) + (side < 0 ? -size / 2 - 5 : size / 2 + 12);
        const box = [px - width / 2 - 2, py - 10, px + width / 2 + 2, py + 3];
        if (taken.some((t) => t[0] < box[2] && box[0] < t[2] && t[1] < box[3] && box[1] < t[3])) continue;
        taken.push(box);
        context.strokeStyle = this.colours[mode].page;
        context.lineWidth = 3.5;
        context.strokeText(text, px, py);
        context.fillStyle = important.has(node) ? SELECTED[mode] : kind[node] === 0 ? this.colours[mode].ink : this.colours[mode].muted;
        context.fillText(text, px, py);
        break;
      }
    }
  }

  // -- picking ----------------------------------------------------------------------------------

  pick(px, py) {
    const { x, y, numNodes, aNode, bNode } = this.fabric;
    let best = null, nearest = Infinity;
    for (let n = 0; n < numNodes; n++) {
      if (this.hiddenNode(n)) continue;
      const distance = Math.max(Math.abs(this.screenX(x[n]) - px), Math.abs(this.screenY(y[n]) - py));
      if (distance <= Math.max(4, this.nodeSize(n) / 2 + 2) && distance < nearest) { nearest = distance; best = { kind: "node", node: n }; }
    }
    if (best) return best;
    if (this.bundled) return this.pickBundle(px, py);
    const reach = 7;
    nearest = Infinity;
    let busiest = -1;
    for (let c = 0; c < this.fabric.numCables; c++) {
      if (!this.drawn[c]) continue;
      const x1 = this.screenX(x[aNode[c]]), x2 = this.screenX(x[bNode[c]]), x3 = this.screenX(this.controlX[c]);
      if (Math.min(x1, x2, x3) > px + reach || Math.max(x1, x2, x3) < px - reach) continue;
      const y1 = this.screenY(y[aNode[c]]), y2 = this.screenY(y[bNode[c]]), y3 = this.screenY(this.controlY[c]);
      if (Math.min(y1, y2, y3) > py + reach || Math.max(y1, y2, y3) < py - reach) continue;
      const width = this.cableWidth(this.bin[c], this.hostCable[c] === 1) / 2;
      const distance = Math.max(0, curveDistance(x1, y1, x3, y3, x2, y2, px, py) - width - 1);
      const load = this.run ? this.run.cable[c] : 0;
      // Where several cables run through one point, choose the one drawn on top.
      if (distance <= reach && (distance < nearest || (distance === nearest && load > busiest))) {
        nearest = distance; busiest = load; best = { kind: "cable", cable: c };
      }
    }
    return best;
  }

  pickBundle(px, py) {
    let best = null, nearest = 7;
    for (const bundle of this.bundles.between) {
      if (!this.visibleBundle(bundle)) continue;
      const p = this.bundles.groups[bundle.a], q = this.bundles.groups[bundle.b];
      const [x1, y1, x2, y2] = [this.screenX(p.x), this.screenY(p.y), this.screenX(q.x), this.screenY(q.y)];
      const distance = curveDistance(x1, y1, (x1 + x2) / 2, (y1 + y2) / 2, x2, y2, px, py);
      if (distance <= nearest) { nearest = distance; best = bundle; }
    }
    return best && { kind: "cable", cable: best.cable, bundle: this.bundles.text(best) };
  }
}

// Bundles of cables: one for each pair of connected groups of nodes, and one inside each group.
class Bundles {
  constructor(fabric) {
    const { group, kind, x, y, numNodes, numCables, aNode, bNode } = fabric, byPair = new Map();
    this.groups = [];
    for (let n = 0; n < numNodes; n++) {
      if (group[n] < 0) continue;
      const of = (this.groups[group[n]] ??= { nodes: [], hosts: kind[n] !== 0, left: Infinity, right: -Infinity, low: Infinity, high: -Infinity });
      of.nodes.push(n);
      of.left = Math.min(of.left, x[n]); of.right = Math.max(of.right, x[n]);
      of.low = Math.min(of.low, y[n]); of.high = Math.max(of.high, y[n]);
    }
    for (const of of this.groups) { of.x = (of.left + of.right) / 2; of.y = (of.low + of.high) / 2; }
    for (let c = 0; c < numCables; c++) {
      const a = Math.min(group[aNode[c]], group[bNode[c]]), b = Math.max(group[aNode[c]], group[bNode[c]]);
      if (a < 0) continue;
      const key = a * this.groups.length + b;
      let bundle = byPair.get(key);
      if (!bundle) byPair.set(key, bundle = { a, b, cables: [], cable: c, load: 0 });
      bundle.cables.push(c);
    }
    const all = [...byPair.values()];
    this.between = all.filter(({ a, b }) => a !== b);
    this.inside = this.groups.map(() => null);
    for (const bundle of all) if (bundle.a === bundle.b) this.inside[bundle.a] = bundle;
  }

  // Find the busiest cable of each bundle, and order bundles so that the busiest is drawn last.
  load(run) {
    for (const bundle of [...this.between, ...this.inside.filter(Boolean)]) {
      bundle.cable = bundle.cables[0];
      if (run) for (const c of bundle.cables) if (run.cable[c] > run.cable[bundle.cable]) bundle.cable = c;
      bundle.load = run ? run.cable[bundle.cable] : 0;
    }
    this.between.sort((p, q) => p.load - q.load);
  }

  text({ a, b, cables }) {
    const many = (number) => plural(this.groups[number].nodes.length, this.groups[number].hosts ? "host" : "switch", this.groups[number].hosts ? "hosts" : "switches");
    return `${plural(cables.length, "cable")} between ${many(a)} and ${many(b)}`;
  }
}

function shortened(text, most) {
  if (text.length <= most) return text;
  const head = Math.ceil(most * 0.6);
  return text.slice(0, head - 1) + "…" + text.slice(text.length - (most - head));
}

// Distance of a point to a quadratic curve, by straight pieces.
function curveDistance(x1, y1, cx, cy, x2, y2, px, py) {
  let best = Infinity, fromX = x1, fromY = y1;
  const pieces = 16;
  for (let i = 1; i <= pieces; i++) {
    const t = i / pieces, a = (1 - t) ** 2, b = 2 * t * (1 - t), c = t * t;
    const toX = a * x1 + b * cx + c * x2, toY = a * y1 + b * cy + c * y2;
    const dx = toX - fromX, dy = toY - fromY, length = dx * dx + dy * dy;
    const share = length ? Math.max(0, Math.min(1, ((px - fromX) * dx + (py - fromY) * dy) / length)) : 0;
    best = Math.min(best, Math.hypot(px - fromX - share * dx, py - fromY - share * dy));
    fromX = toX; fromY = toY;
  }
  return best;
}
