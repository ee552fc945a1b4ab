// Running again: the form is checked while somebody types, and a re-run is followed until it ends.
//
// What is typed is sent as it is, and read by the server alone: no number passes through this file.
"use strict";

const PAUSE = 250;  // milliseconds without a key after which the form is checked

class Form {
  constructor(form) {
    this.form = form;
    this.turn = 0;
    form.addEventListener("input", (event) => { if (event.target.matches("[data-checked]")) this.soon(PAUSE); });
    form.addEventListener("change", (event) => { if (event.target.matches("[data-checked]")) this.soon(0); });
    form.addEventListener("submit", (event) => this.submitted(event));
    form.addEventListener("keydown", (event) => this.key(event));
    this.restore();
    for (const area of findAll("textarea.code", form)) this.fit(area);
    find("[aria-invalid='true']", form)?.focus();
  }

  // What was edited is kept with this place in the browser's history: whoever comes back to it finds it again.
  keep() {
    const fields = {};
    for (const one of this.fields()) fields[this.nameOf(one)] = one.type === "checkbox" || one.type === "radio" ? one.checked : one.value;
    history.replaceState({ ...history.state, fields }, "");
  }

  restore() {
    const kept = history.state?.fields;
    if (!kept) return;
    for (const one of this.fields()) {
      const value = kept[this.nameOf(one)];
      if (typeof value === "boolean") one.checked = value;
      else if (value !== undefined) one.value = value;
    }
    this.soon(0);
  }

  fields() { return findAll("[data-checked]", this.form); }

  // Radio buttons and check boxes share a name, and messages have one each.
  nameOf(one) {
    if (one.type === "checkbox" || one.type === "radio") return `${one.name}=${one.value}`;
    return `${one.name}#${findAll(`[name="${CSS.escape(one.name)}"]`, this.form).indexOf(one)}`;
  }

  // Where the browser does not size a field by what is in it.
  fit(area) {
    if (CSS.supports("field-sizing", "content")) return;
    area.rows = Math.min(24, Math.max(2, area.value.split("\n").length));
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      find("button[value='run']", this.form)?.click();
    }
  }

  soon(pause) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.keep(); this.check(); }, pause);
  }

  send(what, signal) {
    const body = new URLSearchParams(new FormData(this.form));
    body.set("do", what);
    return fetch(this.form.action, { method: "POST", body, headers: { "X-Part": "1" }, signal, redirect: "error" });
  }

  async why(answer) {
    if (answer.status === 413) return new Error("This is too large to be sent.");
    const told = elements(await answer.text()).find((node) => node.matches?.("main"))?.querySelector(".data");
    return new Error(told?.textContent || `The server cannot check this (${answer.status}). Load the page again.`);
  }

  // What stands beside the form is not about it any more: it says so, and nothing is run that nobody was told of.
  stale(error) {
    if (error.name === "AbortError") return;
    const why = error instanceof TypeError ? "The server does not answer. Is it still running?" : error.message;
    const plan = find("#plan");
    find(".stale", plan)?.remove();
    const told = make("p", "inside error stale", `✕ ${why} What is told below is not about the form as it is now.`);
    told.setAttribute("role", "alert");
    const again = make("button", "button small", "Check again");
    again.type = "button";
    again.addEventListener("click", () => this.check());
    told.append(" ", again);
    find(".go", plan)?.after(told);
    plan.classList.add("is-stale");
    const run = find("button[value='run']", plan);
    if (run) { run.disabled = true; run.textContent = run.dataset.title || run.textContent; }
  }

  async check() {
    const turn = ++this.turn;
    this.asking?.abort();
    this.asking = new AbortController();
    const waits = setTimeout(() => { if (turn === this.turn) find("#plan").classList.add("waiting"); }, 300);
    try {
      const answer = await this.send("check", this.asking.signal);
      if (!answer.ok) throw await this.why(answer);
      const pieces = elements(await answer.text());
      if (turn === this.turn) this.put(pieces);
    } catch (error) {
      if (turn === this.turn) this.stale(error);
    } finally {
      clearTimeout(waits);
      if (turn === this.turn) find("#plan").classList.remove("waiting");
    }
  }

  put(pieces) {
    find("#plan").classList.remove("is-stale");
    const focus = document.activeElement, within = find("#plan").contains(focus);
    const key = within ? [focus.name, focus.value, focus.tagName] : null;
    const open = findAll("#plan details").map((fold) => fold.open);
    for (const piece of pieces.filter((node) => node.nodeType === Node.ELEMENT_NODE)) {
      const place = find(`#${CSS.escape(piece.dataset.for)}`);
      if (!place) continue;
      place.replaceChildren(...piece.childNodes);
      const field = find(`#${CSS.escape(piece.dataset.for.replace(/^error-/, "field-"))}`);
      if (field && field !== place) {
        if (place.textContent) field.setAttribute("aria-invalid", "true"); else field.removeAttribute("aria-invalid");
      }
    }
    findAll("#plan details").forEach((fold, at) => { if (at in open) fold.open = open[at]; });
    if (key) findAll("#plan input, #plan button").find((one) => one.name === key[0] && one.value === key[1] && one.tagName === key[2])?.focus();
    const heard = find("#plan [data-heard]");
    if (heard && heard.dataset.heard !== this.heard) find("#heard").textContent = this.heard = heard.dataset.heard;
  }

  // A run is asked for without leaving the page, so that an error does not take the edit with it.
  async submitted(event) {
    this.keep();
    if (event.submitter?.value !== "run") return;
    event.preventDefault();
    if (this.running) return;
    this.running = true;
    clearTimeout(this.timer);
    this.asking?.abort();
    const turn = ++this.turn, title = event.submitter.textContent;
    event.submitter.dataset.title = title;
    event.submitter.textContent = "Starting…";
    try {
      const answer = await this.send("run");
      if (answer.status === 422) this.put(elements(await answer.text()));
      else if (!answer.ok) throw await this.why(answer);
      else return location.assign(answer.headers.get("Location"));
    } catch (error) {
      if (turn === this.turn) this.stale(error);
    } finally {
      this.running = false;
    }
  }
}

class Running {
  constructor(place) {
    this.place = place;
    place.addEventListener("submit", (event) => { if (event.target.matches("[data-stop]")) this.stop(event); });
    follow(() => place.dataset.live, 200, () => this.load());
    // Where there is no room for another follower, or between two news of it, it is looked at now and then.
    this.timer = setInterval(() => this.load(), 2000);
  }

  async load() {
    if (find("[data-over='yes']", this.place)) return clearInterval(this.timer);
    try {
      const fresh = await part(this.place.dataset.src);
      const stop = document.activeElement.closest?.("[data-stop]");
      const atEnd = findAll(".output", this.place).map((box) => box.scrollTop + box.clientHeight >= box.scrollHeight - 8);
      this.place.replaceChildren(...fresh);
      findAll(".output", this.place).forEach((box, at) => { if (atEnd[at] !== false) box.scrollTop = box.scrollHeight; });
      if (stop) find("[data-stop] button, .acts a.main, .acts a", this.place)?.focus();
      const says = find("[data-says]", this.place)?.dataset.says;
      if (says && says !== this.says) find("#heard").textContent = this.says = says;
      tick();
      if (find("[data-over='yes']", this.place)) clearInterval(this.timer);
    } catch (error) { complain(error); }
  }

  async stop(event) {
    event.preventDefault();
    const button = find("button", event.target);
    button.disabled = true;
    try {
      const answer = await fetch(event.target.action, { method: "POST", body: new URLSearchParams(new FormData(event.target)) });
      if (!answer.ok) throw new Error(`It was not stopped (${answer.status}). Load the page again.`);
      say("Stopping.");
      await this.load();
    } catch (error) {
      button.disabled = false;
      complain(error);
    }
  }
}

document.addEventListener("DOMContentLoaded", () => {
  if (find("#rerun")) new Form(find("#rerun"));
  const running = find("#rerunning");
  if (running?.dataset.live) new Running(running);
});
