"use strict";
// Someone new: the page asks, and the list and its uncertainty change with every answer.
(() => {
  const { make, icon, draw, ask, path, number, count, counted, percent, stars, things, thing, and, titleOf, about, scaleOf, tile, star, ratingGraphic, fewRatings, later, local, say } = tastespace;
  const STORE = "tastespace-person"; // who this browser is, what was skipped, and what could not be sent yet
  const LATER = [401, 403, 408, 409, 429]; // refused now, accepted perhaps later
  const AHEAD = 5; // answers that are forecast
  const LENGTH = 8; // of the list
  const WORDS = ["Bad", "Weak", "Fine", "Good", "Great"];

  function remembered() {
    try {
      const kept = JSON.parse(local.get(STORE));
      if (kept && typeof kept.user === "string") return { user: kept.user, skipped: kept.skipped || [], pending: kept.pending || {} };
    } catch {
      // Nothing readable: a new person.
    }
    const created = { user: `guest-${crypto.getRandomValues(new Uint32Array(2)).join("")}`, skipped: [], pending: {} };
    keep(created);
    return created;
  }
  const keep = (person) => local.set(STORE, JSON.stringify(person));

  // The ratings that can be given: five at most, with halves between them where the model has halves.
  function answersOf(story) {
    const scale = scaleOf(story);
    if (story.takes_choices) return [{ value: 1, half: null, word: "I would choose it" }];
    if (story.levels && story.levels.length <= 5) return story.levels.map((value) => ({ value, half: null, word: story.levels.length === 5 ? WORDS[story.levels.indexOf(value)] : stars(value) }));
    const whole = story.levels && scale.high === 5 ? [1, 2, 3, 4, 5] : [0, 1, 2, 3, 4].map((place) => scale.low + ((scale.high - scale.low) * place) / 4);
    const nearest = (value) => (story.levels ? story.levels.reduce((best, level) => (Math.abs(level - value) < Math.abs(best - value) ? level : best)) : Number(value.toPrecision(3)));
    const step = whole[1] - whole[0];
    return whole.map((value, place) => {
      const half = nearest(value - step / 2);
      return { value: nearest(value), half: half !== nearest(value) && half >= scale.low ? half : null, word: WORDS[place] };
    });
  }

  // Five buttons; a click on the left half of one, or its digit with Shift, is half a step less.
  function rater(story, entry, rate, isSmall) {
    const answers = answersOf(story);
    const scale = scaleOf(story);
    const name = titleOf(entry);
    const unit = scale.hasStars ? "stars" : "";
    if (story.takes_choices) return make("div", { class: "stars" }, make("button", { type: "button", class: "main", text: answers[0].word, "aria-label": `Choose ${name}`, onclick: () => rate(entry, 1) }));
    const buttons = answers.map(({ value, half, word }, place) => {
      const button = make("button", { type: "button", class: "star", "aria-label": `${stars(value)} ${unit} for ${name}`.replace("  ", " "), title: half === null ? word : `${stars(value)}; its left half: ${stars(half)}` },
        isSmall ? "" : make("kbd", { "aria-hidden": "true", text: String(place + 1) }), scale.hasStars ? icon("star", isSmall ? 16 : 24) : make("b", { text: stars(value) }), isSmall ? "" : make("span", { text: word }));
      button.addEventListener("click", (event) => {
        const box = button.getBoundingClientRect();
        rate(entry, half !== null && event.detail && event.clientX < box.left + box.width / 2 ? half : value);
      });
      return button;
    });
    const group = make("div", { class: isSmall ? "stars small" : "stars", role: "group", "aria-label": `Your rating of ${name}` }, buttons);
    const mark = (to) => buttons.forEach((button, place) => button.classList.toggle("lit", place <= to));
    buttons.forEach((button, place) => {
      button.addEventListener("mouseenter", () => mark(place));
      button.addEventListener("focus", () => button.matches(":focus-visible") && mark(place));
    });
    group.addEventListener("mouseleave", () => mark(-1));
    group.addEventListener("focusout", () => mark(-1));
    group.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const at = buttons.indexOf(document.activeElement);
      if (!step || at < 0) return;
      buttons[Math.max(0, Math.min(buttons.length - 1, at + step))].focus();
      event.preventDefault();
    });
    group.key = (digit, isHalf) => {
      const answer = answers[digit - 1];
      if (answer) rate(entry, isHalf && answer.half !== null ? answer.half : answer.value);
      return Boolean(answer);
    };
    return group;
  }

  // How well the taste is known: after each answer so far, and, dashed, as forecast.
  function sureBars(past, ahead, unit) {
    const all = [...past, ...ahead];
    const [width, height, base] = [300, 100, 78];
    const wide = width / Math.max(all.length, 8);
    const most = Math.max(...all);
    const label = (x, y, text, kind, anchor) => draw("text", { x, y, class: kind, "text-anchor": anchor }, text);
    const parts = all.map((sd, place) => {
      const tall = Math.max(2, (base - 20) * (sd / most));
      const kind = place === past.length - 1 ? "good" : place < past.length ? "pale" : "ahead";
      return draw("rect", { x: place * wide + 3, width: wide - 8, y: base - tall, height: tall, rx: 3, class: kind });
    });
    const top = (place) => base - Math.max(2, (base - 20) * (all[place] / most)) - 5;
    const middle = (place) => place * wide + wide / 2 - 1;
    const now = past.length - 1;
    if (now > 1) parts.push(label(3, top(0), `±${number(all[0])}`, null, "start"), label(3, height - 8, "at first", null, "start"));
    parts.push(label(Math.max(20, middle(now)), top(now), `±${number(all[now])}`, "strong", "middle"));
    if (now > 2 || now === 0) parts.push(label(Math.max(16, middle(now)), height - 8, "now", null, "middle"));
    if (ahead.length > 2) parts.push(label(middle(all.length - 1) + wide / 2 - 4, top(all.length - 1), `±${number(all[all.length - 1])}`, null, "end"), label(middle(all.length - 1) + wide / 2 - 4, height - 8, `${ahead.length} answers from now`, null, "end"));
    const words = `Uncertainty: ${past.map((sd) => `±${number(sd)}`).join(", ")} ${unit}${ahead.length ? `; forecast: ${ahead.map((sd) => `±${number(sd)}`).join(", ")}` : ""}`;
    return draw("svg", { class: "chart sure-bars", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words }, parts);
  }

  async function show(main, state, go) {
    const story = await tastespace.story.outline();
    const scale = scaleOf(story);
    let person = remembered();
    let steps = []; // { ratings, sd } for each state of the ratings
    let first = new Map(); // the intervals before the first answer
    let before = null; // the list before the last answer
    let moves = new Map();
    let coming = 0;
    let sending = Promise.resolve();
    let rating = null; // the buttons of the question
    let asked = null;
    const question = make("section", { class: "panel question", "aria-label": "Question" });
    const rated = make("section", { class: "panel answers", "aria-label": "Your answers" });
    const sure = make("section", { class: "panel sure", "aria-label": "How well we know your taste" });
    const list = make("section", { class: "panel your-list", "aria-label": "Your list" });

    // Another tab may have changed the person, or what waits to be sent.
    const current = () => {
      const now = remembered();
      if (now.user !== person.user) steps = [], before = null, first = new Map();
      person = now;
      return person;
    };

    const rate = (entry, value) => {
      current().pending[entry.item] = { value, title: entry.title || "" };
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

    // The latest answer at the time of its turn.
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

    const forget = () => (sending = sending.then(async () => {
      try {
        await ask(path("users", current().user), { method: "DELETE" });
      } catch (error) {
        if (error.status !== 404) return tastespace.showTrouble(error, forget);
      }
      local.remove(STORE);
      current();
      await refresh();
      say("All your answers are deleted.");
    }));

    const skip = () => {
      const next = asked?.items[0];
      if (!next) return;
      current().skipped = [...person.skipped, next.item].slice(-500);
      keep(person);
      return refresh();
    };

    const refresh = async () => {
      const turn = ++coming;
      const whose = { user: current().user };
      try {
        const policy = story.can.uncertainty ? { policy: "cautious:c=3" } : {};
        const [said, found, answer] = await Promise.all([
          ask(`${path("users", person.user, "ratings")}?limit=1000`),
          ask("recommendations", { method: "POST", body: { ...whose, n: LENGTH, ...policy } }),
          story.can.ask ? ask("questions", { method: "POST", body: { ...whose, n: AHEAD, exclude: person.skipped.length ? person.skipped : undefined } }) : null,
        ]);
        if (turn !== coming || !main.isConnected) return;
        tastespace.clearTrouble();
        if (found.model !== story.version) tastespace.story.forget();
        const unknown = found.items.map((one) => one.item).filter((item) => !first.has(item));
        if (story.can.uncertainty && unknown.length) for (const one of (await ask("predictions", { method: "POST", body: { history: {}, items: unknown } })).items) first.set(one.item, one.interval);
        if (turn !== coming || !main.isConnected) return;
        asked = answer;
        const sd = answer && scale.isRating ? answer.sd : null;
        if (steps.length && steps[steps.length - 1].ratings === said.total) steps.pop();
        steps = [...steps.filter((one) => one.ratings < said.total), { ratings: said.total, sd }];
        if (sd !== null && steps[0].ratings > 0) {
          const start = await ask("questions", { method: "POST", body: { history: {}, n: 1 } });
          steps.unshift({ ratings: 0, sd: start.sd });
          if (turn !== coming) return;
        }
        drawQuestion(said);
        drawRated(said);
        drawSure(said);
        drawList(found, said);
      } catch (error) {
        if (turn === coming && main.isConnected) tastespace.showTrouble(error, refresh);
      }
    };

    // Rate something else than what is asked: by its title.
    const results = make("ul", { class: "found" });
    let sought = 0;
    const find = later(async (text) => {
      const mine = ++sought;
      if (!text.trim()) return results.replaceChildren();
      try {
        const found = await ask(`items?limit=6&search=${encodeURIComponent(text.trim())}`);
        if (mine !== sought) return;
        results.replaceChildren(...found.items.map((item) => make("li", {}, make("span", { dir: "auto", text: titleOf(item), title: item.title || item.item }), rater(story, item, (entry, value) => {
          search.value = "";
          results.replaceChildren();
          search.focus();
          return rate(entry, value);
        }, true))));
        if (!found.items.length) results.append(make("li", { class: "quiet", text: `No ${thing(story)} has such a title.` }));
        say(`${found.items.length} found.`);
      } catch (error) {
        if (mine === sought) tastespace.showTrouble(error);
      }
    }, 200);
    const search = make("input", { type: "search", maxlength: "200", autocomplete: "off", "data-search": "1", placeholder: `Rate another ${thing(story)}`, "aria-label": `Rate another ${thing(story)}`, oninput: (event) => find(event.target.value) });
    const other = make("div", { class: "other" }, make("div", { class: "field" }, icon("search"), search, make("kbd", { text: "/" })), results);

    const drawQuestion = (said) => {
      const next = asked && asked.items[0];
      const goOn = search === document.activeElement ? () => {} : tastespace.heldFocus(question);
      rating = next ? rater(story, next, rate) : null;
      const sd = asked && scale.isRating ? asked.sd : null;
      const why = make("p", { class: "well" });
      if (next && sd !== null) {
        why.append(make("b", { text: "Why this one? " }), `No other answer would tell us more: it should take us from ±${number(sd)} to ±${number(next.sd)} ${scale.unit}.`);
        const mine = coming;
        if (story.can.map) ask(`${path("items", next.item, "similar")}?n=3`).then((near) => {
          if (mine === coming && near.items.length) why.append(` It says most about ${things(story)} like `, ...near.items.flatMap((one, place, all) => [place ? (place === all.length - 1 ? " and " : ", ") : "", make("b", { dir: "auto", text: titleOf(one) })]), ".");
        }).catch(() => {}); // The reason stands without examples.
      }
      const parts = next ? [
        make("div", { class: "question-head" }, make("p", { class: "quiet small", text: `Question ${said.total + person.skipped.length + 1}` }), answersOf(story).length === 5 ? make("p", { class: "quiet small keys" }, "press ", make("kbd", { text: "1" }), "–", make("kbd", { text: "5" }), ...(answersOf(story).some((one) => one.half !== null) ? [", with ", make("kbd", { text: "Shift" }), " for half a star less"] : [])) : ""),
        make("div", { class: "card-head" }, tile(next, story), make("div", {}, make("h2", { dir: "auto", text: titleOf(next), title: next.title || next.item }), make("p", { class: "meta", dir: "auto", text: about(next, story.images, 4) }))),
        rating,
        make("div", { class: "question-foot" }, make("button", { type: "button", class: "skip-it", onclick: skip }, "I don’t know it ", make("kbd", { text: "0" }))),
        why.childNodes.length ? why : null,
      ] : [
        make("h2", { text: story.can.ask ? "No more questions" : "Rate something" }),
        make("p", { class: "quiet", text: story.can.ask ? "Everything that could be asked was answered or skipped." : `${story.class} cannot choose questions. Search for what you know.` }),
      ];
      // The search keeps its place and its text.
      if (other.parentNode !== question) question.append(other);
      while (question.firstChild !== other) question.firstChild.remove();
      other.before(...parts.filter(Boolean));
      goOn();
    };

    const wordOf = (value) => (story.takes_choices ? "chosen" : stars(value) + (scale.hasStars ? " ★" : ""));
    const answerOf = (one, item, words) => make("li", {}, make("span", { dir: "auto", text: titleOf({ ...one, item }) }), make("span", {}, words),
      make("button", { type: "button", class: "icon-button bare", "aria-label": `Take back ${titleOf({ ...one, item })}`, onclick: () => undo(item) }, icon("close")));

    const drawRated = (said) => {
      const goOn = tastespace.heldFocus(rated);
      const pending = Object.entries(person.pending).map(([item, one]) => answerOf(one, item, `${wordOf(one.value)} – not stored yet`));
      if (said) {
        rated.replaceChildren(
          make("h2", {}, "Your answers ", make("span", { class: "quiet", text: count(said.total) })),
          said.total ? make("ul", {}, said.ratings.map((one) => answerOf(one, one.item, wordOf(one.rating)))) : make("p", { class: "quiet small", text: `Rate one ${thing(story)} to begin.` }),
          make("p", { class: "caption foot" }, `Stored by this service as ${person.user.slice(0, 10)}…  `, said.total ? make("button", { type: "button", class: "plain", text: "Delete everything", onclick: forget }) : ""));
        undoButton.disabled = overButton.disabled = !said.total && !pending.length;
      }
      rated.querySelector(".pending")?.remove();
      if (pending.length) rated.querySelector(".foot")?.before(make("ul", { class: "pending" }, pending)), (undoButton.disabled = false);
      goOn();
    };

    const drawSure = (said) => {
      sure.hidden = steps[steps.length - 1].sd === null;
      if (sure.hidden) return;
      const [now, start, last] = [steps[steps.length - 1], steps[0], steps[steps.length - 2]];
      const head = make("h2", {}, "We now know your taste to ", make("b", { class: "accent", text: `±${number(now.sd)} ${scale.unit}` }));
      let words = "";
      if (!last) head.replaceChildren(`Your taste is known to ±${number(now.sd)} ${scale.unit}.`), (words = `Rate one ${thing(story)} to begin.`);
      else if (now.sd > last.sd + 0.0005) head.replaceChildren("Your last answer surprised us: ", make("b", { class: "accent", text: `±${number(now.sd)}` }), `, before ±${number(last.sd)}.`);
      else head.append(`; it was ±${number(start.sd)}.`);
      const ahead = (asked?.items || []).map((one) => one.sd);
      if (last && now.sd < start.sd) words = `That is ${percent(1 - now.sd / start.sd)} less uncertainty after ${counted(said.total, "answer")}.`;
      if (ahead.length === AHEAD) words += ` Five ${last ? "more " : ""}would bring it to about ±${number(ahead[AHEAD - 1])}.`;
      sure.replaceChildren(make("div", {}, head, make("p", { class: "quiet small", text: words.trim() })), sureBars(steps.map((step) => step.sd).slice(-8), ahead, scale.unit));
    };

    const drawList = (found, said) => {
      const ranks = new Map(found.items.map((one, place) => [one.item, place + 1]));
      const isSame = before && before.total === said.total;
      if (before && !isSame) {
        moves = new Map(found.items.map((one) => [one.item, !before.ranks.has(one.item) ? "new" : before.ranks.get(one.item) - ranks.get(one.item)]));
      }
      const [fresh, up] = [[...moves.values()].filter((move) => move === "new").length, [...moves.values()].filter((move) => move > 0).length];
      const words = [fresh ? `${fresh} ${fresh === 1 ? "is" : "are"} new` : "", up ? `${up} moved up` : ""].filter(Boolean).join(", ");
      if (before && !isSame) say(words ? `Your list: ${words}.` : "Your list is the same.");
      before = { ranks, total: said.total };
      const hasBefore = said.total > 0 && story.can.uncertainty && scale.isRating && found.items.some((one) => first.get(one.item));
      const badge = (move) => (move === "new" ? make("span", { class: "move new", text: "new" }) : move > 0 ? make("span", { class: "move up", "aria-label": `up ${move}`, text: `▲ ${move}` }) : move < 0 ? make("span", { class: "move", "aria-label": `down ${-move}`, text: `▼ ${-move}` }) : make("span", {}));
      list.replaceChildren(
        make("div", { class: "list-head" }, make("h2", { text: said.total ? "Your list now" : "The list for anybody" }), make("p", { class: "quiet", text: words ? `${words} since your last answer` : "" }),
          hasBefore ? make("span", { class: "caption key" }, draw("svg", { width: 34, height: 12, "aria-hidden": "true" }, draw("line", { x1: 1, x2: 18, y1: 6, y2: 6, class: "before" }), draw("line", { x1: 1, x2: 1, y1: 2, y2: 10, class: "before" }), draw("line", { x1: 18, x2: 34, y1: 6, y2: 6, class: "band" })), "uncertainty removed since the start") : ""),
        make("ol", { class: "ranked" }, found.items.map((one, place) => {
          const move = moves.get(one.item);
          return make("li", { class: move === "new" || move > 0 ? "risen" : null },
            make("span", { class: "place", text: String(place + 1) }), badge(move), tile(one, story, "tile little"),
            make("div", { class: "what" }, make("h3", { dir: "auto", text: titleOf(one), title: one.title || one.item }), make("p", { class: "meta", dir: "auto", text: about(one, story.images, 2) })),
            scale.isRating ? ratingGraphic(one, scale, { ticks: place === 0, before: hasBefore ? first.get(one.item) : null }) : make("span", {}),
            make("span", { class: "value" }, scale.isRating ? [tastespace.shown(one.expected_rating ?? one.score, scale), scale.hasStars ? star() : ""] : number(one.score)));
        })),
        tastespace.listTable(found.items, found, story, "Your list"));
    };

    // Digits answer, 0 skips, U takes back: in the question or where nothing has the focus.
    const onKey = (event) => {
      if (!main.isConnected) return document.removeEventListener("keydown", onKey);
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      const target = event.target;
      if (target.closest?.("input, textarea, select") || !(question.contains(target) || target === document.body || target.id === "main")) return;
      const digit = /^(Digit|Numpad)([0-9])$/.exec(event.code || "");
      if (digit && digit[2] === "0") skip();
      else if (digit && rating?.key) rating.key(Number(digit[2]), event.shiftKey);
      else if (event.code === "KeyU") undoLast();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);

    const undoButton = make("button", { type: "button", disabled: true, onclick: undoLast }, "Undo last ", make("kbd", { text: "U" }));
    const overButton = make("button", { type: "button", disabled: true, text: "Start over", onclick: forget });
    main.replaceChildren(
      make("div", { class: "view-head" }, make("h1", { text: "New person" }), make("p", { class: "quiet", text: "Rate what you know. Your list follows every answer." }), make("div", { class: "tools" }, undoButton, overButton)),
      make("div", { class: "asking" }, make("div", { class: "ask-left" }, question, rated), make("div", { class: "ask-right" }, sure, list)));
    if (Object.keys(person.pending).length) await send();
    else await refresh();
  }

  tastespace.views.person = { show };
})();
