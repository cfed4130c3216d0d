"use strict";
// Small parts of the page: elements, number formats, tables, messages, colours.
(() => {
  // An element with properties, listeners (onclick ...) and children; all text is text, never HTML.
  function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "class") element.className = value;
      else if (name === "text") element.textContent = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name in element && typeof value !== "string") element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return element;
  }

  const formats = {}; // Created once: that takes longer than using them.
  const number = (value, digits = 2) => {
    if (value === null || value === undefined) return "–";
    formats[digits] = formats[digits] || new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    return formats[digits].format(value);
  };
  const count = (value) => value.toLocaleString("en");
  const figure = (value) => {
    if (value === null || value === undefined) return "–";
    if (typeof value === "string") return value;
    if (Number.isInteger(value)) return count(value);
    return Math.abs(value) >= 1000 ? count(Math.round(value)) : String(Number(value.toPrecision(4)));
  };
  const percent = (value, digits = 0) => (value === null || value === undefined ? "–" : `${number(100 * value, digits)} %`);

  // Cells are texts or elements; the first column has names. `texts` are further columns that are not numbers.
  function table(caption, columns, rows, { texts = [] } = {}) {
    const head = make("tr", {}, columns.map((name, place) => make("th", { scope: "col", text: name, class: texts.includes(place) ? "text" : null })));
    const body = rows.map((cells) =>
      make("tr", {}, cells.map((cell, place) => {
        const shown = cell instanceof Node ? cell : figure(cell);
        if (place === 0) return make("th", { scope: "row", dir: "auto" }, shown);
        return make("td", { class: texts.includes(place) ? "text" : null, dir: texts.includes(place) ? "auto" : null }, shown);
      })));
    return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", {}, make("caption", { text: caption }), make("thead", {}, head), make("tbody", {}, body)));
  }

  // The same data as a table, made when it is opened.
  function twin(build, summary = "As a table") {
    const details = make("details", {}, make("summary", { text: summary }));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(build());
    });
    details.renew = () => {
      while (details.children.length > 1) details.lastChild.remove();
      if (details.open) details.append(build());
    };
    return details;
  }

  // A message for everyone, screen readers included.
  const say = (message) => {
    const status = document.getElementById("status");
    if (status) status.textContent = message;
  };

  // If the focus was in a part that is drawn again, move it to its heading: otherwise a screen reader starts at the top.
  function heldFocus(part) {
    if (!part.contains(document.activeElement)) return () => {};
    return () => {
      const first = part.querySelector("h2");
      if (!first || part.contains(document.activeElement)) return;
      first.tabIndex = -1;
      first.focus();
    };
  }

  function clearTrouble() {
    const place = document.getElementById("trouble");
    if (place) place.replaceChildren(), (place.hidden = true);
  }

  // Show an error, and how to continue.
  function showTrouble(error, again) {
    if (error.name === "AbortError") return;
    if (!(error instanceof tastespace.Trouble)) console.error(error);
    const place = document.getElementById("trouble");
    const message = error instanceof tastespace.Trouble ? error.message : `An error in the page: ${error.message}`;
    const button = again ? make("button", { type: "button", text: "Try again", onclick: () => { clearTrouble(); again(); } }) : null;
    place.replaceChildren(make("span", { text: message }), ...(button ? [button] : []));
    place.hidden = false;
    if (error.status === 401 || error.status === 403) tastespace.askForKey();
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const isDark = () => document.documentElement.dataset.theme === "dark";
  const labelled = (text, control) => {
    control.id = control.id || `control-${(labelled.next = (labelled.next || 0) + 1)}`;
    return make("div", {}, make("label", { for: control.id, text }), control);
  };
  const options = (choices, chosen) =>
    choices.map(([value, text]) => make("option", { value, text, selected: value === chosen }));

  // Figures and maps on the page take the new colours.
  document.addEventListener("tastespace:theme", () => document.querySelectorAll(".plot, .map canvas").forEach((drawn) => drawn.redraw?.()));

  // Debounce: call after a pause, with the latest arguments.
  function later(action, milliseconds) {
    let timer = 0;
    return (...given) => {
      clearTimeout(timer);
      timer = setTimeout(() => action(...given), milliseconds);
    };
  }

  Object.assign(tastespace, {
    make, number, count, figure, percent, table, twin, say, showTrouble, clearTrouble, colour, isDark, labelled, options, later,
    heldFocus,
  });
})();
