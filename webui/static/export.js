/* The script of a run in a file, its second half: the list of steps, what is shown of one, and what keys do. */

// -- the list ------------------------------------------------------------------------------------------------------

const isFailed = (step) => step.outcome === "failed" || (step.calls || []).some((call) => call.status === "failed");
const TAGS = 3;
const longest = Math.max(...steps.map((step) => step.seconds || 0), 0);
const rows = [];

function rowOf(step, place) {
  const row = el("li", "row");
  row.id = "row" + place;
  row.setAttribute("role", "option");
  if (step.gap) {
    row.classList.add("gap");
    row.append(`steps ${step.gap[0].toLocaleString("en")} to ${step.gap[1].toLocaleString("en")} are not in this file`);
    row.setAttribute("aria-disabled", "true");
    return row;
  }
  const word = step.word || (step.n ? "–" : "start");
  const dots = el("span", "dots");
  for (const call of step.calls.slice(0, 8)) dots.append(el("span", "dot " + call.status, CALLS[call.status] || "●"));
  if (step.calls.length > 8) dots.append(el("span", "quiet", `+${step.calls.length - 8}`));
  for (const child of step.children.slice(0, 4)) dots.append(el("span", "dot child " + child.status, "◆"));
  dots.setAttribute("aria-hidden", "true");
  const bar = el("span", "bar");
  bar.style.setProperty("--share", String(longest ? Math.max((step.seconds || 0) / longest, 0) : 0));
  bar.title = step.took;
  const delta = step.changes.length ? `${step.changes.length}` : "";
  row.append(el("span", "number", String(step.n)), el("span", "word clip", nameOf(word, 60)), dots, el("span", "delta", delta), bar);
  row.setAttribute("aria-label", heard(step));
  row.addEventListener("click", () => go(place));
  return row;
}

function heard(step) {
  const counts = [counted(step.changes.length, "change"), counted(step.calls.length, "call")];
  return [`step ${step.n}`, step.word ? nameOf(step.word, 60) : "", isFailed(step) ? "failed" : "", ...counts].filter(Boolean).join(", ");
}

// -- the step ------------------------------------------------------------------------------------------------------

function section(title, number, ...content) {
  const box = el("section", "group");
  box.append(el("h3", "", title, number ? el("span", "quiet", ` ${number}`) : ""), ...content);
  return box;
}

function headOf(step) {
  const title = step.n ? `Step ${step.n}` : "The start";
  const word = step.word ? ` · ${nameOf(step.word, 60)}` : "";
  const outcome = step.outcome ? ` → ${step.outcome}` : step.n ? " → in progress" : "";
  const facts = [step.took, step.tokens && `${step.tokens} tokens`, step.cost && `cost ${step.cost}`, `payload ${step.bytes}`].filter(Boolean).join(" · ");
  const head = [el("h2", isFailed(step) ? "failed" : "", title + word + outcome), el("p", "quiet", facts)];
  if (step.why !== null) head.push(textOrValue(step.why, "why"));
  if (step.error) head.push(el("p", "error", "✕ ", textOrValue(step.error, "inline")));
  if (!step.n) head.push(startOf());
  if (step.n === run.last && run.error) {
    head.push(el("p", "error", "✕ " + shown(run.error.text)), folded("Traceback", run.error.traceback));
  } else if (step.n === run.last && run.value !== null) {
    head.push(el("p", "", el("span", "quiet", "The run came to "), el("span", "data", inline(run.value, 200))));
  }
  return head.filter(Boolean);
}

const textOrValue = (value, name) => typeof value === "string" ? lines(value, name) : el("p", name, whole(value));

function startOf() {
  const box = el("div", "");
  for (const [name, value] of [["input", run.input], ["parameters", run.params]]) {
    if (value !== null && !(isObject(value) && !value.o.length)) box.append(section(name, "", tree(value, NO_MARKS, false)));
  }
  return box.childElementCount ? box : "";
}

function folded(title, value) {
  if (value === null || value === undefined) return "";
  const box = el("details", "fold");
  box.append(el("summary", "", title));
  box.addEventListener("toggle", () => {
    if (!box.open || box.childElementCount > 1) return;
    box.append(typeof value === "string" ? lines(value, "data") : tree(value, NO_MARKS, true));
  });
  return box;
}

function changeRow(change) {
  const row = el("li", "change " + change.kind);
  row.append(sign(change.kind), button("path data", shown(cut(change.display, 160)), () => reveal(change)));
  const old = change.old, now = change.new;
  const isText = typeof old === "string" && typeof now === "string" && Math.max(old.length, now.length) > LONG;
  const before = () => el("span", "old data", inline(old, LONG));
  const after = () => el("span", "new data", inline(now, LONG));
  if (change.kind === "move") row.append(el("span", "quiet", ` from ${nameOf(change.from)}`));
  else if (change.kind === "add") row.append(" ", after());
  else if (change.kind === "remove") row.append(" ", before());
  else if (isText) row.append(words(old, now));
  else row.append(" ", before(), el("span", "quiet", " → "), after());
  if (change.cause) row.append(el("span", "cause quiet", causeOf(change.cause)));
  return row;
}

function causeOf(cause) {
  const call = cause.call ? ` in call ${nameOf(cause.call, 40)}` : "";
  return `event ${cause.seq}${call}${cause.why ? ": " + cut(shown(cause.why), 200) : ""}`;
}

/** Two long texts by what differs in them, in words. */
function words(old, now) {
  const a = old.split(/(\s+)/), b = now.split(/(\s+)/);
  let start = 0, end = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start++;
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const before = a.slice(0, start).join(""), after = a.slice(a.length - end).join("");
  const box = el("div", "words data");
  for (const [name, list] of [["old", a], ["new", b]]) {
    const middle = list.slice(start, list.length - end).join("");
    const head = before.length > 40 ? "…" + exact(before.slice(-40)) : exact(before);
    const tail = after.length > 40 ? exact(after.slice(0, 40)) + "…" : exact(after);
    box.append(el("div", name, head, el("mark", "", exact(cut(middle, 600))), tail));
  }
  return box;
}

function reveal(change) {
  if (getComputedStyle(document.querySelector(".tabs")).display !== "none") tab("payload");
  const rows = new Map([...$("payload").querySelectorAll("[data-path]")].map((one) => [one.dataset.path, one]));
  const keys = change.kind === "remove" ? change.keys.slice(0, -1) : change.keys.slice();
  while (keys.length && !rows.has(pathOf(keys))) keys.pop(); // what it is in may be a line
  const row = rows.get(pathOf(keys)) || $("payload").querySelector("li");
  if (!row) return;
  row.scrollIntoView({ block: "center" });
  row.classList.add("found");
  setTimeout(() => row.classList.remove("found"), 1500);
}

function callRow(call) {
  const row = el("li", "call " + call.status);
  row.style.setProperty("--depth", String(call.depth));
  const asked = call.asked === null ? null : call.asked[0];
  const gave = call.gave === null ? null : call.gave[0];
  const box = el("details", "");
  const mark = el("span", "dot " + call.status, CALLS[call.status] || "●");
  mark.setAttribute("aria-hidden", "true");
  const line = el("summary", "", mark, " ", el("span", "name data", nameOf(call.name, 80)));
  line.append(el("span", "data quiet", `(${argumentsOf(asked)})`));
  if (call.error) line.append(el("span", "error", "  " + cut(shown(call.error), 200)));
  else if (call.streamed) line.append(el("span", "quiet", " → "), el("span", "data", streamedInLine(call.streamed)));
  else if (call.gave) line.append(el("span", "quiet", " → "), el("span", "data", inline(gave, LONG)));
  else line.append(el("span", "quiet", ` ${call.status}`));
  line.append(el("span", "quiet took", " " + call.took));
  box.append(line);
  box.addEventListener("toggle", () => {
    if (!box.open || box.childElementCount > 1) return;
    const facts = [call.kind, `call ${call.call}`, call.model, call.safety, call.usage && inline(call.usage, 120)];
    box.append(el("p", "quiet", facts.filter(Boolean).map((fact) => nameOf(fact)).join(" · ")));
    if (asked !== null) box.append(el("h4", "", "asked"), askedTree(asked));
    if (call.streamed) {
      const [words, text, chunks] = call.streamed;
      box.append(el("h4", "", `streamed ${words}`));
      if (text !== null) box.append(textOrValue(text, "data"));
      else if (chunks !== null) box.append(tree(chunks, NO_MARKS, false));
    }
    if (call.gave) box.append(el("h4", "", "gave"), typeof gave === "string" ? lines(gave, "data") : tree(gave, NO_MARKS, false));
    if (call.traceback) box.append(el("h4", "", "traceback"), textOrValue(call.traceback, "data"));
  });
  row.append(box);
  return row;
}

function streamedInLine([words, text, chunks]) {
  const given = text === null ? chunks : text;
  return given === null ? words : `${words}: ${inline(given, LONG)}`;
}

function argumentsOf(asked) {
  if (asked === null || !isObject(asked)) return asked === null ? "" : inline(asked, LONG);
  const told = [];
  for (let place = 0; place < Math.min(asked.o.length, 10); place += 2) {
    told.push(`${nameOf(asked.o[place], 40)}=${inline(asked.o[place + 1], 40)}`);
  }
  return cut(told.join(", ") + (asked.o.length > 10 ? ", …" : ""), 160);
}

/** What a call was asked; conversations as messages. */
function askedTree(asked) {
  if (!isObject(asked)) return typeof asked === "string" ? lines(asked, "data") : tree(asked, NO_MARKS, false);
  const box = el("div", "");
  const rest = [];
  for (let place = 0; place < asked.o.length; place += 2) {
    const value = asked.o[place + 1];
    if (value === null || typeof value !== "object" || value.m === undefined) {
      rest.push(asked.o[place], value);
      continue;
    }
    const title = `${nameOf(asked.o[place], 80)}, ${counted(value.m.length, "message")}`;
    box.append(el("p", "quiet", title), conversation(messagesIn(value)));
  }
  if (rest.length) box.prepend(tree({ o: rest }, NO_MARKS, false));
  return box;
}

/** Messages; of many the last. */
function conversation(messages) {
  const list = el("ol", "messages");
  const few = messages.length > 4 ? messages.slice(-3) : messages;
  if (few.length < messages.length) {
    const more = el("li", "rest");
    const earlier = messages.slice(0, messages.length - few.length);
    const open = () => more.replaceWith(...earlier.map(messageRow));
    more.append(button("more", counted(earlier.length, "earlier message"), open));
    list.append(more);
  }
  list.append(...few.map(messageRow));
  return list;
}

function messageRow(message) {
  const row = el("li", "message");
  if (!isObject(message)) return el("li", "message", whole(message));
  const rest = [];
  for (let place = 0; place < message.o.length; place += 2) {
    const key = message.o[place], value = message.o[place + 1];
    if (key === "role" && typeof value === "string") row.prepend(el("h4", "", nameOf(value, 40)));
    else if (key === "content" && typeof value === "string") row.append(lines(value, "data"));
    else rest.push(key, value);
  }
  if (rest.length) row.append(tree({ o: rest }, NO_MARKS, false));
  return row;
}

function requestBox(request) {
  const counts = Object.entries(request.counts).map(([name, number]) => `${nameOf(name, 20)} ${number}`).join(", ");
  const by = `${nameOf(request.by, 40)}${request.call ? ` (call ${nameOf(request.call, 40)})` : ""}`;
  const box = el("details", "fold");
  const how = ` · ${nameOf(request.applier, 60)} · ${counts || "no change"}`;
  box.append(el("summary", "", `event ${request.seq}, by ${by}`, el("span", "quiet", how)));
  box.addEventListener("toggle", () => {
    if (!box.open || box.childElementCount > 1) return;
    if (request.why) box.append(el("p", "why", shown(request.why)));
    box.append(el("h4", "", "as sent"), tree(request.sent, NO_MARKS, true));
    if (request.applied) box.append(el("h4", "", "as applied"), tree(request.applied[0], NO_MARKS, true));
  });
  return box;
}

const listOf = (name, items) => el("ol", name, ...items);
const noteRow = ([kind, text]) => el("li", "", el("span", "quiet", nameOf(kind, 40) + " "), shown(text));

function childRow(child) {
  const status = ` ${nameOf(child.status, 20)} `;
  return el("li", "", "◆ ", el("b", "", nameOf(child.name, 80)), status, el("span", "quiet data", nameOf(child.run, 40)));
}

function deedsOf(step) {
  const parts = [];
  const add = (title, items, made) => { if (items.length) parts.push(section(title, items.length, made(items))); };
  add("Warnings", step.warnings, (texts) => listOf("notes warn", texts.map((text) => el("li", "", "! " + shown(text)))));
  add("Changes", step.changes, changeList);
  if (step.n && !step.changes.length) parts.push(section("Changes", "", el("p", "quiet", "The payload stays as it was.")));
  add("Calls", step.calls, (calls) => listOf("calls", calls.map(callRow)));
  add("Child runs", step.children, (children) => listOf("notes", children.map(childRow)));
  add("Notes", step.notes, (notes) => listOf("notes", notes.map(noteRow)));
  add("Messages", step.said, (numbers) => conversation(numbers.map((number) => data.messages[number])));
  if (step.requests.length) parts.push(section("Change requests", step.requests.length, ...step.requests.map(requestBox)));
  if (step.decision !== null) parts.push(folded("The decision as data", step.decision));
  return parts;
}

function changeList(changes) {
  const list = listOf("changes", changes.slice(0, 50).map(changeRow));
  if (changes.length > 50) {
    const more = el("li", "rest");
    const open = () => more.replaceWith(...changes.slice(50).map(changeRow));
    more.append(button("more", counted(changes.length - 50, "more change"), open));
    list.append(more);
  }
  return list;
}

function showPayload() {
  const step = steps[at];
  const value = stateAt(at);
  const title = el("div", "line2");
  const turn = () => { openAll = !openAll; showPayload(); };
  title.append(el("h3", "", "Payload", el("span", "quiet", ` after step ${step.n}`)));
  title.append(button("tool", openAll ? "Close" : "Open all", turn));
  $("payload").replaceChildren(title, tree(value, marksOf(step.changes), openAll));
}

function go(place) {
  if (place < 0 || place >= steps.length || steps[place].gap || place === at) return;
  if (rows[at]) { rows[at].classList.remove("chosen"); rows[at].removeAttribute("aria-selected"); }
  at = place;
  const step = steps[at];
  rows[at].classList.add("chosen");
  rows[at].setAttribute("aria-selected", "true");
  rows[at].scrollIntoView({ block: "nearest" });
  $("steps").setAttribute("aria-activedescendant", rows[at].id);
  $("head").replaceChildren(...headOf(step));
  $("deeds").replaceChildren(...deedsOf(step));
  showPayload();
  $("goto").value = String(step.n);
  $("says").textContent = heard(step);
  document.querySelectorAll(".picture .here").forEach((one) => one.setAttribute("x", String(at)));
  for (const part of ["payload", "deeds"]) $(part).scrollTop = 0;
  try { history.replaceState(null, "", "#step=" + step.n); } catch (error) { /* some viewers of files have no history */ }
}

function by(direction, wanted = () => true) {
  for (let place = at + direction; place >= 0 && place < steps.length; place += direction) {
    if (!steps[place].gap && !rows[place].hidden && wanted(steps[place])) { go(place); return; }
  }
}

// -- the picture ---------------------------------------------------------------------------------------------------

function picture() {
  const made = (tag, attributes) => {
    const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, String(value));
    return one;
  };
  const svg = made("svg", { viewBox: `0 0 ${steps.length} 24`, preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", "How long each step took, and how large the payload was after it");
  svg.append(made("rect", { class: "here", x: 0, y: 0, width: 1, height: 24 }));
  const most = Math.max(...steps.map((step) => step.size || 0), 1);
  const points = [];
  steps.forEach((step, place) => {
    if (step.gap) return;
    const height = longest ? Math.max((step.seconds || 0) / longest * 22, 1) : 1;
    svg.append(made("rect", { class: isFailed(step) ? "failed" : "time", x: place + 0.1, y: 24 - height, width: 0.8, height }));
    points.push(`${place + 0.5},${(23 - step.size / most * 20).toFixed(1)}`);
  });
  svg.append(made("polyline", { class: "size", points: points.join(" ") }));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    go(Math.min(Math.floor((event.clientX - box.left) / box.width * steps.length), steps.length - 1));
  });
  $("picture").append(svg);
}

// -- search --------------------------------------------------------------------------------------------------------

const texts = new Map();

function textOf(place) {
  if (!texts.has(place)) {
    const { patch, ...step } = steps[place];
    texts.set(place, JSON.stringify([step, step.said.map((number) => data.messages[number])]).toLowerCase());
  }
  return texts.get(place);
}

function search(text) {
  const wanted = JSON.stringify(text.trim().toLowerCase()).slice(1, -1);
  let left = 0;
  rows.forEach((row, place) => {
    row.hidden = wanted !== "" && (steps[place].gap !== undefined || !textOf(place).includes(wanted));
    left += row.hidden ? 0 : 1;
  });
  $("none").hidden = left > 0;
  if (wanted !== "") $("says").textContent = `${counted(left, "step")} found`;
}

// -- the frame -----------------------------------------------------------------------------------------------------

function tab(name) {
  document.body.dataset.tab = name;
  document.querySelectorAll(".tab").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.tab === name)));
}

function theme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

function contents() {
  const left = data.left_out;
  const told = [`The run ${run.uid} of ${nameOf(run.agent, 80)}: the payload after each step, its changes and what made them, `
    + "calls, messages and decisions. It is text, and needs no network."];
  if (run.tags.length) told.push(`Its tags: ${run.tags.map(shown).join(", ")}.`);
  const out = [];
  if (left.damage) out.push(`all from the damage on: ${shown(left.damage)}`);
  if (left.large) out.push(`${counted(left.large, "value")} of more than ${left.limit}`);
  if (left.long) out.push(`${counted(left.long, "container")} of more than ${counted(left.entries, "item")}`);
  if (left.full) out.push(`${counted(left.full, "value")} for which there was no more room`);
  if (left.steps) {
    const [start, end] = left.steps.map((number) => number.toLocaleString("en"));
    out.push(`steps ${start} to ${end}, since a run of more than ${counted(left.most, "step")} is cut in the middle`);
  }
  told.push(out.length ? `Left out: ${out.join("; ")}.` : "No value was left out for its size.");
  told.push("Not in it: the events as they were stored, other states than the payload, and child runs. A cassette has them.");
  $("contents").replaceChildren(...told.map((text) => el("p", "", text)));
  return out.length > 0;
}

function facts() {
  const last = steps[steps.length - 1];
  const at = run.status === "failed" && last && last.n === run.last ? ` at step ${last.n}` : "";
  $("standing").classList.add(run.status);
  $("standing").append(el("span", "mark", run.mark + " "), shown(run.status) + at);
  const tokens = run.tokens && `${run.tokens} tokens`;
  const from = [run.entry_point && nameOf(run.entry_point, 80), run.fork_of && `fork of ${run.fork_of}`];
  const told = [counted(run.last, "step"), run.took, tokens, run.cost && `cost ${run.cost}`, run.started, ...from];
  $("facts").textContent = told.filter(Boolean).join(" · ");
  for (const tag of run.tags.slice(0, TAGS)) $("tags").append(el("span", "tag clip", shown(tag)));
  if (run.tags.length > TAGS) $("tags").append(el("span", "quiet", `and ${run.tags.length - TAGS} more`));
  $("of").textContent = `of ${run.last.toLocaleString("en")}`;
  if (contents()) $("facts").textContent += " · some values are left out (?)";
  if (data.left_out.damage) {
    const until = last ? `The steps up to ${last.n} are here, those after it cannot be worked out. ` : "";
    $("damage").append("✕ " + until + shown(data.left_out.damage));
    $("damage").hidden = false;
  }
}

function keys(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const typing = event.target instanceof HTMLInputElement;
  if (typing) {
    if (event.key === "Escape" && event.target.id === "search") { event.target.value = ""; search(""); $("steps").focus(); }
    if (event.key === "Enter" && event.target.id === "search") { by(1); $("steps").focus(); }
    return;
  }
  if ($("dialog").open) return;
  const isList = document.activeElement === $("steps");
  const acts = {
    ArrowLeft: () => by(-1),
    ArrowRight: () => by(1),
    ArrowUp: isList ? () => by(-1) : null,
    ArrowDown: isList ? () => by(1) : null,
    Home: () => go(0),
    End: () => go(steps.length - 1),
    n: () => by(1, (step) => step.changes.length > 0),
    p: () => by(-1, (step) => step.changes.length > 0),
    "/": () => $("search").focus(),
    g: () => { $("goto").focus(); $("goto").select(); },
    e: () => { openAll = !openAll; showPayload(); },
    t: theme,
    "?": () => $("dialog").showModal(),
  };
  if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
}

function fromAddress() {
  const wanted = /step=(\d+)/.exec(location.hash);
  return wanted && places.has(Number(wanted[1])) ? places.get(Number(wanted[1])) : undefined;
}

function first() {
  const failed = steps.findLastIndex((step) => step.outcome === "failed");
  return run.status === "failed" && failed >= 0 ? failed : steps.length - 1;
}

steps.forEach((step, place) => rows.push(rowOf(step, place)));
$("steps").append(...rows);
picture();
facts();
tab("deeds");
document.querySelectorAll(".tab").forEach((one) => one.addEventListener("click", () => tab(one.dataset.tab)));
$("previous").addEventListener("click", () => by(-1));
$("next").addEventListener("click", () => by(1));
$("theme").addEventListener("click", theme);
$("about").addEventListener("click", () => $("dialog").showModal());
$("close").addEventListener("click", () => $("dialog").close());
$("search").addEventListener("input", (event) => search(event.target.value));
$("goto").addEventListener("change", (event) => {
  const wanted = Number(event.target.value);
  if (places.has(wanted)) go(places.get(wanted));
  else if (steps[at]) event.target.value = String(steps[at].n);
});
document.addEventListener("keydown", keys);
window.addEventListener("hashchange", () => go(fromAddress() ?? at));
go(fromAddress() ?? first());
