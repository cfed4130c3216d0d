"use strict";
// An item as a card, a tile or in the panel of details; the person's rating of it is what it is all about.
(() => {
  const { make, icon, ask, path, number, counted, percent, stars, chance, likely, oneIn, liked, titleOf, kindsOf, about, initials, why, ratingGraphic, levelBars, scaleOf, thing, twin, table } = tastespace;
  const FEW = 10; // ratings below which a card says so

  const valueOf = (entry) => entry.expected_rating ?? entry.score;
  const shown = (value, scale) => number(tastespace.clamp(value, scale.low, scale.high), 1);
  const star = () => icon("star", 15);

  // A picture, or the initials on one of six tints: that of the rarest genre.
  function tile(entry, story, kind = "tile") {
    const address = story.images && entry.attributes ? entry.attributes[story.images] : null;
    if (typeof address === "string" && /^https?:/.test(address)) {
      return make("span", { class: kind }, make("img", { src: address, alt: "", loading: "lazy", referrerpolicy: "no-referrer" }));
    }
    const known = Object.values(story.attributes || {}).flatMap((one) => one.values || []);
    const places = kindsOf(entry, story.images).map((one) => known.indexOf(one)).filter((place) => place >= 0);
    const tint = places.length ? Math.max(...places) % 6 : [...String(entry.item)].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % 6;
    return make("span", { class: `${kind} tint-${tint}`, "aria-hidden": "true", dir: "auto", text: initials(entry) });
  }

  const bold = (parts) => parts.map((part) => (typeof part === "string" ? part : make("b", { dir: "auto", text: part.title })));

  // "Only 3 people have rated it", where that says how far to trust the number.
  function fewRatings(entry) {
    if (typeof entry.ratings !== "number" || entry.ratings >= FEW) return null;
    const words = entry.ratings === 0 ? "Nobody has rated it yet" : entry.ratings === 1 ? "Only 1 person has rated it" : `Only ${entry.ratings} people have rated it`;
    return make("span", { class: "chip warm", text: words });
  }

  // The number, the graphic and what it says; without uncertainty that is said.
  function ratingOf(entry, story, size = "big") {
    const scale = scaleOf(story);
    if (!scale.isRating) {
      return make("div", { class: "rated-as" }, make("span", { class: size, text: number(entry.score, 2) }), make("span", { class: "caption", text: "score: only the order means something" }));
    }
    return make("div", { class: "rated-as" },
      make("span", { class: size }, shown(valueOf(entry), scale), scale.hasStars ? star() : ""),
      make("div", {}, ratingGraphic(entry, scale), make("span", { class: "caption", "aria-hidden": "true", text: entry.interval ? chance(entry.interval, scale) : "this model gives no uncertainty" })));
  }

  function likedLine(entry, from, story) {
    const probability = liked(entry, from);
    if (probability === undefined) return null;
    const word = likely(probability);
    const scale = scaleOf(story);
    return make("p", { class: "fact", title: typeof from === "number" ? `Liked: a rating of at least ${stars(Math.ceil((from - scale.low) / scale.step - 1e-6) * scale.step + scale.low)}` : null },
      make("span", { text: word === "Could go either way" ? word : `${word} you’ll like it` }), make("b", { text: percent(probability) }));
  }

  function chosenLine(entry, baseRate, story) {
    if (typeof entry.chosen_probability !== "number") return null;
    const usual = typeof baseRate === "number" ? `That it is among your next choices; for an average ${thing(story)} that is ${oneIn(baseRate)}.` : null;
    return make("p", { class: "fact", title: usual }, make("span", { text: "You would choose it" }), make("b", { text: oneIn(entry.chosen_probability) }));
  }

  const ratedBy = (entry, story) => [`Rated by `, { title: `${tastespace.count(entry.ratings)} of ${tastespace.count(story.n_users)}` }, " people."];

  // `acts` are { open, similar, dismiss }, called with the entry.
  function card(entry, { story, found, acts, why: withReasons = true, tag = "h3" }) {
    const parts = (withReasons && why(entry, story, found.liked_from)) || (typeof entry.ratings === "number" ? ratedBy(entry, story) : []);
    const title = titleOf(entry);
    const element = make("article", { class: "card", "data-item": entry.item },
      make("div", { class: "card-head" }, tile(entry, story),
        make("div", {},
          make(tag, { class: "title", dir: "auto" }, acts.open ? make("button", { type: "button", title: entry.title || title, onclick: () => acts.open(entry) }, make("span", { text: title })) : make("span", { text: title })),
          make("p", { class: "meta", dir: "auto", text: about(entry, story.images) }),
          fewRatings(entry))),
      ratingOf(entry, story),
      make("div", { class: "facts" }, likedLine(entry, found.liked_from, story), chosenLine(entry, found.base_rate, story)),
      make("p", { class: "why", dir: "auto" }, bold(parts)),
      acts.similar || acts.dismiss ? make("div", { class: "acts" },
        acts.similar ? make("button", { type: "button", class: "plain", "aria-label": `Similar to ${title}`, onclick: () => acts.similar(entry) }, icon("similar"), "Similar") : null,
        acts.dismiss ? make("button", { type: "button", class: "plain quiet", "aria-label": `Not interested in ${title}`, onclick: () => acts.dismiss(entry, element) }, icon("not"), "Not interested") : null) : null);
    return element;
  }

  // Cards side by side, as many as fit; arrow keys go from one to the next, S and N act on the one in focus.
  function row(entries, options, label) {
    const list = make("ul", { class: "row", "aria-label": label, role: "list", tabindex: options.acts.open ? null : "0" }, entries.map((entry) => make("li", {}, card(entry, options))));
    list.addEventListener("keydown", (event) => {
      const item = event.target.closest("li");
      if (!item || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input")) return;
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        const next = step > 0 ? item.nextElementSibling : item.previousElementSibling;
        if (next) next.querySelector("button")?.focus(), next.scrollIntoView({ block: "nearest", inline: "nearest" });
        event.preventDefault();
        return;
      }
      const button = { s: ".acts button:first-child", n: ".acts .quiet" }[event.key.toLowerCase()];
      if (button && item.querySelector(button)) event.preventDefault(), item.querySelector(button).click();
    });
    return list;
  }

  // Gray shapes of the same size, while the first list is on its way.
  const skeleton = (n) => make("ul", { class: "row skeleton", "aria-hidden": "true" }, Array.from({ length: n }, () => make("li", {}, make("div", { class: "card" }, [68, 24, 14, 14, 36].map((height) => {
    const bone = make("i");
    bone.style.height = `${height}px`;
    return bone;
  })))));

  // The values of a list, as a table.
  function listTable(entries, found, story, caption) {
    const has = (name) => entries.some((entry) => entry[name] !== undefined && entry[name] !== null);
    const scale = scaleOf(story);
    const columns = [
      [scale.isRating ? "expected rating" : "score", (entry) => number(scale.isRating ? tastespace.clamp(valueOf(entry), scale.low, scale.high) : entry.score)],
      ...(has("interval") ? [["90 % from", (entry) => number(entry.interval?.[0])], ["to", (entry) => number(entry.interval?.[1])]] : []),
      ...(has("belief_sd") ? [["sd of the mean", (entry) => number(entry.belief_sd)], ["sd of a rating", (entry) => number(entry.rating_sd)]] : []),
      ...(entries.some((entry) => liked(entry, found.liked_from) !== undefined) ? [["liked", (entry) => percent(liked(entry, found.liked_from))]] : []),
      ...(has("chosen_probability") ? [["chosen", (entry) => percent(entry.chosen_probability, 1)]] : []),
      ["ratings", (entry) => entry.ratings ?? null],
    ];
    return twin(() => table(caption, [thing(story), ...columns.map(([name]) => name)], entries.map((entry) => [titleOf(entry), ...columns.map(([, of]) => of(entry))])));
  }

  // How much each of the person's ratings speaks for or against an item.
  function reasons(because, scale) {
    const most = Math.max(...because.map((reason) => Math.abs(reason.contribution)), 1e-9);
    return make("ul", { class: "reasons" }, because.map((reason) => {
      const bar = make("i", { class: reason.contribution < 0 ? "against" : "for" });
      bar.style.width = `${(50 * Math.abs(reason.contribution)) / most}%`;
      return make("li", {}, make("span", { class: "name", dir: "auto" }, titleOf(reason), " ", scale.isRating ? make("span", { class: "quiet", text: `${stars(reason.rating)}${scale.hasStars ? " ★" : ""}` }) : ""),
        make("span", { class: "diverging", "aria-hidden": "true" }, bar), make("span", { class: "value", text: `${reason.contribution < 0 ? "−" : "+"}${number(Math.abs(reason.contribution))}` }));
    }));
  }

  // What is known of one item for one person. `open` is called with an item that is similar.
  function details(entry, { story, found, open }) {
    const scale = scaleOf(story);
    const parts = [make("div", { class: "card-head" }, tile(entry, story), make("div", {}, make("h2", { dir: "auto", tabindex: "-1", text: titleOf(entry) }),
      make("p", { class: "meta", dir: "auto", text: [about(entry, story.images, 6), typeof entry.ratings === "number" ? counted(entry.ratings, "rating") : ""].filter(Boolean).join(" · ") }), fewRatings(entry)))];
    parts.push(ratingOf(entry, story), make("div", { class: "facts" }, likedLine(entry, found.liked_from, story), chosenLine(entry, found.base_rate, story)));
    if (entry.levels && scale.isRating) parts.push(make("h3", { text: "How you might rate it" }), levelBars(entry.levels, found.liked_from));
    if (typeof entry.belief_sd === "number" && typeof entry.rating_sd === "number" && scale.isRating) {
      const share = Math.min(1, entry.belief_sd ** 2 / (entry.rating_sd ** 2 || 1));
      const part = make("i");
      part.style.width = `${100 * share}%`;
      const noise = Math.sqrt(Math.max(0, entry.rating_sd ** 2 - entry.belief_sd ** 2));
      parts.push(make("h3", { text: "Why it is uncertain" }), make("span", { class: "share", "aria-hidden": "true" }, part),
        make("p", { class: "words" }, make("b", { class: "accent", text: percent(share) }), ` is what we do not know yet about you and the ${thing(story)}. The rest is how ratings vary anyway (±${number(noise, 1)} ${scale.unit}).`));
    }
    const because = (entry.because || []).filter((reason) => reason.contribution);
    if (because.length) parts.push(make("h3", {}, "What speaks for and against it", make("span", { class: "unit", text: scale.isRating && !story.can.choices ? scale.unit : "effect" })), reasons(because, scale));
    const near = make("div", { class: "near" });
    if (story.can.map) {
      parts.push(make("h3", { id: "similar", text: "Similar" }), near);
      ask(`${path("items", entry.item, "similar")}?n=6`).then((answer) => {
        near.replaceChildren(answer.items.length ? make("ul", { class: "pairs" }, answer.items.map((one) => make("li", {}, make("button", { type: "button", class: "plain", dir: "auto", text: titleOf(one), onclick: () => open(one) }), make("span", { class: "quiet", text: number(one.similarity) })))) : make("p", { class: "quiet", text: "Nothing is similar." }));
      }).catch((error) => near.replaceChildren(make("p", { class: "quiet", text: error.message })));
    }
    if (found.found_by) parts.push(make("p", { class: "quiet small", text: `${found.found_by[0].toUpperCase()}${found.found_by.slice(1)}.` }));
    if (entry.levels) {
      parts.push(twin(() => table(`Ratings of ${titleOf(entry)}`, ["rating", "probability"], Object.entries(entry.levels).map(([level, share]) => [level, percent(share, 1)]))));
    }
    return parts.filter(Boolean);
  }

  Object.assign(tastespace, { tile, card, row, skeleton, listTable, details, ratingOf, likedLine, chosenLine, fewRatings, bold, shown, star, reasons });
})();
