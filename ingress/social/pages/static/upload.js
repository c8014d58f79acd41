// The composer's media: each is hashed here, put to the media origin under a signed URL, and scanned; then it may be posted.
"use strict";

const POLL_MS = 400;
const SAID = { initiated: "Uploading", scanning: "Being checked", ready: "Ready", infected: "Refused: it holds malware",
  rejected: "Refused: it is no picture or film that can be shown", checksum_failed: "Broken on its way", expired: "Expired" };
const WAITING = ["initiated", "scanning"];

const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

class Problem extends Error {}

function put(url, file, progress) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) progress(event.loaded / event.total);
    });
    request.addEventListener("load", () => (request.status === 204 ? done() : failed(new Problem("The upload was refused"))));
    request.addEventListener("error", () => failed(new Problem("The connection broke")));
    request.send(file);
  });
}

class Composer {
  constructor(form) {
    this.form = form;
    this.list = form.querySelector("[data-uploads]");
    this.files = form.querySelector("[data-files]");
    this.send = form.querySelector("[data-send]");
    this.said = form.querySelector("[data-said]");
    this.uploads = new Map(); // row to the id of what is ready, or null
    form.querySelector("[data-pick]").hidden = false;
    this.files.addEventListener("change", () => this.add([...this.files.files]));
    form.addEventListener("submit", (event) => {
      if ([...this.uploads.values()].includes(null)) event.preventDefault();
    });
    this.again(form.elements.media_ids.value.split(" ").filter(Boolean));
  }

  // What a refused post held comes back with its text.
  again(ids) {
    for (const [n, id] of ids.entries()) this.bring(this.row(`upload ${n + 1}`), () => Promise.resolve(id));
  }

  add(files) {
    const room = Number(this.files.dataset.mediaMax) - this.uploads.size;
    this.said.textContent = files.length > room ? `A post has at most ${this.files.dataset.mediaMax} media.` : "";
    for (const file of files.slice(0, room)) this.upload(file);
    this.files.value = "";
  }

  async ask(path, fields) {
    const body = new URLSearchParams({ form_token: this.form.elements.form_token.value, key: crypto.randomUUID(), ...fields });
    const answer = await fetch(path, { method: "POST", headers: { "X-Part": "json" }, body });
    const found = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Problem(found.problem || "It was refused");
    return found;
  }

  row(called) {
    const row = document.createElement("li");
    const blank = Object.assign(document.createElement("span"), { className: "blank" });
    const name = Object.assign(document.createElement("span"), { className: "name", textContent: called });
    const bar = Object.assign(document.createElement("progress"), { max: 1, value: 0 });
    bar.setAttribute("aria-label", `Upload of ${called}`);
    const state = Object.assign(document.createElement("span"), { className: "state", textContent: "Reading" });
    state.setAttribute("role", "status");
    const away = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: "Remove" });
    away.setAttribute("aria-label", `Remove ${called}`);
    away.addEventListener("click", () => {
      this.uploads.delete(row);
      row.remove();
      this.tell();
      this.files.focus();
    });
    row.append(blank, name, bar, state, away);
    this.list.append(row);
    return { row, blank, bar, state };
  }

  upload(file) {
    const made = this.row(file.name);
    return this.bring(made, async (say) => {
      if (file.size > Number(this.files.dataset.bytesMax)) throw new Problem("It is too large");
      const sha256 = hex(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
      const begun = await this.ask("/app/media", { mime: file.type, bytes: file.size, sha256 });
      say("Uploading");
      await put(begun.url, file, (share) => (made.bar.value = share));
      await this.ask(`/app/media/${begun.media_id}/complete`, {});
      return begun.media_id;
    });
  }

  // Follows a medium, from where `begin` gives its id, until it is scanned.
  async bring({ row, blank, bar, state }, begin) {
    const say = (text, isBad) => {
      state.textContent = text;
      state.classList.toggle("bad", Boolean(isBad));
    };
    this.uploads.set(row, null);
    this.tell();
    try {
      const id = await begin(say);
      const media = await this.scanned(id, row, say);
      bar.remove();
      if (media === null) return; // taken away meanwhile
      if (media.picture) {
        const picture = Object.assign(new Image(44, 44), { src: media.picture, alt: "" });
        blank.replaceWith(picture);
      }
      say(SAID[media.scan_state] || media.scan_state, media.scan_state !== "ready");
      if (media.scan_state === "ready") this.uploads.set(row, id);
      else this.uploads.delete(row);
    } catch (error) {
      bar.remove();
      this.uploads.delete(row);
      say(error instanceof Problem ? error.message : "It could not be uploaded", true);
    }
    this.tell();
  }

  async scanned(id, row, say) {
    for (;;) {
      if (!this.uploads.has(row)) return null;
      const answer = await fetch(`/app/media/${id}`, { headers: { "X-Part": "json" } });
      if (!answer.ok) throw new Problem("It was refused");
      const media = await answer.json();
      if (!WAITING.includes(media.scan_state)) return media;
      say(SAID[media.scan_state]);
      await pause(POLL_MS);
    }
  }

  tell() {
    const ids = [...this.uploads.values()];
    this.form.elements.media_ids.value = ids.filter(Boolean).join(" ");
    this.send.disabled = ids.includes(null);
  }
}

for (const form of document.querySelectorAll("[data-composer]")) {
  if (window.crypto?.subtle) new Composer(form); // only where the connection is safe
}
