"use strict";
// Small parts of the page: elements, tables, messages, menus, colours.
(() => {
  const { figure, icon } = tastespace;

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

  const RETRY = 5; // seconds until a service that does not answer is asked again
  let retrying = 0;

  function clearTrouble() {
    clearInterval(retrying);
    const place = document.getElementById("trouble");
    if (place) place.replaceChildren(), (place.hidden = true);
    tastespace.alive?.(true);
  }

  // Show an error, and how to continue. A service that does not answer is asked again after a while.
  function showTrouble(error, again) {
    if (error.name === "AbortError") return;
    if (!(error instanceof tastespace.Trouble)) console.error(error);
    clearInterval(retrying);
    const place = document.getElementById("trouble");
    const message = error instanceof tastespace.Trouble ? error.message : `An error in the page: ${error.message}`;
    const [first, ...rest] = message.split(/(?<=\.) /);
    const isDown = again && (error.status === 0 || error.status === 503);
    const words = make("span", { text: rest.join(" ") });
    const go = () => { clearTrouble(); again(); };
    if (isDown) {
      let left = RETRY;
      const tell = () => { words.textContent = `${rest.join(" ")} We try again in ${left} ${left === 1 ? "second" : "seconds"}.`.trim(); };
      tell();
      retrying = setInterval(() => (--left > 0 ? tell() : go()), 1000);
      tastespace.alive?.(false);
    }
    place.replaceChildren(icon("warn", 20), make("p", {}, make("strong", { text: first }), " ", words), again ? make("button", { type: "button", text: isDown ? "Try now" : "Try again", onclick: go }) : "");
    place.hidden = false;
    if (error.status === 401 || error.status === 403) tastespace.askForKey();
  }

  // A group of radio buttons that looks like a switch.
  function segments(name, label, choices, current, change) {
    return make("fieldset", { class: "segments" }, make("legend", { class: "unseen", text: label }), choices.map(([value, text]) => make("label", {},
      make("input", { type: "radio", name, value, checked: value === current, onchange: () => change(value) }), make("span", { text }))));
  }

  // A colour of the style sheet as it is now, light or dark.
  const probe = document.createElement("i");
  const colour = (name) => {
    if (!probe.isConnected) document.body.append(Object.assign(probe, { hidden: true }));
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
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

  Object.assign(tastespace, { make, table, twin, say, showTrouble, clearTrouble, colour, isDark, labelled, options, later, heldFocus, segments });
})();
