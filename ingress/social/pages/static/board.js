// The board of one's media: what is being checked is shown anew when its scan is over.
"use strict";

const LOOK_MS = 1500; // and each time half as long again, for it may take minutes
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const waiting = () => [...document.querySelectorAll("[data-waiting]")];

async function follow() {
  for (let wait = LOOK_MS; waiting().length; wait *= 1.5) {
    await pause(wait);
    const answer = await fetch(location.href, { headers: { "X-Part": "page" } });
    if (!answer.ok) return;
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const row of waiting()) {
      const now = made.getElementById(row.id);
      if (!now || now.matches("[data-waiting]")) continue;
      const hasFocus = row === document.activeElement;
      row.replaceWith(now);
      if (hasFocus) now.focus();
    }
  }
}

follow().catch(() => {}); // without an answer, the page says what it said
