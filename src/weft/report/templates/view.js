// Positions on the canvas, and how pointer, wheel and keys move the view.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

class View {
  constructor(canvas, colours, events) {
    Object.assign(this, { canvas, colours, events });
    this.context = canvas.getContext("2d");
    this.dark = false;
    this.moving = false;
    this.mostScale = 160;
  }

  mode() { return this.dark ? "dark" : "light"; }

  draw() {
    if (this.waiting || !this.width) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  start() {
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas.parentElement);
    this.resize();
  }

  resize() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    const box = this.bounds();
    const aspect = (box.right - box.left + 2) / (box.high - box.low + 2);
    const most = Math.max(320, Math.min(760, window.innerHeight * 0.64));
    const height = Math.round(Math.min(most, Math.max(this.leastHeight(width), width / aspect + 60)));
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

  leastHeight(width) { return Math.max(Math.min(420, width), 0.6 * width); }

  scaleToFit(box) {
    const margin = 34;
    return Math.min(
      (this.width - 2 * margin) / Math.max(box.right - box.left, 1),
      (this.height - 2 * margin) / Math.max(box.high - box.low, 1),
      this.mostScale,
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

  // -- moving -----------------------------------------------------------------------------------

  settle() {
    this.moving = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.moving = false; this.draw(); }, 140);
    this.draw();
  }

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
      // When the whole drawing is in view, the wheel scrolls the page instead.
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

// A view of a fabric: its nodes and cables.
class FabricView extends View {
  constructor(canvas, fabric, colours, events) {
    super(canvas, colours, events);
    this.fabric = fabric;
    this.showHosts = fabric.facts.hostsDrawn;
    const { aNode, bNode, x, y, bend, numCables } = fabric;
    this.controlX = new Float32Array(numCables);
    this.controlY = new Float32Array(numCables);
    this.hostCable = new Uint8Array(numCables);
    for (let c = 0; c < numCables; c++) {
      const low = Math.min(aNode[c], bNode[c]), high = Math.max(aNode[c], bNode[c]);
      const dx = x[high] - x[low], dy = y[high] - y[low];
      this.controlX[c] = (x[low] + x[high]) / 2 - bend[c] * dy;
      this.controlY[c] = (y[low] + y[high]) / 2 + bend[c] * dx;
      this.hostCable[c] = fabric.toHost(c) ? 1 : 0;
    }
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
}
