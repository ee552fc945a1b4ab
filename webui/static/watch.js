// A watched expression below the picture of a run: its chart, the value at the chosen step, and going to its changes.
"use strict";

class WatchRow {
  constructor(page) {
    this.page = page;
    this.place = find("#watch");
    this.form = find("#watchfield");
    this.field = find("input", this.form);
    this.text = this.field.value.trim();
    this.turn = 0;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.set(this.field.value.trim());
      history.pushState(null, "", page.url(page.shown));
    });
    if (find("[data-complete='no']", this.place)) this.load();
  }

  set(text) {
    this.text = this.field.value = text;
    return this.load();
  }

  // What the address says is watched, after going back or forth.
  read() {
    const text = new URL(location.href).searchParams.get("watch") || "";
    if (text !== this.text) this.set(text);
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  // To the change before or behind the chosen step.
  press(by) {
    if (!this.text) return say("Nothing is watched: w goes to the field for an expression, such as order.total.");
    const link = find(`[data-change='${by}']`, this.place);
    if (link) link.click();
    else say(by < 0 ? "It did not change before this step." : "It does not change after this step, as far as is known.");
  }

  // The chosen step is another one: its mark at once, its value as soon as it is there.
  at(step) {
    if (!this.text) return;
    const here = find("[data-here]", this.place);
    if (here) here.setAttribute("x", `${(100 * step) / (this.page.last + 1)}%`);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(true), 60);
  }

  async load(heard = false) {
    const turn = ++this.turn;
    clearTimeout(this.timer);
    if (!this.text) {
      this.place.replaceChildren();
      this.field.removeAttribute("aria-invalid");
      return;
    }
    const wanted = () => `${this.place.dataset.src}?${new URLSearchParams({ watch: this.text, step: this.page.shown })}`;
    try {
      do {
        const filled = await part(wanted());
        if (turn !== this.turn) return;
        this.fill(filled);
      } while (find("[data-complete='no']", this.place));
      const told = find("[data-heard]", this.place)?.dataset.heard;
      if (heard && told) find("#heard").textContent += `, ${told}`;
    } catch (error) { complain(error); }
  }

  fill(nodes) {
    const open = find("details", this.place)?.open;
    const focus = this.place.contains(document.activeElement) ? document.activeElement.dataset : null;
    this.place.replaceChildren(...nodes);
    const fold = find("details", this.place);
    if (fold && open) fold.open = true;
    this.field.toggleAttribute("aria-invalid", Boolean(find("[role='alert']", this.place)));
    if (focus?.change) (find(`[data-change='${focus.change}']`, this.place) || find("[data-change]", this.place))?.focus();
    else if (focus?.toStep) find(`li [data-to-step='${focus.toStep}']`, this.place)?.focus();
  }
}
