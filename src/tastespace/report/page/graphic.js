"use strict";
// Everything that is drawn as SVG: the rating graphic, bars, and charts with axes. The report uses it too.
(() => {
  const { clamp, number, stars, chance } = tastespace;
  const SVG = "http://www.w3.org/2000/svg";

  function draw(tag, properties = {}, ...children) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(properties)) {
      if (value === null || value === undefined) continue;
      if (name === "style") element.style.cssText = value; // An attribute would be an inline style, which is not allowed.
      else element.setAttribute(name, value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  // Small pictures of buttons; those of one path are strokes.
  const ICONS = {
    similar: '<circle cx="6" cy="8" r="4.2"/><circle cx="10" cy="8" r="4.2"/>',
    not: '<circle cx="8" cy="8" r="6"/><path d="M3.8 3.8l8.4 8.4"/>',
    left: '<path d="M10 3L5 8l5 5"/>', right: '<path d="M6 3l5 5-5 5"/>', down: '<path d="M3.5 6L8 10.5 12.5 6"/>',
    filter: '<path d="M2 4h12M4 8h8M6 12h4"/>', close: '<path d="M4 4l8 8M12 4l-8 8"/>', check: '<path d="M3 8.5l3.2 3.2L13 5"/>',
    warn: '<path d="M8 2L1.5 13.5h13zM8 6.5v3.2M8 11.4v.6"/>', search: '<circle cx="7" cy="7" r="4.5"/><path d="M10.5 10.5L14 14"/>',
    home: '<path d="M2.5 8L8 3l5.5 5M4 7v6h8V7"/>', theme: '<circle cx="8" cy="8" r="6"/><path d="M8 2a6 6 0 010 12z" fill="currentColor"/>',
    star: '<path fill="currentColor" stroke="none" d="M8 1.2l2.05 4.5 4.9.55-3.65 3.3 1 4.85L8 11.95 3.7 14.4l1-4.85-3.65-3.3 4.9-.55z"/>',
  };
  function icon(name, size = 16) {
    const shown = draw("svg", { class: "icon", width: size, height: size, viewBox: "0 0 16 16", "aria-hidden": "true" });
    shown.innerHTML = ICONS[name]; // our own text, from above
    return shown;
  }

  // A line from the lowest to the highest rating; the band holds 90 % of ratings, the dot is the expected one. The dashed
  // whisker is the interval `before`.
  function ratingGraphic(entry, scale, { ticks = true, before = null, middle = entry.expected_rating ?? entry.score } = {}) {
    const at = (value) => `${(3 + (94 * (clamp(value, scale.low, scale.high) - scale.low)) / (scale.high - scale.low || 1)).toFixed(2)}%`;
    const line = (from, to, y1, y2, kind) => draw("line", { x1: from, x2: to, y1, y2, class: kind });
    const words = [`expected ${number(clamp(middle, scale.low, scale.high), 1)} ${scale.unit}`];
    if (entry.interval) words.push(chance(entry.interval, scale));
    const parts = [line(at(scale.low), at(scale.high), 9, 9, "axis")];
    for (const tick of scale.ticks) {
      parts.push(line(at(tick), at(tick), 5, 13, "axis"));
      if (ticks) parts.push(draw("text", { x: at(tick), y: 28, "text-anchor": "middle" }, String(tick).replace("-", "−")));
    }
    if (before) {
      parts.push(line(at(before[0]), at(before[1]), 9, 9, "before"));
      for (const end of before) parts.push(line(at(end), at(end), 5, 13, "before"));
    }
    if (entry.interval) {
      const [low, high] = entry.interval;
      const band = draw("line", { x1: at(low), x2: at(high), y1: 9, y2: 9, class: "band" });
      parts.push(band, line(at(low), at(low), 2, 16, "cap"), line(at(high), at(high), 2, 16, "cap"));
    }
    parts.push(draw("circle", { cx: at(middle), cy: 9, r: 5.5, class: "dot" }));
    return draw("svg", { class: "rating", role: "img", "aria-label": words.join("; "), height: ticks ? 32 : 18, width: "100%" }, parts);
  }

  // The probability of each rating, those that are liked in the accent colour.
  function levelBars(levels, from) {
    const shares = Object.entries(levels).map(([level, share]) => [Number(level), share]).sort((a, b) => a[0] - b[0]);
    const [width, height, top] = [312, 128, 92];
    const wide = width / shares.length;
    const most = Math.max(...shares.map(([, share]) => share), 1e-9);
    const parts = shares.flatMap(([level, share], place) => {
      const tall = Math.max(1, (top - 18) * (share / most));
      const x = place * wide;
      const good = typeof from === "number" && level >= from - 1e-9;
      return [
        draw("rect", { x: x + 2, width: wide - 4, y: top - tall, height: tall, rx: 2, class: good ? "good" : "plain" }),
        share >= 0.045 ? draw("text", { x: x + wide / 2, y: top - tall - 4, "text-anchor": "middle", class: good ? "ink" : null }, `${Math.round(100 * share)} %`) : null,
        draw("text", { x: x + wide / 2, y: top + 14, "text-anchor": "middle" }, stars(level)),
      ];
    });
    const first = typeof from === "number" ? shares.findIndex(([level]) => level >= from - 1e-9) : -1;
    if (first >= 0) {
      const sum = shares.slice(first).reduce((all, [, share]) => all + share, 0);
      const [left, right] = [first * wide + 2, width - 2];
      const x = clamp((left + right) / 2, 36, width - 36);
      parts.push(draw("path", { d: `M${left} ${top + 18}v5H${right}v-5`, class: "bracket" }), draw("text", { x, y: height, "text-anchor": "middle", class: "strong" }, `liked: ${Math.round(100 * sum)} %`));
    }
    const words = shares.filter(([, share]) => share >= 0.01).map(([level, share]) => `${stars(level)}: ${Math.round(100 * share)} %`).join(", ");
    return draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height + 6}`, role: "img", "aria-label": `Probability of each rating: ${words}` }, parts);
  }

  // Ticks at round numbers, about `n` of them.
  function niceTicks(low, high, n = 5) {
    const rough = (high - low || Math.abs(high) || 1) / n;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough) || power;
    const ticks = [];
    for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) ticks.push(Number(tick.toPrecision(12)));
    return ticks;
  }

  // A chart: `x` and `y` are { low, high, ticks, format, title } or, for x, { labels }. `parts(px, py, box)` draws in it.
  function chart({ x, y, parts, label, width = 520, height = 240, left = 44 }) {
    const box = { left, right: width - 12, top: 14, bottom: height - (x.title ? 40 : 24) };
    const between = (value, { low, high }, from, to) => from + ((value - low) / (high - low || 1)) * (to - from);
    const px = x.labels ? (place) => box.left + ((place + 0.5) * (box.right - box.left)) / x.labels.length : (value) => between(value, x, box.left, box.right);
    const py = (value) => between(value, y, box.bottom, box.top);
    const frame = [];
    for (const tick of y.ticks || niceTicks(y.low, y.high)) {
      frame.push(draw("line", { x1: box.left, x2: box.right, y1: py(tick), y2: py(tick), class: "grid" }));
      frame.push(draw("text", { x: box.left - 8, y: py(tick) + 4, "text-anchor": "end" }, (y.format || String)(tick)));
    }
    const marks = x.labels ? x.labels.map((text, place) => [place, text]) : (x.ticks || niceTicks(x.low, x.high)).map((tick) => [tick, (x.format || String)(tick)]);
    for (const [at, text] of marks) frame.push(draw("text", { x: px(at), y: box.bottom + 16, "text-anchor": "middle" }, text));
    if (x.title) frame.push(draw("text", { x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, x.title));
    return draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, frame, parts(px, py, box));
  }

  const polyline = (points, kind, style) => draw("polyline", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), class: kind, style });

  Object.assign(tastespace, { draw, icon, ratingGraphic, levelBars, niceTicks, chart, polyline });
})();
