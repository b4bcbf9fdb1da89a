// The drawing of a simulation: the fabric at one moment, with its congestion trees on top.

const MOST_ARROWS = 500;
// Indices of the colours of trees; those that differ most from the colours of loads come first.
const TREE_SERIES = [0, 2, 3, 6, 4, 5, 1];

class SimulationDrawing extends Drawing {
  constructor(canvas, fabric, colours, events) {
    super(canvas, fabric, colours, events);
    this.trees = [];
    this.chosenTree = null;
    this.inside = [];
    for (let node = 0; node < fabric.numNodes; node++) if (fabric.kind[node] === 1 && fabric.forwards[node]) this.inside.push(node);
  }

  setTrees(trees, chosen) {
    this.trees = trees;
    this.chosenTree = chosen;
    this.draw();
  }

  treeColour(tree) {
    const series = this.colours[this.mode()].series;
    return series[TREE_SERIES[tree.number % TREE_SERIES.length]];
  }

  // Return the host that a link is inside, -1 for a link of a cable.
  insideNode(link) {
    return link < 2 * this.fabric.numCables ? -1 : this.inside[(link - 2 * this.fabric.numCables) >> 1];
  }

  paintNodes(context, mode) {
    const shown = this.chosenTree === null ? this.trees : this.trees.filter((tree) => tree.root === this.chosenTree);
    // Paint the largest tree last, so that nothing hides it.
    for (const tree of [...shown].reverse()) this.paintTree(context, tree);
    for (const tree of [...shown].reverse()) this.paintRoot(context, tree);
    super.paintNodes(context, mode);
    for (const tree of [...shown].reverse()) this.paintBadge(context, mode, tree);
  }

  paintTree(context, tree) {
    const colour = this.treeColour(tree), mode = this.mode();
    const cables = tree.nodes.filter((node) => this.insideNode(node.link) < 0 && !this.hiddenCable(node.link >> 1) && this.inView(node.link >> 1));
    for (const node of cables) {
      const cable = node.link >> 1, bin = this.bin[cable], width = this.cableWidth(bin, this.hostCable[cable] === 1);
      const halo = Math.max(2, Math.min(7, 0.12 * this.scale));
      for (const [stroke, line] of [[colour, width + (node.full ? halo : halo / 2)], [bin ? this.colours[mode].scale[bin] : this.colours[mode].idle, width]]) {
        context.beginPath();
        this.trace(context, cable);
        context.strokeStyle = stroke;
        context.lineWidth = line;
        context.stroke();
      }
    }
    if (cables.length <= MOST_ARROWS) for (const node of cables) this.arrow(context, node.link, colour, Math.max(4, Math.min(8, 0.14 * this.scale)));
    for (const node of tree.nodes) {
      const host = this.insideNode(node.link);
      if (host >= 0 && this.visibleNode(host)) this.ring(context, host, colour);
    }
  }

  paintRoot(context, tree) {
    const cable = tree.root >> 1;
    if (this.insideNode(tree.root) >= 0 || this.hiddenCable(cable)) return;
    context.beginPath();
    this.trace(context, cable);
    context.strokeStyle = this.treeColour(tree);
    context.lineWidth = Math.max(5, this.cableWidth(this.bin[cable], this.hostCable[cable] === 1) + 4);
    context.stroke();
  }

  paintBadge(context, mode, tree) {
    const colour = this.treeColour(tree), host = this.insideNode(tree.root);
    let px, py;
    if (host >= 0) {
      this.ring(context, host, colour);
      [px, py] = [this.screenX(this.fabric.x[host]), this.screenY(this.fabric.y[host])];
    } else {
      const cable = tree.root >> 1;
      if (this.hiddenCable(cable)) return;
      this.arrow(context, tree.root, colour, 9);
      // Place the label beside the arrow.
      const [fromX, fromY] = this.onCable(cable, 0.47);
      [px, py] = this.onCable(cable, 0.53);
      const length = Math.hypot(px - fromX, py - fromY) || 1, side = py > fromY ? 1 : -1;
      [px, py] = [(px + fromX) / 2 + (side * 17 * (py - fromY)) / length, (py + fromY) / 2 - (side * 17 * (px - fromX)) / length];
    }
    const text = String(tree.number + 1);
    context.font = `bold 11px ${FONT}`;
    context.textAlign = "center";
    const half = Math.max(7.5, context.measureText(text).width / 2 + 4);
    context.beginPath();
    context.roundRect(px - half, py - 8, 2 * half, 16, 8);
    context.fillStyle = colour;
    context.fill();
    context.strokeStyle = this.colours[mode].page;
    context.lineWidth = 1.5;
    context.stroke();
    context.fillStyle = this.dark ? "#10151a" : "#ffffff";
    context.fillText(text, px, py + 4);
  }

  // Draw an arrowhead on a link, in the direction of its packets.
  arrow(context, link, colour, size) {
    const cable = link >> 1;
    const tail = link & 1 ? this.fabric.bNode[cable] : this.fabric.aNode[cable];
    const head = link & 1 ? this.fabric.aNode[cable] : this.fabric.bNode[cable];
    const forward = tail < head;
    const [fromX, fromY] = this.onCable(cable, 0.5);
    const [toX, toY] = this.onCable(cable, forward ? 0.54 : 0.46);
    const length = Math.hypot(toX - fromX, toY - fromY);
    if (!length) return;
    const dx = (toX - fromX) / length, dy = (toY - fromY) / length;
    context.beginPath();
    context.moveTo(toX + dx * size, toY + dy * size);
    context.lineTo(toX - dx * 0.6 * size - dy * 0.8 * size, toY - dy * 0.6 * size + dx * 0.8 * size);
    context.lineTo(toX - dx * 0.6 * size + dy * 0.8 * size, toY - dy * 0.6 * size - dx * 0.8 * size);
    context.closePath();
    context.fillStyle = colour;
    context.fill();
    context.strokeStyle = this.colours[this.mode()].page;
    context.lineWidth = 0.8;
    context.stroke();
  }
}
