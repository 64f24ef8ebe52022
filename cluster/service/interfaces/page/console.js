"use strict";
// Keeps the parts of the page up to date, opens nodes, and sends decisions. Without it, links and forms still work.
const LEAST_PAUSE = 500; // milliseconds between two updates of a part
const MOST_PAUSE = 10000;
const FACTOR = 6; // a part waits so many times as long as its last update took
const sections = [...document.querySelectorAll("[data-part]")];
const parts = new Map(sections.map((section) => [section.dataset.part, { section, due: false, busy: false, next: 0, html: null }]));
const live = document.getElementById("live");
const said = document.getElementById("said");

// what stays the same when a part is replaced
const keyOf = (element) => element.dataset.url || element.getAttribute("href") || element.id;
const withKey = (root, key) => [...root.querySelectorAll("a, button")].find((element) => keyOf(element) === key);

// changes the tiles of a map that has the same nodes, which is faster than to make all of them again
function recoloured(section, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const [before, after] = [section, template.content].map((root) => [...root.querySelectorAll(".map .tile")]);
  if (before.length !== after.length || before.length === 0) return false;
  if (before.some((tile, index) => keyOf(tile) !== keyOf(after[index]))) return false;
  before.forEach((tile, index) => {
    const fresh = after[index];
    if (tile.isEqualNode(fresh)) return;
    tile.className = fresh.className;
    tile.title = fresh.title;
    tile.replaceChildren(...fresh.childNodes);
  });
  return true;
}

function replace(part, html) {
  if (html === part.html) return;
  const section = part.section;
  part.html = html;
  if (recoloured(section, html)) return;
  const focused = section.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const scrolled = [...section.querySelectorAll(".scroll, .long")].map((box) => [box.scrollLeft, box.scrollTop]);
  section.innerHTML = html; // the server has escaped all names
  section.querySelectorAll(".scroll, .long").forEach((box, index) => box.scrollTo(...(scrolled[index] || [0, 0])));
  if (focused !== null) (withKey(section, focused) || section.querySelector("h2") || document.body).focus({ preventScroll: true });
}

async function update(part) {
  const begun = performance.now();
  part.busy = true;
  part.due = false;
  try {
    const address = new URL(location.href);
    address.searchParams.set("part", part.section.dataset.part);
    const response = await fetch(address);
    const html = await response.text();
    if (response.ok && address.search.startsWith(location.search)) replace(part, html);
    if (response.ok && part === parts.get("plans")) allowToAsk();
  } catch {
    part.due = true;
  }
  part.busy = false;
  const end = performance.now();
  part.next = end + Math.min(MOST_PAUSE, Math.max(LEAST_PAUSE, FACTOR * (end - begun)));
}

function ask(names, now = false) {
  for (const name of names) {
    const part = parts.get(name);
    part.due = true;
    if (now) part.next = 0;
  }
}

function updateAll() {
  if (document.hidden) return;
  for (const part of parts.values()) {
    if (part.due && !part.busy && performance.now() >= part.next) update(part);
  }
}

function follow(cluster) {
  const source = new EventSource(`/v1/clusters/${encodeURIComponent(cluster)}/events`);
  source.onmessage = (message) => {
    live.textContent = `live, entry ${JSON.parse(message.data).sequence}`;
    ask(parts.keys());
  };
  source.onerror = () => {
    live.textContent = source.readyState === EventSource.CLOSED ? "not live; reload the page" : "connecting again…";
  };
}

// sends a request that buttons stand for; returns what the page says of it
async function send(buttons, words, address, options) {
  buttons.forEach((each) => { each.disabled = true; });
  let answer = null;
  try {
    const response = await fetch(address, options);
    answer = await response.json();
    said.textContent = response.ok ? `${words}: done.` : `${words}: ${answer.detail}`;
    if (!response.ok) answer = null;
  } catch (error) {
    said.textContent = `${words}: ${error.message}`;
  }
  ask(parts.keys(), true);
  return answer;
}

async function decide(button) {
  const buttons = [...button.closest("article").querySelectorAll("button")];
  await send(buttons, button.getAttribute("aria-label"), button.dataset.url, { method: button.dataset.method });
  buttons.forEach((each) => { each.disabled = false; });
}

const isSearched = () => parts.get("plans").section.querySelector("[data-searching]") !== null;

// a plan can be asked for while none is searched
function allowToAsk() {
  const button = document.querySelector(".ask button");
  if (button) button.disabled = isSearched();
}

async function askForPlan(form) {
  const [button, call] = [form.querySelector("button"), form.elements.call.value];
  const headers = { "Content-Type": "application/json" };
  const answer = await send([button], "New plan", form.dataset.url, { method: "POST", headers, body: JSON.stringify({ call }) });
  if (answer) said.textContent = `Plan ${answer.plan} is searched for.`;
  await update(parts.get("plans"));
  if (button.disabled) parts.get("plans").section.querySelector("h2").focus({ preventScroll: true });
  else button.focus({ preventScroll: true });
}

async function open(link) {
  const before = parts.get("map").section.querySelector("[aria-current]");
  history.pushState(null, "", link.getAttribute("href"));
  if (before) before.removeAttribute("aria-current");
  if (link.matches(".tile")) link.setAttribute("aria-current", "true");
  await update(parts.get("node"));
  (parts.get("node").section.querySelector("h2") || before || document.body).focus({ preventScroll: true });
}

// the tiles of a cell of the map and of the cells around it
function around(tile) {
  const cell = tile.closest("td");
  const rows = [cell.parentElement.previousElementSibling, cell.parentElement.nextElementSibling];
  const cells = [cell, cell.previousElementSibling, cell.nextElementSibling, ...rows.map((row) => row?.cells[cell.cellIndex])];
  return cells.flatMap((each) => (each ? [...each.querySelectorAll(".tile")] : []));
}

// the nearest of the tiles in a direction
function nearest(tile, tiles, x, y) {
  const here = tile.getBoundingClientRect();
  let best = null;
  let least = Infinity;
  for (const other of tiles) {
    const there = other.getBoundingClientRect();
    const [right, down] = [there.left - here.left, there.top - here.top];
    const along = right * x + down * y;
    const distance = along + 4 * Math.abs(right * y + down * x);
    if (along > 1 && distance < least) [best, least] = [other, distance];
  }
  return best;
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

document.addEventListener("keydown", (event) => {
  const close = document.querySelector(".panel .close a");
  if (event.key === "Escape" && close) open(close);
  if (!(event.key in ARROWS) || !event.target.matches(".map .tile")) return;
  event.preventDefault();
  const [tile, arrow] = [event.target, ARROWS[event.key]];
  (nearest(tile, around(tile), ...arrow) || nearest(tile, tile.closest(".map").querySelectorAll(".tile"), ...arrow))?.focus();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-url]");
  const link = event.target.closest(".map .tile, .close a");
  if (button) decide(button);
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  open(link);
});

document.addEventListener("submit", (event) => {
  if (!event.target.matches(".ask")) return;
  event.preventDefault();
  askForPlan(event.target);
});

document.addEventListener("change", (event) => {
  if (event.target.matches("header select")) event.target.form.requestSubmit();
});

if (document.body.dataset.cluster !== undefined) {
  window.addEventListener("popstate", () => ask(parts.keys(), true));
  setInterval(updateAll, 100);
  follow(document.body.dataset.cluster);
}
