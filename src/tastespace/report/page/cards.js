"use strict";
// Recommendations as cards: the item, its expected rating with uncertainty, and the reasons.
(() => {
  const { make, number, percent, table, twin } = tastespace;

  // Genres and other attributes as chips; the year is shown beside the title.
  function chips(attributes) {
    const found = Object.entries(attributes || {}).filter(([name, value]) => name !== "year" && value !== null);
    const texts = found.flatMap(([, value]) => (Array.isArray(value) ? value : [value])).filter((text) => text !== null && text !== "");
    if (!texts.length) return null;
    const shown = texts.slice(0, 8).map((text) => make("li", { text: String(text), dir: "auto" }));
    if (texts.length > 8) shown.push(make("li", { text: `and ${texts.length - 8} more` }));
    return make("ul", { class: "chips", "aria-label": "Kinds" }, shown);
  }

  const year = (entry) => (entry.attributes && entry.attributes.year ? String(entry.attributes.year) : "");

  function heading(entry, tag = "h3") {
    const named = entry.title || `Item ${entry.item}`;
    const suffix = year(entry) && !named.includes(year(entry)) ? ` (${year(entry)})` : "";
    return make(tag, { class: "title", dir: "auto", title: named, text: named + suffix });
  }

  // Wide: 90 % of ratings. Narrow: uncertainty of the expected rating. A line at the expected rating.
  function bar(entry, range, isChoice) {
    const [low, high] = range;
    const place = (value) => Math.max(0, Math.min(100, (100 * (value - low)) / (high - low || 1)));
    const between = (from, to, kind) => {
      const band = make("i", { class: kind });
      band.style.left = `${place(from)}%`;
      band.style.width = `${Math.max(0.5, place(to) - place(from))}%`;
      return band;
    };
    const middle = make("i", { class: "middle" });
    middle.style.left = `${place(rating(entry))}%`;
    const words = describe(entry, range, isChoice);
    const shown = make("span", { class: "bar", role: "img", "aria-label": words });
    if (entry.interval) shown.append(between(...entry.interval, "wide"));
    if (entry.belief_sd !== null && entry.belief_sd !== undefined)
      shown.append(between(rating(entry) - 1.645 * entry.belief_sd, rating(entry) + 1.645 * entry.belief_sd, "narrow"));
    shown.append(middle);
    return make("div", {}, shown, make("div", { class: "ends", "aria-hidden": "true" }, make("span", { text: number(low, 1) }), make("span", { text: number(high, 1) })));
  }

  // Scores are not clipped to the range, so that they keep their order; displayed ones are. Without a range they are not
  // ratings.
  // The expected rating: the score itself, if the model orders by it.
  const rating = (entry) => entry.expected_rating ?? entry.score;
  const expected = (entry, range) => number(range ? Math.max(range[0], Math.min(range[1], rating(entry))) : entry.score);

  function describe(entry, range, isChoice) {
    const middle = `expected ${expected(entry, range)}`;
    return entry.interval ? `${middle}, 90 % of ${isChoice ? "outcomes" : "ratings"} from ${number(entry.interval[0])} to ${number(entry.interval[1])}` : middle;
  }

  // Ratings that raise the score of the item, and those that lower it.
  function reasons(entry, whose, isChoice) {
    const found = (entry.because || []).filter((reason) => reason.contribution);
    const listed = (chosen) => chosen.map((reason) => {
      const sign = reason.contribution > 0 ? "+" : "−";
      const given = !isChoice ? `rated ${tastespace.figure(reason.rating)}` : reason.rating === 1 ? "chosen once" : `chosen ${tastespace.figure(reason.rating)} times`;
      return `${reason.title || reason.item} (${given}: ${sign}${number(Math.abs(reason.contribution))})`;
    }).join("; ");
    const [pro, contra] = [found.filter((reason) => reason.contribution > 0), found.filter((reason) => reason.contribution < 0)];
    return [
      pro.length ? make("p", { class: "why", dir: "auto", text: `Because of ${whose}: ${listed(pro)}` }) : null,
      contra.length ? make("p", { class: "why", dir: "auto", text: `Although: ${listed(contra)}` }) : null,
    ];
  }

  function moved(entry, before) {
    if (!before) return "";
    const then = before.get(entry.item);
    if (then === undefined) return "new";
    return then === entry.rank ? "" : then > entry.rank ? `▲ ${then - entry.rank}` : `▼ ${entry.rank - then}`;
  }

  // Probabilities that the user chooses and likes the item, with the base rate; `liking` has that rate and the
  // threshold of a liked rating.
  function chances(entry, liking) {
    if (entry.chosen_probability === undefined || entry.chosen_probability === null) return null;
    const usual = `Among the next choices; ${percent(liking.base_rate, 1)} for an average item.`;
    return make("div", { class: "quiet" },
      make("span", { text: `chosen: ${percent(entry.chosen_probability)}`, title: usual }), " · ",
      make("span", { text: `liked: ${percent(entry.liked_probability)}`, title: `A rating of at least ${number(liking.liked_from)}.` }));
  }

  function card(entry, { range, before, foundBy, whose, isChoice, liking, actions, tag }) {
    const move = moved(entry, before);
    return make("li", { class: move === "new" ? "card fresh" : "card", "data-item": entry.item },
      make("div", { class: "rank" }, String(entry.rank), move ? make("span", { class: "move", text: move }) : null),
      make("div", {},
        heading(entry, tag),
        chips(entry.attributes),
        reasons(entry, whose, isChoice),
        foundBy ? make("details", {}, make("summary", { text: "How it was found" }), make("p", { class: "why", text: `${foundBy[0].toUpperCase()}${foundBy.slice(1)}.` })) : null,
        actions ? actions(entry) : null),
      make("div", { class: "sure" },
        range ? bar(entry, range, isChoice) : null,
        make("div", {}, range ? "" : "score ", make("strong", { text: expected(entry, range) }), entry.interval ? ` · 90 %: ${number(entry.interval[0], 1)} to ${number(entry.interval[1], 1)}` : ""),
        chances(entry, liking)));
  }

  function cards(entries, options) {
    return make("ol", { class: "cards" }, entries.map((entry) => card(entry, options)));
  }

  function cardTable(entries, caption, range) {
    const isOf = (name) => entries.some((entry) => entry[name] !== undefined && entry[name] !== null);
    const shares = [["chosen", "chosen_probability"], ["liked", "liked_probability"]].filter(([, name]) => isOf(name));
    const columns = ["rank", "item", range ? "expected" : "score", "belief sd", "90 % from", "to", ...shares.map(([title]) => title)];
    const rows = () => entries.map((entry) => [
      String(entry.rank), entry.title || entry.item, expected(entry, range), number(entry.belief_sd),
      number(entry.interval && entry.interval[0]), number(entry.interval && entry.interval[1]),
      ...shares.map(([, name]) => percent(entry[name])),
    ]);
    return twin(() => table(caption, columns, rows(), { texts: [1] }));
  }

  // Mean width of the intervals, which shrinks with every answer.
  function meanWidth(entries) {
    const widths = entries.filter((entry) => entry.interval).map((entry) => entry.interval[1] - entry.interval[0]);
    return widths.length ? widths.reduce((sum, width) => sum + width, 0) / widths.length : null;
  }

  // The scale of cards; null where scores are not ratings.
  const oldScale = (story) => (story.scores_are_ratings || story.can.choices ? story.range : null);

  Object.assign(tastespace, { cards, cardTable, heading, chips, meanWidth, oldScale });
})();
