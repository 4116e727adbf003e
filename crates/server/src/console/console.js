// What pages do beyond what they are: ids are copied, times go on or are shown exactly, and what has changed is shown. Without it all
// of them can be read and every form can be sent.
"use strict";

// Buttons say what came of them for a moment, and so does a line for whoever listens to the page. What a button is called is kept: it
// may be pressed once more before the moment is over.
const told = (button, word) => {
  button.dataset.called ??= button.textContent;
  button.textContent = word;
  const aloud = document.querySelector(".aloud");
  aloud.textContent = `${word}: ${button.dataset.copy}`;
  setTimeout(() => { button.textContent = button.dataset.called; aloud.textContent = ""; }, 1200);
};

// Browsers keep the clipboard from pages that came unencrypted from another machine; what is selected can be copied all the same.
const copySelected = (button) => {
  const text = document.createElement("textarea");
  text.value = button.dataset.copy;
  text.readOnly = true;
  text.className = "aside";
  document.body.append(text);
  text.select();
  const done = document.execCommand("copy");
  text.remove();
  button.focus();
  if (!done) window.getSelection().selectAllChildren(button.previousElementSibling);
  told(button, done ? "copied" : "selected");
};

const copy = (button) => {
  if (!navigator.clipboard) return copySelected(button);
  return navigator.clipboard.writeText(button.dataset.copy).then(() => told(button, "copied"), () => copySelected(button));
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  if (event.target.closest("time, .exactly")) turn();
});

// A form that cannot be taken back is asked about once, and sent once.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = event.submitter?.dataset.ask ?? form.dataset.ask;
  if (form.dataset.sent || (question && !window.confirm(question))) {
    event.preventDefault();
    return;
  }
  if (form.method === "post") form.dataset.sent = "1";
});
window.addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent);
});

const span = (seconds) => {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
};

// By the server's clock: how far the browser's is off is known from when the page was made.
const made = document.querySelector("footer time");
const ahead = made ? Date.now() - Date.parse(made.dateTime) : 0;
let exactly = false;
const tell = () => {
  document.querySelectorAll("time[datetime]").forEach((time) => {
    const seconds = Math.floor((Date.now() - ahead - Date.parse(time.dateTime)) / 1000);
    const relative = seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
    time.textContent = exactly ? time.dateTime : relative;
  });
};

// All times of a page at once, exactly or by how long ago: by a button that fingers and keys reach, or a click on any of them.
const turn = () => {
  exactly = !exactly;
  document.body.classList.toggle("exact", exactly);
  document.querySelectorAll(".exactly").forEach((button) => button.setAttribute("aria-pressed", String(exactly)));
  tell();
};

const show = (root) => root.querySelectorAll(".copy[hidden], .exactly[hidden]").forEach((button) => { button.hidden = false; });

// Parts that are marked as live are fetched again when something has happened. Where somebody is at work nothing is taken away: what
// they typed, what they opened, how far they scrolled, and what they are about to press.
const asItCame = new Map();
// How long ago something was is told here: that alone is no change.
const written = (part) => part.outerHTML.replace(/(<time [^>]*>)[^<]*/g, "$1");

const fields = (part) => [...part.querySelectorAll("input, textarea, select")];
const isTouched = (field) => {
  if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
  if (field.matches("select")) return field.selectedIndex !== Math.max([...field.options].findIndex((it) => it.defaultSelected), 0);
  return field.value !== field.defaultValue;
};
// Whoever stands on a button of a form is about to send it as they read it.
const isAboutToSend = (part) => part.contains(document.activeElement) && document.activeElement.matches("form[method=post] button");
const isAtWork = (part) => isAboutToSend(part)
  || fields(part).some((field) => field === document.activeElement || (field.type !== "hidden" && isTouched(field)));

// What something is, wherever it stands by now: where it leads or what it copies, in the nearest thing that has a name, and which of
// several that are alike.
const byName = (part, what) => {
  const alike = new Map();
  return new Map([...part.querySelectorAll(what)].map((it) => {
    const name = [it.tagName, it.closest("[id]").id, it.getAttribute("href"), it.dataset.copy].join(" ");
    alike.set(name, (alike.get(name) ?? 0) + 1);
    return [`${name} ${alike.get(name)}`, it];
  }));
};

const replacePart = (old, next) => {
  const pressable = byName(old, "summary, a, button");
  const focused = [...pressable].find(([, it]) => it === document.activeElement)?.[0];
  const [opened, scrolled] = [byName(old, "details"), byName(old, ".scroll, pre")];
  const places = new Map([...scrolled].map(([name, it]) => [name, [it.scrollLeft, it.scrollTop]]));
  old.replaceWith(next);
  byName(next, "details").forEach((it, name) => { it.open = opened.get(name)?.open ?? it.open; });
  byName(next, ".scroll, pre").forEach((it, name) => { [it.scrollLeft, it.scrollTop] = places.get(name) ?? [0, 0]; });
  show(next);
  // What is there no more is not pressed, nor is something else in its place.
  byName(next, "summary, a, button").get(focused)?.focus({ preventScroll: true });
};

let isHeldBack = false;
const replace = (fresh) => {
  fresh.querySelectorAll("[data-live]").forEach((next) => {
    const old = document.getElementById(next.id);
    const html = written(next);
    if (!old || asItCame.get(next.id) === html) return;
    if (isAtWork(old)) { isHeldBack = true; return; }
    asItCame.set(next.id, html);
    replacePart(old, next);
  });
  tell();
};

let fetching = false;
let again = false;
const refresh = async () => {
  isHeldBack = false;
  if (fetching) { again = true; return; }
  fetching = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    // Whoever is not signed in any more is led to where they can, and told why.
    if (answer.redirected) {
      const led = new URL(answer.url);
      if (led.pathname === "/login") led.searchParams.set("ended", "1");
      location.assign(led);
      return;
    }
    if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { /* The server is away: the stream says when it is back. */ }
  fetching = false;
  if (again) { again = false; setTimeout(refresh, 500); }
};

// What was held back for whoever was at work is shown when they have left.
document.addEventListener("focusout", () => { if (isHeldBack) refresh(); });

// A browser comes back by itself while the connection breaks, and never after an answer that is no stream. Nobody listens for a page
// that is not seen: a browser has few connections for all its tabs.
const follow = (from) => {
  const word = document.querySelector(".live-word");
  const say = (words) => { word.hidden = !words; word.textContent = ` · ${words}`; };
  let stream = null;
  let wait = 1000;
  let later = 0;
  let ended = false;
  const leave = () => { clearTimeout(later); stream?.close(); stream = null; };
  const listen = () => {
    leave();
    stream = new EventSource(from);
    stream.addEventListener("open", () => { wait = 1000; say("live"); });
    stream.addEventListener("changed", refresh);
    stream.addEventListener("over", () => { leave(); ended = true; refresh(); say(""); });
    stream.addEventListener("error", () => {
      say("not live: the server does not answer");
      if (stream?.readyState !== EventSource.CLOSED) return;
      refresh();
      later = setTimeout(listen, wait);
      wait = Math.min(wait * 2, 30000);
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (ended) return;
    if (document.hidden) { leave(); return; }
    refresh();
    listen();
  });
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", (event) => { if (event.persisted && !ended) { refresh(); listen(); } });
  if (!document.hidden) listen();
};

// What was just done is said once: not to whoever reloads the page or is sent its address.
const here = new URL(location.href);
if (here.searchParams.has("done")) {
  here.searchParams.delete("done");
  history.replaceState(history.state, "", here);
}

document.querySelectorAll("[data-live]").forEach((part) => asItCame.set(part.id, written(part)));
show(document);
setInterval(tell, 5000);
if (document.body.dataset.liveFrom && window.EventSource) follow(document.body.dataset.liveFrom);
