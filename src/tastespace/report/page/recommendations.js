"use strict";
// The list of a user, what is popular now, filters and details. The address has the whole state.
(() => {
  const { make, icon, ask, path, count, counted, number, percent, date, stars, things, thing, titleOf, scaleOf, row, skeleton, listTable, details, segments, later, local, say } = tastespace;
  const [SHORT, LONG, POPULAR] = [12, 60, 40]; // entries of a row, of "See all", and most rated items that are looked at
  const WAIT = 150; // milliseconds before shapes of cards are drawn
  const MIN_RATINGS = 5; // of an item in the order that is shown first
  const DISMISSED = "tastespace-dismissed"; // items that a person does not want to see, in this browser only
  const POLICIES = [["cautious", "Safe bets"], ["best", "Best"], ["curious", "Discover"]];
  const OLDER = { likely: "best", thompson: "curious", mean: "best", rating: "best" }; // names in addresses of earlier releases
  const policyWords = (story) => ({
    cautious: "Safe bets: high even if we are wrong about you.",
    best: story.can.choices ? "Best: what you would choose and like." : story.scores_are_ratings ? "Best: the highest expected ratings first." : "Best: the highest scores first.",
    curious: `Discover: room for ${things(story)} we know little about.`,
  });

  // The condition for the service, from the chosen filters; one of them may be left out.
  const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
  const listed = (value) => (value === undefined || value === "" ? [] : [value].flat());

  function conditions(state, attributes) {
    const found = [];
    for (const [name, about] of Object.entries(attributes)) {
      const column = quoted(name);
      const chosen = listed(state[`is_${name}`]);
      if (about.values && chosen.length) found.push([name, `(${chosen.map((value) => `${column} = ${quoted(value)}`).join(" or ")})`]);
      const ends = about.values ? [] : [["from", ">="], ["to", "<="]].filter(([side]) => state[`${side}_${name}`]).map(([side, sign]) => `${column} ${sign} ${Number(state[`${side}_${name}`])}`);
      if (ends.length) found.push([name, ends.join(" and ")]);
    }
    if (state.where) found.push(["condition", `(${state.where})`]);
    return found;
  }
  const condition = (state, attributes, without) => conditions(state, attributes).filter(([name]) => name !== without).map(([, text]) => text).join(" and ");

  const dismissedBy = (user) => {
    try {
      return (JSON.parse(local.get(DISMISSED)) || {})[user || ""] || [];
    } catch {
      return [];
    }
  };
  const setDismissed = (user, items) => {
    let all = {};
    try {
      all = JSON.parse(local.get(DISMISSED)) || {};
    } catch {
      // Nothing readable: it starts empty.
    }
    local.set(DISMISSED, JSON.stringify({ ...all, [user || ""]: items.slice(-500) }));
  };

  const policyOf = (state, story) => {
    const named = OLDER[state.policy] || state.policy || "best";
    return !story.can.uncertainty ? "best" : POLICIES.some(([name]) => name === named) ? named : "best";
  };
  const diversityOf = (state, story) => (state.variety !== undefined ? Number(state.variety) : policyOf(state, story) === "curious" ? 0.5 : 0);

  // The question for the service.
  function question(state, story, n) {
    const policy = policyOf(state, story);
    const wanted = { n, explain: true, policy: { cautious: "cautious:c=3", best: "best", curious: "curious:c=2" }[policy] };
    if (state.user) wanted.user = state.user;
    else wanted.history = {};
    if (policy === "best" && !state.seen && story.has_ratings) wanted.rules = [`min-ratings:n=${MIN_RATINGS}`];
    const where = condition(state, story.attributes);
    if (where) wanted.where = where;
    if (diversityOf(state, story)) wanted.diversity = diversityOf(state, story);
    if (Number(state.known)) wanted.popularity_damping = Number(state.known);
    if (state.seen) wanted.include_seen = true;
    const hidden = dismissedBy(state.user);
    if (hidden.length && !state.dismissed) wanted.exclude = hidden;
    return wanted;
  }
  const remarksOf = (found) => found.remarks.filter((remark) => !remark.startsWith(`min-ratings:n=${MIN_RATINGS}`));

  // A menu with a search for people, as the button that it hangs on says whose list is shown.
  function userMenu(state, change) {
    const label = () => (state.user ? `user ${state.user}` : "anybody");
    const name = make("span", { dir: "auto", text: label() });
    const button = make("button", { type: "button", class: "pick", "aria-haspopup": "dialog", "aria-expanded": "false", "aria-label": `For ${label()}. Choose somebody else` }, name, icon("down"));
    const list = make("ul", { class: "options" });
    const input = make("input", { type: "search", maxlength: "200", autocomplete: "off", spellcheck: "false", placeholder: "id of a user", "aria-label": "Find a user" });
    const form = make("form", {}, input, list);
    const menu = make("div", { class: "menu", role: "dialog", "aria-label": "Choose a user", hidden: true }, form);
    const close = (back) => {
      menu.hidden = true;
      button.setAttribute("aria-expanded", "false");
      if (back) button.focus();
    };
    const pick = (user) => {
      close(true);
      change({ user, item: "", panel: "" });
      name.textContent = label();
      button.setAttribute("aria-label", `For ${label()}. Choose somebody else`);
    };
    let turn = 0;
    const find = async (text) => {
      const mine = ++turn;
      try {
        const { users } = await ask(`users?limit=8&search=${encodeURIComponent(text)}`);
        if (mine !== turn) return;
        const choices = [...users.map((user) => [user, user]), ...(text ? [] : [["", "anybody: the list of a new person"]])];
        list.replaceChildren(...choices.map(([user, words]) => make("li", {}, make("button", { type: "button", class: "plain", dir: "auto", text: words, onclick: () => pick(user) }))));
        if (!choices.length) list.replaceChildren(make("li", { class: "quiet", text: "Nobody has such an id. Enter shows the list of a new person." }));
      } catch (error) {
        if (mine === turn) list.replaceChildren(make("li", { class: "quiet", text: error.message }));
      }
    };
    input.addEventListener("input", later(() => find(input.value.trim()), 150));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      pick(input.value.trim());
    });
    menu.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") event.stopPropagation(), close(true);
      if (!step) return;
      const stops = [input, ...list.querySelectorAll("button")];
      stops[Math.max(0, Math.min(stops.length - 1, stops.indexOf(document.activeElement) + step))].focus();
      event.preventDefault();
    });
    menu.addEventListener("focusout", (event) => event.relatedTarget && !menu.contains(event.relatedTarget) && event.relatedTarget !== button && close(false));
    const open = () => {
      menu.hidden = false;
      button.setAttribute("aria-expanded", "true");
      input.value = "";
      input.focus();
      find("");
    };
    button.addEventListener("click", () => (menu.hidden ? open() : close(true)));
    return make("div", { class: "picker" }, button, menu);
  }

  // Two thumbs on one line, for the range of a number.
  function rangeOf(name, about, state, change) {
    const [low, high] = [Math.floor(about.least), Math.ceil(about.most)];
    const words = make("b");
    const ends = ["from", "to"].map((side) => make("input", { type: "range", min: String(low), max: String(high), step: high - low > 4 ? "1" : "any", value: String(state[`${side}_${name}`] || (side === "from" ? low : high)), "aria-label": `${name} ${side === "from" ? "from" : "up to"}` }));
    const tell = () => {
      const [from, to] = ends.map((end) => Number(end.value));
      words.textContent = `${from} – ${to}`;
      track.style.setProperty("--from", `${(100 * (from - low)) / (high - low || 1)}%`);
      track.style.setProperty("--to", `${(100 * (to - low)) / (high - low || 1)}%`);
    };
    const track = make("div", { class: "range" }, ends);
    ends.forEach((end, place) => {
      end.addEventListener("input", () => {
        if (Number(ends[0].value) > Number(ends[1].value)) end.value = ends[1 - place].value;
        tell();
      });
      // Keys change it many times a second; the last value counts.
      end.addEventListener("change", later(() => change({ [`${place ? "to" : "from"}_${name}`]: Number(end.value) === (place ? high : low) ? "" : end.value }), 250));
    });
    tell();
    return make("div", { class: "filter" }, make("p", { class: "label" }, make("span", { text: name }), words), track);
  }

  function chipsOf(name, values, state, change) {
    const FIRST = 6;
    const chips = values.map((value, place) => make("button", {
      type: "button", class: "chip", "aria-pressed": String(listed(state[`is_${name}`]).includes(value)), hidden: place >= FIRST && !listed(state[`is_${name}`]).includes(value), dir: "auto", text: value,
      onclick: (event) => {
        const has = new Set(listed(state[`is_${name}`]));
        if (!has.delete(value)) has.add(value);
        event.currentTarget.setAttribute("aria-pressed", String(has.has(value)));
        change({ [`is_${name}`]: [...has] });
      },
    }));
    const more = values.length > FIRST ? make("button", { type: "button", class: "chip dashed", text: `${values.length - FIRST} more`, onclick: () => { chips.forEach((chip) => (chip.hidden = false)); more.remove(); chips[FIRST].focus(); } }) : null;
    return make("div", { class: "filter", role: "group", "aria-label": name }, make("p", { class: "label", text: name }), make("div", { class: "chips" }, chips, more));
  }

  const FILTERS = (story) => [...Object.keys(story.attributes).flatMap((name) => [`is_${name}`, `from_${name}`, `to_${name}`]), "where", "variety", "known", "seen", "dismissed"];
  const activeFilters = (state, story) => conditions(state, story.attributes).length + ["variety", "known", "seen", "dismissed"].filter((name) => state[name] !== undefined && state[name] !== "").length;

  function filterPanel(state, story, change, fits) {
    const parts = [];
    for (const [name, about] of Object.entries(story.attributes)) {
      if (name === story.images) continue;
      const values = (about.values || []).filter((value) => !/^\(.*\)$/.test(value));
      if (values.length > 1) parts.push(chipsOf(name, values, state, change));
      else if (about.least !== undefined && about.most > about.least) parts.push(rangeOf(name, about, state, change));
    }
    const choice = (name, label, choices, value) => make("div", { class: "filter" }, make("p", { class: "label", text: label }), segments(name, label, choices, value, (chosen) => change({ [name]: chosen })));
    parts.push(choice("variety", "Variety in the list", [["0", "Off"], ["0.5", "Some"], ["0.8", "Much"]], String(diversityOf(state, story))));
    parts.push(choice("known", "How well known", [["", "Any"], ["0.5", "Less"], ["2", "Little"]], state.known || ""));
    const box = (name, text, checked, changed) => make("label", { class: "check" }, make("input", { type: "checkbox", name, checked, onchange: (event) => changed(event.target.checked) }), make("span", { text }));
    parts.push(box("seen", "Also what was rated", Boolean(state.seen), (on) => change({ seen: on ? "1" : "" })));
    const hidden = dismissedBy(state.user).length;
    if (hidden) parts.push(box("hide", `Hide what I dismissed (${hidden})`, !state.dismissed, (on) => change({ dismissed: on ? "" : "shown" })));
    const where = make("input", { type: "text", value: state.where || "", maxlength: "900", placeholder: "ratings >= 20", spellcheck: "false", "aria-label": "Condition", onchange: (event) => change({ where: event.target.value.trim() }) });
    parts.push(make("details", { open: Boolean(state.where) }, make("summary", { text: "Write a condition" }), where, make("p", { class: "caption", text: `About ${[...Object.keys(story.attributes), "title", "ratings"].join(", ")}; with and, or, not.` })));
    return make("section", { class: "panel filters", id: "filters", "aria-label": "Filters" },
      make("div", { class: "panel-head" }, make("h2", { text: "Filters" }), make("button", { type: "button", class: "plain", text: "Reset", onclick: () => change(Object.fromEntries(FILTERS(story).map((name) => [name, ""])), true) }),
        make("button", { type: "button", class: "icon-button", "aria-label": "Close the filters", onclick: () => change({ filters: "" }) }, icon("close"))),
      parts, fits);
  }

  // What a person has rated, a page at a time: there may be thousands.
  function history(user, story) {
    const rows = make("ul", { class: "pairs" });
    const more = make("button", { type: "button", text: "More", hidden: true });
    const words = make("p", { class: "quiet", text: "…" });
    const scale = scaleOf(story);
    let offset = 0;
    const load = async () => {
      more.disabled = true;
      try {
        const found = await ask(`${path("users", user, "ratings")}?limit=100&offset=${offset}`);
        offset += found.ratings.length;
        const given = (one) => [scale.isRating ? stars(one.rating) + (scale.hasStars ? " ★" : "") : "chosen", one.at ? date(one.at) : ""].filter(Boolean).join(" · ");
        rows.append(...found.ratings.map((one) => make("li", {}, make("span", { dir: "auto", text: titleOf(one) }), make("span", { class: "quiet", text: given(one) }))));
        words.textContent = found.total ? `${count(offset)} of ${count(found.total)}, newest first` : "Nothing yet.";
        more.hidden = offset >= found.total;
      } catch (error) {
        tastespace.showTrouble(error, load);
      }
      more.disabled = false;
    };
    more.addEventListener("click", load);
    load();
    return [make("h2", { tabindex: "-1", text: "What this user rated" }), words, rows, more];
  }

  async function show(main, state, go) {
    const body = () => question(state, story, state.all ? LONG : SHORT);
    const place = make("div", { class: "stage" });
    const list = make("section", { class: "list", "aria-label": "Picked for you" });
    const popular = make("section", { class: "list", "aria-label": "Popular now" });
    const arrived = make("section", { class: "list", "aria-label": "New arrivals" });
    const side = make("aside", { class: "panel details", "aria-label": "Details", hidden: true });
    const left = make("div", { class: "left", hidden: true });
    const fits = make("p", { class: "fits" });
    const known = make("p", { class: "known" });
    const words = make("p", { class: "policy-words" });
    const controls = make("div", { class: "right" });
    let found = null;
    let story = null;
    let returnTo = null;
    let at = null;
    let asked = new AbortController();

    const head = (title, quiet, more, rowOf) => {
      const scroll = (step) => () => rowOf()?.scrollBy({ left: step * rowOf().clientWidth, behavior: "smooth" });
      return make("div", { class: "list-head" }, make("h2", { text: title }), make("p", { class: "quiet", text: quiet }), more,
        rowOf ? make("span", { class: "steps" }, ["left", "right"].map((name) => make("button", { type: "button", class: "icon-button", "aria-label": name === "left" ? `Earlier in ${title}` : `Further in ${title}`, onclick: scroll(name === "left" ? -1 : 1) }, icon(name)))) : null);
    };

    const acts = {
      open: (entry) => openItem(entry.item),
      similar: (entry) => openItem(entry.item, true),
      dismiss: (entry, element) => {
        setDismissed(state.user, [...dismissedBy(state.user).filter((item) => item !== entry.item), entry.item]);
        const undo = make("button", { type: "button", text: "Undo", onclick: () => {
          setDismissed(state.user, dismissedBy(state.user).filter((item) => item !== entry.item));
          gone.replaceWith(element);
          element.querySelector("button").focus();
          drawFilters();
        } });
        const gone = make("div", { class: "card gone" }, make("p", {}, "You will not see ", make("b", { dir: "auto", text: titleOf(entry) }), " again."), undo, make("p", { class: "caption", text: "Kept in this browser only." }));
        element.replaceWith(gone);
        undo.focus();
        say(`You will not see ${titleOf(entry)} again.`);
        drawFilters();
      },
    };

    // One item on the right; on a phone it covers the page.
    const openItem = async (item, atSimilar = false) => {
      if (!side.contains(document.activeElement)) returnTo = document.activeElement;
      state.item = item;
      state.panel = "";
      go(state);
      side.hidden = false;
      place.classList.add("with-details");
      const known = found?.items.find((entry) => entry.item === item);
      const drawn = (entry, about) => {
        side.replaceChildren(make("button", { type: "button", class: "icon-button close", "aria-label": "Close the details", onclick: closeSide }, icon("close")), ...details(entry, { story, found: about, open: (one) => openItem(one.item) }));
        side.setAttribute("aria-label", `Details of ${titleOf(entry)}`);
        for (const marked of main.querySelectorAll(".card.open")) marked.classList.remove("open");
        main.querySelector(`.card[data-item="${CSS.escape(item)}"]`)?.classList.add("open");
        const target = atSimilar ? side.querySelector("#similar") : side.querySelector("h2");
        if (target) target.tabIndex = -1, target.focus({ preventScroll: !atSimilar });
      };
      if (known) return drawn(known, found);
      try {
        const about = await ask("recommendations", { method: "POST", body: { ...(state.user ? { user: state.user } : { history: {} }), only: [item], include_seen: true, explain: true, n: 1 } });
        if (state.item === item && about.items.length) drawn(about.items[0], about);
      } catch (error) {
        tastespace.showTrouble(error, () => openItem(item));
      }
    };

    const closeSide = () => {
      side.hidden = true;
      place.classList.remove("with-details");
      for (const marked of main.querySelectorAll(".card.open")) marked.classList.remove("open");
      state.item = state.panel = "";
      go(state);
      (returnTo?.isConnected ? returnTo : main.querySelector(".card button"))?.focus();
    };

    const openHistory = () => {
      returnTo = document.activeElement;
      state.item = "";
      state.panel = "rated";
      go(state);
      side.hidden = false;
      side.setAttribute("aria-label", "What this user rated");
      place.classList.add("with-details");
      side.replaceChildren(make("button", { type: "button", class: "icon-button close", "aria-label": "Close", onclick: closeSide }, icon("close")), ...history(state.user, story));
      side.querySelector("h2").focus();
    };

    const onKey = (event) => {
      if (!main.isConnected) return document.removeEventListener("keydown", onKey);
      if (event.key !== "Escape") return;
      if (!side.hidden) closeSide();
      else if (!left.hidden && left.contains(event.target)) change({ filters: "" }), controls.querySelector(".filter-button").focus();
    };
    document.addEventListener("keydown", onKey);

    const drawFilters = () => {
      const n = activeFilters(state, story);
      const button = controls.querySelector(".filter-button");
      button.lastChild.textContent = n ? `Filters · ${n}` : "Filters";
      button.classList.toggle("on", n > 0);
      button.setAttribute("aria-expanded", String(Boolean(state.filters)));
      left.hidden = !state.filters;
      place.classList.toggle("with-filters", Boolean(state.filters));
      if (state.filters && !left.contains(document.activeElement)) left.replaceChildren(filterPanel(state, story, change, fits));
    };

    const countFits = async (without) => {
      const where = condition(state, story.attributes, without);
      const query = new URLSearchParams({ limit: "1", ...(where ? { where } : {}), ...(state.user && !state.seen ? { not_rated_by: state.user } : {}) });
      return (await ask(`items?${query}`)).total;
    };

    const drawFits = async () => {
      try {
        const n = await countFits();
        fits.replaceChildren(make("b", { text: `${counted(n, thing(story), things(story))} fit${n === 1 ? "s" : ""}.` }), " Changes apply at once.");
        const quiet = list.querySelector(".list-head .quiet");
        if (quiet && found.items.length) quiet.textContent = `the best of ${counted(n, thing(story), things(story))} ${state.user && !state.seen ? "this user has not rated" : "here"}`;
      } catch {
        fits.textContent = ""; // The list itself says what is wrong.
      }
    };

    // Nothing is left: which filter is to be dropped, so that most fit.
    const drawEmpty = async () => {
      const names = conditions(state, story.attributes).map(([name]) => name);
      const box = make("div", { class: "empty" }, make("h3", { text: `No ${thing(story)} fits all filters` }), make("p", { class: "quiet", text: "…" }));
      list.append(box);
      const counts = await Promise.all(names.map((name) => countFits(name).catch(() => 0)));
      const best = counts.indexOf(Math.max(...counts));
      const reset = make("button", { type: "button", text: "Reset all filters", onclick: () => change(Object.fromEntries(FILTERS(story).map((name) => [name, ""])), true) });
      if (best < 0 || !counts[best]) {
        box.querySelector("p").textContent = names.length ? "No single one of them is to blame." : state.seen ? "There is nothing to show." : "Everything there is was rated or dismissed.";
        return box.append(names.length || activeFilters(state, story) ? reset : "");
      }
      box.querySelector("p").textContent = `Without the ${names[best]} there ${counts[best] === 1 ? "is 1" : `are ${count(counts[best])}`}.`;
      const drop = Object.fromEntries((names[best] === "condition" ? ["where"] : [`is_${names[best]}`, `from_${names[best]}`, `to_${names[best]}`]).map((name) => [name, ""]));
      box.append(make("div", { class: "buttons" }, make("button", { type: "button", class: "main", text: `Drop the ${names[best]}`, onclick: () => change(drop, true) }), reset));
    };

    const render = (answer) => {
      found = answer;
      at = new Date();
      const title = state.user && !answer.cold ? "Picked for you" : "Best for anybody";
      const more = make("button", { type: "button", class: "plain", text: state.all ? "Show fewer" : "See all", onclick: () => change({ all: state.all ? "" : "1" }) });
      const rows = row(answer.items, { story, found: answer, acts }, title);
      rows.classList.toggle("all", Boolean(state.all));
      list.replaceChildren(head(title, "", more, state.all ? null : () => rows),
        ...(answer.cold && state.user ? [make("p", { class: "note" }, `We know nothing about this person yet, so this is the list for anybody. `, make("a", { href: "#/person", text: `Rate three ${things(story)}` }), " to make it theirs.")] : []),
        ...remarksOf(answer).map((remark) => make("p", { class: "note", text: remark })));
      if (answer.items.length) list.append(rows, listTable(answer.items, answer, story, title));
      else drawEmpty();
      say(`${counted(answer.items.length, thing(story), things(story))} picked.`);
    };

    const load = async () => {
      asked.abort();
      const mine = (asked = new AbortController());
      list.setAttribute("aria-busy", "true");
      const shapes = setTimeout(() => {
        if (!list.querySelector(".card")) list.replaceChildren(head("Picked for you", "", null, null), skeleton(4));
      }, WAIT);
      try {
        let answer = await ask("recommendations", { method: "POST", body: body(), signal: mine.signal });
        // Where only items that few have rated are left, they are shown: their cards say so.
        if (!answer.items.length && body().rules) answer = await ask("recommendations", { method: "POST", body: { ...body(), rules: [] }, signal: mine.signal });
        if (mine !== asked || !main.isConnected) return;
        tastespace.clearTrouble();
        if (story.version !== answer.model) tastespace.story.forget();
        clearTimeout(shapes);
        render(answer);
        drawFits();
        return true;
      } catch (error) {
        if (mine !== asked || !main.isConnected || error.name === "AbortError") return;
        tastespace.showTrouble(error, () => load().then((done) => done && loadOthers()));
        if (error.status >= 400 && error.status < 500) list.replaceChildren(head("Picked for you", "", null, null), make("p", { class: "quiet", text: "There is no list for this: change the filters or the user." }));
        else if (at) list.querySelector(".list-head .quiet").textContent = `list of ${at.toTimeString().slice(0, 5)}, before the error`;
      } finally {
        clearTimeout(shapes);
        if (mine === asked) list.removeAttribute("aria-busy");
      }
    };

    // Rows of given items, in their order, with what the model believes of them.
    const drawRow = async (section, title, quiet, order, all) => {
      const where = condition(state, story.attributes);
      const query = new URLSearchParams({ order, limit: String(POPULAR), ...(where ? { where } : {}), ...(state.user ? { not_rated_by: state.user } : {}) });
      const items = (await ask(`items?${query}`)).items.map((one) => one.item);
      const hidden = new Set(dismissedBy(state.user));
      const shown = items.filter((item) => !hidden.has(item)).slice(0, all ? POPULAR : SHORT);
      section.setAttribute("aria-label", title);
      if (!shown.length) return section.replaceChildren();
      const answer = await ask("recommendations", { method: "POST", body: { ...(state.user ? { user: state.user } : { history: {} }), only: shown, n: shown.length, policy: "best" } });
      if (!main.isConnected) return;
      const entries = answer.items.sort((a, b) => shown.indexOf(a.item) - shown.indexOf(b.item));
      const rows = row(entries, { story, found: answer, acts, why: false }, title);
      rows.classList.toggle("all", all);
      section.replaceChildren(head(title, quiet, make("button", { type: "button", class: "plain", text: all ? "Show fewer" : "See all", onclick: () => drawRow(section, title, quiet, order, !all) }), all ? null : () => rows), rows);
    };

    const loadOthers = async () => {
      try {
        const whose = state.user ? "this user" : "a new person";
        if (story.has_ratings) await drawRow(popular, story.has_times ? "Popular now" : "Popular", scaleOf(story).isRating ? `rated by most people, with the rating we expect from ${whose}` : "chosen by most people", "recent", false);
        await drawRow(arrived, "New arrivals", "added since the model was trained", "new", false);
      } catch (error) {
        if (error.status) popular.replaceChildren(); // The first list says what is wrong.
      }
    };

    const drawKnown = async () => {
      const user = state.user;
      if (!user) return known.replaceChildren("The list for anybody. ", make("a", { href: "#/person", text: `Rate three ${things(story)}` }), " to make it yours.");
      known.textContent = "\u00a0";
      try {
        const { total } = await ask(`${path("users", user, "ratings")}?limit=1`);
        const link = make("button", { type: "button", class: "plain", text: "what this user rated", onclick: openHistory });
        if (state.user !== user) return;
        known.replaceChildren(counted(total, scaleOf(story).isRating ? "rating" : "choice"), total ? " · " : "", total ? link : "");
        if (!story.can.ask || !scaleOf(story).isRating || !total) return;
        const { sd } = await ask("questions", { method: "POST", body: { user, n: 1 } });
        if (state.user === user) link.before(`taste known to ±${number(sd)} ${scaleOf(story).unit} · `);
      } catch {
        // The list says what is wrong.
      }
    };

    const change = (what, redraw = false) => {
      const isOther = what.user !== undefined && what.user !== (state.user || "");
      Object.assign(state, what);
      if (isOther) found = at = null;
      go(state);
      if (redraw) left.replaceChildren();
      drawFilters();
      if (redraw && state.filters) left.querySelector("button")?.focus();
      if (Object.keys(what).every((name) => name === "filters")) return;
      words.textContent = policyWords(story)[policyOf(state, story)];
      if (isOther && !side.hidden) side.hidden = true, place.classList.remove("with-details");
      if (isOther) drawKnown();
      const filtered = Object.keys(what).some((name) => FILTERS(story).includes(name));
      return load().then((done) => done && (isOther || filtered) && loadOthers());
    };

    place.append(left, make("div", { class: "lists" }, list, popular, arrived), side);
    main.classList.add("recommendations");
    main.replaceChildren(
      make("div", { class: "top" },
        make("div", { class: "whose" }, make("h1", {}, make("span", { text: "For" })), userMenu(state, (what) => change(what)), make("a", { class: "someone", href: "#/person", text: "Someone new" }), known),
        controls), place);
    list.append(head("Picked for you", "", null, null));
    story = await tastespace.story.outline();
    const filter = make("button", { type: "button", class: "filter-button", "aria-controls": "filters", "aria-expanded": "false", onclick: () => change({ filters: state.filters ? "" : "1" }) }, icon("filter"), make("span", { text: "Filters" }));
    controls.append(story.can.uncertainty ? segments("policy", "Which list", POLICIES, policyOf(state, story), (policy) => change({ policy: policy === "best" ? "" : policy })) : "", filter, words);
    words.textContent = story.can.uncertainty ? policyWords(story)[policyOf(state, story)] : `${story.class} gives no uncertainty, so there is one list.`;
    drawFilters();
    if (state.filters) left.hidden = false;
    if (await load()) {
      await Promise.all([drawKnown(), loadOthers()]);
      if (state.item) openItem(state.item);
      else if (state.panel === "rated" && state.user) openHistory();
    } else drawKnown();
  }

  tastespace.views.recommendations = { show };
  Object.assign(tastespace, { condition, question });
})();
