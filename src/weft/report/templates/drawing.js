// The drawing: a canvas with zoom, pan and picking. It knows nothing of the rest of the page.

const MOST_CABLES = 30000;       // drawn at a time, the hottest first
const MOST_WHILE_MOVING = 6000;
const BINS = 64;
const SELECTED = { light: "#0b5fc0", dark: "#74b5ff" };
const SOURCE = { light: "#0a7d4f", dark: "#4ade80" }, DESTINATION = { light: "#b3187a", dark: "#ff7ac6" };

class Drawing {
  constructor(canvas, fabric, colours, events) {
    Object.assign(this, { canvas, fabric, colours, events });
    this.context = canvas.getContext("2d");
    this.dark = false;
    this.showHosts = fabric.facts.hostsDrawn;
    this.showNames = true;
    this.selection = null;
    this.ends = null;
    this.run = null;
    this.top = 1;
    this.moving = false;
    this.labelWidths = new Map();
    this.prepare();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    this.resize();
  }

  // -- geometry ---------------------------------------------------------------------------------

  prepare() {
    const { aNode, bNode, x, y, bend, numCables } = this.fabric;
    this.controlX = new Float32Array(numCables);
    this.controlY = new Float32Array(numCables);
    this.hostCable = new Uint8Array(numCables);
    for (let c = 0; c < numCables; c++) {
      const low = Math.min(aNode[c], bNode[c]), high = Math.max(aNode[c], bNode[c]);
      const dx = x[high] - x[low], dy = y[high] - y[low];
      this.controlX[c] = (x[low] + x[high]) / 2 - bend[c] * dy;
      this.controlY[c] = (y[low] + y[high]) / 2 + bend[c] * dx;
      this.hostCable[c] = this.fabric.toHost(c) ? 1 : 0;
    }
    let switches = 0;
    for (let n = 0; n < this.fabric.numNodes; n++) switches += this.fabric.kind[n] === 0;
    this.leastSwitch = switches <= 64 ? 9 : switches <= 700 ? 5 : 2.5;
    this.bin = new Uint8Array(numCables);
    this.order = new Int32Array(0);
    this.drawn = new Uint8Array(numCables);
  }

  hiddenNode(node) {
    return this.fabric.kind[node] !== 0 && !this.fabric.forwards[node] && !this.showHosts;
  }

  hiddenCable(cable) {
    return this.hostCable[cable] === 1 && !this.showHosts;
  }

  bounds() {
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let n = 0; n < this.fabric.numNodes; n++) {
      if (this.hiddenNode(n)) continue;
      left = Math.min(left, this.fabric.x[n]); right = Math.max(right, this.fabric.x[n]);
      low = Math.min(low, this.fabric.y[n]); high = Math.max(high, this.fabric.y[n]);
    }
    for (let c = 0; c < this.fabric.numCables; c++) {
      if (this.hiddenCable(c)) continue;
      const { aNode, bNode, x, y } = this.fabric;
      const midX = (x[aNode[c]] + x[bNode[c]]) / 4 + this.controlX[c] / 2;
      const midY = (y[aNode[c]] + y[bNode[c]]) / 4 + this.controlY[c] / 2;
      left = Math.min(left, midX); right = Math.max(right, midX);
      low = Math.min(low, midY); high = Math.max(high, midY);
    }
    return left <= right ? { left, right, low, high } : { left: 0, right: 1, low: 0, high: 1 };
  }

  resize() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    const box = this.bounds();
    const aspect = (box.right - box.left + 2) / (box.high - box.low + 2);
    const most = Math.max(320, Math.min(760, window.innerHeight * 0.78));
    const height = Math.round(Math.min(most, Math.max(Math.min(420, width), 0.6 * width, width / aspect + 60)));
    const ratio = window.devicePixelRatio || 1;
    const fitted = !this.width || Math.abs(this.scale - this.fitScale) < 1e-9;
    this.width = width;
    this.height = height;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.ratio = ratio;
    this.fitScale = this.scaleToFit(box);
    if (fitted) this.fit();
    else this.draw();
  }

  scaleToFit(box) {
    const margin = 34;
    return Math.min(
      (this.width - 2 * margin) / Math.max(box.right - box.left, 1),
      (this.height - 2 * margin) / Math.max(box.high - box.low, 1),
      160,
    );
  }

  fit() {
    const box = this.bounds();
    this.fitScale = this.scale = this.scaleToFit(box);
    this.centreX = (box.left + box.right) / 2;
    this.centreY = (box.low + box.high) / 2;
    this.draw();
  }

  screenX(x) { return (x - this.centreX) * this.scale + this.width / 2; }
  screenY(y) { return (this.centreY - y) * this.scale + this.height / 2; }

  // A point of a cable's curve on the screen, from its lower-numbered node on.
  onCable(cable, share) {
    const { aNode, bNode, x, y } = this.fabric;
    const low = Math.min(aNode[cable], bNode[cable]), high = Math.max(aNode[cable], bNode[cable]);
    const a = (1 - share) ** 2, b = 2 * share * (1 - share), c = share ** 2;
    return [
      this.screenX(a * x[low] + b * this.controlX[cable] + c * x[high]),
      this.screenY(a * y[low] + b * this.controlY[cable] + c * y[high]),
    ];
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
    // Within a class, hotter later: by a sort of each class.
    const next = start.slice();
    for (let c = 0; c < this.fabric.numCables; c++) this.order[next[this.bin[c]]++] = c;
    if (run) {
      for (let b = 1; b < BINS; b++) {
        this.order.subarray(start[b], start[b + 1]).sort((p, q) => run.cable[p] - run.cable[q] || q - p);
      }
    }
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

  mode() { return this.dark ? "dark" : "light"; }

  cableWidth(bin, host) {
    const zoom = Math.sqrt(this.scale / this.fitScale);
    const most = Math.max(0.5, Math.min(4.5, 72 / Math.sqrt(this.fabric.numCables + 1))) * Math.min(zoom, 3);
    const share = bin / (BINS - 1);
    return (0.2 * most + 0.3 + most * share * share) * (host ? 0.55 : 1);
  }

  // -- drawing ----------------------------------------------------------------------------------

  draw() {
    if (this.waiting || !this.width) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  settle() {
    this.moving = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.moving = false; this.draw(); }, 140);
    this.draw();
  }

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

    // The hottest in view, up to a number that draws quickly.
    const most = this.moving ? MOST_WHILE_MOVING : MOST_CABLES;
    this.drawn.fill(0);
    const chosen = [];
    let inView = 0;
    for (let i = this.order.length - 1; i >= 0; i--) {
      const cable = this.order[i];
      if (this.hiddenCable(cable) || !this.inView(cable)) continue;
      inView++;
      if (chosen.length < most) { chosen.push(cable); this.drawn[cable] = 1; }
    }
    chosen.reverse();
    this.left = inView - chosen.length;
    if (!this.moving) this.events.drawn(chosen.length, inView);
    for (const host of [1, 0]) {
      let bin = -1, inPath = 0;
      for (const cable of chosen) {
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
    this.paintNodes(context, mode);
    this.paintSelection(context, mode);
    if (this.showNames) this.paintNames(context, mode);
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
    for (const isSwitch of [false, true]) {
      context.fillStyle = isSwitch ? this.colours[mode].ink : this.colours[mode].host;
      context.beginPath();
      for (let n = 0; n < numNodes; n++) {
        if ((kind[n] === 0) !== isSwitch || !this.visibleNode(n)) continue;
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
        for (const node of nodes) {
          if (!this.visibleNode(node)) continue;
          context.beginPath();
          context.arc(this.screenX(this.fabric.x[node]), this.screenY(this.fabric.y[node]), (this.nodeSize(node) + grow) / 2, 0, 2 * Math.PI);
          context.stroke();
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
    if (this.scale * this.fabric.facts.switchGap >= crowded || numNodes < 200) {
      for (let n = 0; n < numNodes; n++) if (kind[n] === 0 && !important.has(n) && this.visibleNode(n, 0)) wanted.push(n);
    }
    if (this.scale >= crowdedHosts) {
      for (let n = 0; n < numNodes; n++) if (kind[n] !== 0 && !important.has(n) && this.visibleNode(n, 0)) wanted.push(n);
    }
    context.font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
    context.textAlign = "center";
    context.lineJoin = "round";
    const taken = [];
    for (const node of wanted.slice(0, 1500)) {
      if (taken.length > 350) break;
      const text = shortened(names[node], important.has(node) ? 40 : 22);
      let width = this.labelWidths.get(text);
      if (width === undefined) this.labelWidths.set(text, width = context.measureText(text).width);
      const size = this.nodeSize(node), half = width / 2 + 3;
      const px = Math.max(half, Math.min(this.screenX(x[node]), this.width - half));
      // Above a switch, below a host; the other side when the first is taken.
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
    const reach = 7;
    nearest = Infinity;
    let hottest = -1;
    for (let c = 0; c < this.fabric.numCables; c++) {
      if (!this.drawn[c]) continue;
      const x1 = this.screenX(x[aNode[c]]), x2 = this.screenX(x[bNode[c]]), x3 = this.screenX(this.controlX[c]);
      if (Math.min(x1, x2, x3) > px + reach || Math.max(x1, x2, x3) < px - reach) continue;
      const y1 = this.screenY(y[aNode[c]]), y2 = this.screenY(y[bNode[c]]), y3 = this.screenY(this.controlY[c]);
      if (Math.min(y1, y2, y3) > py + reach || Math.max(y1, y2, y3) < py - reach) continue;
      const width = this.cableWidth(this.bin[c], this.hostCable[c] === 1) / 2;
      const distance = Math.max(0, curveDistance(x1, y1, x3, y3, x2, y2, px, py) - width - 1);
      const load = this.run ? this.run.cable[c] : 0;
      // What is drawn on top wins where several run through one point.
      if (distance <= reach && (distance < nearest || (distance === nearest && load > hottest))) {
        nearest = distance; hottest = load; best = { kind: "cable", cable: c };
      }
    }
    return best;
  }

  // -- moving -----------------------------------------------------------------------------------

  zoomAt(px, py, factor) {
    const scale = Math.max(this.fitScale * 0.8, Math.min(this.scale * factor, Math.max(400, this.fitScale * 4)));
    const applied = scale / this.scale;
    this.centreX += ((px - this.width / 2) / this.scale) * (1 - 1 / applied);
    this.centreY -= ((py - this.height / 2) / this.scale) * (1 - 1 / applied);
    this.scale = scale;
    this.settle();
  }

  zoom(factor) { this.zoomAt(this.width / 2, this.height / 2, factor); }

  panBy(dx, dy) {
    this.centreX -= dx / this.scale;
    this.centreY += dy / this.scale;
    this.settle();
  }

  lookAt(left, right, low, high) {
    this.centreX = (left + right) / 2;
    this.centreY = (low + high) / 2;
    const wanted = 0.6 * Math.min(this.width / Math.max(right - left, 2), this.height / Math.max(high - low, 2));
    this.scale = Math.max(this.fitScale, Math.min(wanted, 120));
    if (this.scale === this.fitScale) this.fit();
    this.draw();
  }

  lookAtCable(cable) {
    const { aNode, bNode, x, y } = this.fabric;
    const a = aNode[cable], b = bNode[cable];
    this.lookAt(Math.min(x[a], x[b]), Math.max(x[a], x[b]), Math.min(y[a], y[b]), Math.max(y[a], y[b]));
  }

  lookAtNode(node) {
    const { x, y } = this.fabric;
    const room = 5 * Math.max(1, this.fabric.facts.switchGap);
    this.lookAt(x[node] - room, x[node] + room, y[node] - room, y[node] + room);
  }

  listen() {
    const canvas = this.canvas, pointers = new Map();
    let moved = 0, pinch = 0;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      pointers.set(event.pointerId, at(event));
      canvas.setPointerCapture(event.pointerId);
      moved = pointers.size > 1 ? 99 : 0;
      pinch = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      if (!pointers.has(event.pointerId)) {
        if (event.pointerType !== "touch") this.events.hover(this.pick(px, py), px, py);
        return;
      }
      const [oldX, oldY] = pointers.get(event.pointerId);
      pointers.set(event.pointerId, [px, py]);
      if (pointers.size === 2) {
        const [first, second] = [...pointers.values()];
        const spread = Math.hypot(first[0] - second[0], first[1] - second[1]);
        if (pinch) this.zoomAt((first[0] + second[0]) / 2, (first[1] + second[1]) / 2, spread / pinch);
        pinch = spread;
        return;
      }
      moved += Math.hypot(px - oldX, py - oldY);
      if (moved > 4) {
        canvas.classList.add("dragging");
        this.events.hover(null);
        this.panBy(px - oldX, py - oldY);
      }
    });
    const release = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      canvas.classList.remove("dragging");
      if (event.type === "pointerup" && moved <= 4) this.events.pick(this.pick(...at(event)));
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.events.hover(null));
    canvas.addEventListener("dblclick", (event) => this.zoomAt(...at(event), 2));
    canvas.addEventListener("wheel", (event) => {
      // Once all is in view, the wheel scrolls the page again.
      if (event.deltaY > 0 && this.scale <= this.fitScale * 1.001) return;
      event.preventDefault();
      const step = event.deltaMode === 1 ? 16 : 1;
      const factor = Math.exp(-event.deltaY * step * 0.0016);
      if (this.scale * factor <= this.fitScale) this.fit();
      else this.zoomAt(...at(event), factor);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const pan = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (pan) this.panBy(...pan);
      else if (event.key === "+" || event.key === "=") this.zoom(1.4);
      else if (event.key === "-") this.zoom(1 / 1.4);
      else if (event.key === "0") this.fit();
      else if (event.key === "n") this.events.step(1);
      else if (event.key === "p") this.events.step(-1);
      else if (event.key === "Escape") this.events.pick(null);
      else return;
      event.preventDefault();
    });
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
