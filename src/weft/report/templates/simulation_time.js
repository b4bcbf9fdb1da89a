// The chart over time: load of some links, states of ranks, and the cursor at the moment that the page shows.

const LABELS = 190, STRIP = 30, STRIP_GAP = 8, AXIS = 26, TITLE = 24;

class TimeChart {
  constructor(canvas, app) {
    Object.assign(this, { canvas, app });
    this.context = canvas.getContext("2d");
    this.still = document.createElement("canvas"); // all but the cursor
    this.strips = [];
    this.chosenRow = null;
    this.from = 0;
    this.to = this.total();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    this.resize();
  }

  total() { return Math.max(this.app.moments.endNs.at(-1), this.app.page.endNs, 1e-3); }

  setStrips(strips) {
    this.strips = strips;
    this.resize();
  }

  resize() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1, rows = this.app.ranks.rows;
    this.labels = width < 640 ? 96 : LABELS;
    this.rowHeight = Math.max(3, Math.min(18, Math.floor(520 / Math.max(rows, 1))));
    this.stripsTop = AXIS + TITLE;
    this.ranksTop = this.stripsTop + this.strips.length * (STRIP + STRIP_GAP) + TITLE + 4;
    this.width = width;
    this.height = this.ranksTop + rows * this.rowHeight + 12;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.ratio = ratio;
    this.draw();
  }

  toX(ns) { return this.labels + ((ns - this.from) / (this.to - this.from)) * (this.width - this.labels - 14); }
  toNs(px) { return this.from + ((px - this.labels) / (this.width - this.labels - 14)) * (this.to - this.from); }

  zoom(factor) {
    const total = this.total(), least = total / 2000;
    const span = Math.min(total, Math.max(least, (this.to - this.from) / factor));
    const now = this.app.now();
    const share = now >= this.from && now <= this.to ? (now - this.from) / (this.to - this.from) : 0.5;
    this.from = Math.max(0, Math.min(total - span, now - share * span));
    this.to = this.from + span;
    this.draw();
  }

  // Move the view if the cursor has left it.
  follow(ns) {
    const span = this.to - this.from, inside = ns >= this.from && ns <= this.to;
    if (!inside) {
      this.from = Math.max(0, Math.min(this.total() - span, ns - (ns > this.to ? 0.1 : 0.9) * span));
      this.to = this.from + span;
    }
    this.draw(inside);
  }

  // Draw only the cursor, which has moved, or everything.
  draw(cursorOnly = false) {
    if (!cursorOnly) this.stale = true;
    if (this.waiting || !this.width) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    if (this.stale) {
      this.still.width = this.canvas.width;
      this.still.height = this.canvas.height;
      this.paintStill(this.still.getContext("2d"));
      this.stale = false;
    }
    const context = this.context, px = this.toX(this.app.now());
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.still, 0, 0);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (px < this.labels - 1 || px > this.width) return;
    context.strokeStyle = context.fillStyle = SELECTED[this.app.drawing.mode()];
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(px, AXIS - 6); context.lineTo(px, this.height);
    context.stroke();
    context.beginPath();
    context.moveTo(px - 6, AXIS - 12); context.lineTo(px + 6, AXIS - 12); context.lineTo(px, AXIS - 3);
    context.fill();
  }

  paintStill(context) {
    const colours = this.app.page.colours[this.app.drawing.mode()];
    this.colours = colours;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, this.width, this.height);
    context.font = `11.5px ${FONT}`;
    this.paintAxis(context, colours);
    this.heading(context, colours, "Links", AXIS + 15);
    this.strips.forEach((strip, place) => this.paintStrip(context, colours, strip, this.stripsTop + place * (STRIP + STRIP_GAP)));
    this.heading(context, colours, "Ranks", this.ranksTop - 9);
    context.save();
    context.beginPath();
    context.rect(this.labels, 0, this.width - this.labels - 13, this.height);
    context.clip();
    this.paintRanks(context);
    if (this.chosenRow !== null) this.paintMessages(context, colours);
    context.restore();
    this.paintRankLabels(context, colours);
  }

  heading(context, colours, text, y) {
    context.textAlign = "left";
    context.fillStyle = colours.muted;
    context.font = `bold 11.5px ${FONT}`;
    context.fillText(text, 8, y);
    context.font = `11.5px ${FONT}`;
  }

  paintAxis(context, colours) {
    const span = this.to - this.from, room = this.width - this.labels;
    const step = niceTicks(span, Math.max(2, Math.floor(room / 110)))[1] ?? span;
    context.textAlign = "center";
    context.lineWidth = 1;
    for (let value = Math.ceil(this.from / step - 1e-9) * step; value <= this.to * 1.000001; value += step) {
      const px = this.toX(value);
      context.strokeStyle = colours.idle;
      context.globalAlpha = 0.6;
      context.beginPath();
      context.moveTo(px, AXIS); context.lineTo(px, this.height);
      context.stroke();
      context.globalAlpha = 1;
      context.fillStyle = colours.muted;
      const text = timeText(Number(value.toPrecision(10))), half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(px, this.width - half - 2), 11);
    }
  }

  paintStrip(context, colours, strip, top) {
    const { moments } = this.app, bottom = top + STRIP;
    context.textAlign = "left";
    context.fillStyle = strip.link !== undefined && strip.link === this.app.selection?.link ? SELECTED[this.app.drawing.mode()] : colours.ink;
    const [first, second] = strip.label;
    context.fillText(fitted(context, first, this.labels - 16), 8, top + (second ? 12 : 19));
    if (second) context.fillText(fitted(context, second, this.labels - 16), 8, top + 26);
    context.strokeStyle = colours.idle;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(this.labels, bottom + 0.5); context.lineTo(this.width - 14, bottom + 0.5);
    context.stroke();
    const first_ = moments.frameAt(this.from), last = moments.frameAt(this.to);
    context.save();
    context.beginPath();
    context.rect(this.labels, top - 1, this.width - this.labels - 13, STRIP + 2);
    context.clip();
    const step = (values, scale, close) => {
      context.beginPath();
      if (close) context.moveTo(this.toX(moments.beginNs(first_)), bottom);
      for (let frame = first_; frame <= last; frame++) {
        const y = bottom - Math.min(1, values[frame] / scale) * STRIP;
        context.lineTo(this.toX(moments.beginNs(frame)), y);
        context.lineTo(this.toX(moments.endNs[frame]), y);
      }
      if (close) { context.lineTo(this.toX(moments.endNs[last]), bottom); context.closePath(); }
    };
    context.fillStyle = colours.series[0];
    context.globalAlpha = 0.45;
    step(strip.area, strip.top, true);
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = colours.series[0];
    context.lineWidth = 1.2;
    step(strip.area, strip.top, false);
    context.stroke();
    if (strip.line) {
      context.strokeStyle = colours.series[1];
      context.lineWidth = 1.8;
      step(strip.line, strip.lineTop ?? 1, false);
      context.stroke();
    }
    context.restore();
  }

  stateColour(state) { return this.colours.series[{ computing: 2, sending: 0, receiving: 5 }[state]]; }

  paintRanks(context) {
    const { ranks } = this.app, height = this.rowHeight, gap = height > 6 ? 2 : height > 3 ? 1 : 0;
    // Paint waiting first and computing on top; each state takes a share of the row's height.
    for (const [state, share] of [["receiving", 1], ["sending", 0.62], ["computing", 1]]) {
      const number = ranks.states.indexOf(state);
      context.fillStyle = this.stateColour(state);
      context.globalAlpha = state === "receiving" ? 0.42 : 1;
      const high = Math.max(1.5, (height - gap) * share);
      for (let s = 0; s < ranks.spanRow.length; s++) {
        if (ranks.spanState[s] !== number || ranks.spanEnd[s] < this.from || ranks.spanBegin[s] > this.to) continue;
        const left = this.toX(ranks.spanBegin[s]), width = Math.max(0.7, this.toX(ranks.spanEnd[s]) - left);
        const top = this.ranksTop + ranks.spanRow[s] * height;
        context.fillRect(left, top + (height - gap - high) / 2, width, high);
      }
    }
    context.globalAlpha = 1;
  }

  paintRankLabels(context, colours) {
    const { ranks } = this.app, every = Math.max(1, Math.ceil(14 / this.rowHeight));
    context.textAlign = "left";
    const room = context.measureText("rank 8888 on ").width;
    for (let row = 0; row < ranks.rows; row++) {
      const chosen = row === this.chosenRow;
      if (row % every && !chosen) continue;
      context.fillStyle = chosen ? SELECTED[this.app.drawing.mode()] : colours.muted;
      const y = this.ranksTop + row * this.rowHeight + Math.min(this.rowHeight, 12) / 2 + 4;
      const name = this.app.page.hostNames[ranks.host[row]], node = this.app.fabric.byName.get(name);
      const host = node === undefined ? name : this.app.fabric.label(node);
      const text = this.labels < 120 ? `${ranks.rank[row]}` : `rank ${ranks.rank[row]}`;
      context.fillText(text, 8, y);
      if (this.labels >= 120) context.fillText(fitted(context, host, this.labels - room - 6), room, y);
    }
  }

  // Draw the messages of the chosen rank as lines from departure to arrival, from row to row.
  paintMessages(context, colours) {
    const { ranks } = this.app, middle = (row) => this.ranksTop + (row + 0.5) * this.rowHeight;
    const top = this.ranksTop + this.chosenRow * this.rowHeight;
    context.strokeStyle = SELECTED[this.app.drawing.mode()];
    context.lineWidth = 1.5;
    context.strokeRect(this.labels, top - 1, this.width - this.labels - 14, this.rowHeight);
    for (const [key, colour] of [["from", SOURCE], ["to", DESTINATION]]) {
      context.strokeStyle = context.fillStyle = colour[this.app.drawing.mode()];
      context.lineWidth = 1.1;
      let drawn = 0;
      for (let m = 0; m < ranks.from.length && drawn < 3000; m++) {
        if (ranks[key][m] !== this.chosenRow || ranks.left[m] > this.to) continue;
        const end = ranks.arrived[m] >= 0 ? ranks.arrived[m] : this.app.page.endNs;
        if (end < this.from) continue;
        drawn++;
        const x1 = this.toX(ranks.left[m]), y1 = middle(ranks.from[m]), x2 = this.toX(end), y2 = middle(ranks.to[m]);
        context.beginPath();
        context.moveTo(x1, y1); context.lineTo(x2, y2);
        context.stroke();
        if (ranks.arrived[m] >= 0) { context.beginPath(); context.arc(x2, y2, 2.2, 0, 2 * Math.PI); context.fill(); }
      }
    }
  }

  // -- pointer and keys ---------------------------------------------------------------------------

  partAt(py) {
    const strip = Math.floor((py - this.stripsTop) / (STRIP + STRIP_GAP));
    if (strip >= 0 && strip < this.strips.length && py < this.ranksTop - TITLE) return { strip: this.strips[strip] };
    const row = Math.floor((py - this.ranksTop) / this.rowHeight);
    return row >= 0 && row < this.app.ranks.rows ? { row } : {};
  }

  listen() {
    const canvas = this.canvas;
    let held = false;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const go = (px) => this.app.goTo(Math.max(0, Math.min(this.total(), this.toNs(px))));
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const [px, py] = at(event), part = this.partAt(py);
      if (part.row !== undefined) this.chosenRow = px < this.labels && this.chosenRow === part.row ? null : part.row;
      if (part.strip?.link !== undefined && px < this.labels) this.app.selectLink(part.strip.link, true);
      if (px >= this.labels) { held = true; canvas.setPointerCapture(event.pointerId); go(px); }
      this.draw();
    });
    canvas.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      if (held) go(px);
      this.hover(px, py);
    });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => { held = false; });
    canvas.addEventListener("pointerleave", () => { byId("time-hover").hidden = true; });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const row = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (row) this.chosenRow = Math.max(0, Math.min(this.app.ranks.rows - 1, (this.chosenRow ?? (row > 0 ? -1 : this.app.ranks.rows)) + row));
      else if (event.key === "+" || event.key === "=") this.zoom(2);
      else if (event.key === "-") this.zoom(0.5);
      else if (event.key === "Escape") this.chosenRow = null;
      else return;
      this.draw();
      event.preventDefault();
    });
  }

  hover(px, py) {
    const box = byId("time-hover"), part = this.partAt(py), lines = [];
    const { moments, ranks, page, fabric } = this.app;
    if (px >= this.labels || part.row !== undefined || part.strip) {
      const ns = Math.max(0, Math.min(this.total(), this.toNs(Math.max(px, this.labels)))), frame = moments.frameAt(ns);
      if (part.strip) {
        lines.push(element("b", {}, part.strip.link === undefined ? part.strip.label.filter(Boolean).join(" ") : this.app.linkName(part.strip.link)));
        if (px >= this.labels) lines.push(element("div", {}, `${timeText(moments.beginNs(frame))} to ${timeText(moments.endNs[frame])}`), ...part.strip.say(frame).map((text) => element("div", {}, text)));
      } else if (part.row !== undefined) {
        lines.push(element("b", {}, `rank ${ranks.rank[part.row]} on ${page.hostNames[ranks.host[part.row]]}`));
        if (px >= this.labels) {
          lines.push(element("div", {}, `at ${timeText(ns)}`));
          const states = ranks.statesAt(part.row, ns);
          for (const { state, begin, end } of states) lines.push(element("div", {}, `${state} from ${timeText(begin)} for ${timeText(end - begin)}`));
          if (!states.length) lines.push(element("div", {}, "idle"));
          const [out, incoming] = ranks.underWay(part.row, ns);
          if (out || incoming) lines.push(element("div", {}, `${plural(out, "message")} on the way from it, ${number(incoming)} to it`));
        }
      }
    }
    box.hidden = !lines.length;
    if (!lines.length) return;
    box.replaceChildren(...lines);
    const frame = box.parentElement.getBoundingClientRect();
    box.style.left = `${Math.max(6, Math.min(px + 16, frame.width - box.offsetWidth - 6))}px`;
    box.style.top = `${py + 18 + box.offsetHeight > this.height ? Math.max(4, py - box.offsetHeight - 12) : py + 18}px`;
  }
}

// Text cut in the middle to a width.
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let most = text.length;
  while (most > 4 && context.measureText(shortened(text, most)).width > width) most--;
  return shortened(text, most);
}
