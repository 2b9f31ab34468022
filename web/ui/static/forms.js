// Forms and actions: confirmation dialogs, selected rows, progress indicators, a filter for long forms, and copying.
// Without scripts, each confirmation is a page, and everything else works as a plain form.
"use strict";

(() => {
  const ask = document.getElementById("ask");
  const NOT_SENT = "Nothing was sent: the worker is not responding. Your input is kept.";

  // --- confirmations ----------------------------------------------------------------------------------------------

  async function showConfirmation(address) {
    const url = new URL(address);
    const pageAddress = url.href;
    url.searchParams.set("part", "dialog");
    try {
      const response = await fetch(url, { headers: { Accept: "text/html" } });
      if (!response.ok) throw new Error(String(response.status));
      ask.innerHTML = await response.text(); // rendered by the server, which escapes everything; the policy forbids scripts
      prepare(ask);
      ask.showModal();
    } catch (error) {
      // fetch throws a TypeError without a response. Navigation would then show the browser's error page.
      if (error instanceof TypeError) window.kraal.noResponse();
      else location.assign(pageAddress);
    }
  }

  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest("a[data-confirm]");
    if (link) {
      event.preventDefault();
      showConfirmation(link.href);
    }
    const close = event.target.closest("[data-close]");
    if (close && ask.open) {
      event.preventDefault();
      ask.close();
    }
  });

  ask.addEventListener("close", () => ask.replaceChildren());

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.matches("form[data-confirm]")) {
      event.preventDefault();
      const url = new URL(form.getAttribute("action"), location.href); // form.action would be the button named "action"
      url.search = new URLSearchParams(new FormData(form, event.submitter)).toString();
      if (url.searchParams.has("matching")) url.searchParams.delete("name"); // the filter replaces the names
      if (url.searchParams.has("matching") || url.searchParams.has("name")) showConfirmation(url);
      else status(form, "Select rows first.");
    } else if (form.method === "post" && window.kraal.isAway()) {
      event.preventDefault(); // the browser's error page would discard the input
      status(form, NOT_SENT);
    } else if (form.dataset.busy) {
      if (form.classList.contains("sent")) {
        event.preventDefault();
        return;
      }
      form.classList.add("sent");
      status(form, form.dataset.busy);
      if (event.submitter) event.submitter.setAttribute("aria-busy", "true");
    }
  });

  document.addEventListener("kraal:back", () => {
    document.querySelectorAll(".busy").forEach((element) => {
      if (element.textContent === NOT_SENT) element.textContent = "";
    });
  });

  function status(form, text) {
    form.querySelectorAll(".busy").forEach((element) => (element.textContent = text));
    const selected = form.querySelector("[data-selected]");
    if (selected) selected.textContent = text;
  }

  // The page may be restored from the back-forward cache.
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("form.sent").forEach((form) => {
      form.classList.remove("sent");
      status(form, "");
    });
    document.querySelectorAll("[aria-busy]").forEach((element) => element.removeAttribute("aria-busy"));
  });

  // --- selected rows ----------------------------------------------------------------------------------------------

  const selected = new Set(); // connector names; preserved across refreshes of the list

  function checkboxes() {
    return [...document.querySelectorAll("input[data-select]")];
  }

  let selectedFilter = null; // the list's filter if the connectors on all pages are selected

  // Once all rows of the page are selected, a checkbox offers to select the rows of all other pages.
  function showMatching(boxes) {
    const label = document.querySelector("[data-matching]");
    const box = label && label.querySelector("input");
    if (!box || box.value !== selectedFilter) selectedFilter = null;
    if (selectedFilter !== null) boxes.forEach(({ value }) => selected.add(value));
    if (label) label.hidden = !boxes.length || !boxes.every(({ value }) => selected.has(value));
    if (!box) return null;
    box.checked = selectedFilter !== null;
    return box.checked ? box.dataset.count : null;
  }

  function showSelection() {
    const boxes = checkboxes();
    const matchCount = showMatching(boxes);
    boxes.forEach((box) => (box.checked = selected.has(box.value)));
    const count = matchCount || boxes.filter((box) => box.checked).length;
    const text = document.querySelector("#bulk [data-selected]");
    if (text) text.textContent = count ? `${count} selected` : "Selected connectors";
    const all = document.querySelector("[data-select-all]");
    if (all) {
      all.hidden = !boxes.length;
      all.textContent = boxes.every((box) => box.checked) ? "Select none" : "Select all";
    }
  }

  document.addEventListener("change", (event) => {
    const { target } = event;
    if (target.closest("[data-matching]")) selectedFilter = target.checked ? target.value : null;
    else if (!target.matches("input[data-select]")) return;
    else if (target.checked) selected.add(target.value);
    else {
      selected.delete(target.value);
      selectedFilter = null;
    }
    showSelection();
  });

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-select-all]")) return;
    const boxes = checkboxes();
    const areAllChecked = boxes.every((box) => box.checked);
    if (areAllChecked) selectedFilter = null;
    boxes.forEach((box) => (areAllChecked ? selected.delete(box.value) : selected.add(box.value)));
    showSelection();
  });

  // --- forms ------------------------------------------------------------------------------------------------------

  function filter(input) {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const form = document.getElementById(input.dataset.filter);
    form.querySelectorAll("details.group").forEach((group) => {
      if (group.dataset.was === undefined) group.dataset.was = group.open ? "open" : "";
      let matches = 0;
      group.querySelectorAll("[data-field]").forEach((field) => {
        const text = field.dataset.field.toLowerCase();
        field.hidden = !words.every((word) => text.includes(word));
        matches += field.hidden ? 0 : 1;
      });
      group.hidden = words.length > 0 && !matches;
      group.open = words.length ? matches > 0 : group.dataset.was === "open";
    });
  }

  document.addEventListener("input", (event) => {
    if (event.target.matches("input[data-filter]")) filter(event.target);
  });

  // Enter in the filter must not send the form.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input[data-filter]")) event.preventDefault();
  });

  // A link to a field opens its group.
  function openTarget() {
    const id = decodeURIComponent(location.hash.slice(1));
    const field = id && document.getElementById(id);
    const group = field && field.closest("details");
    if (group && !group.open) {
      group.open = true;
      field.scrollIntoView({ block: "center" });
    }
    if (field && field.matches("input, select, textarea")) field.focus();
  }

  window.addEventListener("hashchange", openTarget);

  // --- copying ----------------------------------------------------------------------------------------------------

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copier");
    if (!button) return;
    const text = button.parentElement.querySelector("textarea");
    text.select();
    try {
      await navigator.clipboard.writeText(text.value);
    } catch {
      document.execCommand("copy"); // the Clipboard API requires TLS
    }
    button.textContent = "Copied";
  });

  // --- keys -------------------------------------------------------------------------------------------------------

  function registerKey(key) {
    window.kraal.key(key, (row) => {
      const target = (row && row.querySelector(`[data-key="${key}"]`)) || document.querySelector(`.head [data-key="${key}"]`);
      if (target) target.click();
    });
  }

  ["r", "p", "s", "e"].forEach(registerKey);
  window.kraal.key("x", (row) => {
    const box = row && row.querySelector("input[data-select]");
    if (box) box.click();
  });
  window.kraal.key("g p", () => document.getElementById("nav-plugins").click());

  // --- elements that need scripts ------------------------------------------------------------------------------------

  function prepare(root) {
    root.querySelectorAll("button.copier, .finder").forEach((element) => (element.hidden = false));
  }

  document.body.addEventListener("htmx:load", (event) => {
    prepare(event.detail.elt);
    showSelection();
  });
  prepare(document);
  showSelection();
  openTarget();

  // Remove the result from the URL, so that neither a reload nor a shared link shows it again.
  const here = new URL(location.href);
  if (here.searchParams.has("result")) {
    here.searchParams.delete("result");
    history.replaceState(null, "", here);
  }
})();
