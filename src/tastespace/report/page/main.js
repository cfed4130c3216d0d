"use strict";
// The shell: tabs, theme, API key. The address has the whole state, so that it can be bookmarked and shared.
(() => {
  const { make, icon, showTrouble, clearTrouble, key, say } = tastespace;
  // The title of each view, and its scripts, which are loaded when it is opened first.
  const VIEWS = {
    recommendations: ["Recommendations", "recommendations.js"], person: ["New person", "person.js"],
    map: ["Taste map", "canvas.js", "map.js"], model: ["Model", "story.js", "model.js"],
  };
  const loading = {};
  const load = (name) => (loading[name] = loading[name] || Promise.all(VIEWS[name].slice(1).map((file) => new Promise((resolve, reject) => {
    const script = make("script", { src: `page/${file}`, onload: resolve });
    script.async = false; // in their order
    script.addEventListener("error", () => {
      delete loading[name];
      script.remove();
      reject(new tastespace.Trouble("The service does not answer. Is it still running?", 0));
    });
    document.head.append(script);
  }))));
  const THEME = "tastespace-theme";
  const main = document.getElementById("main");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chip = document.getElementById("answering");
  let shown = "";
  let turn = 0;
  let version = "";

  function theme() {
    const wanted = tastespace.local.get(THEME) || "auto";
    const now = wanted === "auto" ? (dark.matches ? "dark" : "light") : wanted;
    document.documentElement.dataset.theme = now;
    document.getElementById("theme-button").setAttribute("aria-label", now === "dark" ? "Light colours" : "Dark colours");
    document.dispatchEvent(new Event("tastespace:theme"));
  }

  function otherTheme() {
    tastespace.local.set(THEME, document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    theme();
  }

  // Which version answers, or that none does.
  tastespace.alive = (isAlive) => {
    if (!version) return;
    chip.hidden = false;
    chip.classList.toggle("down", !isAlive);
    chip.replaceChildren(make("i"), `${version} · ${isAlive ? "ready" : "not answering"}`);
  };
  const nameVersion = async () => {
    try {
      version = (await tastespace.story.outline()).version.replace(/-(.{4}).*$/, "-$1");
      tastespace.alive(true);
    } catch {
      // The view says what is wrong.
    }
  };

  function address() {
    const [view, query = ""] = location.hash.replace(/^#\//, "").split("?");
    const state = {};
    for (const [name, value] of new URLSearchParams(query)) state[name] = name in state ? [state[name], value].flat() : value;
    return [VIEWS[view] ? view : "recommendations", state];
  }

  // Keep the state of a view in the address, without drawing it again.
  const go = (view) => (state) => {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(state)) for (const one of [value].flat()) if (one !== "" && one !== undefined && one !== null) query.append(name, String(one));
    const text = query.toString();
    history.replaceState(null, "", `#/${view}${text ? `?${text}` : ""}`);
    for (const link of document.querySelectorAll("nav a")) if (link.dataset.view === view) link.setAttribute("href", `#/${view}${text ? `?${text}` : ""}`);
  };

  async function open() {
    const mine = ++turn;
    const [view, state] = address();
    const isOther = shown !== view;
    shown = view;
    const [title] = VIEWS[view];
    document.title = `${title} – tastespace`;
    document.body.dataset.view = view;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    clearTrouble();
    if (!version) nameVersion();
    const stage = make("div"); // A view that is late draws on an element that is not shown any more.
    main.replaceChildren(stage);
    try {
      await load(view);
      if (mine !== turn) return;
      await tastespace.views[view].show(stage, state, go(view));
      if (mine === turn && isOther) say(`${title}.`);
    } catch (error) {
      if (mine !== turn) return;
      if (!stage.querySelector("h1")) stage.replaceChildren(make("h1", { text: title }), make("p", { class: "quiet", text: "This view is not available now." }));
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
    event.preventDefault(); // The address belongs to the views.
    main.focus();
  });
  // A slash goes to the search of the view.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest?.("input, textarea, select")) return;
    const field = main.querySelector("[data-search], .picker .pick");
    if (!field) return;
    event.preventDefault();
    if (field.matches("input")) field.focus();
    else field.click();
  });
  document.getElementById("theme-button").append(icon("theme", 18));
  document.getElementById("theme-button").addEventListener("click", otherTheme);
  dark.addEventListener("change", theme);
  window.addEventListener("hashchange", open);
  theme();
  open();
})();
