"use strict";
// The view, its colours and the API key. The URL has the whole state, so that it can be bookmarked and shared.
(() => {
  const { make, showTrouble, clearTrouble, key, say } = tastespace;
  const THEME = "tastespace-theme";
  const main = document.getElementById("main");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let shown = "";
  let turn = 0;

  function theme() {
    const wanted = tastespace.local.get(THEME) || "auto";
    const now = wanted === "auto" ? (dark.matches ? "dark" : "light") : wanted;
    document.documentElement.dataset.theme = now;
    const button = document.getElementById("theme-button");
    button.textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[wanted];
    button.setAttribute("aria-label", `Colours: ${wanted}. Change them`);
    document.dispatchEvent(new Event("tastespace:theme"));
  }

  function nextTheme() {
    const order = ["auto", "light", "dark"];
    const wanted = order[(order.indexOf(tastespace.local.get(THEME) || "auto") + 1) % order.length];
    tastespace.local.set(THEME, wanted);
    theme();
  }

  function address() {
    const [view, query = ""] = location.hash.replace(/^#\//, "").split("?");
    return [tastespace.views[view] ? view : "recommendations", Object.fromEntries(new URLSearchParams(query))];
  }

  // Keep the state of a view in the URL, without drawing it again.
  const go = (view) => (state) => {
    const filled = Object.entries(state).filter(([, value]) => value !== "" && value !== undefined && value !== null);
    const query = new URLSearchParams(filled.map(([name, value]) => [name, String(value)])).toString();
    history.replaceState(null, "", `#/${view}${query ? `?${query}` : ""}`);
  };

  async function open() {
    const mine = ++turn;
    const [view, state] = address();
    const isOther = shown !== view;
    shown = view;
    document.title = `${tastespace.views[view].title} – tastespace`;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.getAttribute("href") === `#/${view}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    clearTrouble();
    const stage = make("div"); // A view that is late draws on an element that is not shown any more.
    main.replaceChildren(stage);
    try {
      await tastespace.views[view].show(stage, state, go(view));
      if (mine === turn && isOther) say(`${tastespace.views[view].title} is shown.`);
    } catch (error) {
      if (mine !== turn) return;
      stage.replaceChildren(make("h1", { text: tastespace.views[view].title }), make("p", { class: "quiet", text: "This view is not available now." }));
      showTrouble(error, open);
    }
  }

  // Services on a network need a key; it is kept as long as the tab is open.
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
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // The URL belongs to the views.
    main.focus();
  });
  document.getElementById("theme-button").addEventListener("click", nextTheme);
  dark.addEventListener("change", theme);
  window.addEventListener("hashchange", open);
  theme();
  open();
})();
