"use strict";
// The taste map: the positions of items, their neighbors, and the position of a user.
(() => {
  const { make, ask, path, labelled, options, tasteCanvas, count, percent, say, number } = tastespace;
  const PATIENCE = 10 * 60 * 1000; // t-SNE of many items takes a while

  function colourings(map) {
    const named = Object.keys(map.attributes).map((name) => [name, name]);
    return [...named, ["ratings", "popularity"]];
  }

  async function show(main, state, go) {
    const story = await tastespace.story.outline();
    if (!story.can.map) {
      main.replaceChildren(make("h1", { text: "Taste map" }), make("p", { text: `${story.class} has no taste space, so there is no map. A model with factors, such as bpmf, has one.` }));
      return;
    }
    const current = { method: state.method || "pca", colour: state.colour || "", user: state.user || "" };
    const place = make("div", { "aria-live": "off" });
    const side = make("section", { class: "panel", "aria-label": "Selected item", "aria-live": "polite" }, make("p", { class: "quiet", text: "Point at an item, and click it for similar items. Drag to move, turn the wheel to zoom; or use the arrow keys, + and −, and Enter." }));
    const about = make("p", { class: "quiet" });
    let shown = null;
    let map = null;
    // Only the response to the last request of each kind is shown.
    let [turn, asked, sought] = [0, 0, 0];
    let loading = new AbortController();

    const loadMap = async () => {
      const mine = ++turn;
      asked++;
      sought++;
      loading.abort();
      const stop = (loading = new AbortController());
      shown = null;
      place.replaceChildren(make("p", { class: "quiet", text: "Drawing the map…" }));
      try {
        const waiting = () => !main.isConnected ? stop.abort() : mine === turn && place.replaceChildren(make("p", { class: "quiet", text: "The map is being made for the first time, which may take a minute or more. It is kept for later." }));
        const got = await ask(`map?method=${current.method}`, { patience: PATIENCE, waiting, signal: stop.signal });
        if (mine !== turn || !main.isConnected) return;
        map = got;
        tastespace.clearTrouble();
      } catch (error) {
        if (mine !== turn || !main.isConnected) return;
        place.replaceChildren(make("p", { class: "quiet", text: "There is no map." }));
        return tastespace.showTrouble(error, loadMap);
      }
      const choices = colourings(map);
      if (!choices.some(([name]) => name === current.colour)) current.colour = choices[0][0];
      by.replaceChildren(...options(choices, current.colour));
      shown = tasteCanvas(map, { by: current.colour, chosen: choose, label: `Map of ${count(map.x.length)} items` });
      place.replaceChildren(shown.element);
      const part = map.x.length < map.total ? `The ${count(map.x.length)} most rated of ${count(map.total)} items` : `${count(map.total)} items`;
      about.textContent = map.explained === null ? `${part}. Neighbors are kept together; distances between groups mean little.` : `${part}. The two principal components, which explain ${percent(map.explained)} of the variance.`;
      names.replaceChildren(...[...map.items.keys()].sort((a, b) => map.ratings[b] - map.ratings[a]).slice(0, 1000).map((item) => make("option", { value: shown.nameOf(item) })));
      if (current.user) await locate();
    };

    const locate = async () => {
      if (!shown) return;
      const mine = ++sought;
      if (!current.user) return shown.show(null);
      try {
        const found = await ask("place", { method: "POST", body: { user: current.user, method: current.method }, patience: PATIENCE });
        if (mine !== sought || !main.isConnected) return;
        if (found.model !== map.model) return loadMap(); // Another version answers now, with another map.
        tastespace.clearTrouble();
        shown.show(found);
        const spread = found.draws ? tastespace.ellipse(found.draws) : null;
        const words = (found.cold ? `${current.user} has no ratings yet: this is the place of a new user. ` : "") + `${current.user} is at ${number(found.middle[0])}, ${number(found.middle[1])}` + (spread ? `; 90 % of the posterior draws lie within ${number(spread[0])} and ${number(spread[1])} of it.` : ".");
        whereabouts.textContent = words;
        say(words);
      } catch (error) {
        if (mine === sought && main.isConnected) tastespace.showTrouble(error, locate);
      }
    };

    const choose = async (item) => {
      const mine = ++asked;
      const goOn = tastespace.heldFocus(side);
      side.replaceChildren(make("h2", { dir: "auto", text: shown.nameOf(item) }), make("p", { class: "quiet", text: `${count(map.ratings[item])} ratings` }));
      goOn();
      shown.mark([item], item);
      try {
        const found = await ask(`${path("items", map.items[item], "similar")}?n=10`);
        if (mine !== asked || !main.isConnected) return;
        tastespace.clearTrouble();
        const places = new Map(map.items.map((id, position) => [id, position]));
        const near = found.items.map((one) => places.get(one.item)).filter((position) => position !== undefined);
        shown.mark([item, ...near], item);
        side.append(make("h3", { text: "Most similar" }), found.items.length ? make("ol", {}, found.items.map((one) => make("li", { dir: "auto" },
          places.has(one.item) ? make("button", { type: "button", class: "plain", text: one.title || one.item, onclick: () => { shown.goTo(places.get(one.item)); choose(places.get(one.item)); } }) : one.title || one.item,
          ` ${number(one.similarity)}`))) : make("p", { text: "Nothing is similar." }));
      } catch (error) {
        if (mine === asked && main.isConnected) tastespace.showTrouble(error, () => choose(item));
      }
    };

    const method = make("select", { onchange: (event) => { current.method = event.target.value; go(current); loadMap(); } }, options([["pca", "principal components"], ["tsne", "t-SNE"]], current.method));
    const by = make("select", { onchange: (event) => { current.colour = event.target.value; go(current); if (shown) shown.colourBy(current.colour); } });
    const user = make("input", { type: "search", value: current.user, maxlength: "200", autocomplete: "off" });
    const names = make("datalist", { id: "map-items" });
    const search = make("input", { type: "search", list: "map-items", autocomplete: "off" });
    const whereabouts = make("p", { class: "quiet", id: "whereabouts" });
    search.addEventListener("change", () => {
      if (!shown || !search.value.trim()) return;
      const sought = search.value.trim().toLowerCase();
      // An exact title first, then a prefix, then a part of it; among several the most rated one.
      const fit = (name) => (name === sought ? 2 : name.startsWith(sought) ? 1 : name.includes(sought) ? 0 : -1);
      const fits = map.items.map((_, item) => fit(shown.nameOf(item).toLowerCase()));
      const found = [...map.items.keys()].filter((item) => fits[item] >= 0).sort((a, b) => fits[b] - fits[a] || map.ratings[b] - map.ratings[a])[0];
      if (found === undefined) return say("No such title on the map."), side.replaceChildren(make("p", { text: `No item on the map is called “${search.value.trim()}”.` }));
      shown.goTo(found);
      choose(found);
    });
    const form = make("form", { class: "controls" }, labelled("By", method), labelled("Colour", by), labelled("Find an item", search), labelled("Show a user", user), make("button", { type: "submit", class: "main", text: "Show" }), names);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      current.user = user.value.trim();
      whereabouts.textContent = "";
      go(current);
      locate();
    });
    main.replaceChildren(make("h1", { text: "Taste map" }), about, form, whereabouts, make("div", { class: "beside map-and-side" }, place, side));
    await loadMap();
  }

  tastespace.views.map = { title: "Taste map", show };
})();
