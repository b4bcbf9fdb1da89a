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

class FabricData {
  constructor(found, facts) {
    Object.assign(this, found);
    this.facts = facts;
    this.numNodes = this.kind.length;
    this.numCables = this.aNode.length;
    this.lower = this.names.map((name) => name.toLowerCase());
    this.byName = new Map(this.names.map((name, node) => [name, node]));
    // Machines with several adapters, by name and by adapter.
    this.machines = new Map(Object.entries(found.machines ?? {}));
    this.machineOf = new Map([...this.machines].flatMap(([name, nodes]) => nodes.map((node) => [node, name])));
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
