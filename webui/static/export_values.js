"use strict";
/* The script of a run in a file, its first half: the data, and how values, trees and states come of it. It reads the
   data beside it, and shows it as text: nothing that was recorded is ever markup. The payload after a step is the payload
   at the start with the changes of all steps up to there applied; a state shares with the one before what did not change.
   Both halves become one function in the page (`export_html`). */

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
const READS_AS_ESCAPE = /\\(?=[\\nrtuUx\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs})/gu;
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

/** The same, so that different texts look different: a backslash that would read as the start of an escape stands twice. */
const exact = (text) => shown(text.replace(READS_AS_ESCAPE, "\\\\"));

const quoted = (text) => '"' + shown(text.replace(/\\/g, "\\\\")).replace(/"/g, '\\"') + '"';
const cut = (text, limit) => text.length <= limit ? text : text.slice(0, limit - 1).trimEnd() + "…";
const nameOf = (key, limit = 120) => typeof key === "number" ? String(key) : exact(cut(key, limit)) || '""';
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

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
// that JSON has no word for, {x} one that is not in this file, {m} a list of messages. {o} with {t} is of a class.

const isObject = (value) => value !== null && typeof value === "object" && value.o !== undefined;
const isParent = (value) => Array.isArray(value) || isObject(value);
const size = (value) => Array.isArray(value) ? value.length : value.o.length / 2;
const talks = (value) => value !== null && typeof value === "object"
  && (value.m !== undefined || (Array.isArray(value) ? value : isObject(value) ? value.o : []).some(talks));
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
  if (typeof value === "string") {
    const start = cut(quoted(value.slice(0, limit * 2)), Math.max(limit - 8, 16));
    return `${start} (${counted(value.length, "character")})`;
  }
  if (Array.isArray(value)) return `[${counted(value.length, "item")}]`;
  if (isObject(value)) return `{${counted(size(value), "key")}}`;
  return cut(text, limit);
}

/** A value as JSON, at least up to so many characters. */
function whole(value, room = Infinity) {
  if (typeof value === "string") return value.length > room ? quoted(value.slice(0, room)) + "…" : quoted(value);
  if (value === null || typeof value !== "object") return String(value);
  if (value.n !== undefined) return value.n;
  if (value.t !== undefined && !isObject(value)) return shown(value.t);
  if (value.x !== undefined) return `(left out: ${shown(value.x)})`;
  if (value.m !== undefined) return `(${counted(value.m.length, "message")})`;
  let text = "";
  const isList = Array.isArray(value);
  for (let place = 0; place < (isList ? value.length : value.o.length) && text.length <= room; place += isList ? 1 : 2) {
    if (text) text += ", ";
    if (!isList) text += quoted(value.o[place]) + ": ";
    text += whole(isList ? value[place] : value.o[place + 1], room - text.length);
  }
  return isList ? `[${text}]` : `${value.t === undefined ? "" : shown(value.t)}{${text}}`;
}

/** A text as lines, the first of them unless all are wanted. */
function lines(text, name) {
  const box = el("div", "text " + (name || ""));
  const all = text.split("\n");
  const isLong = all.length > LINES || text.length > 1200;
  const few = isLong ? cut(all.slice(0, LINES).join("\n"), 1200).split("\n") : all;
  const put = (some) => box.replaceChildren(...some.map((line) => el("div", "line", exact(line) || "\u00a0")));
  put(few);
  const size = all.length > LINES ? counted(all.length, "line") : counted(text.length, "character");
  if (isLong) box.append(button("more", `all ${size}`, () => put(all)));
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
  let rest = [];
  const fold = () => {
    if (!rest.length) return;
    const more = el("li", "rest"), folded = rest;
    const told = counted(folded.length, isList ? "more item" : "more key");
    more.append(button("more", told, () => more.replaceWith(...folded.map(row))));
    rows.push(more);
    rest = [];
  };
  for (let place = 0; place < total; place++) {
    const path = pathOf([...keys, isList ? place : value.o[2 * place]]);
    if (place < limit || marks.at.has(path) || marks.inside.has(path)) { fold(); rows.push(row(place)); }
    else rest.push(place);
  }
  fold();
  for (const change of marks.removed.get(pathOf(keys)) || []) {
    const gone = el("li", "remove");
    gone.append(sign("remove"), el("span", "key", nameOf(change.keys[change.keys.length - 1])), " ");
    gone.append(el("span", "value", inline(change.old, INLINE)), hear("removed"));
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
  if (value !== null && typeof value === "object" && value.m !== undefined) return talk(key, value, keys, marks);
  const isOpened = isParent(value) && size(value) && (marks.inside.has(pathOf(keys)) || !inlineFits(value));
  return isOpened ? parent(key, value, keys, marks, open) : leaf(key, value, keys, marks);
}

const inlineFits = (value) => whole(value, INLINE + 1).length <= INLINE && !talks(value);

/** Messages in a tree: a line that opens them. */
function talk(key, value, keys, marks) {
  const row = el("li", "");
  const box = el("details", "");
  box.append(el("summary", "", ...label(key, keys, marks), " ", el("span", "quiet", whole(value))));
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(conversation(messagesIn(value)));
  });
  row.append(box);
  return row;
}

/** What stands before a value; of one that is a line though something in it changed, that it did. */
function label(key, keys, marks, isTagChanged = false) {
  const path = pathOf(keys);
  const change = marks.at.get(path);
  const parts = [];
  if (change) parts.push(sign(change.kind));
  else if (isTagChanged) parts.push(sign("replace"));
  if (key !== null) parts.push(el("span", "key", nameOf(key)));
  return parts;
}

function was(keys, marks) {
  const change = marks.at.get(pathOf(keys));
  if (!change) return [];
  if (change.kind === "replace") return [el("span", "was", " was ", el("span", "old", inline(change.old, INLINE)))];
  return change.kind === "move" ? [el("span", "was", ` was ${nameOf(change.from)}`)] : [hear("added")];
}

function leaf(key, value, keys, marks) {
  const change = marks.at.get(pathOf(keys));
  const isTagChanged = !change && marks.inside.has(pathOf(keys));
  const row = el("li", change ? change.kind : isTagChanged ? "replace" : "");
  row.dataset.path = pathOf(keys);
  row.append(...label(key, keys, marks, isTagChanged));
  if (key !== null) row.append(" ");
  const kind = kindOf(value);
  if (kind === "text" && (value.length > 200 || value.includes("\n"))) {
    row.append(el("span", "quiet", counted(value.length, "character")), ...was(keys, marks), lines(value));
  } else if (kind === "left") {
    row.append(el("span", "left", whole(value)), value.s ? lines(value.s + "…", "left") : "");
  } else {
    const text = whole(value);
    if (text.length <= 400) row.append(el("span", "value is-" + kind, text), ...was(keys, marks));
    else row.append(...was(keys, marks), lines(text, "is-" + kind));
  }
  return row;
}

function parent(key, value, keys, marks, open) {
  const path = pathOf(keys);
  const change = marks.at.get(path);
  const row = el("li", change ? change.kind : marks.inside.has(path) ? "inside" : "");
  row.dataset.path = path;
  const box = el("details", "");
  const kind = Array.isArray(value) ? `[${counted(value.length, "item")}]` : `${value.t === undefined ? "" : shown(value.t) + " "}{${counted(size(value), "key")}}`;
  box.append(el("summary", "", ...label(key, keys, marks), " ", el("span", "quiet", kind), ...was(keys, marks)));
  const fill = () => {
    if (box.open && box.childElementCount === 1) {
      const inner = el("ul", "");
      inner.append(...children(value, keys, change && change.kind !== "move" ? NO_MARKS : marks, open));
      box.append(inner);
    }
  };
  box.addEventListener("toggle", fill);
  const isSmall = (change !== undefined && size(value) <= KEYS) || (keys.length === 1 && size(value) <= 8);
  box.open = open || marks.inside.has(path) || isSmall;
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
    for (const operation of steps[next].patch) value = applied(value, operation, steps[next]);
    states.set(next, value);
  }
  return value;
}

function applied(value, [name, keys, more], { changes, wholes }) {
  if (name === "move") return put(taken(value, more), keys, found(value, more), "add");
  return name === "remove" ? taken(value, keys) : put(value, keys, more < changes.length ? changes[more].new : wholes[more - changes.length], name);
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
