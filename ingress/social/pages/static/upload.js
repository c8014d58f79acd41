// The composer's media: each is hashed here, put to the media origin under signed URLs, part by part, and scanned; then it
// may be posted. A part that broke on its way is put again; what is taken out is deleted there, too.
"use strict";

const POLL_MS = 400;
const TRIES = 6; // in a row without one part that arrived: half a minute
const RETRY_MS = 1000; // before the first of them, and twice as long before each other
const FINAL = [401, 404, 409, 410, 413, 422]; // another try would be answered alike
const SAID = { initiated: "Uploading", scanning: "Being checked", ready: "Ready", infected: "Refused: it holds malware",
  rejected: "Refused: it is no picture or film that can be shown", checksum_failed: "Broken on its way", expired: "Expired" };
const WAITING = ["initiated", "scanning"];

const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const digest = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

class Problem extends Error {
  constructor(said, status = 0) {
    super(said);
    this.isFinal = FINAL.includes(status);
  }
}

function put(url, part, signal, progress) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    const broken = () => failed(new Problem("The connection broke"));
    request.open("PUT", url);
    request.upload.addEventListener("progress", (event) => progress(event.loaded));
    request.addEventListener("load", () => (request.status === 204 ? done() : failed(new Problem("The upload was refused", request.status))));
    request.addEventListener("error", broken);
    request.addEventListener("abort", broken);
    signal.addEventListener("abort", () => request.abort());
    request.send(part);
  });
}

// What the first call says of a file: its parts are of one size but for the last.
async function told(file, partBytes) {
  const bytes = await file.arrayBuffer();
  const said = { mime: file.type, bytes: file.size, sha256: await digest(bytes) };
  if (file.size <= partBytes) return said;
  const parts = [];
  for (let at = 0; at < file.size; at += partBytes) parts.push(await digest(bytes.slice(at, at + partBytes)));
  return { ...said, part_bytes: partBytes, parts: parts.join(" ") };
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

  get partBytes() {
    return Number(this.files.dataset.partBytes);
  }

  // What a refused post held comes back with its text.
  again(ids) {
    for (const [n, id] of ids.entries()) {
      const made = this.row(`upload ${n + 1}`);
      made.id = id;
      this.bring(made, () => Promise.resolve());
    }
  }

  add(files) {
    const room = Number(this.files.dataset.mediaMax) - this.uploads.size;
    this.said.textContent = files.length > room ? `A post has at most ${this.files.dataset.mediaMax} media.` : "";
    for (const file of files.slice(0, room)) this.upload(file);
    this.files.value = "";
  }

  async ask(path, fields) {
    const body = new URLSearchParams({ form_token: this.form.elements.form_token.value, key: crypto.randomUUID(), ...fields });
    return this.answered(await fetch(path, { method: "POST", headers: { "X-Part": "json" }, body }));
  }

  async state(id) {
    return this.answered(await fetch(`/app/media/${id}`, { headers: { "X-Part": "json" } }));
  }

  async answered(answer) {
    const found = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Problem(found.problem || "It was refused", answer.status);
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
    const made = { row, blank, bar, state, id: null, gone: new AbortController() };
    away.addEventListener("click", () => {
      made.gone.abort();
      this.forget(made);
      this.uploads.delete(row);
      row.remove();
      this.tell();
      this.files.focus();
    });
    row.append(blank, name, bar, state, away);
    this.list.append(row);
    return made;
  }

  // What was taken out is deleted where it lies; what cannot be now, is in a day.
  forget(made) {
    if (made.id) this.ask(`/app/media/${made.id}/delete`, {}).catch(() => {});
    made.id = null;
  }

  upload(file) {
    const made = this.row(file.name);
    return this.bring(made, async (say) => {
      if (file.size > Number(this.files.dataset.bytesMax)) throw new Problem("It is too large");
      const begun = await this.ask("/app/media", await told(file, this.partBytes));
      made.id = begun.media_id;
      say("Uploading");
      await this.put(made, file, [{ number: 1, url: begun.url }], say);
      if (!made.gone.signal.aborted) await this.ask(`/app/media/${made.id}/complete`, {});
    });
  }

  // Puts what is missing until nothing is, each part by a fresh URL; what arrived is put once.
  async put(made, file, missing, say) {
    for (let tries = 0; missing.length && !made.gone.signal.aborted; ) {
      try {
        for (const { number, url } of missing) {
          const at = (number - 1) * this.partBytes;
          const part = file.slice(at, at + this.partBytes);
          await put(url, part, made.gone.signal, (sent) => (made.bar.value = (at + sent) / file.size));
          tries = 0;
          say("Uploading");
        }
        missing = (await this.state(made.id)).missing;
      } catch (error) {
        if (error.isFinal || made.gone.signal.aborted || ++tries === TRIES) throw error;
        say(`${error instanceof Problem ? error.message : "The connection broke"}: trying again`);
        await pause(RETRY_MS * 2 ** (tries - 1));
        missing = await this.state(made.id).then((media) => media.missing, () => missing);
      }
    }
  }

  // Follows a medium, from where `begin` has brought it, until it is scanned.
  async bring(made, begin) {
    const { row, blank, bar, state } = made;
    const say = (text, isBad) => {
      if (state.textContent !== text) state.textContent = text;
      state.classList.toggle("bad", Boolean(isBad));
    };
    this.uploads.set(row, null);
    this.tell();
    try {
      await begin(say);
      const media = await this.scanned(made, say);
      if (media === null) return this.forget(made); // taken away before it was known by what
      bar.remove();
      if (media.picture) {
        const picture = Object.assign(new Image(44, 44), { src: media.picture, alt: "" });
        blank.replaceWith(picture);
      }
      say(SAID[media.scan_state] || media.scan_state, media.scan_state !== "ready");
      if (media.scan_state === "ready") this.uploads.set(row, made.id);
      else {
        this.uploads.delete(row);
        made.id = null; // it has ended
      }
    } catch (error) {
      bar.remove();
      this.uploads.delete(row);
      say(error instanceof Problem ? error.message : "It could not be uploaded", true);
      this.forget(made);
    }
    this.tell();
  }

  async scanned(made, say) {
    for (;;) {
      const media = made.gone.signal.aborted ? null : await this.state(made.id);
      if (made.gone.signal.aborted) return null;
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
