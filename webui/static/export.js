"use strict";
/* The script of a run in a file. It reads the data beside it, and shows it as text: nothing that was recorded is ever
   markup. The payload after a step is the payload at the start with the changes of all steps up to there applied; a
   state shares with the one before what did not change. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const run = data.run;
  const steps = data.steps;
  const places = new Map();
  steps.forEach((step, at) => { if (step.gap === undefined) places.set(step.n, at); });
  const SIGNS = { add: "+", remove: "−", replace: "~", move: "⇄" };
  const CALLS = { returned: "●", failed: "✕", cancelled: "⊘", open: "○" };
  const KEYS = 20, ITEMS = 50, LINES = 6, INLINE = 64, LONG = 60;
  const $ = (id) => document.getElementById(id);
  let at = -1;
  let openAll = false;

  // -- text ----------------------------------------------------------------------------------------------------------

  const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
  const NAMED = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

  /** Text in which nothing acts or hides. */
  function shown(text) {
    return String(text).replace(HIDDEN, (char) => {
      const code = char.codePointAt(0);
      if (NAMED[char]) return NAMED[char];
      if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
      return code < 0x10000 ? "\\u" + code.toString(16).padStart(4, "0") : "\\U" + code.toString(16).padStart(8, "0");
    });
  }

  const quoted = (text) => '"' + shown(text.replace(/\\/g, "\\\\")).replace(/"/g, '\\"') + '"';
  const cut = (text, limit) => text.length <= limit ? text : text.slice(0, limit - 1).trimEnd() + "…";
  const counted = (number, noun) => number.toLocaleString("en") + " " + noun + (number === 1 ? "" : "s");

  /** An element with a class and children; texts become text. */
  function el(tag, name, ...children) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    for (const child of children) if (child !== null && child !== undefined && child !== "") made.append(child);
    return made;
  }

  function button(name, label, act) {
    const made = el("button", name, label);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }

  // -- values --------------------------------------------------------------------------------------------------------
  // A text, true, false, null, a small integer and a list are themselves; {n} is a number, {o} an object, {t} a value
  // that JSON has no word for, {x} one that is not in this file, {m} a list of messages.

  const isObject = (value) => value !== null && typeof value === "object" && value.o !== undefined;
  const isParent = (value) => Array.isArray(value) || isObject(value);
  const size = (value) => Array.isArray(value) ? value.length : value.o.length / 2;
  const messagesIn = (value) => value.m.map((number) => data.messages[number]);

  function kindOf(value) {
    if (typeof value === "string") return "text";
    if (value === null || typeof value === "boolean") return "word";
    if (typeof value === "number" || value.n !== undefined) return "number";
    if (value.x !== undefined) return "left";
    return value.t !== undefined ? "other" : "many";
  }

  /** A value on a line; what is too long for that by how large it is. */
  function inline(value, limit) {
    const text = whole(value, limit + 1);
    if (text.length <= limit) return text;
    if (typeof value === "string") return cut(quoted(value.slice(0, limit * 2)), Math.max(limit - 8, 16)) + ` (${counted(value.length, "character")})`;
    if (Array.isArray(value)) return `[${counted(value.length, "item")}]`;
    if (isObject(value)) return `{${counted(size(value), "key")}}`;
    return cut(text, limit);
  }

  /** A value as JSON, at least up to so many characters. */
  function whole(value, room = Infinity) {
    if (typeof value === "string") return value.length > room ? quoted(value.slice(0, room)) + "…" : quoted(value);
    if (value === null || typeof value !== "object") return String(value);
    if (value.n !== undefined) return value.n;
    if (value.t !== undefined) return shown(value.t);
    if (value.x !== undefined) return `(left out: ${shown(value.x)})`;
    if (value.m !== undefined) return `(${counted(value.m.length, "message")})`;
    let text = "";
    const isList = Array.isArray(value);
    for (let place = 0; place < (isList ? value.length : value.o.length) && text.length <= room; place += isList ? 1 : 2) {
      if (text) text += ", ";
      text += isList ? whole(value[place], room - text.length) : quoted(value.o[place]) + ": " + whole(value.o[place + 1], room - text.length);
    }
    return isList ? `[${text}]` : `{${text}}`;
  }

  /** A text as lines, the first of them unless all are wanted. */
  function lines(text, name) {
    const box = el("div", "text " + (name || ""));
    const all = text.replace(/\r\n/g, "\n").split("\n");
    const isLong = all.length > LINES || text.length > 1200;
    const few = isLong ? cut(all.slice(0, LINES).join("\n"), 1200).split("\n") : all;
    const put = (some) => box.replaceChildren(...some.map((line) => el("div", "line", shown(line) || "\u00a0")));
    put(few);
    if (isLong) box.append(button("more", `all ${all.length > LINES ? counted(all.length, "line") : counted(text.length, "character")}`, () => put(all)));
    return box;
  }

  // -- trees ---------------------------------------------------------------------------------------------------------

  const pathOf = (keys) => JSON.stringify(keys.map(String));

  /** What changed, by where it is: marks of values, of what they are in, and what was removed from where. */
  function marksOf(changes) {
    const marks = { at: new Map(), inside: new Set(), removed: new Map() };
    for (const change of changes) {
      const parent = pathOf(change.keys.slice(0, -1));
      if (change.kind === "remove") marks.removed.set(parent, [...(marks.removed.get(parent) || []), change]);
      else if (!marks.at.has(pathOf(change.keys)) || change.kind !== "move") marks.at.set(pathOf(change.keys), change);
      for (let depth = 0; depth < change.keys.length; depth++) marks.inside.add(pathOf(change.keys.slice(0, depth)));
    }
    return marks;
  }

  const NO_MARKS = marksOf([]);

  /** A value as a tree: what is below a line is made when it is opened. */
  function tree(value, marks, open) {
    const list = el("ul", "tree data");
    list.append(...branches(value, [], marks, open));
    return list;
  }

  function branches(value, keys, marks, open) {
    if (!isParent(value)) return [leaf(null, value, keys, marks)];
    return children(value, keys, marks, open);
  }

  function children(value, keys, marks, open) {
    const isList = Array.isArray(value);
    const rows = [];
    const limit = isList ? ITEMS : KEYS;
    const total = size(value);
    const row = (place) => {
      const key = isList ? place : value.o[2 * place];
      const inner = isList ? value[place] : value.o[2 * place + 1];
      return node(key, inner, [...keys, key], marks, open);
    };
    const rest = [];
    for (let place = 0; place < total; place++) {
      const path = pathOf([...keys, isList ? place : value.o[2 * place]]);
      if (place < limit || marks.at.has(path) || marks.inside.has(path)) rows.push(row(place));
      else rest.push(place);
    }
    if (rest.length) {
      const more = el("li", "rest");
      more.append(button("more", `${counted(rest.length, isList ? "more item" : "more key")}`, () => more.replaceWith(...rest.map(row))));
      rows.push(more);
    }
    for (const change of marks.removed.get(pathOf(keys)) || []) {
      const gone = el("li", "remove");
      gone.append(sign("remove"), el("span", "key", shown(change.keys[change.keys.length - 1])), " ", el("span", "value", inline(change.old, INLINE)), hear("removed"));
      rows.push(gone);
    }
    return rows;
  }

  const hear = (text) => el("span", "hear", ` (${text})`);

  function sign(kind) {
    const made = el("span", "sign", SIGNS[kind]);
    made.setAttribute("aria-hidden", "true");
    return made;
  }

  function node(key, value, keys, marks, open) {
    if (isParent(value) && size(value) && !(inlineFits(value) && !marks.inside.has(pathOf(keys)))) return parent(key, value, keys, marks, open);
    return leaf(key, value, keys, marks);
  }

  const inlineFits = (value) => whole(value, INLINE + 1).length <= INLINE;

  function label(key, keys, marks) {
    const change = marks.at.get(pathOf(keys));
    const parts = [];
    if (change) parts.push(sign(change.kind));
    if (key !== null) parts.push(el("span", "key", typeof key === "number" ? String(key) : shown(cut(key, 120)) || '""'));
    return parts;
  }

  function was(keys, marks) {
    const change = marks.at.get(pathOf(keys));
    if (!change) return [];
    if (change.kind === "replace") return [el("span", "was", " was ", el("span", "old", inline(change.old, INLINE)))];
    return change.kind === "move" ? [el("span", "was", ` was ${shown(change.from)}`)] : [hear("added")];
  }

  function leaf(key, value, keys, marks) {
    const change = marks.at.get(pathOf(keys));
    const row = el("li", change ? change.kind : "");
    row.dataset.path = pathOf(keys);
    row.append(...label(key, keys, marks));
    if (key !== null) row.append(" ");
    if (typeof value === "string" && (value.length > 200 || value.includes("\n"))) row.append(el("span", "quiet", counted(value.length, "character")), ...was(keys, marks), lines(value));
    else if (value !== null && typeof value === "object" && value.x !== undefined) row.append(el("span", "left", whole(value)), value.s ? lines(value.s + "…", "left") : "");
    else row.append(el("span", "value is-" + kindOf(value), whole(value)), ...was(keys, marks));
    return row;
  }

  function parent(key, value, keys, marks, open) {
    const path = pathOf(keys);
    const change = marks.at.get(path);
    const row = el("li", change ? change.kind : marks.inside.has(path) ? "inside" : "");
    row.dataset.path = path;
    const box = el("details", "");
    const kind = Array.isArray(value) ? `[${counted(value.length, "item")}]` : `{${counted(size(value), "key")}}`;
    box.append(el("summary", "", ...label(key, keys, marks), " ", el("span", "quiet", kind), ...was(keys, marks)));
    const fill = () => {
      if (box.open && box.childElementCount === 1) {
        const inner = el("ul", "");
        inner.append(...children(value, keys, change && change.kind !== "move" ? NO_MARKS : marks, open));
        box.append(inner);
      }
    };
    box.addEventListener("toggle", fill);
    box.open = open || marks.inside.has(path) || (change !== undefined && size(value) <= KEYS) || (keys.length === 1 && size(value) <= 8);
    fill();
    row.append(box);
    return row;
  }

  // -- states --------------------------------------------------------------------------------------------------------

  const states = new Map([[0, data.start]]);

  /** The payload after the step at a place of the list. */
  function stateAt(place) {
    let known = place;
    while (!states.has(known) && steps[known].gap === undefined) known--;
    let value = states.has(known) ? states.get(known) : steps[known].payload;
    states.set(known, value);
    for (let next = known + 1; next <= place; next++) {
      for (const operation of steps[next].patch) value = applied(value, operation, steps[next].changes);
      states.set(next, value);
    }
    return value;
  }

  function applied(value, [name, keys, more], changes) {
    if (name === "move") return put(taken(value, more), keys, found(value, more), "add");
    return name === "remove" ? taken(value, keys) : put(value, keys, changes[more].new, name);
  }

  const indexIn = (value, key) => {
    for (let place = 0; place < value.o.length; place += 2) if (value.o[place] === key) return place;
    return -1;
  };

  function found(value, keys) {
    for (const key of keys) {
      if (Array.isArray(value)) value = value[Number(key)];
      else if (isObject(value)) value = value.o[indexIn(value, key) + 1];
      else return undefined;
    }
    return value;
  }

  /** A value with one place in it changed; all else is shared. Inside what is not in this file nothing changes. */
  function edited(value, keys, edit) {
    if (!isParent(value)) return value;
    const [key, ...rest] = keys;
    const copy = Array.isArray(value) ? value.slice() : value.o.slice();
    const place = Array.isArray(value) ? Number(key) : indexIn(value, key);
    if (!rest.length) edit(copy, place, key, Array.isArray(value));
    else if (Array.isArray(value)) copy[place] = edited(copy[place], rest, edit);
    else if (place >= 0) copy[place + 1] = edited(copy[place + 1], rest, edit);
    return Array.isArray(value) ? copy : { o: copy };
  }

  function put(value, keys, item, name) {
    if (!keys.length) return item;
    return edited(value, keys, (copy, place, key, isList) => {
      if (isList) copy.splice(place, name === "add" ? 0 : 1, item);
      else if (place >= 0) copy[place + 1] = item;
      else copy.push(key, item);
    });
  }

  function taken(value, keys) {
    return edited(value, keys, (copy, place, key, isList) => {
      if (isList) copy.splice(place, 1);
      else if (place >= 0) copy.splice(place, 2);
    });
  }

  // -- the list ------------------------------------------------------------------------------------------------------

  const isFailed = (step) => step.outcome === "failed" || (step.calls || []).some((call) => call.status === "failed");
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
    row.append(el("span", "number", String(step.n)), el("span", "word clip", shown(word)), dots, el("span", "delta", delta), bar);
    row.setAttribute("aria-label", heard(step));
    row.addEventListener("click", () => go(place));
    return row;
  }

  const heard = (step) => [`step ${step.n}`, step.word || "", isFailed(step) ? "failed" : "", counted(step.changes.length, "change"), counted(step.calls.length, "call")].filter(Boolean).join(", ");

  // -- the step ------------------------------------------------------------------------------------------------------

  function section(title, number, ...content) {
    const box = el("section", "group");
    box.append(el("h3", "", title, number ? el("span", "quiet", ` ${number}`) : ""), ...content);
    return box;
  }

  function headOf(step) {
    const title = step.n ? `Step ${step.n}` : "The start";
    const word = step.word ? ` · ${shown(step.word)}` : "";
    const outcome = step.outcome ? ` → ${step.outcome}` : step.n ? " → in progress" : "";
    const facts = [step.took, step.tokens && `${step.tokens} tokens`, `payload ${step.bytes}`].filter(Boolean).join(" · ");
    const head = [el("h2", isFailed(step) ? "failed" : "", title + word + outcome), el("p", "quiet", facts)];
    if (step.why !== null) head.push(textOrValue(step.why, "why"));
    if (step.error) head.push(el("p", "error", "✕ ", textOrValue(step.error, "inline")));
    if (!step.n) head.push(startOf());
    if (step.n === run.last && run.error) head.push(el("p", "error", "✕ " + shown(run.error.text)), folded("Traceback", run.error.traceback));
    if (step.n === run.last && run.value !== null && !run.error) head.push(el("p", "", el("span", "quiet", "The run came to "), el("span", "data", inline(run.value, 200))));
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
      if (box.open && box.childElementCount === 1) box.append(typeof value === "string" ? lines(value, "data") : tree(value, NO_MARKS, true));
    });
    return box;
  }

  function changeRow(change) {
    const row = el("li", "change " + change.kind);
    row.append(sign(change.kind), button("path data", shown(cut(change.display, 160)), () => reveal(change)));
    const old = change.old, now = change.new;
    if (change.kind === "replace" && typeof old === "string" && typeof now === "string" && Math.max(old.length, now.length) > LONG) row.append(words(old, now));
    else if (change.kind === "replace") row.append(" ", el("span", "old data", inline(old, LONG)), el("span", "quiet", " → "), el("span", "new data", inline(now, LONG)));
    else if (change.kind === "move") row.append(el("span", "quiet", ` from ${shown(change.from)}`));
    else row.append(" ", el("span", "data " + (change.kind === "add" ? "new" : "old"), inline(change.kind === "add" ? now : old, LONG)));
    if (change.cause) row.append(el("span", "cause quiet", causeOf(change.cause)));
    return row;
  }

  function causeOf(cause) {
    const call = cause.call ? ` in call ${shown(cause.call)}` : "";
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
      box.append(el("div", name, before.length > 40 ? "…" + shown(before.slice(-40)) : shown(before), el("mark", "", shown(cut(middle, 600))), after.length > 40 ? shown(after.slice(0, 40)) + "…" : shown(after)));
    }
    return box;
  }

  function reveal(change) {
    if (getComputedStyle(document.querySelector(".tabs")).display !== "none") tab("payload");
    const path = pathOf(change.kind === "remove" ? change.keys.slice(0, -1) : change.keys);
    const row = [...$("payload").querySelectorAll("[data-path]")].find((one) => one.dataset.path === path) || $("payload").querySelector("li");
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
    const line = el("summary", "", mark, " ", el("span", "name data", shown(call.name)), el("span", "data quiet", `(${argumentsOf(asked)})`));
    if (call.error) line.append(el("span", "error", "  " + cut(shown(call.error), 200)));
    else if (call.gave) line.append(el("span", "quiet", " → "), el("span", "data", inline(gave, LONG)));
    else line.append(el("span", "quiet", ` ${call.status}`));
    line.append(el("span", "quiet took", " " + call.took));
    box.append(line);
    box.addEventListener("toggle", () => {
      if (!box.open || box.childElementCount > 1) return;
      const facts = [call.kind, `call ${call.call}`, call.model, call.safety, call.usage && inline(call.usage, 120)].filter(Boolean).map(shown).join(" · ");
      box.append(el("p", "quiet", facts));
      if (asked !== null) box.append(el("h4", "", "asked"), askedTree(asked));
      if (call.gave) box.append(el("h4", "", "gave"), typeof gave === "string" ? lines(gave, "data") : tree(gave, NO_MARKS, false));
      if (call.traceback) box.append(el("h4", "", "traceback"), textOrValue(call.traceback, "data"));
    });
    row.append(box);
    return row;
  }

  function argumentsOf(asked) {
    if (asked === null || !isObject(asked)) return asked === null ? "" : inline(asked, LONG);
    const told = [];
    for (let place = 0; place < Math.min(asked.o.length, 10); place += 2) told.push(`${shown(asked.o[place])}=${inline(asked.o[place + 1], 40)}`);
    return cut(told.join(", ") + (asked.o.length > 10 ? ", …" : ""), 160);
  }

  /** What a call was asked; conversations as messages. */
  function askedTree(asked) {
    if (!isObject(asked)) return typeof asked === "string" ? lines(asked, "data") : tree(asked, NO_MARKS, false);
    const box = el("div", "");
    const rest = [];
    for (let place = 0; place < asked.o.length; place += 2) {
      const value = asked.o[place + 1];
      if (value !== null && typeof value === "object" && value.m !== undefined) box.append(el("p", "quiet", `${shown(asked.o[place])}, ${counted(value.m.length, "message")}`), conversation(messagesIn(value)));
      else rest.push(asked.o[place], value);
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
      more.append(button("more", counted(messages.length - few.length, "earlier message"), () => more.replaceWith(...messages.slice(0, messages.length - few.length).map(messageRow))));
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
      if (key === "role" && typeof value === "string") row.prepend(el("h4", "", shown(value)));
      else if (key === "content" && typeof value === "string") row.append(lines(value, "data"));
      else rest.push(key, value);
    }
    if (rest.length) row.append(tree({ o: rest }, NO_MARKS, false));
    return row;
  }

  function requestBox(request) {
    const counts = Object.entries(request.counts).map(([name, number]) => `${shown(name)} ${number}`).join(", ");
    const by = `${shown(request.by)}${request.call ? ` (call ${shown(request.call)})` : ""}`;
    const box = el("details", "fold");
    box.append(el("summary", "", `event ${request.seq}, by ${by}`, el("span", "quiet", ` · ${shown(request.applier)} · ${counts || "no change"}`)));
    box.addEventListener("toggle", () => {
      if (!box.open || box.childElementCount > 1) return;
      if (request.why) box.append(el("p", "why", shown(request.why)));
      box.append(el("h4", "", "as sent"), tree(request.sent, NO_MARKS, true));
      if (request.applied) box.append(el("h4", "", "as applied"), tree(request.applied[0], NO_MARKS, true));
    });
    return box;
  }

  const listOf = (name, items) => el("ol", name, ...items);

  function deedsOf(step) {
    const parts = [];
    if (step.warnings.length) parts.push(section("Warnings", "", listOf("notes warn", step.warnings.map((text) => el("li", "", "! " + shown(text))))));
    if (step.n) parts.push(section("Changes", step.changes.length || "", step.changes.length ? changeList(step.changes) : el("p", "quiet", "The payload stays as it was.")));
    if (step.calls.length) parts.push(section("Calls", step.calls.length, listOf("calls", step.calls.map(callRow))));
    if (step.children.length) parts.push(section("Child runs", step.children.length, listOf("notes", step.children.map((child) => el("li", "", "◆ ", el("b", "", shown(child.name)), ` ${shown(child.status)} `, el("span", "quiet data", shown(child.run)))))));
    if (step.notes.length) parts.push(section("Notes", step.notes.length, listOf("notes", step.notes.map(([kind, text]) => el("li", "", el("span", "quiet", shown(kind) + "  "), shown(text))))));
    if (step.said.length) parts.push(section("Messages", step.said.length, conversation(step.said.map((number) => data.messages[number]))));
    if (step.requests.length) parts.push(section("Change requests", step.requests.length, ...step.requests.map(requestBox)));
    if (step.decision !== null) parts.push(folded("The decision as data", step.decision));
    return parts;
  }

  function changeList(changes) {
    const list = listOf("changes", changes.slice(0, 50).map(changeRow));
    if (changes.length > 50) {
      const more = el("li", "rest");
      more.append(button("more", counted(changes.length - 50, "more change"), () => more.replaceWith(...changes.slice(50).map(changeRow))));
      list.append(more);
    }
    return list;
  }

  function showPayload() {
    const step = steps[at];
    const value = stateAt(at);
    const title = el("div", "line2");
    title.append(el("h3", "", "Payload", el("span", "quiet", ` after step ${step.n}`)), button("tool", openAll ? "Close" : "Open all", () => { openAll = !openAll; showPayload(); }));
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
    const svg = made("svg", { viewBox: `0 0 ${steps.length} 24`, preserveAspectRatio: "none", role: "img", "aria-label": "How long each step took, and how large the payload was after it" });
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
    document.querySelectorAll(".tab").forEach((one) => one.setAttribute("aria-selected", String(one.dataset.tab === name)));
  }

  function theme() {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  }

  function contents() {
    const left = data.left_out;
    const told = [`The run ${run.uid} of ${shown(run.agent)}, recorded by agentreplay${run.origin === "recorded" ? "" : " from elsewhere"}: the payload after each step, its changes and what made them, calls, messages and decisions. It is text, and needs no network.`];
    const out = [];
    if (left.large) out.push(`${counted(left.large, "value")} of more than ${left.limit}`);
    if (left.long) out.push(`${counted(left.long, "list or object", "")} of more than ${left.entries.toLocaleString("en")} entries`.replace("objects", "object"));
    if (left.full) out.push(`${counted(left.full, "value")} for which there was no more room`);
    if (left.steps) out.push(`steps ${left.steps[0].toLocaleString("en")} to ${left.steps[1].toLocaleString("en")}, since a run of more than ${left.most.toLocaleString("en")} steps is cut in the middle`);
    told.push(out.length ? `Left out: ${out.join("; ")}.` : "No value was left out for its size.");
    told.push("Not in it: the events as they were stored, other states than the payload, and child runs. A cassette has them.");
    $("contents").replaceChildren(...told.map((text) => el("p", "", text)));
    return out.length > 0;
  }

  function facts() {
    const last = steps[steps.length - 1];
    const at = run.status === "failed" && last ? ` at step ${last.n}` : "";
    $("standing").classList.add(run.status);
    $("standing").append(el("span", "mark", run.mark + " "), shown(run.status) + at);
    const told = [counted(run.last, "step"), run.took, run.tokens && `${run.tokens} tokens`, run.started, run.entry_point && shown(run.entry_point), run.fork_of && `fork of ${run.fork_of}`];
    $("facts").textContent = told.filter(Boolean).join(" · ");
    $("of").textContent = `of ${run.last.toLocaleString("en")}`;
    if (contents()) $("facts").textContent += " · some values are left out (?)";
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
})();
