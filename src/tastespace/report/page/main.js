"use strict";
// Which view is shown, in which colours, with which key. The address says all: it can be kept and sent.
(() => {
  const { make, showTrouble, clearTrouble, key, say } = tastespace;
  const THEME = "tastespace-theme";
  const main = document.getElementById("main");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let shown = "";

  function theme() {
    const wanted = localStorage.getItem(THEME) || "auto";
    const now = wanted === "auto" ? (dark.matches ? "dark" : "light") : wanted;
    document.documentElement.dataset.theme = now;
    const button = document.getElementById("theme-button");
    button.textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[wanted];
    button.setAttribute("aria-label", `Colours: ${wanted}. Change them`);
    document.dispatchEvent(new Event("tastespace:theme"));
  }

  function nextTheme() {
    const order = ["auto", "light", "dark"];
    const wanted = order[(order.indexOf(localStorage.getItem(THEME) || "auto") + 1) % order.length];
    localStorage.setItem(THEME, wanted);
    theme();
  }

  function address() {
    const [view, query = ""] = location.hash.replace(/^#\//, "").split("?");
    return [tastespace.views[view] ? view : "recommendations", Object.fromEntries(new URLSearchParams(query))];
  }

  // Keep what a view shows in the address, without showing it anew.
  const go = (view) => (state) => {
    const filled = Object.entries(state).filter(([, value]) => value !== "" && value !== undefined && value !== null);
    const query = new URLSearchParams(filled.map(([name, value]) => [name, String(value)])).toString();
    history.replaceState(null, "", `#/${view}${query ? `?${query}` : ""}`);
  };

  async function open() {
    if (location.hash === "#main") return main.focus();
    const [view, state] = address();
    const isOther = shown !== view;
    shown = view;
    document.title = `${tastespace.views[view].title} – tastespace`;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.getAttribute("href") === `#/${view}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    clearTrouble();
    try {
      await tastespace.views[view].show(main, state, go(view));
      if (isOther) say(`${tastespace.views[view].title} is shown.`);
    } catch (error) {
      main.replaceChildren(make("h1", { text: tastespace.views[view].title }), make("p", { class: "quiet", text: "This cannot be shown now." }));
      showTrouble(error, open);
    }
  }

  // Services on a network want a key; it is kept as long as the tab is open.
  tastespace.askForKey = () => {
    document.getElementById("key-button").hidden = false;
    document.getElementById("key-form").hidden = false;
    document.getElementById("key").focus();
  };
  document.getElementById("key-button").addEventListener("click", () => {
    const form = document.getElementById("key-form");
    form.hidden = !form.hidden;
    if (!form.hidden) document.getElementById("key").focus();
  });
  document.getElementById("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    key.set(document.getElementById("key").value.trim());
    document.getElementById("key").value = "";
    document.getElementById("key-form").hidden = true;
    tastespace.story.forget();
    open();
  });
  document.getElementById("theme-button").addEventListener("click", nextTheme);
  dark.addEventListener("change", theme);
  window.addEventListener("hashchange", open);
  theme();
  open();
})();
