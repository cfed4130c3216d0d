"use strict";
// The list of a user, by policy and filters. The URL has the whole state.
(() => {
  const { make, ask, path, cards, cardTable, labelled, options, say, later, number, count } = tastespace;
  // Name, label and description. The first is the default, and not part of the URL.
  const BY_RATING = [
    ["best", "Best guess", "By the expected rating."],
    ["cautious", "Safe", "By a lower bound of the expected rating: nothing risky."],
    ["likely", "Likely", "By the probability that the user likes it."],
    ["curious", "Exploratory", "By an upper bound of the expected rating: uncertain items have a chance."],
    ["thompson", "Random", "By one posterior draw: another list every time, good on average."],
  ];
  const BY_CHOICE = [
    ["best", "Best", "By what the user would choose and like."],
    ["cautious", "Safe", "The same, with a lower bound of the expected rating: nothing risky."],
    ["likely", "Likely", "By the probability that the user likes it, if they choose it."],
    ["curious", "Exploratory", "By choosing and liking, with an upper bound of the expected rating: uncertain items have a chance."],
    ["rating", "Rating", "By the expected rating alone, whether or not the user would choose it."],
    ["thompson", "Random", "By choosing and liking in one posterior draw: another list every time, good on average."],
  ];
  const policiesOf = (story) => (story.can.choices ? BY_CHOICE : BY_RATING);
  const ORDER = { true: "the expected rating", false: "their score" };

  // The condition for the service, from the chosen filters.
  const quoted = (text) => `"${text.replaceAll('"', '""')}"`;

  function condition(state, attributes) {
    const parts = [];
    for (const [name, about] of Object.entries(attributes)) {
      const column = quoted(name);
      if (about.values && state[`is_${name}`]) parts.push(`${column} = ${quoted(state[`is_${name}`])}`);
      if (!about.values && state[`from_${name}`]) parts.push(`${column} >= ${Number(state[`from_${name}`])}`);
      if (!about.values && state[`to_${name}`]) parts.push(`${column} <= ${Number(state[`to_${name}`])}`);
    }
    if (state.where) parts.push(parts.length ? `(${state.where})` : state.where);
    return parts.join(" and ");
  }

  function query(state, story) {
    const wanted = { n: Number(state.n) || 10, explain: true };
    if (state.user) wanted.user = state.user;
    else wanted.history = {};
    if (state.policy && story.can.uncertainty) wanted.policy = state.policy === "thompson" ? `thompson:request=${state.draw || 0}` : state.policy;
    const where = condition(state, story.attributes);
    if (where) wanted.where = where;
    if (Number(state.diversity)) wanted.diversity = Number(state.diversity);
    if (state.seen) wanted.include_seen = true;
    return wanted;
  }

  function policySwitch(state, policies, change) {
    const [current, , shown] = policies.find(([name]) => name === state.policy) || policies[0];
    const description = make("p", { class: "quiet", text: shown });
    const choices = policies.map(([name, text, words]) => make("label", {},
      make("input", {
        type: "radio", name: "policy", value: name, checked: name === current,
        onchange: () => { description.textContent = words; change({ policy: name === policies[0][0] ? "" : name }); },
      }),
      make("span", { text })));
    return make("fieldset", {}, make("legend", { text: "Policy" }), make("div", { class: "switch" }, choices), description);
  }

  function filters(state, attributes, change) {
    const controls = [];
    for (const [name, about] of Object.entries(attributes)) {
      if (about.values && about.values.length) {
        const choices = [["", "any"], ...about.values.map((value) => [value, value])];
        controls.push(labelled(name, make("select", { onchange: (event) => change({ [`is_${name}`]: event.target.value }) }, options(choices, state[`is_${name}`] || ""))));
      } else if (about.least !== undefined) {
        for (const [side, words] of [["from", "from"], ["to", "up to"]]) {
          const input = make("input", {
            type: "number", value: state[`${side}_${name}`] || "", placeholder: String(side === "from" ? about.least : about.most), step: "any",
            onchange: (event) => change({ [`${side}_${name}`]: event.target.value }),
          });
          controls.push(labelled(`${name} ${words}`, input));
        }
      }
    }
    const where = make("input", { type: "text", value: state.where || "", maxlength: "900", placeholder: "year >= 1990", spellcheck: "false", onchange: (event) => change({ where: event.target.value }) });
    controls.push(labelled("other condition", where));
    controls.push(labelled("diversity", make("select", { onchange: (event) => change({ diversity: event.target.value }) }, options([["", "none"], ["0.3", "some"], ["0.6", "much"]], state.diversity || ""))));
    controls.push(labelled("number", make("select", { onchange: (event) => change({ n: event.target.value }) }, options([["", "10"], ["20", "20"], ["50", "50"]], state.n || ""))));
    const seen = make("input", { type: "checkbox", id: "include-seen", checked: Boolean(state.seen), onchange: (event) => change({ seen: event.target.checked ? "1" : "" }) });
    controls.push(make("div", { class: "check" }, seen, make("label", { for: "include-seen", text: "include rated items" })));
    return make("div", { class: "controls" }, controls);
  }

  function userSearch(state, change) {
    const names = make("datalist", { id: "users" });
    let turn = 0;
    const suggest = later(async (text) => {
      const mine = ++turn;
      try {
        const { users } = await ask(`users?limit=20&search=${encodeURIComponent(text)}`);
        if (mine === turn) names.replaceChildren(...users.map((user) => make("option", { value: user })));
      } catch (error) {
        say(`No suggestions: ${error.message}`); // The list itself shows the error, and how to continue.
      }
    }, 150);
    const input = make("input", { type: "search", id: "user", list: "users", value: state.user || "", maxlength: "200", autocomplete: "off", placeholder: "user id", oninput: (event) => suggest(event.target.value) });
    suggest(state.user || "");
    const form = make("form", { class: "controls" }, labelled("User", input), make("button", { type: "submit", class: "main", text: "Show" }), names);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      change({ user: input.value.trim() });
    });
    return form;
  }

  // Ratings of the user, a page at a time: there may be thousands.
  function history(user) {
    const rows = make("tbody");
    const more = make("button", { type: "button", text: "More" });
    const words = make("p", { class: "quiet" });
    let offset = 0;
    const load = async () => {
      more.disabled = true;
      try {
        const found = await ask(`${path("users", user, "ratings")}?limit=100&offset=${offset}`);
        offset += found.ratings.length;
        rows.append(...found.ratings.map((one) => make("tr", {}, make("th", { scope: "row", dir: "auto", text: one.title || one.item }), make("td", { text: number(one.rating, 1) }))));
        words.textContent = found.total ? `${count(offset)} of ${count(found.total)} ratings, newest first` : "No ratings yet.";
        more.hidden = offset >= found.total;
      } catch (error) {
        tastespace.showTrouble(error, load);
      }
      more.disabled = false;
    };
    more.addEventListener("click", load);
    const details = make("details", {}, make("summary", { text: `Ratings of ${user}` }), words,
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Ratings of ${user}` }, make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col", text: "item" }), make("th", { scope: "col", text: "rating" }))), rows)), more);
    details.addEventListener("toggle", () => details.open && !offset && load(), { once: true });
    return details;
  }

  function similar(entry) {
    const place = make("p", { class: "why" });
    const button = make("button", { type: "button", class: "plain", text: "Similar", "aria-label": `Similar to ${entry.title || entry.item}` });
    button.addEventListener("click", async () => {
      try {
        const found = await ask(`${path("items", entry.item, "similar")}?n=5`);
        tastespace.clearTrouble();
        place.textContent = found.items.length ? `Similar: ${found.items.map((one) => one.title || one.item).join("; ")}` : "Nothing is similar.";
      } catch (error) {
        tastespace.showTrouble(error);
      }
    });
    return make("div", {}, button, place);
  }

  async function show(main, state, go) {
    const story = await tastespace.story.outline();
    const list = make("section", { "aria-label": "List" });
    let before = null;
    let asked = new AbortController();
    const current = { ...state };
    if (current.policy === "mean") current.policy = story.can.choices ? "rating" : "";  // of older links

    const load = async () => {
      asked.abort();
      const mine = (asked = new AbortController());
      list.setAttribute("aria-busy", "true");
      try {
        const found = await ask("recommendations", { method: "POST", body: query(current, story), signal: mine.signal });
        if (mine !== asked || !main.isConnected) return;
        tastespace.clearTrouble();
        if (found.model !== story.version) tastespace.story.forget();
        render(found);
      } catch (error) {
        if (mine !== asked || !main.isConnected) return;
        tastespace.showTrouble(error, load);
        if (error.status >= 400 && error.status < 500) list.replaceChildren(make("p", { class: "quiet", text: "No list for this request: change the settings." }));
      } finally {
        if (mine === asked) list.removeAttribute("aria-busy");
      }
    };

    const render = (found) => {
      const n = Number(current.n) || 10;
      const changed = before ? found.items.filter((entry) => !before.has(entry.item)).length : 0;
      const words = [
        found.cold ? (current.user ? `${current.user} has no ratings yet: this is the default list.` : "The default list, for users without ratings.") : "",
        found.items.length ? "" : "No item matches: relax the filters.",
        before && found.items.length ? (changed ? `${changed} of ${found.items.length} are new in the list.` : "The same items as before.") : "",
      ].filter(Boolean);
      say(`${found.items.length} recommendations. ${words.join(" ")}`);
      const whose = current.user ? "the ratings" : "past ratings";
      list.replaceChildren(
        make("h2", { text: current.user ? `For ${current.user}` : "Default list", dir: "auto" }),
        make("p", { class: "quiet", id: "summary", text: words.join(" ") }),
        ...found.remarks.map((remark) => make("p", { class: "note", text: remark })),
        tastespace.cards(found.items, { range: tastespace.scaleOf(story), n, before, foundBy: found.found_by, whose, isChoice: story.takes_choices, liking: found, actions: story.can.map ? similar : null }),
        cardTable(found.items, "The same list", tastespace.scaleOf(story)));
      before = new Map(found.items.map((entry) => [entry.item, entry.rank]));
    };

    const change = (what) => {
      if (what.user !== undefined && what.user !== (current.user || "")) before = null;
      Object.assign(current, what);
      if (current.policy === "thompson" && (what.policy || what.user !== undefined)) current.draw = Math.floor(Math.random() * 1e6);
      go(current);
      if (what.user !== undefined) rated.replaceChildren(...(current.user ? [history(current.user)] : []));
      load();
    };

    const rated = make("div", {}, current.user ? history(current.user) : null);
    main.replaceChildren(
      make("h1", { text: "Recommendations" }),
      make("p", { class: "quiet", text: story.takes_choices ? "Bars show the score: dark is its uncertainty, light holds 90 % of outcomes." : "Bars show the expected rating: dark is its uncertainty, light holds 90 % of ratings." }),
      userSearch(current, change),
      story.can.uncertainty ? policySwitch(current, policiesOf(story), change) : make("p", { class: "quiet", text: `${story.class} provides no uncertainty: lists are ordered by ${ORDER[story.scores_are_ratings]}.` }),
      filters(current, story.attributes, change),
      rated,
      list);
    await load();
  }

  tastespace.views = { recommendations: { title: "Recommendations", show } };
  tastespace.condition = condition;
})();
