// The congestion matrix: a block for each switch, with a cell for each link into it and one for the switch.

// Widths of a narrow cell, in pixels, from which cells hold numbers, have gaps, and are drawn one by one.
const NUMBERED = 15, SPACED = 5, SINGLE = 1.5;

// Return a share as the number of a cell.
const cellText = (share) => (share > 0 && share < 0.005 ? "<1" : String(Math.round(100 * share)));

class MatrixView extends View {
  constructor(canvas, fabric, matrix, colours, events) {
    super(canvas, colours, events);
    Object.assign(this, { fabric, matrix, selection: null, mostScale: 32 });
    const { node, block, wait } = matrix;
    this.cellsFrom = new Int32Array(node.length + 1);
    for (const at of block) this.cellsFrom[at + 1]++;
    for (let b = 0; b < node.length; b++) this.cellsFrom[b + 1] += this.cellsFrom[b];
    // Cells with waits, the longest first: what the keys n and p step through.
    this.order = [...wait.keys()].filter((cell) => wait[cell] > 0).sort((p, q) => wait[q] - wait[p] || p - q);
    this.start();
  }

  bounds() { return { left: 0, right: this.matrix.size[0], low: -this.matrix.size[1], high: 0 }; }

  leastHeight() { return 150; }

  setSelection(selection) {
    this.selection = selection;
    this.draw();
  }

  colourOf(share) {
    const { scale, idle } = this.colours[this.mode()];
    return share > 0 ? scale[Math.min(scale.length - 1, Math.floor(share * scale.length))] : idle;
  }

  paint() {
    const { context, matrix, scale } = this, colours = this.colours[this.mode()];
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, this.width, this.height);
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let b = 0; b < matrix.node.length; b++) {
      const left = this.screenX(matrix.x[b]), top = this.screenY(matrix.y[b]);
      const width = matrix.width[b] * scale, height = matrix.height[b] * scale;
      if (left > this.width || top > this.height || left + width < 0 || top + height < 0) continue;
      this.paintLinks(b);
      this.box(matrix.x[b], matrix.centreY[b], matrix.width[b], matrix.centre, matrix.switchShare[b], this.centreText(b));
      context.strokeStyle = colours.muted;
      context.lineWidth = Math.max(0.2, Math.min(1, 0.08 * scale));
      context.strokeRect(left, top, width, height);
    }
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillStyle = colours.muted;
    context.font = `12px ${FONT}`;
    for (const [text, x, y] of matrix.labels) context.fillText(text, Math.max(6, this.screenX(x)), this.screenY(y));
    this.paintSelection();
    if (!this.moving) this.events.drawn(this.caption());
  }

  paintLinks(b) {
    const { matrix } = this;
    if (this.scale >= SINGLE) {
      for (let c = this.cellsFrom[b]; c < this.cellsFrom[b + 1]; c++) {
        this.box(matrix.cellX[c], matrix.cellY[c], matrix.cellWidth[c], matrix.cell, matrix.share[c], cellText(matrix.share[c]));
      }
      return;
    }
    const most = [0, 0], end = matrix.centreY[b] - matrix.centre;
    for (let c = this.cellsFrom[b]; c < this.cellsFrom[b + 1]; c++) {
      const below = matrix.cellY[c] < matrix.centreY[b] ? 1 : 0;
      most[below] = Math.max(most[below], matrix.share[c]);
    }
    this.box(matrix.x[b], matrix.y[b], matrix.width[b], matrix.y[b] - matrix.centreY[b], most[0], "");
    this.box(matrix.x[b], end, matrix.width[b], end - matrix.y[b] + matrix.height[b], most[1], "");
  }

  // Return the texts of the cell of a switch: its share, and its name where there is room.
  centreText(b) {
    if (this.scale < NUMBERED) return "";
    const share = cellText(this.matrix.switchShare[b]), name = this.fabric.label(this.matrix.node[b]);
    this.context.font = this.font(this.matrix.centre);
    return this.context.measureText(`${name}   ${share}`).width + 8 < this.matrix.width[b] * this.scale ? `${name}   ${share}` : share;
  }

  font(height) {
    return height > this.matrix.cell ? `bold ${Math.min(14, 0.52 * height * this.scale)}px ${FONT}` : `${Math.min(12, 0.62 * height * this.scale)}px ${FONT}`;
  }

  box(x, y, width, height, share, text) {
    const { context, scale } = this, gap = scale >= SPACED ? 1 : 0;
    context.fillStyle = this.colourOf(share);
    context.fillRect(this.screenX(x), this.screenY(y), width * scale - gap, height * scale - gap);
    if (!text || scale < NUMBERED) return;
    context.fillStyle = inkOn(this.colourOf(share));
    context.font = this.font(height);
    context.fillText(text, this.screenX(x + width / 2), this.screenY(y - height / 2) + 0.5, width * scale);
  }

  // Whether a cell is part of the selection: its link, or a link of the selected cable.
  chosen(cell) {
    const { selection, matrix } = this;
    return selection?.kind === "cable" && (selection.link === undefined ? matrix.link[cell] >> 1 === selection.cable : matrix.link[cell] === selection.link);
  }

  paintSelection() {
    const { context, matrix, scale, selection } = this;
    if (!selection) return;
    context.strokeStyle = SELECTED[this.mode()];
    context.lineWidth = 2.5;
    const frame = (x, y, width, height) => context.strokeRect(this.screenX(x) - 2, this.screenY(y) - 2, width * scale + 3, height * scale + 3);
    if (selection.kind === "node") {
      const b = matrix.node.indexOf(selection.node);
      if (b >= 0) frame(matrix.x[b], matrix.y[b], matrix.width[b], matrix.height[b]);
      return;
    }
    for (let c = 0; c < matrix.link.length; c++) if (this.chosen(c)) frame(matrix.cellX[c], matrix.cellY[c], matrix.cellWidth[c], matrix.cell);
  }

  // Explain what a zoom would add; the text of the page explains the rest.
  caption() {
    const parts = [...this.matrix.notes];
    if (this.scale < SINGLE) parts.push("One cell stands for all links of a side, in the colour of the most loaded one.");
    if (this.scale < NUMBERED) parts.push("Zoom in for the numbers.");
    return parts.join(" ");
  }

  // Return the cell or else the block at a point of the canvas.
  pick(px, py) {
    const { matrix } = this;
    const x = (px - this.width / 2) / this.scale + this.centreX, y = this.centreY - (py - this.height / 2) / this.scale;
    const inside = (left, top, width, height) => x >= left && x < left + width && y <= top && y > top - height;
    for (let b = 0; b < matrix.node.length; b++) {
      if (!inside(matrix.x[b], matrix.y[b], matrix.width[b], matrix.height[b])) continue;
      for (let c = this.cellsFrom[b]; c < this.cellsFrom[b + 1]; c++) {
        if (inside(matrix.cellX[c], matrix.cellY[c], matrix.cellWidth[c], matrix.cell)) return { cell: c, block: b };
      }
      return { block: b };
    }
    return null;
  }

  // Where the middle of a cell is drawn, in pixels of the window: for scripts that drive the page.
  cellPoint(cell) {
    const { matrix } = this, box = this.canvas.getBoundingClientRect();
    return {
      x: box.left + this.screenX(matrix.cellX[cell] + matrix.cellWidth[cell] / 2),
      y: box.top + this.screenY(matrix.cellY[cell] - matrix.cell / 2),
    };
  }
}
