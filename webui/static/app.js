// What pages do beyond showing: small, without libraries, and nothing of it is needed to read a page.
//
// The server renders all that is recorded. This file puts such parts into the page as they came, and writes texts of
// its own as text. It reads no recorded value: numbers stay as the server wrote them.
"use strict";

const root = document.documentElement;
const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
const store = (name, value) => { try { localStorage.setItem(name, value); } catch { /* the choice is not kept */ } };

// Before anything is drawn: the chosen scheme and widths.
if (stored("theme")) root.dataset.theme = stored("theme");
for (const name of ["list", "side"]) {
  if (/^\d+px$/.test(stored(`${name}-width`) || "")) root.style.setProperty(`--${name}-width`, stored(`${name}-width`));
}

const find = (selector, within = document) => within.querySelector(selector);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

const policy = window.trustedTypes
  ? trustedTypes.createPolicy("agentreplay", { createHTML: (html) => html })
  : { createHTML: (html) => html };

// A part of a page, as the server rendered it.
function elements(html) {
  return [...new DOMParser().parseFromString(policy.createHTML(html), "text/html").body.childNodes];
}

async function part(url, signal) {
  const answer = await fetch(url, { headers: { "X-Part": "1" }, signal, cache: "no-store", redirect: "error" });
  const html = await answer.text();
  if (answer.ok) return elements(html);
  if (answer.status === 401) throw new Error("The server asks for its token: load the page again.");
  const why = new DOMParser().parseFromString(policy.createHTML(html), "text/html").querySelector("main .data");
  throw new Error(why ? why.textContent : `The server cannot show this (${answer.status}).`);
}

function say(text) {
  find("#says").textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { find("#says").textContent = ""; }, 4000);
}

function complain(error) {
  if (error.name === "AbortError") return;
  say(error instanceof TypeError ? "The server does not answer. Is it still running?" : error.message);
}

function make(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${what}.`);
  } catch {
    say("The browser does not let this page copy.");
  }
}

// -- values that load on demand ------------------------------------------------------------------------------------

async function load(link) {
  if (link.dataset.busy) return;
  link.dataset.busy = "1";
  try {
    place(link, (await part(link.href)).filter((node) => node.nodeType === Node.ELEMENT_NODE));
  } catch (error) {
    complain(error);
  } finally {
    delete link.dataset.busy;
  }
}

function place(link, items) {
  const lines = items.length === 1 ? find(".lines", items[0]) : null;
  if (link.dataset.load === "here" && link.closest(".more")) {
    const first = find("summary, .node", items[0] || document.createElement("i"));
    link.closest(".more").replaceWith(...items);
    if (first && first.isConnected && document.activeElement === document.body) first.focus();
  } else if (lines && link.dataset.load !== "below") {
    const old = link.parentElement.querySelector(":scope > .lines, :scope > .value, :scope > .v");
    const next = find(".rest", items[0]);
    if (link.dataset.load === "after" && old) (find(".lines", old) || old).append(lines.textContent);
    else if (old) old.replaceWith(lines);
    else link.before(lines);
    if (next) { next.dataset.load = "after"; link.replaceWith(next); } else link.remove();
  } else {
    const list = make("ul", "tree below", "");
    list.append(...items);
    link.replaceWith(list);
  }
}

document.addEventListener("toggle", (event) => {
  if (!event.target.open) return;
  const link = event.target.querySelector(":scope > ul > .more > a[data-eager]");
  if (link) load(link);
}, true);

// -- clicks that mean the same on every page --------------------------------------------------------------------------

const actions = {
  theme() {
    const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    store("theme", root.dataset.theme);
  },
  help() { find("#help").showModal(); },
};

document.addEventListener("click", (event) => {
  const target = event.target;
  const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.button);
  const pressed = target.closest("[data-do]");
  const link = target.closest("a[data-load]");
  const copied = target.closest("[data-copy]");
  if (pressed && actions[pressed.dataset.do]) actions[pressed.dataset.do](pressed);
  else if (link && plain) { event.preventDefault(); load(link); }
  else if (target.closest("a[data-blame]") && plain && find("#blame")) {
    event.preventDefault();
    blame(target.closest("a[data-blame]").href);
  } else if (copied) copy(copied.textContent.trim(), "the command");
  else if (target instanceof HTMLDialogElement) target.close();
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});

// What ever changed a value, in a dialog.
async function blame(url) {
  try {
    const filled = await part(url);
    find("#blame .filled").replaceChildren(...filled);
    if (!find("#blame").open) find("#blame").showModal();
  } catch (error) { complain(error); }
}

function tick() {
  for (const time of findAll("[data-since]")) {
    const seconds = Math.max(0, Math.round(Date.now() / 1000 - Number(time.dataset.since) / 1e6));
    const minutes = Math.floor(seconds / 60);
    time.textContent = minutes < 1 ? `${seconds} s` : minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
  }
}

// -- following what is recorded ---------------------------------------------------------------------------------------

// Calls `act` when the server says that something is new, at most once in `pause` milliseconds. Where the server has no
// room for another follower, it is asked again, and `act` is called meanwhile.
function follow(url, pause, act) {
  let last = 0, slow = 0, waiting = null, newest = null, source = null, over = false;
  const soon = (news) => {
    newest = news;
    waiting ??= setTimeout(async () => {
      waiting = null;
      const began = last = Date.now();
      await act(newest);
      slow = 4 * (Date.now() - began);  // where the server has much to do, it is asked less often
    }, Math.max(0, last + Math.max(pause, slow) - Date.now()));
  };
  const open = () => {
    if (over || document.hidden) return;
    source = new EventSource(url());
    source.addEventListener("new", (event) => soon(JSON.parse(event.data)));
    source.addEventListener("end", () => { over = true; source.close(); });
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED || over) return;
      soon(null);
      setTimeout(open, 5000);
    });
  };
  // A page that nobody sees follows nothing, and catches up when it is seen again.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source?.close();
    else if (source?.readyState === EventSource.CLOSED) { soon(null); open(); }
  });
  addEventListener("pagehide", () => source?.close());
  open();
}

function followRuns(place) {
  follow(() => "/api/v1/live", 1000, async () => {
    try {
      const url = new URL(location.href);
      url.searchParams.set("part", "table");
      const fresh = await part(url);
      // The page of an empty store tells how to record a run; with the first one it becomes another.
      if (!find(".filters")) return fresh.some((node) => node.nodeType === Node.ELEMENT_NODE) && location.reload();
      const key = document.activeElement.closest?.("tr[data-key]")?.dataset.key;
      const known = new Set(findAll("tr[data-key]", place).map((row) => row.dataset.key));
      place.replaceChildren(...fresh);
      for (const row of findAll("tr[data-key]", place)) if (!known.has(row.dataset.key)) row.classList.add("fresh");
      if (key) find(`tr[data-key="${CSS.escape(key)}"] a`, place)?.focus();
      tick();
    } catch (error) { complain(error); }
  });
}

// -- keys ---------------------------------------------------------------------------------------------------------------

// What ↑ and ↓ go through, where a page has no keys of its own for it.
const LINES = ".table a.name, .pairrow > a, .hits a, .events summary, .forks a.name, .changes a.path, .sides a.key";

function moveInList(by) {
  const lines = findAll(LINES).filter((line) => line.offsetParent);
  const at = lines.indexOf(document.activeElement);
  const next = at < 0 && by > 0 ? lines.find((line) => line.ariaCurrent) || lines[0] : lines[at + by];
  next?.focus();
  return Boolean(next);
}

function press(link) {
  link?.click();
  return Boolean(link);
}

const keys = {
  ArrowUp: () => moveInList(-1),
  ArrowDown: () => moveInList(1),
  b: () => {
    if (press(document.activeElement.closest("[data-path]")?.querySelector("a[data-blame]"))) return true;
    if (find("a[data-blame]")) say("Choose a change first, with Tab or with ↓ and ↑; b shows what ever changed the value.");
    return Boolean(find("a[data-blame]"));
  },
  ArrowLeft: () => press(find("a[data-go='-1']")),
  ArrowRight: () => press(find("a[data-go='1']")),
  "?": actions.help,
  "/": () => { const field = find("[data-search]"); field?.focus(); field?.select(); },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (find("dialog[open]")) return;
  const act = keys[event.key];
  if (act && act(event) !== false) event.preventDefault();
});

// What goes on beside the page, such as a verification, is looked at again and again until it ends.
async function watch(place) {
  while (find("[data-busy='yes']", place)) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    try { place.replaceChildren(...await part(place.dataset.src)); } catch (error) { return complain(error); }
  }
}

document.addEventListener("DOMContentLoaded", () => {
  if (find("#check")) watch(find("#check"));
  setInterval(tick, 1000);
  tick();
  const list = find("[data-live='runs']");
  if (list) followRuns(list);
});
