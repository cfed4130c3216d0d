"use strict";
// Somebody new: the page asks, and after every answer list and uncertainty change before one's eyes.
(() => {
  const { make, ask, path, number, count, cards, cardTable, heading, chips, meanWidth, labelled, say, later } = tastespace;
  const STORE = "tastespace-person"; // who this browser is, what was skipped, and what could not be sent yet

  function remembered() {
    try {
      const kept = JSON.parse(localStorage.getItem(STORE));
      if (kept && typeof kept.user === "string") return { user: kept.user, skipped: kept.skipped || [], pending: kept.pending || {} };
    } catch {
      // Nothing that could be read: somebody new.
    }
    return { user: `guest-${crypto.getRandomValues(new Uint32Array(2)).join("")}`, skipped: [], pending: {} };
  }

  const keep = (person) => localStorage.setItem(STORE, JSON.stringify(person));

  function buttons(story, rate, entry) {
    const name = entry.title || entry.item;
    if (story.takes_choices) return make("div", { class: "stars" }, make("button", { type: "button", class: "main", text: "I would choose it", onclick: () => rate(entry, 1) }));
    const levels = story.levels || Array.from({ length: 11 }, (_, step) => story.range[0] + ((story.range[1] - story.range[0]) * step) / 10);
    return make("div", { class: "stars", role: "group", "aria-label": `Your rating of ${name}` },
      levels.map((level) => make("button", { type: "button", text: number(level, Number.isInteger(level) ? 0 : 1), "aria-label": `${number(level, Number.isInteger(level) ? 0 : 1)} for ${name}`, onclick: () => rate(entry, level) })));
  }

  function sureFigure(steps) {
    const points = steps.filter((step) => step.sd !== null);
    return tastespace.figureOf({
      title: "How unsure, answer by answer",
      words: "Standard deviation of what is believed of your ratings; the first is before any answer.",
      height: 230,
      traces: () => [{ x: points.map((step) => step.ratings), y: points.map((step) => step.sd), mode: "lines+markers", name: "sd" }],
      layout: { xaxis: { title: { text: "ratings given" }, dtick: Math.max(1, Math.ceil(points.length / 8)) }, yaxis: { rangemode: "tozero" } },
      table: () => tastespace.table("How unsure", ["ratings given", "sd", "mean width of the intervals"], points.map((step) => [String(step.ratings), number(step.sd, 3), number(step.width)])),
    });
  }

  async function show(main) {
    const story = await tastespace.story.outline();
    let person = remembered();
    let steps = []; // how sure the model was, a step a state of the ratings
    let before = null;
    const question = make("section", { class: "panel question", "aria-label": "Question" });
    const rated = make("section", { class: "panel", "aria-label": "What you said" });
    const list = make("section", { "aria-label": "Your list" });
    const gauge = make("section", { "aria-label": "How sure" });
    let coming = 0;

    const rate = async (entry, value) => {
      person.pending[entry.item] = { value, title: entry.title || entry.item };
      keep(person);
      await send();
    };

    // What was said is kept until the service has it.
    const send = async () => {
      for (const [item, { value }] of Object.entries(person.pending)) {
        try {
          await ask(path("users", person.user, "ratings", item), { method: "PUT", body: { rating: value } });
          delete person.pending[item];
          keep(person);
        } catch (error) {
          tastespace.showTrouble(error, send);
          if (error.status >= 400 && error.status < 500 && error.status !== 401 && error.status !== 403 && error.status !== 429) {
            delete person.pending[item]; // It never will be taken; the message says why.
            keep(person);
          }
          drawRated(null);
          return;
        }
      }
      tastespace.clearTrouble();
      await refresh();
    };

    const undo = async (item) => {
      try {
        if (person.pending[item]) delete person.pending[item];
        else await ask(path("users", person.user, "ratings", item), { method: "DELETE" });
        keep(person);
        await refresh();
        say("Taken back.");
      } catch (error) {
        tastespace.showTrouble(error, () => undo(item));
      }
    };

    const forget = async () => {
      try {
        await ask(path("users", person.user), { method: "DELETE" });
      } catch (error) {
        if (error.status !== 404) return tastespace.showTrouble(error, forget);
      }
      localStorage.removeItem(STORE);
      person = remembered();
      keep(person);
      steps = [];
      before = null;
      tastespace.clearTrouble();
      await refresh();
      say("All that you said is deleted.");
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
        if (turn !== coming) return;
        const step = { ratings: said.total, sd: asked ? asked.sd : null, width: meanWidth(found.items) };
        steps = [...steps.filter((one) => one.ratings < said.total), step];
        drawQuestion(asked, said);
        drawRated(said);
        drawList(found);
        drawGauge();
      } catch (error) {
        tastespace.showTrouble(error, refresh);
      }
    };

    const drawQuestion = (asked, said) => {
      const next = asked && asked.items[0];
      const search = searchItems(rate, story);
      if (!next) {
        question.replaceChildren(make("h2", { text: story.can.ask ? "No more questions" : "Rate something" }),
          make("p", { class: "quiet", text: story.can.ask ? "Everything that could be asked was answered or skipped." : `${story.class} does not know what an answer would tell. Search for what you know.` }), search);
        return;
      }
      question.replaceChildren(
        make("h2", { text: said.total ? "And this?" : "Do you know this?" }),
        heading(next), chips(next.attributes),
        buttons(story, rate, next),
        make("p", { class: "quiet", text: `Chosen because the answer tells most: it takes away ${tastespace.percent(next.reduction, 1)} of the uncertainty.` }),
        make("button", { type: "button", text: "I do not know it", onclick: () => { person.skipped = [...person.skipped, next.item].slice(-500); keep(person); refresh(); } }),
        search);
    };

    const drawRated = (said) => {
      const waiting = Object.entries(person.pending);
      const pending = waiting.map(([item, one]) => make("li", {}, make("span", { dir: "auto", text: one.title }), make("span", {}, `${number(one.value, 1)} – not stored yet `, make("button", { type: "button", class: "plain", text: "Undo", "aria-label": `Undo ${one.title}`, onclick: () => undo(item) }))));
      if (!said) {
        rated.querySelector(".pending")?.remove();
        rated.append(make("ul", { class: "rated pending" }, pending));
        return;
      }
      rated.replaceChildren(...[
        make("h2", { text: `What you said (${count(said.total)})` }),
        said.total ? make("ul", { class: "rated" }, said.ratings.map((one) => make("li", {}, make("span", { dir: "auto", text: one.title || one.item }),
          make("span", {}, `${number(one.rating, 1)} `, make("button", { type: "button", class: "plain", text: "Undo", "aria-label": `Undo ${one.title || one.item}`, onclick: () => undo(one.item) })))))
          : make("p", { class: "quiet", text: "Nothing yet. Answers are stored, and can be taken back." }),
        said.total ? make("div", { class: "controls" }, make("button", { type: "button", text: "Undo the last", onclick: () => undo(said.ratings[0].item) }), make("button", { type: "button", text: "Delete all of it", onclick: forget })) : null,
        make("p", { class: "quiet", text: `You are ${person.user}.` }),
      ].filter(Boolean));
      if (pending.length) rated.append(make("ul", { class: "rated pending" }, pending));
    };

    const drawList = (found) => {
      const fresh = before ? found.items.filter((entry) => !before.has(entry.item)).length : 0;
      if (before) say(`The list has changed: ${fresh} new.`);
      list.replaceChildren(
        make("h2", { text: found.cold ? "What anybody is recommended" : "Your list" }),
        ...found.remarks.map((remark) => make("p", { class: "note", text: remark })),
        cards(found.items, { range: story.range, n: 10, before, foundBy: null, whose: "what you said" }),
        cardTable(found.items, "The same list"));
      before = new Map(found.items.map((entry) => [entry.item, entry.rank]));
    };

    const drawGauge = () => {
      const now = steps[steps.length - 1];
      const first = steps[0];
      const shown = [];
      if (now.width !== null) shown.push(make("div", {}, make("div", { class: "big", id: "width", text: number(now.width) }), make("div", { class: "quiet", text: "mean width of the intervals" })));
      if (now.sd !== null) shown.push(make("div", {}, make("div", { class: "big", id: "sd", text: number(now.sd, 3) }), make("div", { class: "quiet", text: steps.length > 1 ? `uncertainty, ${tastespace.percent(1 - now.sd / first.sd)} less than at first` : "uncertainty of your ratings" })));
      gauge.replaceChildren(make("div", { class: "figures-row" }, shown), steps.length > 1 && now.sd !== null ? sureFigure(steps) : "");
    };

    keep(person);
    main.replaceChildren(
      make("h1", { text: "New person" }),
      make("p", { class: "quiet", text: "Nobody knows you here yet. Rate a few things, and watch the list and its uncertainty change." }),
      make("div", { class: "beside" }, make("div", {}, question, rated), make("div", {}, gauge, list)));
    if (Object.keys(person.pending).length) await send();
    else await refresh();
  }

  // Rate what one has in mind, by its title.
  function searchItems(rate, story) {
    const results = make("ul", { class: "rated" });
    const find = later(async (text) => {
      if (!text.trim()) return results.replaceChildren();
      try {
        const found = await ask(`items?limit=6&search=${encodeURIComponent(text.trim())}`);
        results.replaceChildren(...(found.items.length ? found.items : []).map((item) => make("li", {}, make("span", { dir: "auto", text: item.title || item.item }), buttons(story, rate, item))));
        if (!found.items.length) results.append(make("li", {}, make("span", { class: "quiet", text: "No such title." })));
        say(`${found.items.length} found.`);
      } catch (error) {
        tastespace.showTrouble(error);
      }
    }, 200);
    const input = make("input", { type: "search", maxlength: "200", autocomplete: "off", oninput: (event) => find(event.target.value) });
    return make("div", {}, labelled("Or rate what you have in mind", input), results);
  }

  tastespace.views.person = { title: "New person", show };
})();
