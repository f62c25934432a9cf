// The page of console.sh. Everything that comes from the server is put into templates as text, never as markup.
// A refresh changes what has changed and nothing else, so that selection, focus and scrolling stay.
import { html, nothing, render } from "./lit/lit-html.js";
import { repeat } from "./lit/directives/repeat.js";
import { live } from "./lit/directives/live.js";

const STATES = ["dead", "expired", "retrying", "leased", "scheduled", "finished", "reserved"];
const WORDS = { leased: "held", expired: "claimable" };
const element = (id) => document.getElementById(id);
const main = element("main");

// What the overview is asked for, and what was answered last: of the overview and of the view that is open.
const asked = { match: "", sort: "", limit: 100 };
let state = null;
let view = { hash: null, got: null, error: null };
let turn = 0;
let silentSince = null;
let noticeUntil = 0;

// --- figures as people read them --------------------------------------------------------------

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const scale = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const whole = (count) => numbers.format(count);

function span(ms) {
  if (!ms) return "0";
  for (const [unit, size] of [["d", 864e5], ["h", 36e5], ["min", 6e4], ["s", 1e3]]) if (ms >= size) return `${(ms / size).toFixed(1)} ${unit}`;
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}

function bytes(count) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  return `${count} B`;
}

const rate = (value) => (value === 0 ? "0" : value < 10 ? value.toFixed(1) : whole(Math.round(value)));
const iso = (ms) => `${new Date(ms).toISOString().slice(0, 23).replace("T", " ")} UTC`;
const clock = (ms) => new Date(ms).toISOString().slice(11, 19);

function encode(text) {
  const data = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...data)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function decode(text) {
  return new TextDecoder().decode(Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0)));
}

// --- asking -----------------------------------------------------------------------------------

async function get(path) {
  const answer = await fetch(path, { credentials: "same-origin", signal: AbortSignal.timeout(15000) })
    .catch((error) => { throw Object.assign(error, { silent: true }); });
  if (!answer.ok) throw Object.assign(new Error(await answer.text()), { status: answer.status });
  return answer.json();
}

function notice(text, bad) {
  element("notice").textContent = text;
  element("notice").className = bad ? "bad" : "";
  element("notice").hidden = false;
  noticeUntil = Date.now() + 10000;
}

async function act(wanted, question) {
  const dialog = element("ask");
  element("question").textContent = question;
  const sure = await new Promise((resolve) => {
    element("yes").onclick = () => { dialog.close(); resolve(true); };
    element("no").onclick = () => { dialog.close(); resolve(false); };
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
  });
  if (!sure) return;
  try {
    const answer = await fetch("api/operate", {
      method: "POST", credentials: "same-origin", signal: AbortSignal.timeout(15000),
      headers: { "Content-Type": "application/json", "X-Orderwheel-Console": "1" }, body: JSON.stringify(wanted),
    });
    const text = await answer.text();
    notice(answer.ok ? `${wanted.act}: ${JSON.parse(text).answer}` : `${wanted.act} was refused: ${text}`, !answer.ok);
  } catch (error) {
    notice(`${wanted.act}: no answer, look whether it was done (${error.message})`, true);
  }
  refresh();
}

const button = (label, wanted, question, off) =>
  html`<button type="button" ?disabled=${off} @click=${() => act(wanted, question)}>${label}</button>`;

// --- parts ------------------------------------------------------------------------------------

const tile = (label, value, kind) => html`<div class="tile ${kind || ""}"><b>${value}</b><span>${label}</span></div>`;
const badge = (word, kind) => html`<span class="badge ${kind || word.replace(" ", "-")}">${word}</span>`;
const empty = (text) => html`<p class="empty">${text}</p>`;

// Heads are texts or templates; a cell is a value, or a value with a class. Each row has a key.
function table(heads, rows, named) {
  return html`<table class="data" aria-label=${named}>
    <thead><tr>${heads.map((head) => html`<th scope="col" class=${head.class || ""} aria-sort=${head.sort || nothing}>${head.show ?? head.label}</th>`)}</tr></thead>
    <tbody>${repeat(rows, (row) => row.key, (row) => html`<tr>${row.cells.map((cell, at) => {
      const given = cell !== null && typeof cell === "object" && "value" in cell ? cell : { value: cell };
      return html`<td class="${given.class || ""} ${heads[at].class || ""}" data-head=${heads[at].label}><span>${given.value ?? "–"}</span></td>`;
    })}</tr>`)}</tbody></table>`;
}

function spark(values) {
  if (values.length < 2) return html`<span class="faint">collecting</span>`;
  const most = Math.max(1, ...values);
  const line = values.map((one, at) => `${(at * 90 / (values.length - 1)).toFixed(1)} ${(21 - 20 * one / most).toFixed(1)}`).join("L");
  return html`<svg width="90" height="22" class="spark" role="img" aria-label="closed per second, at most ${rate(Math.max(...values))}"><path d="M${line}"></path></svg>`;
}

function when(ms, now, digits = 19) {
  const away = now * 1000 - ms;
  return html`${iso(ms).slice(0, digits)}${digits < 23 ? " UTC" : ""} <small>${away >= 0 ? `${span(away)} ago` : `in ${span(-away)}`}</small>`;
}

// --- the overview -----------------------------------------------------------------------------

const late = (ms) => (ms > 60000 ? "bad" : ms > 0 ? "warn" : "");
const COLUMNS = [
  ["name", "queue"], ["orders", "orders"], ["overdue", "overdue"], ["oldest_overdue_ms", "oldest"], ["dead", "dead"],
  ["live_claims", "claimed"], ["retrying", "retrying"], ["claim_waiters", "waiting"], ["closed_per_s", "closed/s"],
  ["close_ms_p99_1m", "close p99"],
];

function sortBy(column) {
  const first = column === "name" ? "name" : `-${column}`;
  asked.sort = asked.sort === first ? (column === "name" ? "-name" : column) : asked.sort === "" || asked.sort.replace("-", "") !== column ? first : "";
  refresh();
}

function alarm(row) {
  const queue = row.key === null ? html`<b>${row.name}</b>` : html`<a href="#/q/${row.key}">${row.name}</a>`;
  const since = row.since ? html` <small>for ${span((state.now - row.since) * 1000)}</small>` : nothing;
  return html`<li>${badge(row.kind)} ${queue}${since}<span class="why">${row.kind === "dead" ? html`${whole(row.count)} dead, the last one
    ${row.order ? html`<b>${row.order}</b>` : nothing}: ` : nothing}${row.text}</span></li>`;
}

function overview() {
  const sum = state.totals;
  const heads = COLUMNS.map(([column, label]) => ({
    label, sort: asked.sort.replace("-", "") === column ? (asked.sort.startsWith("-") ? "descending" : "ascending") : null,
    show: html`<button type="button" class="sort" @click=${() => sortBy(column)}>${label}${asked.sort.replace("-", "") === column ? (asked.sort.startsWith("-") ? " ▾" : " ▴") : ""}</button>`,
  })).concat([{ label: "held" }, { label: "closed/s, last minutes" }]);
  const rows = state.queues.map((row) => ({ key: row.key, cells: [
    html`<a href="#/q/${row.key}">${row.name}</a>`,
    whole(row.orders), { value: whole(row.overdue), class: row.overdue ? late(row.oldest_overdue_ms) : "" },
    { value: row.overdue ? span(row.oldest_overdue_ms) : "–", class: late(row.oldest_overdue_ms) },
    { value: whole(row.dead), class: row.dead ? "bad" : "" },
    whole(row.live_claims), whole(row.retrying), whole(row.claim_waiters), rate(row.closed_per_s),
    row.close_ms_p99_1m ? span(row.close_ms_p99_1m) : "–",
    row.paused_ms !== -2 ? badge("paused") : row.brake_ms ? badge("brake") : "–",
    spark(row.spark),
  ] }));
  const known = state.walked ? "There is no queue on this server." : "Looking for queues…";
  return html`
    <h1>Queues</h1>
    <div class="tiles">
      ${tile("orders", whole(sum.orders))}${tile("overdue", whole(sum.overdue), sum.overdue ? late(sum.oldest_overdue_ms) : "")}
      ${tile("oldest overdue", span(sum.oldest_overdue_ms), late(sum.oldest_overdue_ms))}${tile("dead", whole(sum.dead), sum.dead ? "bad" : "")}
      ${tile("claimed", whole(sum.live_claims))}${tile("retrying", whole(sum.retrying))}${tile("closers waiting", whole(sum.claim_waiters))}
      ${tile("due/s", rate(sum.due_per_s))}${tile("closed/s", rate(sum.closed_per_s), sum.closed_per_s ? "good" : "")}
      ${tile("memory", bytes(sum.bytes))}
    </div>
    ${state.alarms.length === 0 ? nothing : html`<section class="card"><h2>Needs a look</h2>
      <ul class="alarms">${repeat(state.alarms, (row) => `${row.kind} ${row.key} ${row.name}`, alarm)}</ul>
      ${state.more_alarms ? html`<p class="faint">and ${whole(state.more_alarms)} more</p>` : nothing}</section>`}
    <section class="card">
      <div class="toolbar">
        <input id="filter" type="search" placeholder="Filter by name" aria-label="filter by name" .value=${live(asked.match)}
          autocomplete="off" spellcheck="false" @input=${(event) => { asked.match = event.target.value; refresh(); }}>
        <select class="narrow" aria-label="sort by" .value=${live(asked.sort)} @change=${(event) => { asked.sort = event.target.value; refresh(); }}>
          <option value="">worst first</option>
          ${COLUMNS.map(([column, label]) => html`<option value=${column === "name" ? "name" : `-${column}`}>${label}</option>`)}
        </select>
        <span class="faint">${state.queues.length === state.matched ? whole(state.matched) : `${whole(state.queues.length)} of ${whole(state.matched)}`}
          ${state.matched === 1 ? "queue" : "queues"}${asked.sort === "" ? ", the worst first" : ""}${state.oldest_read_s > 5 ? `, read within ${span(state.oldest_read_s * 1000)}` : ""}${state.full ? "; more names than are kept" : ""}${state.too_long ? `; ${whole(state.too_long)} with names that are too long` : ""}</span>
        ${asked.sort === "" ? nothing : html`<button type="button" class="wide" @click=${() => { asked.sort = ""; refresh(); }}>Worst first</button>`}
      </div>
      ${rows.length ? table(heads, rows, "queues") : empty(asked.match ? "No queue has this in its name." : known)}
      ${state.matched > state.queues.length && asked.limit < 500 ? html`<button type="button" @click=${() => { asked.limit = 500; refresh(); }}>Show more</button>`
        : state.matched > state.queues.length ? html`<p class="faint">Filter by name to see the others.</p>` : nothing}
    </section>`;
}

// --- a queue ----------------------------------------------------------------------------------

function ordersTable(key, got, shownState) {
  const f = got.figures;
  const heads = [{ label: "id" }, { label: "status" }, { label: "deadline" }, { label: "attempt" }, { label: "owner", class: "left wrap" },
    { label: "error", class: "left wrap" }].concat(state.operate ? [{ label: "" }] : []);
  const rows = got.orders.map((order) => {
    const id = { queue: key, order: order.key };
    const cells = [
      html`<a href="#/q/${key}/o/${order.key}">${order.id}</a>`, order.status || "–",
      order.deadline > 0 ? when(order.deadline, got.now) : "–", order.attempt, order.owner, order.error];
    if (state.operate) {
      cells.push(shownState === "dead" || shownState === "retrying"
        ? { value: button("Requeue", { act: "requeue", ...id }, `Offer order ${order.id} of ${got.name} again?`) }
        : shownState === "leased"
          ? { value: button("Break", { act: "break", ...id, ...(order.owner === null ? {} : { owner: order.owner }) },
            `End the lease of ${order.owner ?? "nobody"} on order ${order.id}? Whatever its owner still sends is refused.`) } : "");
    }
    return { key: order.key, cells };
  });
  const part = got.whole ? (got.more ? `The first ${got.orders.length} found.` : "") : `Looking: ${whole(got.looked)} of ${whole(f.orders)} orders so far.`;
  return html`${rows.length ? table(heads, rows, `orders that are ${shownState}`)
    : empty(got.whole ? `No order is ${WORDS[shownState] || shownState}.` : "None found so far.")}
    ${part ? html`<p class="faint">${part}</p>` : nothing}`;
}

function queueView(key, shownState, got) {
  const f = got.figures;
  const died = f.dead && f.newest_dead;
  return html`
    <a class="back" href="#/">← all queues</a><h1>${got.name}</h1>
    ${f.paused_ms === -2 ? nothing : html`<p class="banner">${badge("paused")} ${f.paused_ms === -1 ? "until it is resumed" : `for ${span(f.paused_ms)}`}: ${f.pause_reason || "no reason given"}</p>`}
    ${died ? html`<p class="banner">${badge("dead")} the last one is <a href="#/q/${key}/o/${got.newest_dead_key}">${f.newest_dead}</a>: ${f.newest_dead_error || "no error was given"}</p>` : nothing}
    <div class="tiles of-twelve">
      ${tile("scheduled", whole(f.scheduled))}${tile("overdue", whole(f.overdue), f.overdue ? late(f.oldest_overdue_ms) : "")}
      ${tile("oldest overdue", span(f.oldest_overdue_ms), late(f.oldest_overdue_ms))}${tile("claimable", whole(f.expired))}
      ${tile("claimed", whole(f.live_claims))}${tile("retrying", whole(f.retrying))}
      ${tile("dead", whole(f.dead), f.dead ? "bad" : "")}${tile("finished", whole(f.finished))}
      ${tile("closers waiting", whole(f.claim_waiters))}${tile("held back by the brake", whole(f.claims_held_back_total))}
      ${tile("deadline to close, p99", span(f.overdue_close_ms_p99_1m), late(f.overdue_close_ms_p99_1m) === "bad" ? "bad" : "")}${tile("memory", bytes(f.bytes))}
    </div>
    ${state.operate ? html`<div class="actions">
      ${f.paused_ms === -2 ? button("Pause", { act: "pause", queue: key }, `Pause ${got.name} until it is resumed?`)
        : button("Resume", { act: "resume", queue: key }, `Resume ${got.name}?`)}
      ${button("Requeue dead", { act: "requeue", queue: key }, `Offer up to 1000 dead orders of ${got.name} again?`, !f.dead)}
      ${button("End retry waits", { act: "requeue-retrying", queue: key }, `Offer up to 1000 retrying orders of ${got.name} now?`, !f.retrying)}
    </div>` : nothing}
    <div class="pair">
      <section class="card"><h2>Orders per second</h2><div class="chart" id="chart-rate"></div>${got.history.length < 2 ? empty("Collecting…") : nothing}</section>
      <section class="card"><h2>Lateness and close time, p99 of the last minute</h2><div class="chart" id="chart-time"></div>${got.history.length < 2 ? empty("Collecting…") : nothing}</section>
    </div>
    <section class="card">
      <div class="tabs" role="group" aria-label="state">${STATES.map((one) => html`<button type="button" aria-pressed=${String(one === shownState)}
        @click=${() => { location.hash = `#/q/${key}/s/${one}`; }}>${one} <small>${whole(f[one])}</small></button>`)}</div>
      ${ordersTable(key, got, shownState)}
    </section>`;
}

// Charts are drawn beside the templates: one per holder, and new points are put into it.
const charts = new Map();

function chart(id, key, unit, history, series) {
  const holder = element(id);
  if (!holder || history.length < 2) return;
  const theme = getComputedStyle(document.documentElement);
  const colour = (name) => theme.getPropertyValue(`--${name}`).trim();
  const data = [history.map((point) => point[0]), ...series.map(([, , at]) => history.map((point) => point[at]))];
  const look = `${key} ${colour("ground")}`;
  let one = charts.get(id);
  if (one && (one.holder !== holder || one.look !== look)) { one.plot.destroy(); one = null; }
  const last = (plot) => { if (plot.cursor.idx === null || plot.cursor.idx === undefined) plot.setLegend({ idx: plot.data[0].length - 1 }, false); };
  if (!one) {
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
    const value = (_plot, given) => (given === null || given === undefined ? "–" : unit === "ms" ? span(given) : `${rate(given)}/s`);
    one = { holder, look, plot: new uPlot({
      width: holder.clientWidth, height: 190, cursor: { y: false, points: { size: 6 } }, hooks: { setCursor: [last] },
      axes: [{ ...axis, space: 80, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600], values: (_plot, splits) => splits.map((at) => clock(at * 1000)), label: "UTC", labelSize: 18, size: 34 },
        { ...axis, label: unit, labelSize: 18, size: 52, values: (_plot, splits) => splits.map((at) => scale.format(at)) }],
      series: [{ label: "at", value: (_plot, at) => (at === null || at === undefined ? "–" : clock(at * 1000)) },
        ...series.map(([label, name]) => ({ label, stroke: colour(name), width: 2, points: { show: false }, value }))],
      scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    }, data, holder) };
    charts.set(id, one);
  } else {
    if (holder.clientWidth && one.plot.width !== holder.clientWidth) one.plot.setSize({ width: holder.clientWidth, height: 190 });
    one.plot.setData(data);
  }
  last(one.plot);
}

function drawCharts(key, got) {
  chart("chart-rate", key, "orders/s", got.history, [["due", "warn", 1], ["claimed", "blue", 2], ["closed", "accent", 3]]);
  chart("chart-time", key, "ms", got.history, [["late", "warn", 4], ["claim to close", "accent", 5]]);
}

// --- an order, and the search -----------------------------------------------------------------

const TIMES = ["deadline", "finished_at", "finished_deadline", "retry_at", "keep_end"];

function orderView(key, got) {
  const told = (name, value) => {
    if (value === null) return "–";
    if (TIMES.includes(name)) return value > 1e11 ? when(value, got.now, 27) : "–";
    if (name === "lease_ms") return value === -2 ? "nobody holds it" : span(value);
    return value === "" ? "(empty)" : String(value);
  };
  const id = { queue: key, order: got.key };
  const owner = got.fields.find(([name]) => name === "owner")?.[1];
  return html`
    <a class="back" href="#/q/${key}">← ${got.queue}</a><h1>${got.id} ${badge(got.state)}</h1>
    ${state.operate ? html`<div class="actions">
      ${got.state === "dead" || got.state === "retrying" ? button("Requeue", { act: "requeue", ...id }, `Offer order ${got.id} of ${got.queue} again?`) : nothing}
      ${got.held ? button("Break", { act: "break", ...id, ...(owner === null ? {} : { owner }) }, `End the lease of ${owner ?? "nobody"} on order ${got.id}? Whatever its owner still sends is refused.`) : nothing}
    </div>` : nothing}
    <section class="card"><dl>${got.fields.map(([name, value]) => html`<dt>${name}</dt><dd>${told(name, value)}</dd>`)}</dl></section>`;
}

function findView(text, got) {
  const rows = got.found.map((one) => ({ key: `${one.queue} ${one.order}`, cells: [
    html`<a href="#/q/${one.queue}/o/${one.order}">${one.id}</a>`, html`<a href="#/q/${one.queue}">${one.name}</a>`, { value: badge(one.state) }, one.status || "–",
    one.deadline > 0 ? when(one.deadline, got.now) : "–", one.error] }));
  const heads = [{ label: "id" }, { label: "queue", class: "left wrap" }, { label: "state" }, { label: "status" }, { label: "deadline" }, { label: "error", class: "left wrap" }];
  return html`<a class="back" href="#/">← all queues</a><h1>Orders with the id ${text}</h1>
    <section class="card">${rows.length ? table(heads, rows, "orders found") : empty("No queue that was asked has it.")}
    <p class="faint">Asked ${whole(got.asked)} of ${whole(got.known)} queues.${got.unread ? ` ${whole(got.unread)} could not say.` : ""}${state.walked ? "" : " Still looking for queues."}</p></section>`;
}

// --- turning pages ----------------------------------------------------------------------------

function tell() {
  const line = element("connection");
  const wrong = silentSince !== null ? `this page has no answer from console.sh for ${Math.round((Date.now() - silentSince) / 1000)} s` : state?.status;
  line.className = wrong ? "lost" : "live";
  main.classList.toggle("old", silentSince !== null || Boolean(state?.old));
  line.textContent = wrong || `${state.read === state.known ? whole(state.known) : `${whole(state.read)} of ${whole(state.known)}`} ${state.known === 1 ? "queue" : "queues"}`
    + `, read at ${state.read_at ? `${clock(state.read_at * 1000)} UTC` : "–"}`;
  if (state) {
    element("server").title = element("server").textContent = [state.server + (state.db ? `, database ${state.db}` : ""), state.nodes > 1 ? `${state.nodes} nodes` : null,
      state.replica_of ? `a replica of ${state.replica_of}` : null].filter(Boolean).join(" · ");
    element("mode").hidden = false;
    element("mode").textContent = state.operate ? "may operate" : "read-only";
    element("mode").classList.toggle("operate", state.operate);
  }
  document.title = state && state.totals.dead ? `(${whole(state.totals.dead)} dead) orderwheel` : "orderwheel";
  if (Date.now() > noticeUntil) element("notice").hidden = true;
}

const routes = (path) => (path[0] === "find" ? [`api/find?id=${encodeURIComponent(decode(path[1] || ""))}`, (got) => findView(decode(path[1]), got)]
  : path[0] === "q" && path[2] === "o" ? [`api/order/${path[1]}/${path[3]}`, (got) => orderView(path[1], got)]
    : path[0] === "q" ? [`api/queue/${path[1]}?state=${path[2] === "s" ? path[3] : "dead"}`, (got) => queueView(path[1], path[2] === "s" ? path[3] : "dead", got)]
      : [null, overview]);

async function refresh() {
  const mine = ++turn;
  const hash = location.hash;
  const path = hash.slice(2).split("/");
  let [address, draw] = [null, overview];
  let [got, error, at] = [null, null, Date.now()];
  try {
    [address, draw] = routes(path);
    const all = await get(`api/queues?${new URLSearchParams(address ? { limit: "0" } : { match: asked.match, sort: asked.sort, limit: String(asked.limit) })}`);
    if (mine !== turn) return;
    state = all;
    silentSince = null;
    // A search over all queues is not repeated at each look.
    const fresh = path[0] === "find" && view.hash === hash && view.got && Date.now() - view.at < 10000;
    if (address) got = fresh ? view.got : await get(address);
    if (fresh) at = view.at;
  } catch (failed) {
    if (mine !== turn) return;
    error = failed;
    if (failed.silent && silentSince === null) silentSince = Date.now();
  }
  if (mine !== turn) return;
  if (error === null) view = { hash, got, error, at };
  else view = { hash, got: view.hash === hash ? view.got : null, error, kept: view.hash === hash && (view.got || (!address && view.kept !== false)) };
  tell();
  const back = html`<a class="back" href=${path[0] === "q" && path[2] === "o" ? `#/q/${path[1]}` : "#/"}>← back</a>`;
  // What was known stays; what is wrong stands above it.
  const told = (silentSince !== null && view.kept) || (error?.status === 503 && state?.problem);
  const wrong = error === null || told ? nothing : html`<p class="banner lost">${error.message}</p>`;
  const said = state?.problem && silentSince === null ? html`<p class="banner lost">${state.problem}${state.old && state.read_at
    ? html` <small>The figures below are of ${iso(state.read_at * 1000).slice(0, 19)} UTC.</small>` : nothing}</p>` : nothing;
  render(html`${said}${error !== null && !view.kept ? back : nothing}${wrong}${state !== null && (error === null || view.kept) ? draw(view.got) : nothing}`, main);
  if (path[0] === "q" && path[2] !== "o" && view.got) drawCharts(path[1], view.got);
  document.body.dataset.ready = String(turn);
}

element("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  refresh();
});
element("find").addEventListener("submit", (event) => {
  event.preventDefault();
  if (element("id").value) location.hash = `#/find/${encode(element("id").value)}`;
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
  event.preventDefault();
  element("id").focus();
});
addEventListener("hashchange", () => { refresh(); scrollTo(0, 0); main.focus({ preventScroll: true }); });
addEventListener("resize", () => { if (location.hash.startsWith("#/q/") && view.got?.history) drawCharts(location.hash.split("/")[2], view.got); });
// The page asks as often as the console looks; sooner while orders are searched for.
(async function again() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((resolve) => { setTimeout(resolve, view.got?.whole === false ? 500 : state?.every_ms ?? 2000); });
  }
})();
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
