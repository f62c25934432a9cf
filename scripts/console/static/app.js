// The page of console.sh. Everything that comes from the server is text, never markup.
"use strict";

const main = document.getElementById("main");
const EVERY_MS = 2000;
const STATES = ["dead", "expired", "retrying", "leased", "scheduled", "finished"];
let operate = false;
let charts = [];
let turn = 0;
const sparks = new Map();

// --- making elements --------------------------------------------------------------------

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

const number = new Intl.NumberFormat("en");

function span(ms) {
  if (!ms) return "0";
  for (const [unit, size] of [["d", 864e5], ["h", 36e5], ["min", 6e4], ["s", 1e3]]) if (ms >= size) return `${(ms / size).toFixed(1)} ${unit}`;
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}

function bytes(count) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  return `${count} B`;
}

function time(ms) {
  return new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC");
}

function table(heads, rows, empty) {
  if (rows.length === 0) return make("p", { class: "empty" }, empty);
  const cell = (value, at) => {
    const given = value !== null && typeof value === "object" && !(value instanceof Node) ? value : { value };
    return make("td", { class: given.class, "data-head": heads[at] }, given.value instanceof Node ? given.value : make("span", {}, given.value ?? "–"));
  };
  return make("table", { class: "data" },
    make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col", class: head === "error" ? "left" : null }, head)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map(cell)))));
}

function tile(label, value, kind) {
  return make("div", { class: `tile ${kind || ""}` }, make("b", {}, value), make("span", {}, label));
}

function spark(key, value) {
  const line = sparks.get(key) || [];
  line.push(value);
  if (line.length > 60) line.shift();
  sparks.set(key, line);
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  const most = Math.max(1, ...line);
  const points = line.map((one, at) => `${(at * 90 / 59).toFixed(1)} ${(21 - 20 * one / most).toFixed(1)}`);
  for (const [name, given] of Object.entries({ width: 90, height: 22, class: "spark", "aria-hidden": "true" })) svg.setAttribute(name, given);
  const path = document.createElementNS(ns, "path");
  path.setAttribute("d", points.length > 1 ? `M${points.join("L")}` : "");
  svg.append(path);
  return svg;
}

// --- asking ----------------------------------------------------------------------------------

async function get(path) {
  const answer = await fetch(path, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function tell(state) {
  const line = document.getElementById("connection");
  const lost = Boolean(state.error);
  line.className = lost ? "lost" : "";
  line.textContent = lost
    ? `not connected since ${Math.round(state.now - state.lost_at)} s: ${state.error}`
    : `${state.queues.length} of ${state.known} queues${state.operate ? ", may operate" : ""}`;
}

async function act(wanted, question) {
  const dialog = document.getElementById("ask");
  document.getElementById("question").textContent = question;
  const sure = await new Promise((resolve) => {
    document.getElementById("yes").onclick = () => { dialog.close(); resolve(true); };
    document.getElementById("no").onclick = () => { dialog.close(); resolve(false); };
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
  });
  if (!sure) return;
  const answer = await fetch("api/operate", {
    method: "POST", credentials: "same-origin",
    headers: { "Content-Type": "application/json", "X-Orderwheel-Console": "1" }, body: JSON.stringify(wanted),
  });
  const text = await answer.text();
  document.getElementById("connection").textContent = answer.ok ? `answered: ${JSON.parse(text).answer}` : text;
  render();
}

function button(label, wanted, question) {
  return make("button", { type: "button", on: { click: () => act(wanted, question) } }, label);
}

function encode(text) {
  const data = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...data)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// --- views -------------------------------------------------------------------------------------

const late = (row) => (row.oldest_overdue_ms > 60000 ? "bad" : "");

function overview(state) {
  const sum = (field) => state.queues.reduce((total, row) => total + row[field], 0);
  const most = (field) => state.queues.reduce((top, row) => Math.max(top, row[field]), 0);
  const rows = state.queues.map((row) => [
    { value: make("a", { href: `#/q/${row.key}` }, row.name) },
    number.format(row.orders), { value: number.format(row.overdue), class: late(row) },
    { value: row.overdue ? span(row.oldest_overdue_ms) : "–", class: late(row) },
    { value: number.format(row.dead), class: row.dead ? "bad" : "" },
    number.format(row.live_claims), number.format(row.claim_waiters),
    row.closed_per_s.toFixed(1), span(row.close_ms_p99_1m),
    row.paused_ms === -2 ? (row.claim_limit_wait_ms ? "brake" : "–") : "paused",
    { value: spark(row.key, row.closed_per_s) },
  ]);
  return [
    make("h1", {}, "Queues"),
    make("div", { class: "tiles" },
      tile("orders", number.format(sum("orders"))), tile("overdue", number.format(sum("overdue")), sum("overdue") ? "warn" : ""),
      tile("oldest overdue", span(most("oldest_overdue_ms")), most("oldest_overdue_ms") > 60000 ? "bad" : ""),
      tile("dead", number.format(sum("dead")), sum("dead") ? "bad" : ""),
      tile("closers that wait", number.format(sum("claim_waiters"))), tile("memory", bytes(sum("bytes")))),
    make("div", { class: "card" }, table(
      ["queue", "orders", "overdue", "oldest", "dead", "claimed", "waiting", "closed/s", "close p99", "held", "closed"], rows,
      "There is no queue on this server.")),
  ];
}

function chart(title, history, series) {
  const holder = make("div", { class: "chart" });
  const card = make("div", { class: "card" }, make("h2", {}, title), holder);
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--faint").trim();
  const line = style.getPropertyValue("--line").trim();
  const colours = [style.getPropertyValue("--warn").trim(), style.getPropertyValue("--accent").trim(), style.getPropertyValue("--bad").trim()];
  const data = [history.map((point) => point[0]), ...series.map(([, at]) => history.map((point) => point[at]))];
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  requestAnimationFrame(() => {
    if (!holder.isConnected) return;
    charts.push(new uPlot({
      width: holder.clientWidth, height: 180, cursor: { y: false }, axes: [axis, { ...axis, size: 52 }],
      series: [{}, ...series.map(([label], at) => ({ label, stroke: colours[at], width: 1.5, points: { show: false } }))],
      scales: { y: { range: (_u, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    }, data, holder));
  });
  return card;
}

function search(key, given) {
  const input = make("input", { type: "search", placeholder: "id of an order", "aria-label": "id of an order", value: given, maxlength: 255 });
  return make("form", { on: { submit: (event) => { event.preventDefault(); if (input.value) location.hash = `#/q/${key}/o/${encode(input.value)}`; } } },
    input, make("button", { type: "submit" }, "Find"));
}

function queueView(key, state, got) {
  const f = got.figures;
  const rows = got.orders.map((order) => {
    const overdue = order.deadline > 0 ? got.now * 1000 - order.deadline : 0;
    const cells = [
      { value: make("a", { href: `#/q/${key}/o/${order.key}` }, order.id || "(empty)") }, order.status || "–",
      overdue > 0 ? `${span(overdue)} ago` : order.deadline > 0 ? `in ${span(-overdue)}` : "–", order.attempt,
      { value: order.owner, class: "wrap" }, { value: order.error, class: "wrap left" },
    ];
    if (operate) {
      const id = { queue: key, order: order.key };
      const one = state === "dead" || state === "retrying" ? button("Requeue", { act: "requeue", ...id }, `Offer order ${order.id} again?`)
        : state === "leased" ? button("Break", { act: "break", ...id }, `End the lease of order ${order.id}? Its owner is answered STALE.`) : "–";
      cells.push({ value: one instanceof Node ? one : make("span", {}, one) });
    }
    return cells;
  });
  const heads = ["id", "status", "deadline", "attempt", "owner", "error"].concat(operate ? [""] : []);
  return [
    make("a", { class: "back", href: "#/" }, "← all queues"), make("h1", {}, got.name),
    make("div", { class: "tiles" },
      tile("scheduled", number.format(f.scheduled)), tile("overdue", number.format(f.overdue), f.overdue ? "warn" : ""),
      tile("oldest overdue", span(f.oldest_overdue_ms), late(f)), tile("claimable", number.format(f.expired)),
      tile("claimed", number.format(f.live_claims)), tile("retrying", number.format(f.retrying)),
      tile("dead", number.format(f.dead), f.dead ? "bad" : ""), tile("closers that wait", number.format(f.claim_waiters)),
      tile("held back by the brake", number.format(f.claims_held_back_total)),
      tile("paused", f.paused_ms === -2 ? "no" : f.paused_ms === -1 ? "yes" : span(f.paused_ms), f.paused_ms === -2 ? "" : "warn"),
      tile("deadline to close, p99", span(f.overdue_close_ms_p99_1m)), tile("memory", bytes(f.bytes))),
    f.paused_ms === -2 ? null : make("p", {}, `Paused: ${f.pause_reason || "no reason given"}`),
    operate ? make("div", { class: "actions" },
      f.paused_ms === -2 ? button("Pause", { act: "pause", queue: key }, `Pause ${got.name} until it is resumed?`)
        : button("Resume", { act: "resume", queue: key }, `Resume ${got.name}?`),
      button("Requeue dead", { act: "requeue", queue: key }, `Offer up to 1000 dead orders of ${got.name} again?`),
      button("End retry waits", { act: "requeue-retrying", queue: key }, `Offer up to 1000 retrying orders of ${got.name} now?`)) : null,
    make("div", { class: "pair" },
      chart("orders per second", got.history, [["due", 1], ["claimed", 2], ["closed", 3]]),
      chart("p99 of the last minute, ms", got.history, [["late", 4], ["to close", 5]])),
    search(key, ""),
    make("div", { class: "card" },
      make("div", { class: "tabs", role: "group", "aria-label": "state" }, STATES.map((one) => make("button", {
        type: "button", "aria-pressed": String(one === state), on: { click: () => { location.hash = `#/q/${key}/s/${one}`; } } }, one))),
      table(heads, rows, `No order is ${state}.`)),
  ];
}

function orderView(key, got) {
  const told = (name, value) => {
    if (value === null) return "–";
    if (["deadline", "finished_at", "finished_deadline", "retry_at", "created_at"].includes(name) && value > 1e11) return `${time(value)} (${value})`;
    return value === "" ? "(empty)" : value;
  };
  return [
    make("a", { class: "back", href: `#/q/${key}` }, "← the queue"), make("h1", {}, got.id), search(key, ""),
    make("div", { class: "card" }, make("dl", {}, got.fields.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, told(name, value))]))),
  ];
}

// --- turning pages ------------------------------------------------------------------------------

async function render() {
  const mine = ++turn;
  const path = location.hash.slice(2).split("/");
  let parts;
  try {
    const state = await get("api/queues");
    operate = state.operate;
    if (mine !== turn) return;
    tell(state);
    if (path[0] === "q" && path[2] === "o") parts = orderView(path[1], await get(`api/order/${path[1]}/${path[3]}`));
    else if (path[0] === "q") parts = queueView(path[1], path[3] || "dead", await get(`api/queue/${path[1]}?state=${path[3] || "dead"}`));
    else parts = overview(state);
  } catch (error) {
    parts = [make("a", { class: "back", href: path[0] === "q" && path[2] === "o" ? `#/q/${path[1]}` : "#/" }, "← back"), make("p", { class: "empty" }, error.message)];
  }
  if (mine !== turn) return;
  // Nobody loses what is being typed or asked.
  const typing = document.activeElement instanceof HTMLInputElement && document.activeElement.value !== "";
  if (typing || document.getElementById("ask").open) return;
  const focused = document.activeElement && main.contains(document.activeElement) ? [...main.querySelectorAll("a, button, input")].indexOf(document.activeElement) : -1;
  const scroll = window.scrollY;
  charts.forEach((one) => one.destroy());
  charts = [];
  main.replaceChildren(...parts.filter(Boolean));
  if (focused >= 0) main.querySelectorAll("a, button, input")[focused]?.focus({ preventScroll: true });
  window.scrollTo(0, scroll);
  document.body.dataset.ready = String(turn);
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  render();
}

const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
document.getElementById("theme").addEventListener("click", theme);
window.addEventListener("hashchange", () => { render(); main.focus(); });
setInterval(() => { if (!document.hidden) render(); }, EVERY_MS);
render();
