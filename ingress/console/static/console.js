// Keys of the console. Listeners are on the document, so they outlive every page that htmx puts in its place.
"use strict";

const rows = () => [...document.querySelectorAll("main [data-row]")].filter((row) => row.offsetParent !== null);
const isField = (element) => element.matches("input, select, textarea, [contenteditable]");
let going = false; // whether "g" was pressed just before

function focusable(row) {
  return row.matches("a, summary") ? row : row.querySelector("summary, a");
}

function move(by) {
  const all = rows();
  const here = all.findIndex((row) => row.contains(document.activeElement));
  const next = here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + by));
  const target = all[next] && focusable(all[next]);
  if (target) {
    target.focus();
    target.scrollIntoView({ block: "nearest" });
  }
}

function expandAll() {
  const all = [...document.querySelectorAll(".timeline > .entry > details")];
  const open = all.some((details) => !details.open);
  for (const details of all) details.open = open;
}

function search() {
  const field = document.getElementById("q");
  field?.focus();
  field?.select();
}

function shortcuts() {
  const dialog = document.getElementById("shortcuts");
  if (dialog && !dialog.open) dialog.showModal();
}

function theme() {
  [...document.querySelectorAll("[data-theme-button]")].find((button) => button.offsetParent !== null)?.click();
}

function refresh() {
  document.querySelector("[data-refresh]")?.click();
}

const KEYS = { "/": search, "?": shortcuts, r: refresh, j: () => move(1), k: () => move(-1), e: expandAll, t: theme };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape" && isField(event.target)) event.target.blur();
  if (isField(event.target) || document.querySelector("dialog[open]")) return;
  if (going) {
    going = false;
    const place = document.querySelector(`.places a[data-key="${CSS.escape(event.key)}"]`);
    if (place) {
      event.preventDefault();
      place.click();
    }
    return;
  }
  if (event.key === "g") {
    going = true;
  } else if (Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-shortcuts]")) shortcuts();
});

// An entry that the address names is opened.
function openNamed() {
  const named = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = named && named.querySelector("details");
  if (details) details.open = true;
}
window.addEventListener("hashchange", openNamed);
document.addEventListener("DOMContentLoaded", openNamed);
