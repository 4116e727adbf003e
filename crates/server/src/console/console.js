// What pages do beyond what they are: ids are copied, times go on, and what has changed is shown. Without it all of them can be read
// and every form can be sent.
"use strict";

const copied = (button) => {
  const word = button.textContent;
  button.textContent = "copied";
  setTimeout(() => { button.textContent = word; }, 1200);
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button && navigator.clipboard) {
    navigator.clipboard.writeText(button.dataset.copy).then(() => copied(button));
  }
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
const tell = () => {
  document.querySelectorAll("time[datetime]").forEach((time) => {
    const seconds = Math.floor((Date.now() - ahead - Date.parse(time.dateTime)) / 1000);
    time.textContent = seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
  });
};

const show = (root) => root.querySelectorAll(".copy[hidden]").forEach((button) => { button.hidden = !navigator.clipboard; });

// Parts that are marked as live are fetched again when something has happened. Where somebody is at work nothing is taken away.
const replace = (fresh) => {
  fresh.querySelectorAll("[data-live]").forEach((next) => {
    const old = document.getElementById(next.id);
    if (!old || old.outerHTML === next.outerHTML || old.contains(document.activeElement)) return;
    const open = [...old.querySelectorAll("details")].map((it) => it.open);
    old.replaceWith(next);
    next.querySelectorAll("details").forEach((it, at) => { it.open = open[at] ?? it.open; });
    show(next);
  });
  tell();
};

let fetching = false;
let again = false;
const refresh = async () => {
  if (fetching) { again = true; return; }
  fetching = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.redirected) { location.reload(); return; }
    if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { /* The server is away: the stream says when it is back. */ }
  fetching = false;
  if (again) { again = false; setTimeout(refresh, 500); }
};

const follow = (from) => {
  const word = document.querySelector(".live-word");
  const stream = new EventSource(from);
  stream.addEventListener("open", () => { word.hidden = false; word.textContent = " · live"; });
  stream.addEventListener("changed", refresh);
  stream.addEventListener("over", () => { stream.close(); refresh(); word.hidden = true; });
  stream.addEventListener("error", () => {
    word.hidden = false;
    word.textContent = " · not live: the server does not answer";
    // It answered, and with something else: whoever is not signed in any more is led to where they can.
    if (stream.readyState === EventSource.CLOSED) refresh();
  });
};

show(document);
setInterval(tell, 5000);
if (document.body.dataset.liveFrom && window.EventSource) follow(document.body.dataset.liveFrom);
