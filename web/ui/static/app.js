// Reloads parts of a page after changes, indicates when the worker is unavailable, shows times in the user's time zone,
// and handles keyboard shortcuts. Every page also works without scripts.
"use strict";

(() => {
  const body = document.body;
  const MIN_INTERVAL_MS = 500;
  const RETRY_DELAY_MS = 2000;
  document.documentElement.classList.add("scripted");

  // --- changes -----------------------------------------------------------------------------------------------------

  let stream = null;
  let awaySince = null;
  let retryTimer = 0;
  const pendingKinds = new Set();
  let timer = 0;
  let firedAt = 0;

  // Refreshes the changed parts immediately, then at most every MIN_INTERVAL_MS.
  function changed(kinds) {
    kinds.forEach((kind) => pendingKinds.add(kind));
    if (!timer) timer = setTimeout(fire, Math.max(0, firedAt + MIN_INTERVAL_MS - Date.now()));
  }

  function fire() {
    timer = 0;
    firedAt = Date.now();
    const kinds = [...pendingKinds];
    pendingKinds.clear();
    const selector = kinds.map((kind) => `[data-live~="${kind}"]`).join();
    if (selector) document.querySelectorAll(selector).forEach(refresh);
  }

  const outdatedIds = new Set(); // ids of parts that changed while a request for the part was pending

  function refresh(part) {
    if (part.matches(".htmx-request")) outdatedIds.add(part.id);
    else htmx.trigger(part, "kraal:refresh");
  }

  body.addEventListener("htmx:afterRequest", ({ detail }) => {
    const { id } = detail.requestConfig.elt;
    const part = outdatedIds.delete(id) && document.getElementById(id);
    if (part) htmx.trigger(part, "kraal:refresh");
  });

  function allKinds() {
    const parts = [...document.querySelectorAll("[data-live]")];
    return parts.flatMap((part) => part.dataset.live.split(" "));
  }

  function affectsPage(names) {
    const connector = body.dataset.connector;
    return names === null || connector === undefined || names.includes(connector);
  }

  const handlers = {
    hello: () => {
      if (awaySince) hideAway();
      changed(allKinds());
    },
    changed: (data) => {
      const { kinds, names } = JSON.parse(data);
      if (awaySince) hideAway();
      if (affectsPage(names)) changed(kinds.length ? kinds : allKinds());
    },
    away: (data) => showAway(JSON.parse(data).reason),
    bye: () => retry(1000),
    error: () => showAway(""),
    closed: () => retry(2000),
  };

  function retry(delay) {
    showAway("");
    disconnect();
    retryTimer = setTimeout(connect, delay);
  }

  // Stream shared by all pages of this browser; null without a shared worker.
  let shared = null;
  let sharing = false;

  function share() {
    if (sharing || !window.SharedWorker || !body.dataset.shared) return;
    sharing = true;
    const worker = new SharedWorker(body.dataset.shared, { name: body.dataset.stream });
    const { port } = worker;
    shared = { watch: () => port.postMessage(true), close: () => port.postMessage(false) };
    port.onmessage = ({ data: [kind, data] }) => stream && handlers[kind](data);
    worker.onerror = () => {
      shared = null;
      stream = null;
      connect();
    };
  }

  function openStream() {
    const source = new EventSource(body.dataset.stream);
    for (const kind of ["hello", "changed", "away", "bye"]) {
      source.addEventListener(kind, (event) => handlers[kind](event.data));
    }
    source.onerror = () => handlers[source.readyState === EventSource.CLOSED ? "closed" : "error"]();
    return source;
  }

  function connect() {
    clearTimeout(retryTimer);
    if (stream || document.hidden || !body.dataset.stream) return;
    share();
    stream = shared || openStream();
    if (shared) shared.watch();
  }

  function disconnect() {
    if (stream) stream.close();
    stream = null;
  }

  function showAway(reason) {
    const banner = document.getElementById("away");
    if (awaySince) return;
    awaySince = new Date();
    const since = awaySince.toLocaleTimeString();
    banner.textContent = `No response from ${body.dataset.worker} since ${since}; trying again. ${reason}`;
    banner.hidden = false;
    showRejection();
  }

  function hideAway() {
    awaySince = null;
    const banner = document.getElementById("away");
    banner.hidden = true;
    banner.textContent = "";
    showRejection();
    document.dispatchEvent(new Event("kraal:back"));
  }

  // A hidden page closes its stream: browsers allow six connections per server, and the stream may not be shared.
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", (event) => event.persisted && connect());

  // --- parts ---------------------------------------------------------------------------------------------------------

  const tags = new WeakMap(); // cache key and entity tag of the response that an element shows, by element

  function cacheKey(detail) {
    return `${detail.path}?${new URLSearchParams(detail.formData)}`;
  }

  body.addEventListener("htmx:configRequest", (event) => {
    const { detail } = event;
    if (detail.verb !== "get") return;
    const cached = tags.get(detail.target);
    if (cached && cached.key === cacheKey(detail)) detail.headers["If-None-Match"] = cached.tag;
  });

  let hasDeferredSwap = false; // whether a part was not swapped because the user is selecting text in it

  function isSelecting(target) {
    const selection = getSelection();
    return !selection.isCollapsed && target.contains(selection.anchorNode);
  }

  document.addEventListener("selectionchange", () => {
    if (!hasDeferredSwap || !getSelection().isCollapsed) return;
    hasDeferredSwap = false;
    changed(allKinds());
  });

  // Returns a mark by which `successor` finds the element that replaces `element` when a part is refreshed.
  function mark(element) {
    const row = element.closest("[data-row]");
    const link = row && row.querySelector("a");
    const label = element.getAttribute("aria-label") || (element.querySelector("summary") || element).textContent;
    return [element.tagName, element.id, element.getAttribute("href"), label.trim(), link && link.href].join("\n");
  }

  function successor(root, marked) {
    return [...root.querySelectorAll(marked.split("\n")[0])].find((element) => mark(element) === marked);
  }

  // Link in the row of the marked element. The link gets the focus if the row no longer has the element.
  function rowLink(root, marked) {
    const href = marked.slice(marked.lastIndexOf("\n") + 1);
    return href && [...root.querySelectorAll("[data-row] a")].find((link) => link.href === href);
  }

  let openDetails = [];
  let focusedElement = null;

  body.addEventListener("htmx:beforeSwap", (event) => {
    const { detail } = event;
    const { target } = detail;
    if (detail.shouldSwap && detail.requestConfig.verb === "get") {
      if (detail.requestConfig.triggeringEvent?.type === "kraal:refresh" && isSelecting(target)) {
        detail.shouldSwap = false;
        hasDeferredSwap = true;
        return;
      }
      const tag = detail.xhr.getResponseHeader("ETag");
      if (tag) tags.set(target, { key: cacheKey(detail.requestConfig), tag });
    }
    openDetails = [...target.querySelectorAll("details[open]")].map(mark);
    focusedElement = target.contains(document.activeElement) ? mark(document.activeElement) : null;
  });

  // Open details stay open, and the focused element keeps the focus. A part settles in the same task in which it is
  // swapped, so that no event handler sees unprepared rows; "htmx:load" has set the times and the selection by then.
  body.addEventListener("htmx:afterSettle", (event) => {
    const root = event.detail.target.isConnected ? event.detail.target : document;
    for (const marked of openDetails) {
      const details = successor(root, marked);
      if (details) details.open = true;
    }
    if (!focusedElement || document.activeElement !== body) return;
    const next = successor(root, focusedElement) || rowLink(root, focusedElement);
    if (next) next.focus({ preventScroll: true });
  });

  body.addEventListener("htmx:sendError", () => stream || showAway(""));

  // Parts that the worker refuses to return keep their content, and a banner reports that the page is outdated.
  const rejections = new Map(); // reason by element id

  function showRejection() {
    const banner = document.getElementById("old");
    const [reason] = rejections.values();
    banner.hidden = reason === undefined || awaySince !== null;
    banner.textContent = reason === undefined ? "" : `This page is not up to date. ${reason}`;
  }

  function retryRequest(part) {
    if (part.isConnected && !document.hidden) htmx.trigger(part, "kraal:refresh");
  }

  function describeRejection(xhr) {
    const name = body.dataset.connector;
    if (xhr.status === 404 && name !== undefined) return `The connector ${name} no longer exists.`;
    const error = new DOMParser().parseFromString(xhr.responseText, "text/html").querySelector(".error");
    return error ? error.textContent : `The worker responded with status ${xhr.status}.`;
  }

  body.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.requestConfig.verb !== "get" || !detail.xhr.status) return;
    if (detail.xhr.status < 400) rejections.delete(detail.target.id);
    else {
      rejections.set(detail.target.id, describeRejection(detail.xhr));
      if (detail.xhr.status !== 404) setTimeout(() => retryRequest(detail.elt), RETRY_DELAY_MS);
    }
    showRejection();
  });

  // Keeps the filters of the list in the URL, so that it can be shared.
  body.addEventListener("htmx:afterRequest", (event) => {
    const { detail } = event;
    if (!detail.successful || !detail.elt.closest("form.filter")) return;
    const query = new URLSearchParams(detail.requestConfig.formData);
    for (const [key, value] of [...query]) if (!value || key === "part") query.delete(key);
    const text = query.toString();
    const path = detail.requestConfig.path.split("?")[0];
    history.replaceState(null, "", path + (text ? `?${text}` : ""));
  });

  // --- times -----------------------------------------------------------------------------------------------------------

  let timeFormat = null; // created only if the page has times, because its creation is slow

  function showTimes(root) {
    root.querySelectorAll("time[datetime]:not([title])").forEach((element) => {
      const date = new Date(element.dateTime);
      if (Number.isNaN(date.valueOf())) return;
      timeFormat ??= new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
      element.title = element.textContent;
      element.textContent = timeFormat.format(date);
    });
  }

  body.addEventListener("htmx:load", (event) => showTimes(event.detail.elt));

  // --- keys -----------------------------------------------------------------------------------------------------------

  const keys = new Map();
  let prefix = "";
  let prefixTimer = 0;

  function rows() {
    return [...document.querySelectorAll("[data-row]")];
  }

  function currentRow() {
    return document.activeElement ? document.activeElement.closest("[data-row]") : null;
  }

  function move(step) {
    const allRows = rows();
    if (!allRows.length) return;
    const index = allRows.indexOf(currentRow());
    const lastIndex = allRows.length - 1;
    const row = allRows[index < 0 ? (step > 0 ? 0 : lastIndex) : Math.min(Math.max(index + step, 0), lastIndex)];
    let target = row.querySelector("th a") || row.querySelector("a, button, input");
    if (!target) {
      target = row;
      target.tabIndex = -1;
    }
    target.focus();
    row.scrollIntoView({ block: "nearest" });
  }

  function go(id) {
    const link = document.getElementById(id);
    if (link) link.click();
  }

  function isTyping(element) {
    return element && element.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
  }

  keys.set("/", () => {
    const search = document.getElementById("search");
    if (search) search.focus();
    else go("nav-connectors");
  });
  keys.set("j", () => move(1));
  keys.set("k", () => move(-1));
  keys.set("g c", () => go("nav-connectors"));
  keys.set("g w", () => go("nav-cluster"));
  keys.set("g e", () => go("nav-events"));
  keys.set("?", () => document.getElementById("help").showModal());

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape" && isTyping(event.target)) event.target.blur();
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    clearTimeout(prefixTimer);
    const run = keys.get(prefix + event.key);
    const isPrefix = !run && !prefix && [...keys.keys()].some((key) => key.startsWith(`${event.key} `));
    prefix = isPrefix ? `${event.key} ` : "";
    if (isPrefix) prefixTimer = setTimeout(() => (prefix = ""), 1500);
    if (run) {
      event.preventDefault();
      run(currentRow());
    }
  });

  // Other scripts register keys: kraal.key("r", (row) => …), where `row` is the focused row or null.
  // They also query whether the worker is unavailable, and report requests without a response.
  window.kraal = {
    key: (name, run) => keys.set(name, run),
    changed,
    currentRow,
    isAway: () => awaySince !== null,
    noResponse: () => retry(1000),
  };

  showTimes(document);
  requestAnimationFrame(() => setTimeout(connect)); // after the first frame, which must not wait for the worker
})();
