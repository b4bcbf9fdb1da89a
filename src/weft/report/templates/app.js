// What all pages with a drawing of the fabric share: its controls, the selection and the tooltip.

class PageApp {
  constructor(page, fabric, Kind = Drawing) {
    Object.assign(this, { page, fabric, selection: null });
    this.drawing = new Kind(byId("canvas"), fabric, page.colours, {
      hover: (what, x, y) => this.hover(what, x, y),
      pick: (what) => this.pick(what),
      step: (by) => this.step(by),
      drawn: (text) => { if (byId("drawing-text").textContent !== text) byId("drawing-text").textContent = text; },
    });
    this.search = new Search(byId("search"), byId("found"), this);
    this.theme = matchMedia("(prefers-color-scheme: dark)");
    this.drawing.dark = this.theme.matches;
    this.zoomButtons(this.drawing);
    byId("show-hosts").addEventListener("change", (event) => { this.drawing.setHosts(event.target.checked); this.colour(); });
    byId("show-names").addEventListener("change", (event) => { this.drawing.showNames = event.target.checked; this.drawing.draw(); });
    if (!page.hostsDrawn || !page.hosts) {
      byId("show-hosts").checked = false;
      byId("hosts-option").hidden = true;
    }
    this.theme.addEventListener("change", () => this.retheme(this.theme.matches));
    window.addEventListener("beforeprint", () => this.retheme(false));
    window.addEventListener("afterprint", () => this.retheme(this.theme.matches));
  }

  // `prefix` begins the ids of the elements of another drawing than that of the fabric.
  zoomButtons(drawing, prefix = "") {
    byId(`${prefix}zoom-in`).addEventListener("click", () => drawing.zoom(1.5));
    byId(`${prefix}zoom-out`).addEventListener("click", () => drawing.zoom(1 / 1.5));
    byId(`${prefix}zoom-all`).addEventListener("click", () => drawing.fit());
  }

  showRamp(ticks, top, text, prefix = "") {
    const colours = this.page.colours[this.drawing.mode()];
    byId(`${prefix}ramp`).style.background = `linear-gradient(to right, ${colours.scale.join(", ")})`;
    byId(`${prefix}idle-swatch`).style.background = colours.idle;
    showTicks(byId(`${prefix}ramp-ticks`), ticks, top, text);
  }

  linkSelection(link) { return { kind: "cable", cable: link >> 1, link }; }

  selectLink(link, look = false) {
    this.pick(this.linkSelection(link));
    this.reveal(this.fabric.toHost(link >> 1));
    if (look) this.drawing.lookAtCable(link >> 1);
  }

  selectNode(node, look = false) {
    this.pick({ kind: "node", node });
    this.reveal(this.fabric.kind[node] !== 0 && !this.fabric.forwards[node]);
    if (look) this.drawing.lookAtNode(node);
  }

  // Show the hosts if a host is selected and the page can draw hosts.
  reveal(host) {
    if (!host || this.drawing.showHosts || !this.page.hostsDrawn) return;
    byId("show-hosts").checked = true;
    this.drawing.setHosts(true);
    this.colour();
  }

  hover(what, x, y, prefix = "") {
    const box = byId(`${prefix}hover`);
    byId(`${prefix}canvas`).classList.toggle("over", Boolean(what));
    box.hidden = !what;
    if (!what) return;
    box.replaceChildren(...(what.bundle ? [element("div", {}, what.bundle), element("div", {}, "Its busiest cable:")] : []), ...this.about(what));
    const frame = box.parentElement.getBoundingClientRect();
    const left = Math.min(x + 16, frame.width - box.offsetWidth - 6);
    const above = y + 18 + box.offsetHeight > frame.height;
    box.style.left = `${Math.max(6, left)}px`;
    box.style.top = `${above ? Math.max(4, y - box.offsetHeight - 12) : y + 18}px`;
  }

  // Where a cable is drawn, in pixels of the window: for scripts that drive the page.
  cablePoint(cable, share = 0.5) {
    const box = byId("canvas").getBoundingClientRect();
    const [x, y] = this.drawing.onCable(cable, share);
    return { x: box.left + x, y: box.top + y };
  }
}

// Unpack a page and start it; `what` names what is missing if this fails.
function startPage(what, make) {
  const started = async () => {
    const page = JSON.parse(byId("weft-page").textContent);
    if (typeof DecompressionStream === "undefined") {
      throw new Error("this browser is too old to unpack the data (it lacks DecompressionStream); the tables are complete");
    }
    document.documentElement.classList.add("ready");
    window.weftReport = await make(page);
    document.documentElement.dataset.state = "done";
  };
  started().catch((error) => {
    document.documentElement.classList.remove("ready");
    const box = byId("failure");
    box.textContent = `${what} cannot be shown: ${error.message}`;
    box.hidden = false;
    console.error(error);
  });
}
