// The page of a run: its list of steps, which loads as it scrolls, and going from step to step without a new page.
"use strict";

const KEPT = 16;  // steps whose details are kept, so that going back and forth is instant
const AWAY = 4;   // blocks of rows outside of what is seen that are kept

class RunPage {
  constructor(page) {
    this.page = page;
    this.run = page.dataset.run;
    this.steps = page.dataset.steps;
    this.chosen = Number(page.dataset.chosen);
    this.last = Number(page.dataset.last);
    this.details = new Map();
    this.shown = this.chosen;
    this.turn = 0;
    this.pushed = 0;
    this.query = new URL(location.href).searchParams.get("part") || "";
    this.watch = new WatchRow(this);
    this.list = new StepList(find("#steps"), this);
    page.classList.add("scripted");
    this.listen();
    this.fit();
    this.settle(false);
    this.watchPicture();
    if (page.dataset.live) this.followRun();
  }

  // The mark of the slider is as wide as a step is in the picture below it, so that both say the same.
  fit() {
    const width = (find(".track").clientWidth - 16) / (this.last + 1);
    find("#slider").style.setProperty("--mark", `${Math.max(3, width).toFixed(1)}px`);
  }

  listen() {
    addEventListener("resize", () => this.fit());
    find("#slider").addEventListener("input", (event) => this.go(Number(event.target.value)));
    document.addEventListener("click", (event) => this.clicked(event));
    addEventListener("popstate", () => {
      const step = /\/steps\/(\d+)$/.exec(location.pathname);
      this.query = new URL(location.href).searchParams.get("part") || "";
      this.watch.read();
      this.go(step ? Number(step[1]) : this.last, false);
    });
    for (const bar of findAll("[data-split]")) new Splitter(bar);
    find("#detail").addEventListener("mouseover", (event) => this.tools(event.target));
    find("#detail").addEventListener("focusin", (event) => this.tools(event.target));
  }

  clicked(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const target = event.target;
    const row = target.closest("a.step"), by = target.closest("[data-go]"), tab = target.closest("[data-tab]");
    const other = target.closest("a[data-part-link]");
    const diff = target.closest("a[data-diff]"), to = target.closest("a[data-to-step]");
    if (row) {
      event.preventDefault();
      if (this.page.dataset.tab === "steps") this.show("side");
      this.go(Number(row.dataset.step));
    }
    else if (by) { event.preventDefault(); this.go(this.chosen + Number(by.dataset.go)); }
    else if (tab && tab.tagName === "BUTTON") this.show(tab.dataset.tab);
    else if (to) { event.preventDefault(); this.go(Number(to.dataset.toStep)); }
    else if (diff) { event.preventDefault(); this.diff(); }
    else if (other) {
      event.preventDefault();
      this.query = new URL(other.href).searchParams.get("part") || "";
      this.details.clear();
      this.go(this.chosen);
    }
  }

  show(tab) {
    this.page.dataset.tab = tab;
    for (const button of findAll("button[data-tab]")) button.setAttribute("aria-pressed", String(button.dataset.tab === tab));
    this.list.fill();
  }

  url(step, rest = "") {
    const wanted = new URLSearchParams();
    if (this.query) wanted.set("part", this.query);
    if (this.watch.text && !rest) wanted.set("watch", this.watch.text);
    return `${this.steps}/${step}${rest}${wanted.size ? `?${wanted}` : ""}`;
  }

  // Goes to a step: the row at once, the details as soon as they are there, and with them the address. Where they do
  // not come, the step that is shown is the chosen one again.
  async go(step, push = true) {
    if (step < 0 || step > this.last || Number.isNaN(step)) return;
    const turn = ++this.turn;
    this.choose(step);
    const waits = setTimeout(() => { if (turn === this.turn) find("#detail").classList.add("waiting"); }, 200);
    try {
      const html = await this.detail(step);
      if (turn !== this.turn) return;
      this.fill(html);
      this.shown = step;
      if (push) this.push(step);
      this.settle(true);
      this.watch.at(step);
    } catch (error) {
      complain(error);
      if (turn !== this.turn) return;
      this.choose(this.shown);
      if (!push) history.replaceState(null, "", this.url(this.shown));
    } finally {
      clearTimeout(waits);
      if (turn === this.turn) find("#detail").classList.remove("waiting");
    }
  }

  push(step) {
    const soon = Date.now() - this.pushed < 700;
    history[soon ? "replaceState" : "pushState"](null, "", this.url(step));
    this.pushed = Date.now();
  }

  choose(step) {
    this.chosen = step;
    find("#slider").value = step;
    find("#slider").setAttribute("aria-valuetext", `step ${step}`);
    find("#at").textContent = step.toLocaleString("en");
    find("[data-go='-1']").href = this.url(Math.max(step - 1, 0));
    find("[data-go='1']").href = this.url(Math.min(step + 1, this.last));
    this.list.mark(step);
  }

  detail(step) {
    if (!this.details.has(step)) {
      const asked = part(this.url(step, "/detail")).catch((error) => { this.details.delete(step); throw error; });
      this.details.set(step, asked);
      if (this.details.size > KEPT) this.details.delete(this.details.keys().next().value);
    }
    return this.details.get(step);
  }

  // Puts the details of a step into the page; what was opened and scrolled to stays so.
  fill(nodes) {
    const place = find("#detail");
    const open = new Set(findAll("section[aria-label] > details[open]", place).map((d) => d.parentElement.getAttribute("aria-label")));
    const tops = Object.fromEntries(findAll("[data-pane]", place).map((pane) => [pane.dataset.pane, pane.scrollTop]));
    place.replaceChildren(...nodes.map((node) => node.cloneNode(true)));
    for (const fold of findAll("section[aria-label] > details", place)) {
      if (open.has(fold.parentElement.getAttribute("aria-label"))) fold.open = true;
    }
    for (const pane of findAll("[data-pane]", place)) pane.scrollTop = tops[pane.dataset.pane] || 0;
    for (const bar of findAll("[data-split]", place)) new Splitter(bar);
  }

  // After a step is shown: what was left out of it, what is said, and its neighbours beforehand.
  settle(heard) {
    const row = find(`a.step[data-step="${this.chosen}"]`);
    if (heard && row) find("#heard").textContent = row.getAttribute("aria-label");
    document.title = document.title.replace(/ step \d+/, ` step ${this.chosen}`);
    const late = find("#payload[data-src]");
    if (late) this.late(late, this.turn);
    const size = find("[data-payload-size]");
    find("#size").textContent = size ? `payload ${size.textContent}` : "";
    this.fit();
    const target = location.hash && find(`#${CSS.escape(location.hash.slice(1))}`);
    if (target) { for (let up = target; up; up = up.parentElement.closest("details")) up.open = true; target.scrollIntoView({ block: "nearest" }); }
    clearTimeout(this.soon);
    this.soon = setTimeout(() => {
      for (const step of [this.chosen + 1, this.chosen - 1]) {
        if (step >= 0 && step <= this.last && !(step === this.last && this.page.dataset.live)) this.detail(step).catch(() => {});
      }
    }, 120);
  }

  async late(place, turn) {
    const waits = setTimeout(() => { find(".waits", place).textContent = "Working it out…"; }, 200);
    try {
      const filled = await part(place.dataset.src);
      if (turn !== this.turn || !place.isConnected) return;
      for (const piece of filled.filter((node) => node.nodeType === Node.ELEMENT_NODE)) {
        const where = find(`#${piece.dataset.for}`);
        if (where) where.replaceChildren(...piece.childNodes);
      }
      delete place.dataset.src;
      this.details.delete(this.chosen);
      this.settle(false);
    } catch (error) {
      complain(error);
    } finally {
      clearTimeout(waits);
    }
  }

  async watchPicture() {
    const place = find("#picture");
    if (this.watching) return;
    this.watching = true;
    for (let tries = 0; tries < 200 && find("[data-complete='no']", place); tries += 1) {
      try {
        place.replaceChildren(...await part(`${place.dataset.src}?wait=${tries ? 3 : 1}`));
        if (find("[data-complete='yes']", place)) this.list.refresh();
      } catch { break; }
    }
    this.watching = false;
  }

  followRun() {
    const run = encodeURIComponent(this.run);
    follow(() => `/api/v1/runs/${run}/live?after=${this.page.dataset.head}`, 500, async (news) => {
      const before = this.last;
      if (news) {
        this.page.dataset.head = news.head;
        this.last = Math.max(news.step, before);
        if (news.status !== "running") delete this.page.dataset.live;
      }
      find("#last").textContent = this.last.toLocaleString("en");
      find("#slider").max = this.last;
      this.fit();
      this.details.delete(before);
      this.list.grow(before, this.last);
      try {
        find("#head").replaceChildren(...await part(`/runs/${run}/head`));
        tick();
        if (this.chosen >= before && !find("#detail").contains(document.activeElement)) {
          const turn = this.turn, html = await this.detail(this.chosen);
          if (turn === this.turn) { this.fill(html); this.settle(false); }
        }
        find("#picture").replaceChildren(...await part(find("#picture").dataset.src));
        this.watchPicture();
        this.watch.load();
      } catch (error) { complain(error); }
    });
  }

  // -- marks, differences, blame

  diff() {
    const here = `${this.run}:${this.chosen}`;
    const marked = sessionStorage.getItem("marked");
    const from = marked && marked !== here ? marked : `${this.run}:${Math.max(this.chosen - 1, 0)}`;
    const rest = this.query ? `&part=${encodeURIComponent(this.query)}` : "";
    location.href = `/diff?from=${encodeURIComponent(from)}&to=${encodeURIComponent(here)}${rest}`;
  }

  mark() {
    const here = `${this.run}:${this.chosen}`;
    const off = sessionStorage.getItem("marked") === here;
    if (off) sessionStorage.removeItem("marked"); else sessionStorage.setItem("marked", here);
    say(off ? "No step is marked." : `Marked ${this.run}, step ${this.chosen}. At another step, d shows what lies between.`);
    this.list.mark(this.chosen);
  }

  blameOfFocus() {
    // In the payload it is the line that shows its buttons: the last that was pointed at, or moved to.
    const node = document.activeElement.closest(".changes [data-path]") || find("#nodetools")?.closest("[data-path]")
      || find("#detail [data-path]:hover");
    const url = node && this.blameOf(node);
    if (!node) return say("Choose a value first, with the mouse or with Tab, ↓ and ↑ in the payload or its changes; b shows what ever changed it.");
    if (!url) return say("What changed a value is known of the payload, not of this part of the state.");
    blame(url);
  }

  // Where all that ever changed the value of a line is. What was removed is known to the step before: by now its place
  // in a list is that of its neighbour.
  blameOf(node) {
    const own = find("a[data-blame]", node), tree = node.closest("[data-tree]");
    if (own) return own.href;
    const base = tree && ("gone" in node.dataset ? tree.dataset.blameBefore : tree.dataset.blame);
    return base && `${base}&path=${node.dataset.path}`;
  }

  // The small buttons at the end of a line of the payload.
  tools(target) {
    const node = target.closest("[data-tree] [data-path]");
    if (!node || node.contains(find("#nodetools"))) return;
    find("#nodetools")?.remove();
    const tree = node.closest("[data-tree]");
    const bar = make("span", "nodetools", "");
    bar.id = "nodetools";
    const button = (text, title, act) => {
      const made = make("button", "", text);
      made.type = "button";
      made.title = title;
      made.tabIndex = -1;
      made.addEventListener("click", (event) => { event.preventDefault(); event.stopPropagation(); act(); });
      bar.append(made);
    };
    button("copy path", "Copy the path", () => copy(node.dataset.shown, "the path"));
    button("copy value", "Copy the value as JSON", async () => {
      const values = "gone" in node.dataset ? tree.dataset.valuesBefore : tree.dataset.values;
      const answer = await fetch(`${values}${values.includes("?") ? "&" : "?"}path=${node.dataset.path}`);
      if (answer.ok) copy(await answer.text(), "the value"); else say("There is nothing to copy.");
    });
    const blamed = this.blameOf(node);
    if (blamed) button("blame", "What ever changed this (b)", () => blame(blamed));
    node.append(bar);
  }

  // Moves the focus in the list that has it.
  move(by) {
    const focus = document.activeElement;
    if (focus.closest("[data-tree], .changes")) {
      const all = findAll("[data-path]", focus.closest("[data-tree], .changes")).filter((node) => node.offsetParent);
      const next = all[all.indexOf(focus.closest("[data-path]")) + by];
      if (next) this.focus(next);
      return;
    }
    if (focus.closest("#detail") && !focus.matches("a.step")) {
      const first = find("[data-tree] [data-path]");
      if (first) this.focus(first);
      return;
    }
    this.go(this.chosen + by).then(() => find(`a.step[data-step="${this.chosen}"]`)?.focus({ preventScroll: true }));
  }

  focus(node) {
    if (!node.hasAttribute("tabindex") && node.tagName !== "SUMMARY") node.tabIndex = -1;
    node.focus();
  }
}

// The list of steps. Blocks of rows stand where they would if all were there; those near what is seen are.
class StepList {
  constructor(place, page) {
    this.place = place;
    this.page = page;
    this.size = Number(place.dataset.size);
    this.height = find(".step", place)?.offsetHeight || 28;
    this.blocks = new Map();
    this.asked = new Map();
    this.sizer = make("div", "sizer", "");
    place.append(this.sizer);
    for (const block of findAll(".block", place)) this.put(block);
    this.stretch();
    place.addEventListener("scroll", () => {
      if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.fill(); });
      if (this.isAtEnd()) find(".new").hidden = true;
    }, { passive: true });
    addEventListener("resize", () => this.fill());
    actions.newest = () => { find(".new").hidden = true; place.scrollTop = place.scrollHeight; };
    this.reveal(page.chosen, true);
    this.fill();
  }

  stretch() { this.sizer.style.height = `${(this.page.last + 1) * this.height}px`; }

  isAtEnd() { return this.place.scrollTop + this.place.clientHeight >= this.place.scrollHeight - 2 * this.height; }

  put(block) {
    const start = Number(block.dataset.start), number = Math.floor(start / this.size);
    block.style.top = `${start * this.height}px`;
    this.blocks.get(number)?.remove();
    this.blocks.set(number, block);
    if (block.parentElement !== this.place) this.place.append(block);
    this.mark(this.page.chosen, false);
  }

  // Loads the blocks that are seen or nearly so, and lets go of those that are far.
  fill() {
    if (!this.place.clientHeight) return;
    const first = Math.max(0, Math.floor((this.place.scrollTop / this.height - 16) / this.size));
    const end = Math.floor(((this.place.scrollTop + this.place.clientHeight) / this.height + 16) / this.size);
    const last = Math.min(end, Math.floor(this.page.last / this.size));
    for (let number = first; number <= last; number += 1) if (!this.blocks.has(number)) this.load(number);
    for (const [number, block] of this.blocks) {
      if ((number < first - AWAY || number > last + AWAY) && !block.contains(document.activeElement)) {
        block.remove();
        this.blocks.delete(number);
      }
    }
    for (const [number, asked] of this.asked) if (number < first - 1 || number > last + 1) asked.abort();
  }

  async load(number) {
    if (this.asked.has(number)) return;
    const asking = new AbortController();
    this.asked.set(number, asking);
    try {
      await new Promise((resolve) => setTimeout(resolve, 40));
      asking.signal.throwIfAborted();
      const url = `${this.place.dataset.rows}?start=${number * this.size}&stop=${(number + 1) * this.size}`;
      const block = (await part(url, asking.signal)).find((node) => node.nodeType === Node.ELEMENT_NODE);
      if (block) this.put(block);
    } catch (error) {
      complain(error);
    } finally {
      this.asked.delete(number);
    }
  }

  // Loads again what is shown, because more is known of it.
  refresh() { for (const number of [...this.blocks.keys()]) this.load(number); }

  grow(before, last) {
    const atEnd = this.isAtEnd();
    this.stretch();
    for (let number = Math.floor(before / this.size); number <= Math.floor(last / this.size); number += 1) {
      if (this.blocks.has(number)) this.load(number);
    }
    if (atEnd) this.place.scrollTop = this.place.scrollHeight;
    else if (last > before) {
      const button = find(".new");
      this.unseen = button.hidden ? last - before : this.unseen + last - before;
      button.textContent = `${this.unseen} new`;
      button.hidden = false;
    }
    this.fill();
  }

  mark(step, reveal = true) {
    for (const row of findAll("[aria-current], .marked", this.place)) { row.removeAttribute("aria-current"); row.classList.remove("marked"); }
    find(`a.step[data-step="${step}"]`, this.place)?.setAttribute("aria-current", "step");
    const marked = (sessionStorage.getItem("marked") || "").split(":");
    if (marked[0] === this.page.run) find(`a.step[data-step="${CSS.escape(marked[1])}"]`, this.place)?.classList.add("marked");
    if (reveal) this.reveal(step);
  }

  reveal(step, middle = false) {
    const top = step * this.height, view = this.place;
    if (middle) view.scrollTop = top - view.clientHeight / 2;
    else if (top < view.scrollTop + this.height) view.scrollTop = top - this.height;
    else if (top > view.scrollTop + view.clientHeight - 2 * this.height) view.scrollTop = top - view.clientHeight + 2 * this.height;
  }
}

// A line between two columns that can be dragged, or moved by keys. The choice is kept.
class Splitter {
  constructor(bar) {
    this.bar = bar;
    this.name = bar.dataset.split === "list" ? "list" : "side";
    bar.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      bar.setPointerCapture(event.pointerId);
      const move = (moved) => this.set(moved.clientX);
      bar.addEventListener("pointermove", move);
      bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", move), { once: true });
    });
    bar.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -16, ArrowRight: 16 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      this.set(bar.getBoundingClientRect().x + 4 + by);
    });
  }

  set(x) {
    const box = this.bar.parentElement.getBoundingClientRect();
    const width = this.name === "list" ? x - box.x : box.right - x;
    const kept = `${Math.round(Math.max(200, Math.min(width, box.width - 320)))}px`;
    root.style.setProperty(`--${this.name}-width`, kept);
    store(`${this.name}-width`, kept);
    this.bar.setAttribute("aria-valuenow", Math.round((100 * (x - box.x)) / box.width));
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const page = new RunPage(find(".columns"));
  Object.assign(keys, {
    ArrowLeft: () => { page.go(page.chosen - 1); },
    ArrowRight: () => { page.go(page.chosen + 1); },
    ArrowUp: () => page.move(-1),
    ArrowDown: () => page.move(1),
    g: () => find("#goto").showModal(),
    w: () => page.watch.focus(),
    "[": () => page.watch.press(-1),
    "]": () => page.watch.press(1),
    m: () => page.mark(),
    d: () => page.diff(),
    b: () => page.blameOfFocus(),
    r: () => press(find("a[data-rerun]")),
  });
});
