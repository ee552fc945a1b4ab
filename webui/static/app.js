// What pages do beyond showing: small, without libraries, and nothing of it is needed to read a page.
//
// The server renders all that is recorded; this file puts such parts into the page as they came, and writes texts of its
// own as text. It reads no recorded value: numbers stay as the server wrote them.
"use strict";

const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;

const parts = window.trustedTypes
  ? trustedTypes.createPolicy("agentreplay", { createHTML: (html) => html })
  : { createHTML: (html) => html };

// The elements of a part of a page, as the server rendered it.
function elements(html) {
  const made = new DOMParser().parseFromString(parts.createHTML(html), "text/html");
  return [...made.body.childNodes];
}

function say(text) {
  const place = document.getElementById("says");
  place.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { place.textContent = ""; }, 4000);
}

const actions = {
  theme() {
    const root = document.documentElement;
    const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  },
  help() { document.getElementById("help").showModal(); },
};

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("[data-do]");
  if (pressed && actions[pressed.dataset.do]) actions[pressed.dataset.do](pressed);
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});
