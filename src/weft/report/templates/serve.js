// The page of the service: it asks for the state and shows what has changed in it.

// Seconds for which the service may hold back an answer while nothing changes, after which a silent
// service counts as unreachable, and between attempts; least time between two answers.
const WAIT_S = 10, SILENT_S = 20, AGAIN_S = 2, LEAST_S = 1;
// Rows of a table, keys of a link, moments of the time line, and seconds between two announcements.
const MOST_ROWS = 100, MOST_KEYS = 6, MOST_MOMENTS = 2000, SAY_S = 5;
const STATES = { ready: "ok", making: "refused", failed: "bad" };

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function durationText(seconds) {
  const s = Math.max(0, Math.floor(seconds)), h = Math.floor(s / 3600), two = (value) => String(value).padStart(2, "0");
  if (h >= 48) return `${Math.floor(h / 24)} days`;
  return h ? `${h} h ${two(Math.floor(s / 60) % 60)} min` : s >= 60 ? `${Math.floor(s / 60)} min ${two(s % 60)} s` : `${s} s`;
}

const clockText = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });

function setText(node, text) { if (node.textContent !== text) node.textContent = text; }

// Rows of a table with a key each. Rows that stay are changed in place, so that they keep the focus.
class Rows {
  constructor(body, make, update) {
    Object.assign(this, { body, make, update, rows: new Map() });
  }

  show(items) {
    const wanted = new Set(items.map((item) => item.id));
    for (const [id, row] of this.rows) if (!wanted.has(id)) { row.remove(); this.rows.delete(id); }
    let next = this.body.firstElementChild;
    for (const item of items) {
      let row = this.rows.get(item.id);
      if (!row) this.rows.set(item.id, (row = this.make(item)));
      this.update(row, item);
      if (row === next) next = next.nextElementSibling;
      else this.body.insertBefore(row, next);
    }
  }
}

class Live {
  constructor(page) {
    Object.assign(this, { page, token: "", state: null, offset: 0, moments: [], news: [], saidAt: 0, paused: false, lost: false, closed: false });
    this.opened = Date.now();
    this.grants = new Rows(byId("grants"), () => element("tr", {}, element("th", { scope: "row" }), ...["", "", "number", "number"].map((name) => element("td", { class: name }))), (row, { grant }) => {
      const base = grant.alternative < 0;
      [grant.application, grant.phase, base ? "base routes" : String(grant.alternative)].forEach((text, i) => setText(row.children[i], text));
      row.grant = grant;
      this.showTimes(row);
    });
    const links = (id) => new Rows(byId(id), () => element("tr", {}, element("th", { scope: "row", class: "name" }), element("td", { class: "number" }, element("i", { class: "bar", "aria-hidden": "true" }), element("span")), element("td")), (row, { meeting, top }) => {
      if (!row.children[0].firstChild) row.children[0].append(...meeting.link.split(/(?<= ->) /).flatMap((end) => [element("span", {}, end), " "]));
      row.querySelector(".bar").style.width = `${(4 * meeting.flows) / top}rem`;
      setText(row.children[1].lastChild, number(meeting.flows));
      const more = meeting.keys.length - MOST_KEYS;
      setText(row.children[2], meeting.keys.slice(0, MOST_KEYS).join(", ") + (more > 0 ? ` and ${number(more)} more` : ""));
    });
    this.meetings = links("meetings");
    this.baseMeetings = links("base-meetings");
    this.applications = new Rows(byId("applications"), (item) => this.applicationRow(item), (row, item) => this.updateApplication(row, item));
    byId("filter").addEventListener("input", () => this.show());
    byId("pause").addEventListener("click", () => this.pause());
    byId("token-form").addEventListener("submit", (event) => this.useToken(event));
    new ResizeObserver(() => this.drawTime()).observe(byId("time"));
    setInterval(() => this.tick(), 1000);
  }

  // -- asking -----------------------------------------------------------------------------------

  async run() {
    for (;;) {
      const start = performance.now();
      try {
        const state = await this.ask();
        this.reached();
        this.take(state);
      } catch (error) {
        this.failed(error);
      }
      await this.turn(start);
    }
  }

  // Wait until the next request is due.
  async turn(start) {
    while (this.paused || this.closed) await new Promise((done) => { this.wake = done; });
    const left = this.lost ? AGAIN_S * 1000 : LEAST_S * 1000 - (performance.now() - start);
    if (left > 0) await new Promise((done) => { this.wake = done; setTimeout(done, left); });
  }

  async ask() {
    const query = this.state && !this.lost ? `?after=${this.state.version}&wait_s=${WAIT_S}` : "";
    this.abort = new AbortController();
    const limit = setTimeout(() => this.abort.abort(), SILENT_S * 1000);
    try {
      const answer = await fetch(`v1/state${query}`, {
        cache: "no-store", signal: this.abort.signal, headers: this.token ? { Authorization: `Bearer ${this.token}` } : {},
      });
      if (!answer.ok) {
        const body = await answer.json().catch(() => null);
        throw new Refusal(answer.status, body?.error?.message ?? answer.statusText);
      }
      const date = Date.parse(answer.headers.get("Date") ?? "");
      if (date) this.offset = date + 500 - Date.now();
      return await answer.json();
    } finally {
      clearTimeout(limit);
    }
  }

  reached() {
    if (this.lost) this.say("The service answers again.");
    this.lost = false;
    this.notice("lost", "");
    if (byId("token-form").contains(document.activeElement)) byId("filter").focus();
    byId("token-form").hidden = true;
    byId("live").classList.remove("stale");
  }

  failed(error) {
    const wants = error.status === 401 || error.status === 403;
    byId("live").classList.add("stale");
    if (wants) {
      this.closed = true;
      this.notice("lost", this.token ? `The service does not accept this token: ${error.message}.` : "");
      this.token = "";
      byId("token-form").hidden = false;
      byId("token").value = "";
      // Only if nobody is elsewhere on the page.
      if (document.activeElement === document.body || byId("token-form").contains(document.activeElement)) byId("token").focus();
      setText(byId("updated"), "The service requires a token");
      return;
    }
    const what = error.status ? `The service refuses to answer: ${error.message}.` : "The service cannot be reached.";
    const since = this.state ? ` What is shown is of ${clockText(this.at)}.` : "";
    this.notice("lost", `${what}${since} Trying again every ${AGAIN_S} s.`);
    this.lost = true;
    setText(byId("updated"), "Not connected");
  }

  useToken(event) {
    event.preventDefault();
    this.token = byId("token").value.trim();
    // A header takes no other characters.
    if (!/^[\x21-\x7e]+$/.test(this.token)) {
      this.token = "";
      this.notice("lost", "A token has no spaces and no special characters.");
      return;
    }
    byId("token").value = "";
    this.closed = false;
    this.wake?.();
  }

  pause() {
    this.paused = !this.paused;
    byId("pause").setAttribute("aria-pressed", String(this.paused));
    if (!this.paused) this.wake?.();
  }

  notice(kind, text, good = false) {
    const box = byId("notices"), id = `notice-${kind}`, known = byId(id);
    if (!text) known?.remove();
    else if (known) setText(known, text);
    else box.append(element("p", { id, class: good ? "notice" : "notice bad" }, text));
  }

  // Announce a sentence to screen readers.
  say(text) {
    byId("said").textContent = text;
    this.saidAt = Date.now();
  }

  // -- showing ----------------------------------------------------------------------------------

  take(state) {
    if (this.paused) return;
    const before = this.state;
    this.state = state;
    this.at = Date.now();
    this.moments.push({ at: this.at, keys: state.contention, base: state.base_contention });
    this.thin();
    if (before) this.compare(before, state);
    this.show();
    this.drawTime();
    this.tick();
    document.documentElement.dataset.version = state.version;
    document.documentElement.dataset.state = "done";
  }

  // Keep the moments at which something changes.
  thin() {
    const list = this.moments, same = (p, q) => p.keys === q.keys && p.base === q.base;
    if (list.length > 2 && same(list.at(-1), list.at(-2)) && same(list.at(-2), list.at(-3))) list.splice(-2, 1);
    if (list.length > MOST_MOMENTS) { list.shift(); this.shortened = true; }
  }

  compare(before, state) {
    const names = (of) => new Set(of.grants.map((g) => `${g.application}/${g.phase}`));
    const old = names(before), now = names(state);
    for (const name of now) if (!old.has(name)) this.news.push({ name, what: "granted" });
    for (const name of old) if (!now.has(name)) this.news.push({ name, what: "given back" });
  }

  // Say what has happened, in one sentence, and not at every change.
  announce() {
    if (!this.news.length || Date.now() - this.saidAt < SAY_S * 1000) return;
    const news = this.news.splice(0);
    const text = news.length <= 3 ? news.map(({ name, what }) => `${name} ${what}`).join(", ")
      : ["granted", "given back"].map((what) => `${plural(news.filter((n) => n.what === what).length, "key")} ${what}`).join(", ");
    const { contention, base_contention: base } = this.state;
    this.say(`${text}. Most flows on a link: ${contention}, on the base routes ${base}.`);
  }

  // Return the chosen items, at most MOST_ROWS, and say how many there are.
  chosen(items, text, what, haystack) {
    const wanted = byId("filter").value.trim().toLowerCase();
    const found = wanted ? items.filter((item) => haystack(item).toLowerCase().includes(wanted)) : items;
    const shown = found.slice(0, MOST_ROWS);
    const fits = wanted ? `${number(found.length)} of ${plural(items.length, what)} fit the filter` : plural(items.length, what);
    setText(text, `${fits}${found.length > shown.length ? `; the first ${MOST_ROWS} are shown` : ""}.`);
    return shown;
  }

  show() {
    const { state } = this;
    if (!state) return;
    const hosts = new Map(state.applications.map((a) => [a.name, a]));
    const key = (grant) => `${grant.application}/${grant.phase}`;
    // A phase is looked up by its own name; hosts find all keys of their application.
    const place = (name) => (byId("filter").value.trim() ? ` ${hosts.get(name)?.hosts.join(" ") ?? ""}` : "");
    this.grants.show(this.chosen(state.grants, byId("grants-text"), "key", (grant) => key(grant) + place(grant.application)).map((grant) => ({ id: `${key(grant)} ${grant.since_ns}`, grant })));
    this.showMeetings();
    this.applications.show(this.chosen(state.applications, byId("applications-text"), "application", (a) => `${a.name} ${a.keys.map((k) => k.phase).join(" ")}${place(a.name)}`).map((application) => ({ id: application.name, application })));
    this.showFacts();
    this.showSubnet();
  }

  showMeetings() {
    const { state } = this, top = Math.max(state.contention, state.base_contention, 1);
    for (const [rows, meetings, id] of [[this.meetings, state.meetings, "meetings"], [this.baseMeetings, state.base_meetings, "base-meetings"]]) {
      rows.show(meetings.map((meeting) => ({ id: meeting.link, meeting, top })));
      byId(id).closest(".scroll").hidden = !meetings.length;
      byId(`${id}-none`).hidden = meetings.length > 0;
    }
    setText(byId("contention"), number(state.contention));
    setText(byId("base-contention"), number(state.base_contention));
    const { contention: keys, base_contention: base } = state;
    const verdict = !state.grants.length ? "No key is in use."
      : keys < base ? `The base routes would put ${plural(base, "flow")} on the most loaded link instead of ${number(keys)}.`
        : keys === base ? "The base routes would put just as many flows on the most loaded link."
          : `The base routes would put fewer flows on the most loaded link: ${number(base)} instead of ${number(keys)}.`;
    setText(byId("meetings-text"), verdict);
  }

  showFacts() {
    const { state } = this;
    const facts = { applications: state.applications.length, grants: state.grants.length, contention: state.contention, base: state.base_contention };
    for (const [name, value] of Object.entries(facts)) setText(byId(`fact-${name}`), number(value));
  }

  applicationRow() {
    const phases = element("ul");
    const details = element("details", {}, element("summary"), phases);
    const row = element("tr", {}, element("th", { scope: "row" }), element("td"), element("td"), element("td", {}, details));
    details.addEventListener("toggle", () => this.listPhases(row));
    return row;
  }

  updateApplication(row, { application }) {
    const text = JSON.stringify(application);
    if (row.text === text) return;
    Object.assign(row, { text, application });
    const { name, hosts, keys } = application, count = new Map();
    setText(row.children[0], name);
    setText(row.children[1], hosts.length > 2 ? `${number(hosts.length)}: ${hosts[0]} … ${hosts.at(-1)}` : hosts.join(", "));
    for (const each of keys) count.set(each.state, (count.get(each.state) ?? 0) + 1);
    const held = keys.filter((each) => each.granted).length;
    const reasons = [...new Set(keys.filter((each) => each.reason).map((each) => each.reason))];
    row.children[2].replaceChildren(
      ...[...count].map(([state, many]) => element("span", { class: `badge ${STATES[state]}` }, `${number(many)} ${state}`)),
      ...(held ? [element("span", { class: "badge refused" }, `${number(held)} in use`)] : []),
      ...reasons.slice(0, 3).map((reason) => element("div", { class: "reason" }, reason)));
    setText(row.querySelector("summary"), plural(keys.length, "phase"));
    row.querySelector("summary").setAttribute("aria-label", `${plural(keys.length, "phase")} of ${name}`);
    this.listPhases(row);
  }

  // A closed list is empty, since there may be thousands of phases.
  listPhases(row) {
    const list = row.querySelector("ul"), { open } = row.querySelector("details");
    list.replaceChildren(...(open ? row.application.keys.slice(0, MOST_ROWS).map((key) => element("li", {},
      `${key.phase}: ${key.state}${key.granted ? ", in use" : ""}; ${plural(key.flows, "flow")}, ${plural(key.alternatives, "alternative")}${key.reason ? `; ${key.reason}` : ""}`)) : []));
    if (open && row.application.keys.length > MOST_ROWS) list.append(element("li", {}, `and ${number(row.application.keys.length - MOST_ROWS)} more`));
  }

  showSubnet() {
    const { subnet, problems } = this.state, entries = [];
    const add = (name, value, style = "") => entries.push(element("div", { class: style }, element("dt", {}, name), element("dd", {}, value)));
    if (subnet.manager === "none") {
      add("subnet manager", "none: keys are planned, but no tables are loaded");
    } else {
      add("subnet manager", "OpenSM");
      add("times tables were loaded", number(subnet.reloads));
      add("last load", subnet.last_reload_s === null ? "none yet" : `${number(subnet.last_reload_s)} s`);
    }
    const missing = subnet.missing_cables;
    add(`missing cables: ${number(missing.length)}`, missing.length ? missing.slice(0, MOST_ROWS).join(", ") + (missing.length > MOST_ROWS ? ", …" : "") : "none", missing.length ? "wide bad" : "");
    const text = entries.map((entry) => entry.textContent).join("\n");
    if (this.subnetText !== text) byId("subnet").replaceChildren(...entries);
    this.subnetText = text;
    this.notice("problems", problems.length ? `The service has a problem: ${problems.join("; ")}` : "");
  }

  // -- time -------------------------------------------------------------------------------------

  showTimes(row) {
    const now = Date.now() + this.offset, { since_ns: since, until_ns: until } = row.grant;
    setText(row.children[3], durationText((now - since / 1e6) / 1000));
    const left = (until / 1e6 - now) / 1000;
    setText(row.children[4], left > 0 ? durationText(left) : "over");
  }

  tick() {
    this.announce();
    if (!this.state || this.lost || this.closed) return;
    setText(byId("updated"), `${this.paused ? "Paused: as of" : "As of"} ${clockText(this.paused ? this.at : Date.now())}`);
    if (this.paused) return;
    for (const row of byId("grants").children) this.showTimes(row);
    if (Date.now() - (this.drawn ?? 0) > 5000) this.drawTime();
  }

  drawTime() {
    const box = byId("time"), list = this.moments, width = box.clientWidth - 20;
    if (!list.length || width <= 0) return;
    this.drawn = Date.now();
    const height = 150, left = 34, right = 10, bottom = 22, upper = 10, first = list[0].at;
    const end = Math.max(this.lost || this.paused || this.closed ? this.at : Date.now(), first + 60000);
    const largest = (name) => list.reduce((most, each) => Math.max(most, each[name]), 0);
    const most = Math.max(largest("keys"), largest("base"), 1);
    const x = (at) => left + ((width - left - right) * (at - first)) / (end - first);
    const y = (value) => upper + (height - bottom - upper) * (1 - value / most);
    const summary = `Largest ${this.shortened ? `since ${clockText(first)}` : "so far"}: ${number(largest("keys"))} with routing keys, ${number(largest("base"))} on the base routes. The page looks at most once a second.`;
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Time line. ${summary}` });
    for (const value of niceTicks(most, Math.min(4, most)).filter(Number.isInteger)) {
      picture.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
        svg("text", { x: left - 7, y: y(value) + 4, "text-anchor": "end" }, number(value)));
    }
    const last = Math.max(this.at, first);
    for (const name of ["base", "keys"]) {
      let path = `M${x(first)} ${y(list[0][name])}`;
      for (const each of list) path += `H${x(each.at)}V${y(each[name])}`;
      picture.append(svg("path", { class: `curve ${name}`, d: `${path}H${x(this.lost || this.paused ? last : Math.min(Date.now(), end))}` }));
    }
    picture.append(svg("text", { x: left, y: height - 4 }, clockText(first)), svg("text", { x: width - right, y: height - 4, "text-anchor": "end" }, clockText(end)));
    box.replaceChildren(picture);
    setText(byId("time-text"), summary);
  }
}

document.documentElement.classList.add("ready");
window.weftLive = new Live(JSON.parse(byId("weft-page").textContent));
window.weftLive.run();
