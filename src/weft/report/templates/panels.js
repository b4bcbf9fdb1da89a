// The panels beside the drawing: details of what is selected, the busiest links, the search.

const DETAIL_CABLES = 60;

function selectionButton(text, act) {
  return element("button", { type: "button", class: "plain name", onclick: act }, text);
}

class Details {
  constructor(box, app) {
    Object.assign(this, { box, app, tab: "pairs" });
  }

  show(selection, run) {
    if (!selection) {
      this.box.replaceChildren(element("p", { class: "about" }, `Point at a cable or a node in the drawing, or choose a link below: its name, load and ${this.app.page.words.amount.toLowerCase()} appear here.`));
    } else if (selection.kind === "cable") this.showCable(selection, run);
    else this.showNode(selection.node, run);
  }

  showCable({ cable, link }, run) {
    const fabric = this.app.fabric;
    const facts = [fabric.rate(cable)];
    if (Number.isFinite(fabric.length[cable])) facts.push(`${number(fabric.length[cable])} m`);
    const ends = element("p", { class: "about" }, "Cable between ",
      selectionButton(fabric.names[fabric.aNode[cable]], () => this.app.selectNode(fabric.aNode[cable])), " and ",
      selectionButton(fabric.names[fabric.bNode[cable]], () => this.app.selectNode(fabric.bNode[cable])), `, ${facts.join(", ")}`);
    // List the chosen direction first or, if none is chosen, the busier one.
    let first = link;
    if (first === undefined) first = run && run.load[2 * cable + 1] > run.load[2 * cable] ? 2 * cable + 1 : 2 * cable;
    this.box.replaceChildren(ends, this.way(first, run, true), this.way(first ^ 1, run, false));
  }

  way(link, run, open) {
    const box = element("div", { class: "way" }, element("p", { class: "name" }, this.app.fabric.linkName(link)));
    if (!run) return box;
    const rank = this.app.rankText(link);
    box.append(element("p", {}, "load ", element("span", { class: "big" }, number(run.load[link])), ", ", amount(run.flows[link], this.app.page.words), rank ? `; ${rank}` : ""));
    const users = run.users.get(link);
    if (users && open) box.append(...this.users(users));
    else if (users) box.append(element("details", {}, element("summary", {}, "Flows in this direction"), ...this.users(users)));
    else if (run.flows[link] > 0) box.append(element("p", { class: "about" }, run.users.size
      ? `Flows are listed for ${number(run.users.size)} links: the busiest ones, and the reverse links of their cables.`
      : run.noUsers || "This page does not list the flows on links."));
    return box;
  }

  users(users) {
    const mode = this.app.drawing.mode();
    const table = element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Flows on this link" });
    const lists = {
      pairs: [users.pairs, users.pairCount, ["Source", "Destination"]],
      sources: [users.sources, users.sourceCount, ["Source"]],
      destinations: [users.destinations, users.destinationCount, ["Destination"]],
    };
    const dot = (colour) => { const made = element("i", { class: "dot" }); made.style.background = colour; return made; };
    const tabs = element("div", { class: "tabs", role: "group", "aria-label": "Flows by" });
    const fill = () => {
      const [rows, count, heads] = lists[this.tab];
      const body = element("tbody", {}, ...rows.map((row) => element("tr", {},
        ...row.slice(0, -1).map((node) => element("td", { class: "name" }, this.app.fabric.userName(node))),
        element("td", { class: "number" }, number(row.at(-1))))));
      if (count > rows.length) body.append(element("tr", {}, element("td", { colspan: heads.length + 1 }, `and ${number(count - rows.length)} more`)));
      table.replaceChildren(element("table", { class: "users" },
        element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, dot((head === "Source" ? SOURCE : DESTINATION)[mode]), head)),
          element("th", { scope: "col", class: "number" }, "Flows"))), body));
      for (const button of tabs.children) button.setAttribute("aria-pressed", String(button.dataset.tab === this.tab));
    };
    for (const [tab, text] of [["pairs", plural(users.pairCount, "pair")], ["sources", plural(users.sourceCount, "source")], ["destinations", plural(users.destinationCount, "destination")]]) {
      const button = element("button", { type: "button", onclick: () => { this.tab = tab; fill(); } }, text);
      button.dataset.tab = tab;
      tabs.append(button);
    }
    fill();
    return [tabs, table];
  }

  showNode(node, run) {
    const fabric = this.app.fabric, facts = [fabric.kindName(node), fabric.guid(node)];
    if (fabric.level[node] >= 0) facts.push(`level ${fabric.level[node]}`);
    const cables = [...fabric.cablesOf(node)];
    facts.push(`${cables.length} of ${plural(fabric.ports[node], "port")} cabled`);
    const hosts = new Set();
    for (const c of cables) {
      const other = fabric.aNode[c] === node ? fabric.bNode[c] : fabric.aNode[c];
      if (fabric.kind[other] === 1) hosts.add(other);
    }
    if (fabric.kind[node] === 0) facts.push(plural(hosts.size, "host"));
    const description = fabric.descriptions[node];
    if (run) cables.sort((p, q) => run.cable[q] - run.cable[p] || p - q);
    const rows = cables.slice(0, DETAIL_CABLES).map((cable) => {
      const out = fabric.aNode[cable] === node ? 2 * cable : 2 * cable + 1;
      return element("tr", {},
        element("td", {}, selectionButton(`[${out & 1 ? fabric.bPort[cable] : fabric.aPort[cable]}] ${fabric.port(cable, out & 1 ? 0 : 1)}`, () => this.app.selectLink(out, true))),
        element("td", { class: "number" }, run ? number(run.load[out]) : "–"),
        element("td", { class: "number" }, run ? number(run.load[out ^ 1]) : "–"));
    });
    if (cables.length > DETAIL_CABLES) rows.push(element("tr", {}, element("td", { colspan: 3 }, `and ${number(cables.length - DETAIL_CABLES)} more`)));
    const machine = fabric.machineOf.get(node), adapters = fabric.machines.get(machine) ?? [];
    this.box.replaceChildren(
      element("h4", { class: "name" }, fabric.names[node]),
      element("p", { class: "about" }, facts.join(", ")),
      ...(machine === undefined ? [] : [element("p", { class: "about machine" }, `Machine ${machine} of ${adapters.length} adapters: `,
        ...adapters.flatMap((other, place) => [place ? ", " : "", other === node ? fabric.names[other] : selectionButton(fabric.names[other], () => this.app.selectNode(other, true))]))]),
      ...(description ? [element("p", { class: "about" }, `Description: ${description}`)] : []),
      element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Its cables" }, element("table", {},
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Port and far end"), element("th", { scope: "col", class: "number" }, "Load out"), element("th", { scope: "col", class: "number" }, "Load in"))),
        element("tbody", {}, ...rows))));
  }
}

class BusiestList {
  constructor(body, app) {
    Object.assign(this, { body, app });
  }

  show(links, run, colour, scope) {
    this.none = `None of the ${scope} carries a flow.`;
    if (!run) {
      this.body.replaceChildren(element("tr", {}, element("td", { colspan: 3 }, "This engine did not run this pattern.")));
      return;
    }
    this.links = links;
    this.body.replaceChildren(...links.map((link) => {
      const users = run.users.get(link);
      const cell = element("td", {}, selectionButton(this.app.fabric.linkName(link), () => this.app.selectLink(link, true)));
      if (users) cell.append(element("small", {}, userLine(users, this.app.fabric)));
      cell.style.borderLeftColor = colour(run.load[link]);
      const row = element("tr", {}, cell,
        element("td", { class: "number" }, number(run.load[link])), element("td", { class: "number" }, number(run.flows[link])));
      row.dataset.link = link;
      return row;
    }));
    if (!links.length) this.body.replaceChildren(element("tr", {}, element("td", { colspan: 3 }, this.none)));
  }

  mark(link) {
    for (const row of this.body.rows) row.classList.toggle("chosen", row.dataset.link === String(link));
  }
}

function userLine(users, fabric) {
  if (!users.pairCount) return "";
  const [source, destination] = users.pairs[0];
  const first = `${fabric.userName(source)} → ${fabric.userName(destination)}`;
  const more = plural(users.pairCount - 1, "more pair");
  return users.pairCount === 1 ? first : `${first} and ${more}`;
}

class Search {
  constructor(input, list, app) {
    Object.assign(this, { input, list, app, found: [], at: -1, order: new Intl.Collator("en", { numeric: true }) });
    input.addEventListener("input", () => this.look());
    input.addEventListener("focus", () => { if (input.value) this.look(); });
    input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        if (this.found.length) this.move(this.at + (event.key === "ArrowDown" ? 1 : -1));
        event.preventDefault();
      } else if (event.key === "Enter") {
        if (this.found.length) this.choose(this.found[Math.max(this.at, 0)]);
        event.preventDefault();
      } else if (event.key === "Escape") this.close();
    });
  }

  look() {
    const text = this.input.value.trim(), fabric = this.app.fabric;
    this.found = [];
    this.at = -1;
    if (!text) { this.close(); return; }
    const port = /^(.*)\[(\d+)\]$/.exec(text);
    if (port && fabric.byName.has(port[1])) {
      const node = fabric.byName.get(port[1]);
      for (const cable of fabric.cablesOf(node)) {
        const back = fabric.aNode[cable] === node && fabric.aPort[cable] === Number(port[2]) ? 0 : fabric.bNode[cable] === node && fabric.bPort[cable] === Number(port[2]) ? 1 : -1;
        if (back >= 0) this.found.push({ link: 2 * cable + back, text: fabric.linkName(2 * cable + back) });
      }
    }
    const wanted = text.toLowerCase(), starts = [], within = [], most = 500;
    for (let node = 0; node < fabric.numNodes && starts.length < most; node++) {
      const place = fabric.lower[node].indexOf(wanted);
      if (place === 0) starts.push(node);
      else if (place > 0 && within.length < most) within.push(node);
    }
    for (const list of [starts, within]) list.sort((p, q) => this.order.compare(fabric.names[p], fabric.names[q]));
    if (/^0x[0-9a-f]+$/.test(wanted)) {
      const digits = wanted.slice(2).replace(/^0+/, "");
      for (let node = 0; node < fabric.numNodes && within.length < most; node++) {
        if (fabric.guid(node).slice(2).replace(/^0+/, "").startsWith(digits)) within.push(node);
      }
    }
    const order = (name) => name.toLowerCase().indexOf(wanted);
    const machines = [...fabric.machines.keys()].filter((name) => order(name) >= 0);
    machines.sort((p, q) => Math.sign(order(p)) - Math.sign(order(q)) || this.order.compare(p, q));
    this.found.push(...machines.slice(0, 6).map((name) => {
      const adapters = fabric.machines.get(name);
      return { node: adapters[0], text: `${name} (machine of ${adapters.length} adapters)` };
    }));
    const exact = fabric.byName.get(text);
    const nodes = [...new Set([...(exact === undefined ? [] : [exact]), ...starts, ...within])].slice(0, 12);
    this.found.push(...nodes.map((node) => ({ node, text: `${fabric.names[node]} (${fabric.kindName(node)})` })));
    this.list.replaceChildren(...(this.found.length ? this.found.map((item, place) => element("li",
      { role: "option", id: `found-${place}`, "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); this.choose(item); } }, item.text))
      : [element("li", { class: "none", role: "option", "aria-disabled": "true" }, "No node has this in its name.")]));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    if (this.found.length) this.move(0);
  }

  move(to) {
    this.at = (to + this.found.length) % this.found.length;
    for (const [place, item] of [...this.list.children].entries()) item.setAttribute("aria-selected", String(place === this.at));
    this.input.setAttribute("aria-activedescendant", `found-${this.at}`);
    this.list.children[this.at].scrollIntoView({ block: "nearest" });
  }

  choose(item) {
    this.close();
    if (item.link !== undefined) this.app.selectLink(item.link, true);
    else this.app.selectNode(item.node, true);
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}
