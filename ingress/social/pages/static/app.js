// What scripts add to pages that work without them: news of the home, reactions in place, keys.
"use strict";

// --- news: how many posts came home since the page was made -------------------------------------------------
for (const live of document.querySelectorAll("[data-live]")) {
  const link = live.querySelector("[data-fresh]");
  const shown = (id) => document.getElementById(id) !== null;
  const fresh = new Set();
  const source = new EventSource(live.dataset.live);
  source.addEventListener("post", (event) => {
    const post = JSON.parse(event.data);
    if (shown(post.post_id)) return;
    fresh.add(post.post_id);
    link.textContent = fresh.size === 1 ? "1 new post" : `${fresh.size} new posts`;
    link.hidden = false;
  });
  addEventListener("pagehide", () => source.close());
}

// --- reactions: the card as it is afterwards takes the place of the one before ------------------------------
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("[data-reaction]")) return;
  event.preventDefault();
  const card = form.closest("article");
  const word = form.action;
  const context = [...card.querySelectorAll(":scope > .context")];
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      headers: { "X-Part": "post" },
      body: new URLSearchParams(new FormData(form)),
    });
    if (!answer.ok) throw new Error(String(answer.status));
    const made = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("article");
    made.classList.toggle("focus", card.classList.contains("focus"));
    made.querySelectorAll(":scope > .context").forEach((one) => one.remove());
    made.prepend(...context); // why it stands in this list
    card.replaceWith(made);
    [...made.querySelectorAll("[data-reaction]")].find((one) => one.action === word)?.querySelector("button").focus();
  } catch {
    form.submit(); // the page says what is wrong
  }
});

// --- composers: how many characters are left -----------------------------------------------------------------
for (const form of document.querySelectorAll("[data-composer]")) {
  const text = form.querySelector("textarea");
  const left = form.querySelector("[data-left]");
  const count = () => {
    const rest = text.maxLength - text.value.length;
    left.textContent = rest <= 500 ? String(rest) : "";
  };
  text.addEventListener("input", count);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  count();
}

// --- keys: j and k walk, / searches, n writes ----------------------------------------------------------------
const rows = () => [...document.querySelectorAll("main [data-row]")];
const isField = (element) => element.matches("input, select, textarea, [contenteditable]");

function move(by) {
  const all = rows();
  const here = all.findIndex((row) => row.contains(document.activeElement));
  const next = here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + by));
  all[next]?.focus();
  all[next]?.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  n: () => document.querySelector("[data-composer] textarea")?.focus(),
  "/": () => (document.getElementById("q") ? document.getElementById("q").focus() : location.assign("/app/search")),
  Enter: () => document.activeElement.matches("[data-row]") && (document.activeElement.querySelector(".at") ?? document.activeElement.querySelector("a"))?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isField(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (!Object.hasOwn(KEYS, event.key)) return;
  if (event.key === "Enter" && !event.target.matches("[data-row]")) return;
  event.preventDefault();
  KEYS[event.key]();
});

// A form that is named by the address is open, also when it lies in a summary.
function openNamed() {
  const named = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named && named.matches("details")) named.open = true;
  if (named && named.id === "reply") named.querySelector("textarea")?.focus();
}
addEventListener("hashchange", openNamed);
openNamed();
