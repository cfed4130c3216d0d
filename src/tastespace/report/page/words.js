"use strict";
// What the page says: numbers, probabilities, titles and reasons in words.
(() => {
  const formats = {}; // Created once: that takes longer than using them.
  const number = (value, digits = 2) => {
    if (value === null || value === undefined) return "–";
    formats[digits] = formats[digits] || new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    return formats[digits].format(value).replace(/^-/, "−");
  };
  const count = (value) => value.toLocaleString("en");
  const figure = (value) => {
    if (value === null || value === undefined) return "–";
    if (typeof value === "string") return value;
    if (Number.isInteger(value)) return count(value);
    return Math.abs(value) >= 1000 ? count(Math.round(value)) : String(Number(value.toPrecision(4)));
  };
  const percent = (value, digits = 0) => (value === null || value === undefined ? "–" : `${number(100 * value, digits)} %`);
  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
  const date = (text) => new Date(text).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  const moment = (text) => new Date(text).toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });

  // What items are called: "films", one of them "film"; "items" where nothing is known.
  const things = (story) => story.items_are || "items";
  const thing = (story) => things(story).replace(/(.*)ies$/, "$1y").replace(/s$/, "");
  const aThing = (story) => `${/^[aeiou]/i.test(thing(story)) ? "an" : "a"} ${thing(story)}`;
  const counted = (n, one, several = `${one}s`) => `${count(n)} ${n === 1 ? one : several}`;
  const and = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`);

  // The scale of ratings. On one from 0 to 5 they are stars, elsewhere points; models of choices have none.
  function scaleOf(story) {
    const [low, high] = story.range;
    const isRating = !story.takes_choices && (story.scores_are_ratings || story.can.choices);
    const step = story.levels && story.levels.length > 1 ? story.levels[1] - story.levels[0] : (high - low) / 20;
    const every = [1, 2, 5, 10, 20, 50, 100].find((one) => (high - low) / one <= 8) || (high - low) / 5;
    const ticks = [];
    for (let tick = Math.ceil(low / every) * every; tick <= high + 1e-9; tick += every) ticks.push(tick);
    return { low, high, step, ticks, isRating, hasStars: isRating && low >= 0 && high <= 5 && high > 1, unit: low >= 0 && high <= 5 ? "stars" : "points" };
  }

  // 3½ and 4, where ratings have halves; otherwise with one decimal.
  function stars(value) {
    const twice = Math.round(value * 2);
    if (Math.abs(value * 2 - twice) > 1e-6) return number(value, 1);
    const whole = Math.trunc(twice / 2);
    const sign = value < 0 ? "−" : "";
    return sign + (twice % 2 ? `${whole === 0 ? "" : Math.abs(whole)}½` : Math.abs(whole));
  }

  // The low end is rounded down to a rating that can be given, the high end up.
  function interval([low, high], scale) {
    const down = scale.low + Math.floor((low - scale.low) / scale.step + 1e-6) * scale.step;
    const up = scale.low + Math.ceil((high - scale.low) / scale.step - 1e-6) * scale.step;
    return [clamp(down, scale.low, scale.high), clamp(up, scale.low, scale.high)];
  }
  const chance = (ends, scale) => {
    const [low, high] = interval(ends, scale).map(stars);
    return `9 in 10 chance: ${low} to ${high} ${scale.unit}`;
  };

  const WORDS = [[0.95, "Almost certain"], [0.8, "Very likely"], [0.6, "Likely"], [0.4, "Could go either way"], [0.2, "Unlikely"], [0, "Very unlikely"]];
  const likely = (probability) => WORDS.find(([least]) => probability >= least - 1e-9)[1];

  // "about 1 in 3".
  function oneIn(probability) {
    if (probability >= 0.9) return "almost surely";
    if (probability >= 0.6) return `about ${probability >= 0.71 ? "3 in 4" : "2 in 3"}`;
    if (probability < 0.001) return "less than 1 in 1,000";
    const n = 1 / probability;
    return `about 1 in ${count(n < 20 ? Math.max(2, Math.round(n)) : Number(n.toPrecision(n < 100 ? 1 : 2)))}`;
  }

  // The probability that a user likes an item: that of a rating of at least `liked_from`; undefined where nobody knows.
  function liked(entry, from) {
    if (typeof entry.liked_probability === "number") return entry.liked_probability;
    if (!entry.levels || typeof from !== "number") return undefined;
    return Object.entries(entry.levels).reduce((sum, [level, share]) => sum + (Number(level) >= from - 1e-9 ? share : 0), 0);
  }

  // "Shawshank Redemption, The (1994)" as people say it: "The Shawshank Redemption".
  function titleOf(entry) {
    const given = entry.title || "";
    if (!given) return `Item ${entry.item}`;
    let title = given.replace(/(\s*\([^()]*\))+\s*$/, "") || given;
    title = title.replace(/^(.+), (The|A|An|Les?|La|L'|Das|Der|Die|Il|El|Los|Las)$/, (_, name, article) => article + (article.endsWith("'") ? "" : " ") + name);
    return title;
  }
  const yearOf = (entry) => {
    const own = entry.attributes && entry.attributes.year;
    const named = /\((\d{4})\)\s*$/.exec(entry.title || "");
    return own ? String(own) : named ? named[1] : "";
  };
  // Genres and other kinds: the texts among the attributes.
  const kindsOf = (entry, hidden) => Object.entries(entry.attributes || {}).filter(([name, value]) => name !== "year" && name !== hidden && value !== null && typeof value !== "number")
    .flatMap(([, value]) => (Array.isArray(value) ? value : [value])).map(String).filter((text) => text && !/^\(.*\)$|^https?:/.test(text));
  function about(entry, hidden, most = 3) {
    const kinds = kindsOf(entry, hidden);
    const shown = kinds.slice(0, most).map((kind) => (kind.length > 30 ? `${kind.slice(0, 29)}…` : kind)).join(", ");
    return [yearOf(entry), shown + (kinds.length > most ? ` +${kinds.length - most}` : "")].filter(Boolean).join(" · ");
  }

  const SMALL = /^(the|a|an|of|and|for|in|on|to|at|de|la|le|der|die|das)$/i;
  function initials(entry) {
    const words = titleOf(entry).replace(/[^\p{L}\p{N}\s]/gu, " ").split(/\s+/).filter((word) => word && !SMALL.test(word));
    if (!words.length) return "•";
    const letters = words.length === 1 ? [...words[0]].slice(0, 2) : words.slice(0, 2).map((word) => [...word][0]);
    return letters.join("");
  }

  // The ratings that speak most for an item, as parts: texts, and titles to be set in bold.
  function why(entry, story, from) {
    const chosen = (entry.because || []).filter((reason) => reason.contribution > 0).slice(0, 2);
    if (!chosen.length) return null;
    if (story.takes_choices) return ["Because you chose ", ...chosen.flatMap((reason, place) => [place ? " and " : "", { title: titleOf(reason) }])];
    const scale = scaleOf(story);
    const mark = scale.hasStars ? " ★" : "";
    const isLow = (reason) => typeof from === "number" ? reason.rating < Math.min(from, (scale.low + scale.high) / 2) : reason.rating < (scale.low + scale.high) / 2;
    const [first, second] = chosen;
    const word = (reason) => (isLow(reason) ? "unlike " : "like ");
    const cap = (text) => text[0].toUpperCase() + text.slice(1);
    if (!second) return [cap(word(first)), { title: titleOf(first) }, `, which you gave ${stars(first.rating)}${mark}`];
    if (isLow(first) === isLow(second) && first.rating === second.rating) return [cap(word(first)), { title: titleOf(first) }, " and ", { title: titleOf(second) }, `, which you gave ${stars(first.rating)}${mark}`];
    if (isLow(first) === isLow(second)) return [cap(word(first)), { title: titleOf(first) }, ` (${stars(first.rating)}${mark}) and `, { title: titleOf(second) }, ` (${stars(second.rating)}${mark})`];
    const [good, bad] = isLow(first) ? [second, first] : [first, second];
    return ["Like ", { title: titleOf(good) }, ` (${stars(good.rating)}${mark}), unlike `, { title: titleOf(bad) }, ` (${stars(bad.rating)}${mark})`];
  }

  Object.assign(tastespace, {
    number, count, figure, percent, clamp, date, moment, things, thing, aThing, counted, and, scaleOf, stars, interval, chance, likely, oneIn, liked,
    titleOf, yearOf, kindsOf, about, initials, why,
  });
})();
