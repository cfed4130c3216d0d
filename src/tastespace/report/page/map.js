"use strict";
// The taste map: places of items, what one person thinks of them, and what is similar to what.
(() => {
  const { make, icon, draw, ask, path, count, number, percent, stars, things, thing, titleOf, about, scaleOf, ratingOf, likedLine, segments, tasteCanvas, say, later } = tastespace;
  const PATIENCE = 10 * 60 * 1000; // the first map may take a while
  const RECOMMENDED = 8;
  const KINDS = { liked: "liked", disliked: "disliked", between: "in between", recommended: "recommended" };

  // The sign of a kind, as it is on the map.
  function sign(kind) {
    const shapes = {
      liked: draw("circle", { cx: 8, cy: 8, r: 5.5, fill: "var(--accent)" }), disliked: draw("path", { d: "M8 1.5L14.500 8 8 14.500 1.500 8z", fill: "var(--warm)" }),
      between: draw("circle", { cx: 8, cy: 8, r: 4.5, fill: "none", stroke: "var(--quiet)", "stroke-width": 1.6 }),
      recommended: draw("g", {}, draw("circle", { cx: 8, cy: 8, r: 6.5, fill: "none", stroke: "var(--accent)", "stroke-width": 1.8 }), draw("circle", { cx: 8, cy: 8, r: 2.5, fill: "var(--accent)" })),
    };
    return draw("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" }, shapes[kind]);
  }

  async function show(main, state, go) {
    const story = await tastespace.story.outline();
    if (!story.can.map) {
      main.replaceChildren(make("div", { class: "no-map" }, make("h1", { text: "Taste map" }), make("p", { class: "quiet", text: `${story.class} has no taste space, so there is no map. A model with factors, such as bpmf, has one.` })));
      return;
    }
    const scale = scaleOf(story);
    let method = state.method === "pca" ? "pca" : "tsne";
    const sea = make("div", { class: "sea" });
    const card = make("section", { class: "panel pinned", "aria-label": "Chosen item", hidden: true });
    const facts = make("p", { class: "quiet small map-facts" });
    const legend = make("ul", { class: state.user ? "kinds for-one" : "kinds" });
    const likes = make("p", { class: "small", id: "whereabouts" });
    const high = make("div", { class: "filter", role: "group", "aria-label": "Highlight" });
    const least = make("div", { class: "filter" });
    const values = make("div", { class: "values" });
    let [map, shown, place, person] = [null, null, new Map(), null];
    let [turn, asked, sought] = [0, 0, 0];
    let loading = new AbortController();

    const loadMap = async () => {
      const mine = ++turn;
      (asked++, sought++);
      loading.abort();
      const stop = (loading = new AbortController());
      shown = null;
      card.hidden = true;
      sea.replaceChildren(make("p", { class: "waiting quiet", text: "Drawing the map; the first time takes a minute." }));
      try {
        const waiting = () => main.isConnected || stop.abort();
        const got = await ask(`map?method=${method}`, { patience: PATIENCE, waiting, signal: stop.signal });
        if (mine !== turn || !main.isConnected) return;
        map = got;
        tastespace.clearTrouble();
      } catch (error) {
        if (mine !== turn || !main.isConnected) return;
        sea.replaceChildren(make("p", { class: "waiting quiet", text: "There is no map." }));
        // Without the library for neighbours the main directions are there all the same.
        if (error.status === 501 && method === "tsne") return (method = "pca"), loadMap();
        return tastespace.showTrouble(error, loadMap);
      }
      place = new Map(map.items.map((id, position) => [id, position]));
      shown = tasteCanvas(map, { pick, label: `Map of ${count(map.x.length)} ${things(story)}. Arrow keys go from one to the next, Enter opens it, plus and minus zoom.` });
      shown.moved = () => putCard();
      sea.replaceChildren(shown.element, card);
      values.replaceChildren(shown.values);
      const some = map.min_ratings > 1 ? `${count(map.x.length)} ${things(story)} rated ${map.min_ratings} times or more.` : `${count(map.x.length)} ${things(story)}.`;
      facts.textContent = `${some} ${method === "tsne" ? "Close together: liked by the same people." : `The two main directions, ${percent(map.explained)} of the differences.`}`;
      drawHighlights();
      drawLeast();
      await drawPerson();
      if (state.item && place.has(state.item)) shown.choose(place.get(state.item));
    };

    const drawHighlights = () => {
      const [name, about] = Object.entries(map.attributes).find(([, one]) => one.values && one.of) || [];
      high.hidden = !about;
      if (!about) return;
      const chosen = new Set([state.is || []].flat());
      const apply = () => {
        const list = [...chosen];
        shown.highlight(list.map((value) => [about, about.values.indexOf(value)]));
        chips.forEach((chip) => {
          const at = list.indexOf(chip.textContent);
          chip.setAttribute("aria-pressed", String(at >= 0));
          chip.style.background = at >= 0 ? shown.paintOf(at) : "";
          chip.style.borderColor = at >= 0 ? shown.paintOf(at) : "";
        });
      };
      const chips = about.values.filter((value) => !/^\(.*\)$/.test(value)).map((value, at) => make("button", { type: "button", class: "chip", "aria-pressed": "false", dir: "auto", hidden: at >= 4 && !chosen.has(value), text: value, onclick: () => {
        if (!chosen.delete(value)) chosen.add(value);
        if (chosen.size > 3) chosen.delete([...chosen][0]);
        state.is = [...chosen];
        go(state);
        apply();
      } }));
      const more = chips.filter((chip) => chip.hidden).length;
      const button = more ? make("button", { type: "button", class: "chip dashed", text: `${more} more`, onclick: () => { const first = chips.find((chip) => chip.hidden); chips.forEach((chip) => (chip.hidden = false)); button.remove(); first.focus(); } }) : null;
      high.replaceChildren(make("p", { class: "label", text: `Highlight ${name}` }), make("div", { class: "chips" }, chips, button));
      apply();
    };

    const drawLeast = () => {
      const most = Math.max(map.min_ratings + 1, [...map.ratings].sort((a, b) => b - a)[Math.min(map.ratings.length - 1, 40)]);
      const words = make("b");
      const slide = make("input", { type: "range", min: String(map.min_ratings), max: String(most), value: String(Math.max(map.min_ratings, Number(state.least) || 0)), "aria-label": "Rated at least" });
      const apply = () => {
        words.textContent = `${slide.value} ${slide.value === "1" ? "time" : "times"}`;
        shown?.minRatings(Number(slide.value));
      };
      slide.addEventListener("input", apply);
      slide.addEventListener("change", () => { state.least = Number(slide.value) > map.min_ratings ? slide.value : ""; go(state); });
      least.replaceChildren(make("p", { class: "label" }, make("span", { text: "Rated at least" }), words), slide);
      apply();
    };

    // What one person rated and would be recommended, by position.
    const drawPerson = async () => {
      const mine = ++sought;
      legend.replaceChildren();
      legend.classList.toggle("for-one", Boolean(state.user));
      likes.textContent = "";
      person = null;
      shown?.mark(new Map());
      shown?.show(null);
      if (!shown || !state.user) return;
      const whose = state.user;
      try {
        const [said, found, at] = await Promise.all([
          ask(`${path("users", whose, "ratings")}?limit=1000`),
          ask("recommendations", { method: "POST", body: { user: whose, n: RECOMMENDED, only: map.items.length <= 10_000 ? map.items : undefined } }),
          method === "pca" ? ask("place", { method: "POST", body: { user: whose, method }, patience: PATIENCE }) : null,
        ]);
        if (mine !== sought || !main.isConnected || !shown) return;
        if (found.model !== map.model) return loadMap(); // Another version answers now, with another map.
        tastespace.clearTrouble();
        const from = typeof found.liked_from === "number" ? found.liked_from : (scale.low + 2 * scale.high) / 3;
        const middle = (scale.low + scale.high) / 2;
        const kindOf = (rating) => (story.takes_choices || rating >= from ? "liked" : rating < middle ? "disliked" : "between");
        const kinds = new Map();
        for (const one of said.ratings) if (place.has(one.item)) kinds.set(place.get(one.item), kindOf(one.rating));
        for (const one of found.items) if (place.has(one.item)) kinds.set(place.get(one.item), "recommended");
        person = { found };
        shown.mark(kinds);
        shown.show(at);
        const up = (value) => Math.ceil((value - scale.low) / scale.step - 1e-6) * scale.step + scale.low;
        const explained = { liked: story.takes_choices ? "chosen" : `liked (${stars(up(from))} ${scale.unit} or more)`, disliked: `disliked (${stars(up(middle) - scale.step)} or fewer)`, between: "in between", recommended: "recommended" };
        const all = said.ratings.map((one) => kindOf(one.rating));
        legend.replaceChildren(...Object.keys(KINDS).map((kind) => [kind, kind === "recommended" ? found.items.length : all.filter((one) => one === kind).length]).filter(([kind, n]) => n || (kind !== "between" && !story.takes_choices)).map(([kind, n]) => make("li", {}, sign(kind), make("span", { text: explained[kind] }), make("b", { text: count(n) }))));
        const liked = [...kinds].filter(([, kind]) => kind === "liked").map(([item]) => item);
        const words = [];
        if (shown.clusters && liked.length >= 5) {
          const inside = new Map();
          for (const item of liked) inside.set(shown.clusters.of[item], (inside.get(shown.clusters.of[item]) || 0) + 1);
          const named = [...inside].filter(([c]) => shown.names[c]).sort((a, b) => b[1] - a[1]).slice(0, 2);
          if (named.length) words.push(`${percent(named[0][1] / liked.length)} of the likes are in `, make("b", { text: shown.names[named[0][0]] }));
          if (named.length > 1) words.push(`, ${percent(named[1][1] / liked.length)} in `, make("b", { text: shown.names[named[1][0]] }));
          if (named.length) words.push(".");
        }
        if (found.cold) words.push(`${whose} has no ratings yet: recommended is what suits anybody.`);
        if (at?.draws) words.push(" The ellipse holds the person’s place with a probability of 90 %.");
        likes.replaceChildren(...words);
        say(`${liked.length} liked.`);
      } catch (error) {
        if (mine === sought && main.isConnected) tastespace.showTrouble(error, drawPerson);
      }
    };

    // The chosen item, beside its point.
    const pick = async (item) => {
      const mine = ++asked;
      state.item = item < 0 ? "" : map.items[item];
      go(state);
      card.hidden = item < 0;
      if (item < 0) return;
      const close = make("button", { type: "button", class: "icon-button close bare", "aria-label": "Close", onclick: () => unpin() }, icon("close"));
      const head = make("h2", { dir: "auto", tabindex: "-1", text: shown.nameOf(item) });
      const entry = { item: map.items[item], title: map.titles && map.titles[item], attributes: Object.fromEntries(Object.entries(map.attributes).map(([name, one]) => [name, one.numbers ? one.numbers[item] : one.of[item].map((value) => one.values[value])])) };
      const meta = make("p", { class: "meta", dir: "auto", text: [about(entry, story.images), `${count(map.ratings[item])} ratings`].filter(Boolean).join(" · ") });
      card.replaceChildren(close, head, meta);
      putCard();
      head.focus({ preventScroll: true });
      try {
        const [near, mineOf] = await Promise.all([
          ask(`${path("items", map.items[item], "similar")}?n=5`),
          state.user ? ask("recommendations", { method: "POST", body: { user: state.user, only: [map.items[item]], include_seen: true, n: 1 } }) : null,
        ]);
        if (mine !== asked || !main.isConnected || !shown) return;
        tastespace.clearTrouble();
        const own = mineOf?.items[0];
        shown.link(near.items.map((one) => place.get(one.item)).filter((at) => at !== undefined));
        const goTo = (one) => () => { shown.goTo(place.get(one.item)); shown.choose(place.get(one.item)); };
        card.append(...[own ? ratingOf(own, story) : null, own ? likedLine(own, mineOf.liked_from, story) : null, make("h3", { class: "quiet small", text: "Most like it" }),
          make("ul", { class: "pairs" }, near.items.map((one) => make("li", {}, place.has(one.item) ? make("button", { type: "button", class: "plain accent", dir: "auto", text: titleOf(one), onclick: goTo(one) }) : make("span", { dir: "auto", text: titleOf(one) }), make("span", { class: "quiet", text: number(one.similarity) }))))].filter(Boolean));
        putCard();
      } catch (error) {
        if (mine === asked && main.isConnected) tastespace.showTrouble(error, () => pick(item));
      }
    };
    const unpin = () => {
      shown.choose(-1);
      shown.element.querySelector("canvas").focus();
    };
    const putCard = () => {
      if (card.hidden || !shown || !state.item) return;
      const [x, y] = shown.where(place.get(state.item));
      const [width, height] = shown.size();
      card.style.left = `${Math.max(8, Math.min(width - card.offsetWidth - 8, x + 18 + card.offsetWidth > width ? x - card.offsetWidth - 18 : x + 18))}px`;
      card.style.top = `${Math.max(8, Math.min(height - card.offsetHeight - 8, y - 40))}px`;
    };
    const onKey = (event) => {
      if (!main.isConnected) return document.removeEventListener("keydown", onKey);
      if (event.key === "Escape" && !card.hidden) unpin();
    };
    document.addEventListener("keydown", onKey);

    // An exact title first, then a beginning, then a part of it; among several the most rated.
    const findItems = (text) => {
      const words = text.trim().toLowerCase();
      if (!map || !words) return [];
      const fit = (name) => (name === words ? 3 : name.startsWith(words) ? 2 : name.includes(words) ? 1 : 0);
      const fits = map.items.map((_, item) => Math.max(fit(shown.nameOf(item).toLowerCase()), fit(String((map.titles && map.titles[item]) || "").toLowerCase())));
      return [...map.items.keys()].filter((item) => fits[item]).sort((a, b) => fits[b] - fits[a] || map.ratings[b] - map.ratings[a]).slice(0, 6);
    };
    const hits = make("ul", { class: "options" });
    const search = make("input", { type: "search", "data-search": "1", autocomplete: "off", placeholder: `Find ${tastespace.aThing(story)}`, "aria-label": `Find ${tastespace.aThing(story)}` });
    const take = (item) => {
      hits.replaceChildren();
      search.value = "";
      if (item === undefined) return say(`No ${thing(story)} on the map has such a title.`);
      shown.goTo(item);
      shown.choose(item);
    };
    search.addEventListener("input", later(() => hits.replaceChildren(...findItems(search.value).map((item) => make("li", {}, make("button", { type: "button", class: "plain", dir: "auto", text: shown.nameOf(item), onclick: () => take(item) })))), 120));
    const find = make("form", { class: "find" }, make("div", { class: "field" }, icon("search"), search, make("kbd", { text: "/" })), hits);
    find.addEventListener("submit", (event) => {
      event.preventDefault();
      if (shown && search.value.trim()) take(findItems(search.value)[0]);
    });
    const who = make("input", { type: "search", value: state.user || "", maxlength: "200", autocomplete: "off", spellcheck: "false", placeholder: "id of a user", list: "map-users" });
    const users = make("datalist", { id: "map-users" });
    who.addEventListener("input", later(async () => {
      try {
        users.replaceChildren(...(await ask(`users?limit=12&search=${encodeURIComponent(who.value.trim())}`)).users.map((user) => make("option", { value: user })));
      } catch {
        // There are no suggestions; the map says what is wrong.
      }
    }, 150));
    const whose = make("form", {}, tastespace.labelled("Whose taste", who), users);
    const setUser = () => {
      if ((state.user || "") === who.value.trim()) return;
      state.user = who.value.trim();
      go(state);
      drawPerson();
    };
    whose.addEventListener("submit", (event) => (event.preventDefault(), setUser()));
    who.addEventListener("change", setUser);
    const arrange = make("div", { class: "filter" }, make("p", { class: "label", text: "Arrange by" }), segments("method", "Arrange by", [["tsne", "Neighbours"], ["pca", "Main directions"]], method, (wanted) => {
      method = state.method = wanted;
      go(state);
      loadMap();
    }));
    main.classList.add("map-view");
    main.replaceChildren(make("div", { class: "map-side" }, make("h1", { text: "Taste map" }), facts, find, whose, legend, likes, high, arrange, least, values), sea);
    await loadMap();
  }

  tastespace.views.map = { show };
})();
