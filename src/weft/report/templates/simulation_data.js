// The data of a run in its page: links over time, congestion trees, ranks.

const PARTS = 250;
const WHY = ["", "link busy", "no credits", "input port busy", "cannot leave yet"];

function timeText(ns) {
  if (!Number.isFinite(ns)) return "–";
  for (const [factor, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (Math.abs(ns) >= factor) return `${Number((ns / factor).toPrecision(4))}\u00a0${unit}`;
  }
  return `${Number(ns.toPrecision(4))}\u00a0ns`;
}

// Return a share as text. Shares are stored in whole units of 1 / PARTS; one unit stands for all smaller shares.
const shareText = (share) => (share > 0 && share <= 1 / PARTS ? "under 0.6\u00a0%" : percent(share));

// Links at every moment; a moment is the interval that ends at a snapshot, and the state at its end.
class Moments {
  constructor(found, numLinks) {
    Object.assign(this, found);
    this.count = this.endNs.length;
    this.width = this.active.length;
    this.slot = new Int32Array(numLinks).fill(-1);
    for (let i = 0; i < this.width; i++) this.slot[this.active[i]] = i;
    this.topWaiting = 0;
    for (let i = 0; i < this.waiting.length; i++) if (this.waiting[i] > this.topWaiting) this.topWaiting = this.waiting[i];
    this.topDelivered = 0;
    for (const value of this.deliveredGbps) this.topDelivered = Math.max(this.topDelivered, value);
  }

  beginNs(frame) { return frame ? this.endNs[frame - 1] : 0; }

  // Return a value of a link: a share up to 1, or the mean number of waiting packets.
  value(quantity, frame, link) {
    const slot = this.slot[link];
    if (slot === undefined || slot < 0) return 0;
    const at = this[quantity][frame * this.width + slot];
    return quantity === "waiting" ? at : Math.min(1, at / PARTS);
  }

  series(quantity, link) {
    const values = new Float32Array(this.count);
    for (let frame = 0; frame < this.count; frame++) values[frame] = this.value(quantity, frame, link);
    return values;
  }

  // Return the number of the moment that contains a time.
  frameAt(ns) {
    let low = 0, high = this.count - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.endNs[middle] < ns) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

class Trees {
  constructor(found) {
    Object.assign(this, found);
    this.cached = new Map();
  }

  at(frame) {
    if (!this.cached.has(frame)) {
      if (this.cached.size > 60) this.cached.clear();
      const trees = [];
      for (let t = this.treeStart[frame]; t < this.treeStart[frame + 1]; t++) trees.push(this.tree(t, trees.length));
      this.cached.set(frame, trees);
    }
    return this.cached.get(frame);
  }

  tree(t, number) {
    const start = this.nodeStart[t], nodes = [];
    for (let n = start; n < this.nodeStart[t + 1]; n++) {
      const parent = this.nodeParent[n];
      nodes.push({
        link: this.nodeLink[n], vl: this.nodeVl[n], parent, why: this.nodeWhy[n], full: this.nodeFull[n] === 1,
        depth: parent < 0 ? 1 : nodes[parent].depth + 1,
      });
    }
    return {
      number, nodes, root: this.root[t], cause: this.causes[this.cause[t]], causeText: this.causeTexts[this.cause[t]],
      count: this.nodes[t], full: this.full[t], height: this.height[t], hosts: this.hosts[t],
      messages: this.messages[t], elsewhere: this.elsewhere[t],
    };
  }

  // Number of buffers in congestion trees at each moment.
  sizes() {
    return Float32Array.from({ length: this.treeStart.length - 1 }, (_, frame) => {
      let sum = 0;
      for (let t = this.treeStart[frame]; t < this.treeStart[frame + 1]; t++) sum += this.nodes[t];
      return sum;
    });
  }
}

// Nodes of a tree, each followed by the nodes that wait for it.
function depthFirst(nodes) {
  const children = new Map(), order = [];
  nodes.forEach((node, place) => {
    if (!children.has(node.parent)) children.set(node.parent, []);
    children.get(node.parent).push(place);
  });
  const stack = [...(children.get(-1) ?? [])].reverse();
  while (stack.length) {
    const place = stack.pop();
    order.push(nodes[place]);
    stack.push(...[...(children.get(place) ?? [])].reverse());
  }
  return order;
}

class RankData {
  constructor(found) {
    Object.assign(this, found);
    this.rows = this.rank.length;
    // Offsets of each row's spans in the list of spans, which is ordered by row.
    this.spanStart = new Int32Array(this.rows + 1);
    for (const row of this.spanRow) this.spanStart[row + 1]++;
    for (let row = 0; row < this.rows; row++) this.spanStart[row + 1] += this.spanStart[row];
  }

  // Return the states of a row at a time.
  statesAt(row, ns) {
    const found = [];
    for (let s = this.spanStart[row]; s < this.spanStart[row + 1]; s++) {
      if (this.spanBegin[s] <= ns && ns < this.spanEnd[s]) found.push({ state: this.states[this.spanState[s]], begin: this.spanBegin[s], end: this.spanEnd[s] });
    }
    return found;
  }

  // Count the messages from and to a row that are posted and have not arrived at a time.
  underWay(row, ns) {
    let out = 0, incoming = 0;
    for (let m = 0; m < this.from.length; m++) {
      if (this.posted[m] > ns || (this.arrived[m] >= 0 && this.arrived[m] <= ns)) continue;
      if (this.from[m] === row) out++;
      if (this.to[m] === row) incoming++;
    }
    return [out, incoming];
  }
}
