"use strict";
// A new user: the page asks, and the list and its uncertainty change with every answer.
(() => {
  const { make, ask, path, number, count, figure, cards, cardTable, heading, chips, meanWidth, labelled, say, later, local } = tastespace;
  const STORE = "tastespace-person"; // who this browser is, what was skipped, and what could not be sent yet
  const LATER = [401, 403, 408, 409, 429]; // refused now, accepted perhaps later

  function remembered() {
    try {
      const kept = JSON.parse(local.get(STORE));
      if (kept && typeof kept.user === "string") return { user: kept.user, skipped: kept.skipped || [], pending: kept.pending || {} };
    } catch {
      // Nothing readable: a new user.
    }
    const created = { user: `guest-${crypto.getRandomValues(new Uint32Array(2)).join("")}`, skipped: [], pending: {} };
    keep(created);
    return created;
  }

  const keep = (person) => local.set(STORE, JSON.stringify(person));

  // Possible ratings of an item: the levels of the model, or eleven steps over its range.
  function levelsOf({ levels, range: [low, high] }) {
    if (levels) return levels;
    const step = (place) => Number((low + ((high - low) * place) / 10).toPrecision(3));
    return Array.from({ length: 11 }, (_, place) => Math.max(low, Math.min(high, step(place))));
  }

  function buttons(story, rate, entry) {
    const name = entry.title || entry.item;
    if (story.takes_choices) return make("div", { class: "stars" }, make("button", { type: "button", class: "main", text: "I would choose it", "aria-label": `Choose ${name}`, onclick: () => rate(entry, 1) }));
    return make("div", { class: "stars", role: "group", "aria-label": `Your rating of ${name}` },
      levelsOf(story).map((level) => make("button", { type: "button", text: figure(level), "aria-label": `${figure(level)} for ${name}`, onclick: () => rate(entry, level) })));
  }

  function sureFigure(steps) {
    const points = steps.filter((step) => step.sd !== null);
    return tastespace.figureOf({
      title: "Uncertainty after each answer",
      words: `Standard deviation of your expected ratings; the first is ${points[0].ratings ? "that when this page was opened" : "before any answer"}.`,
      height: 230,
      traces: () => [{ x: points.map((step) => step.ratings), y: points.map((step) => step.sd), mode: "lines+markers", name: "sd" }],
      layout: { xaxis: { title: { text: "ratings given" }, dtick: Math.max(1, Math.ceil(points.length / 8)) }, yaxis: { rangemode: "tozero" } },
      table: () => tastespace.table("Uncertainty", ["ratings given", "sd", "mean width of the intervals"], points.map((step) => [String(step.ratings), number(step.sd, 3), number(step.width)])),
    });
  }

  // Search for an item by title, and rate it.
  function searchItems(rate, story) {
    const results = make("ul", { class: "rated" });
    let turn = 0;
    const find = later(async (text) => {
      const mine = ++turn;
      if (!text.trim()) return results.replaceChildren();
      try {
        const found = await ask(`items?limit=6&search=${encodeURIComponent(text.trim())}`);
        if (mine !== turn) return;
        results.replaceChildren(...found.items.map((item) => make("li", {}, make("span", { dir: "auto", text: item.title || item.item }), buttons(story, rate, item))));
        if (!found.items.length) results.append(make("li", {}, make("span", { class: "quiet", text: "No such title." })));
        say(`${found.items.length} found.`);
      } catch (error) {
        if (mine === turn) tastespace.showTrouble(error);
      }
    }, 200);
    const input = make("input", { type: "search", maxlength: "200", autocomplete: "off", oninput: (event) => find(event.target.value) });
    return make("div", {}, labelled("Or search for something to rate", input), results);
  }

  async function show(main) {
    const story = await tastespace.story.outline();
    let person = remembered();
    let steps = []; // uncertainty, one step per state of the ratings
    let before = null;
    let coming = 0;
    let sending = Promise.resolve();
    const question = make("section", { class: "panel question", "aria-label": "Question" });
    const rated = make("section", { class: "panel", "aria-label": "Your ratings" });
    const list = make("section", { "aria-label": "Your list" });
    const gauge = make("section", { "aria-label": "Uncertainty" });

    // Another tab may have changed the user, or what waits to be sent.
    const current = () => {
      const now = remembered();
      if (now.user !== person.user) {
        steps = [];
        before = null;
      }
      person = now;
      return person;
    };

    const rate = (entry, value) => {
      current().pending[entry.item] = { value, title: entry.title || entry.item };
      keep(person);
      return send();
    };

    // Ratings are kept until the service has them, and are sent in order, so that the last one counts.
    const send = () => (sending = sending.then(sendAll));

    const sendAll = async () => {
      const whose = current().user;
      for (const [item, { value }] of Object.entries(person.pending)) {
        try {
          await ask(path("users", whose, "ratings", item), { method: "PUT", body: { rating: value } });
          settle(whose, item, value);
        } catch (error) {
          if (error.status >= 400 && error.status < 500 && !LATER.includes(error.status)) settle(whose, item, value); // It will never be accepted; the message says why.
          if (!main.isConnected) return;
          drawRated(null);
          if (!question.childElementCount) await refresh(); // Nothing can be stored, but everything can be shown.
          if (main.isConnected) tastespace.showTrouble(error, send);
          return;
        }
      }
      if (!main.isConnected) return;
      tastespace.clearTrouble();
      await refresh();
    };

    // Sent, or refused for good; unless the rating has changed meanwhile.
    const settle = (whose, item, value) => {
      const now = current();
      if (now.user === whose && now.pending[item] && now.pending[item].value === value) delete now.pending[item];
      keep(now);
    };

    const undo = (item) => (sending = sending.then(() => takeBack(item)));

    const takeBack = async (item) => {
      try {
        if (current().pending[item]) {
          delete person.pending[item];
          keep(person);
          drawRated(null); // Also if the service does not answer.
        } else await ask(path("users", person.user, "ratings", item), { method: "DELETE" });
      } catch (error) {
        if (error.status !== 404) return tastespace.showTrouble(error, () => undo(item)); // 404: it is deleted already.
      }
      await refresh();
      say("Undone.");
    };

    // The latest rating at the time of its turn.
    const undoLast = () => (sending = sending.then(async () => {
      const waiting = Object.keys(current().pending);
      if (waiting.length) return takeBack(waiting[waiting.length - 1]);
      try {
        const { ratings } = await ask(`${path("users", person.user, "ratings")}?limit=1`);
        if (ratings.length) await takeBack(ratings[0].item);
      } catch (error) {
        tastespace.showTrouble(error, undoLast);
      }
    }));

    const forget = () => (sending = sending.then(forgetAll));

    const forgetAll = async () => {
      try {
        await ask(path("users", current().user), { method: "DELETE" });
      } catch (error) {
        if (error.status !== 404) return tastespace.showTrouble(error, forget);
      }
      local.remove(STORE);
      current();
      await refresh();
      say("All your ratings are deleted.");
    };

    const skip = (item) => {
      current().skipped = [...person.skipped, item].slice(-500);
      keep(person);
      return refresh();
    };

    const refresh = async () => {
      const turn = ++coming;
      const about = { user: person.user };
      try {
        const [said, found, asked] = await Promise.all([
          ask(`${path("users", person.user, "ratings")}?limit=1000`),
          ask("recommendations", { method: "POST", body: { ...about, n: 10, explain: true } }),
          story.can.ask ? ask("questions", { method: "POST", body: { ...about, n: 3, exclude: person.skipped.length ? person.skipped : undefined } }) : null,
        ]);
        if (turn !== coming || !main.isConnected) return;
        tastespace.clearTrouble();
        if (found.model !== story.version) tastespace.story.forget();
        const step = { ratings: said.total, sd: asked ? asked.sd : null, width: meanWidth(found.items) };
        steps = [...steps.filter((one) => one.ratings < said.total), step];
        drawQuestion(asked, said);
        drawRated(said);
        drawList(found);
        drawGauge();
      } catch (error) {
        if (turn === coming && main.isConnected) tastespace.showTrouble(error, refresh);
      }
    };

    const search = searchItems((entry, value) => {
      search.querySelector("input").value = "";
      search.querySelector("input").focus();
      search.querySelector("ul").replaceChildren();
      return rate(entry, value);
    }, story);

    const drawQuestion = (asked, said) => {
      const next = asked && asked.items[0];
      const goOn = search.contains(document.activeElement) ? () => {} : tastespace.heldFocus(question);
      const parts = next ? [
        make("h2", { text: said.total ? "And this?" : "Do you know this?" }),
        heading(next), chips(next.attributes),
        buttons(story, rate, next),
        make("p", { class: "quiet", text: `Chosen because the answer is the most informative: it removes ${tastespace.percent(next.reduction, 1)} of the uncertainty.` }),
        make("button", { type: "button", text: "I do not know it", onclick: () => skip(next.item) }),
      ] : [
        make("h2", { text: story.can.ask ? "No more questions" : "Rate something" }),
        make("p", { class: "quiet", text: story.can.ask ? "Everything that could be asked was answered or skipped." : `${story.class} cannot choose questions here. Search for what you know.` }),
      ];
      // The search keeps its place and its text.
      if (search.parentNode !== question) question.append(search);
      while (question.firstChild !== search) question.firstChild.remove();
      search.before(...parts.filter(Boolean));
      goOn();
    };

    const entryOf = (title, words, item) => make("li", {}, make("span", { dir: "auto", text: title }),
      make("span", {}, `${words} `, make("button", { type: "button", class: "plain", text: "Undo", "aria-label": `Undo ${title}`, onclick: () => undo(item) })));
    const wordOf = (value) => (story.takes_choices ? "chosen" : figure(value));

    const drawRated = (said) => {
      const goOn = tastespace.heldFocus(rated);
      const pending = Object.entries(person.pending).map(([item, one]) => entryOf(one.title, `${wordOf(one.value)} – not stored yet`, item));
      if (said) {
        rated.replaceChildren(...[
          make("h2", { text: `Your ratings (${count(said.total)})` }),
          said.total ? make("ul", { class: "rated" }, said.ratings.map((one) => entryOf(one.title || one.item, wordOf(one.rating), one.item)))
            : make("p", { class: "quiet", text: "Nothing yet. Answers are stored, and can be undone." }),
          said.total ? make("div", { class: "controls" }, make("button", { type: "button", text: "Undo the last", onclick: undoLast }), make("button", { type: "button", text: "Delete all", onclick: forget })) : null,
          make("p", { class: "quiet", text: `You are ${person.user}.` }),
        ].filter(Boolean));
      }
      rated.querySelector(".pending")?.remove();
      if (pending.length) rated.append(make("ul", { class: "rated pending" }, pending));
      goOn();
    };

    const drawList = (found) => {
      const fresh = before ? found.items.filter((entry) => !before.has(entry.item)).length : 0;
      if (before) say(`The list has changed: ${fresh} new.`);
      list.replaceChildren(
        make("h2", { text: found.cold ? "Default list" : "Your list" }),
        ...found.remarks.map((remark) => make("p", { class: "note", text: remark })),
        cards(found.items, { range: tastespace.oldScale(story), n: 10, before, foundBy: null, whose: "what you said", isChoice: story.takes_choices, liking: found }),
        cardTable(found.items, "The same list", tastespace.oldScale(story)));
      before = new Map(found.items.map((entry) => [entry.item, entry.rank]));
    };

    const drawGauge = () => {
      const now = steps[steps.length - 1];
      const first = steps[0];
      const shown = [];
      if (now.width !== null) shown.push(make("div", {}, make("div", { class: "big", id: "width", text: number(now.width) }), make("div", { class: "quiet", text: "mean width of the intervals" })));
      if (now.sd !== null) shown.push(make("div", {}, make("div", { class: "big", id: "sd", text: number(now.sd, 3) }), make("div", { class: "quiet", text: steps.length > 1 ? `uncertainty, ${tastespace.percent(1 - now.sd / first.sd)} less than ${first.ratings ? "when this page was opened" : "at first"}` : "uncertainty of your ratings" })));
      gauge.replaceChildren(make("div", { class: "figures-row" }, shown), steps.length > 1 && now.sd !== null ? sureFigure(steps) : "");
    };

    main.replaceChildren(
      make("h1", { text: "New user" }),
      make("p", { class: "quiet", text: "Rate a few things, and watch the list and its uncertainty change." }),
      make("div", { class: "beside" }, make("div", {}, question, rated), make("div", {}, gauge, list)));
    if (Object.keys(person.pending).length) await send();
    else await refresh();
  }

  tastespace.views.person = { title: "New user", show };
})();
