// Shared worker with one stream of changes for all pages of this browser, because browsers open at most six connections
// per server, including streams. Visible pages register and receive every event as [kind, data].
"use strict";

const KINDS = ["hello", "changed", "away", "bye"];
const pages = new Set(); // ports of visible pages
let stream = null;
let hello = null; // the first event of the open stream
let away = null; // the event that reported the worker as unavailable; null while the worker is available

function broadcast(kind, data) {
  const event = [kind, data];
  if (kind === "hello") hello = event;
  else if (kind !== "changed" && kind !== "away") hello = null;
  away = kind === "away" ? event : null;
  pages.forEach((page) => page.postMessage(event));
}

function close() {
  if (stream) stream.close();
  stream = hello = away = null;
}

function open() {
  stream = new EventSource(self.name);
  KINDS.forEach((kind) => stream.addEventListener(kind, (event) => {
    broadcast(kind, event.data);
    if (kind === "bye") close();
  }));
  stream.onerror = () => {
    const closed = stream.readyState === EventSource.CLOSED;
    if (closed) close();
    broadcast(closed ? "closed" : "error", "");
  };
}

self.onconnect = ({ ports: [page] }) => {
  page.onmessage = ({ data: visible }) => {
    if (!visible) {
      pages.delete(page);
      if (!pages.size) close();
      return;
    }
    pages.add(page);
    if (!stream) open();
    for (const event of [hello, away]) if (event) page.postMessage(event);
  };
};
