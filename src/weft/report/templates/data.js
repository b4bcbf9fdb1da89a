// The page's data: packed blobs, the fabric, and the runs, which are unpacked when first shown.

const TYPES = {
  f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array,
  u2: Uint16Array, u1: Uint8Array, i1: Int8Array,
};

async function unpack(id) {
  const text = document.getElementById(id).textContent.trim();
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const headLength = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, headLength)));
  const found = { ...head.values };
  for (const [name, type, offset, length] of head.arrays) {
    found[name] = new TYPES[type](buffer, offset, length);
  }
  return found;
}

// Return an array that was stored as it is, or as a table of its values and indices into the table.
function expanded(found, name) {
  if (found[name]) return found[name];
  const table = found[name + "Table"], index = found[name + "Index"];
  const values = new Float64Array(index.length);
  for (let i = 0; i < index.length; i++) values[i] = table[index[i]];
  return values;
}

const number = (value) => {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e12 || Math.abs(value) < 1e-3) return value.toExponential(2);
  if (Number.isInteger(value) || Math.abs(value) >= 1e4) return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
  return String(Number(value.toPrecision(4)));
};
// Return a number as a short text for a scale: 3.67M for 3674160.
const compact = (value) => {
  const [unit, letter] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1, ""]].find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return unit > 1 ? `${Number((value / unit).toPrecision(3))}${letter}` : number(value);
};
const percent = (share) => `${Number((100 * share).toPrecision(3))}\u00a0%`;
const plural = (count, one, many = one + "s") => `${number(count)} ${count === 1 ? one : many}`;

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role" || key === "colspan" || key === "scope") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Labels under a colour scale from 0 to top; a label that would run into the next is left out.
function showTicks(box, ticks, top, text) {
  const labels = ticks.map((value) => {
    const label = element("span", {}, text(value));
    label.style.left = `${(100 * value) / top}%`;
    return label;
  });
  box.replaceChildren(...labels);
  let limit = Infinity;
  for (const label of labels.reverse()) {
    const { left, right, width } = label.getBoundingClientRect();
    if (width && right + 6 > limit) label.remove();
    else limit = left;
  }
}

const byId = (id) => document.getElementById(id);

class FabricData {
  constructor(found, facts) {
    Object.assign(this, found);
    this.facts = facts;
    this.numNodes = this.kind.length;
    this.numCables = this.aNode.length;
    this.lower = this.names.map((name) => name.toLowerCase());
    this.byName = new Map(this.names.map((name, node) => [name, node]));
    // Cables of each node, as offsets into one list.
    const offset = new Int32Array(this.numNodes + 1);
    for (let c = 0; c < this.numCables; c++) {
      offset[this.aNode[c] + 1]++;
      if (this.bNode[c] !== this.aNode[c]) offset[this.bNode[c] + 1]++;
    }
    for (let n = 0; n < this.numNodes; n++) offset[n + 1] += offset[n];
    const next = offset.slice(), list = new Int32Array(offset[this.numNodes]);
    for (let c = 0; c < this.numCables; c++) {
      list[next[this.aNode[c]]++] = c;
      if (this.bNode[c] !== this.aNode[c]) list[next[this.bNode[c]]++] = c;
    }
    this.cableOffset = offset;
    this.cableList = list;
  }

  cablesOf(node) {
    return this.cableList.subarray(this.cableOffset[node], this.cableOffset[node + 1]);
  }

  // A node's name, short enough for the drawing and different from all others.
  label(node) {
    return this.labels[node] ?? this.names[node];
  }

  port(cable, end, name = (node) => this.names[node]) {
    return `${name(end ? this.bNode[cable] : this.aNode[cable])}[${end ? this.bPort[cable] : this.aPort[cable]}]`;
  }

  linkName(link, name) {
    const cable = link >> 1, back = link & 1;
    return `${this.port(cable, back, name)} -> ${this.port(cable, 1 - back, name)}`;
  }

  cableName(cable) {
    return `${this.port(cable, 0)} -- ${this.port(cable, 1)}`;
  }

  guid(node) {
    const hex = (part) => this["guid" + part][node].toString(16).padStart(8, "0");
    return "0x" + hex("High") + hex("Low");
  }

  rate(cable) {
    return this.rates[this.rateIndex[cable]];
  }

  kindName(node) {
    const words = ["switch", "host", "auxiliary adapter"];
    return words[this.kind[node]] + (this.kind[node] && this.forwards[node] ? " that forwards" : "");
  }

  // Return a user of a link in words: a host by name, a switch as "hosts of" it.
  userName(node) {
    return this.kind[node] === 0 ? `hosts of ${this.names[node]}` : this.names[node];
  }

  // Return whether a cable ends at an adapter that does not forward packets.
  toHost(cable) {
    return !(this.forwards[this.aNode[cable]] && this.forwards[this.bNode[cable]]);
  }

  // Return whether the page's statistics and curves cover a cable.
  inScope(cable) {
    return this.facts.scopeIsAll || (this.kind[this.aNode[cable]] === 0 && this.kind[this.bNode[cable]] === 0);
  }
}

class RunData {
  constructor(found, facts) {
    Object.assign(this, facts);
    this.load = expanded(found, "load");
    this.flows = found.sameAsLoad ? this.load : expanded(found, "flows");
    this.users = new Map(found.users.map((entry) => [entry.link, entry]));
    const cables = this.load.length / 2;
    this.cable = new Float64Array(cables);
    for (let c = 0; c < cables; c++) this.cable[c] = Math.max(this.load[2 * c], this.load[2 * c + 1]);
  }
}
