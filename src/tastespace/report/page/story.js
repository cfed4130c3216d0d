"use strict";
// A model in words and figures: a verdict, key figures, and sections that prove them. The page and the report show the same.
(() => {
  const { make, icon, draw, chart, polyline, niceTicks, table, twin, figure, number, percent, count, counted, date, moment, and, things, thing, scaleOf } = tastespace;
  const NAMES = { rmse: "RMSE", mae: "MAE", crps: "CRPS", log_score: "log score", kendall_tau: "Kendall tau-b", pairwise_accuracy: "pairwise accuracy", auc: "AUC", map: "MAP", mrr: "MRR", ndcg: "NDCG", ndcg_rated: "NDCG (rated items)", hit_rate: "hit rate", log_loss: "log loss" };
  const SPREAD = 1.645; // sds of a normal distribution that hold 90 %
  const [MARGIN, OFF] = [0.02, 0.02]; // how much better than averages is better; how far from its coverage an interval may be
  const TRACES = ["var(--accent)", "var(--edge)", "var(--warm)", "var(--band)"];
  const ENOUGH = 50; // live ratings, from which their coverage is told

  const display = (measure) => {
    const [name, k] = measure.split("@");
    return (NAMES[name] || name.replaceAll("_", " ")) + (k ? `@${k}` : "");
  };
  // The most informative measures of a model: those on held-out ratings.
  const tested = (story) => (Object.entries(story.measures).find(([, found]) => found && found.groups) || Object.entries(story.measures).find(([, found]) => found && typeof found === "object") || [null, null])[1];
  const calibrationOf = (story) => tested(story)?.calibration?.measures || null;
  const unitOf = (story) => scaleOf(story).unit;
  const isUnsettled = (story) => Boolean(story.chains && story.chains.rows.some((row) => row.quantity.startsWith("predictions") && row.verdict === "not converged")) || Boolean(story.chains?.warning);
  const oddQuantities = (story) => (story.chains ? story.chains.rows.filter((row) => !row.quantity.startsWith("predictions") && row.verdict !== "fine") : []);
  const listMeasure = (one) => ["ndcg@10", ...Object.keys(one || {}).filter((name) => name.startsWith("ndcg@"))].find((name) => one && typeof one[name] === "number");

  // How the model compares with the simplest one: averages where it predicts ratings, what is popular where it lists.
  function against(story) {
    const one = tested(story);
    if (one && typeof one.rmse === "number" && one.averages) return { name: "averages", gain: 1 - one.rmse / one.averages.rmse };
    const measure = listMeasure(one);
    if (measure && one.popular && typeof one.rmse !== "number") return { name: "what is popular", gain: one[measure] / one.popular[measure] - 1 };
    return null;
  }

  function verdict(story) {
    const [one, cover, gain] = [tested(story), calibrationOf(story), against(story)];
    const off = cover && typeof cover.coverage_90 === "number" ? cover.coverage_90 - (cover.expected_90 ?? 0.9) : null;
    const title = isUnsettled(story) ? "Not ready: train longer"
      : !one ? "Not measured: fit with --holdout 0.1"
      : gain && gain.gain < MARGIN ? `No better than ${gain.name}`
      : off === null ? "Good, without a word on its uncertainty"
      : off < -OFF ? "Good, but too sure of itself" : off > OFF ? "Good, but less sure than it could be" : "Good, and honest about its uncertainty";
    const checks = [];
    if (gain) checks.push([gain.gain >= MARGIN, `${gain.gain >= MARGIN ? "Better" : "No better"} than ${gain.name}`]);
    if (off !== null) checks.push([Math.abs(off) <= OFF, Math.abs(off) <= OFF ? "Calibrated to 2 points" : `Intervals off by ${number(100 * Math.abs(off), 1)} points`]);
    if (story.chains) checks.push([!isUnsettled(story), isUnsettled(story) ? "Predictions not converged" : "Predictions converged"]);
    const odd = oddQuantities(story);
    if (odd.length) checks.push([false, `${counted(odd.length, "quantity", "quantities")} not converged`]);
    let words = "Nothing was held out, so nobody knows how good it is.";
    if (one && typeof one.rmse === "number") {
      words = `On ${count(one.n)} unseen ratings its typical error is ${number(one.rmse)} ${unitOf(story)}`;
      if (gain) words += `, ${percent(Math.abs(gain.gain))} ${gain.gain >= 0 ? "less" : "more"} than with averages`;
      if (off !== null) words += `; ${percent(cover.coverage_90, 1)} fell into its 90 % intervals`;
      words += ".";
    } else if (one && listMeasure(one)) {
      words = `On ${count(one.n)} unseen choices its lists reach ${display(listMeasure(one))} ${number(one[listMeasure(one)], 3)}`;
      words += gain ? `, ${percent(Math.abs(gain.gain))} ${gain.gain >= 0 ? "more" : "less"} than what is popular.` : ".";
    }
    return { title, words, checks, isGood: title.startsWith("Good") };
  }

  function verdictBar(story, right) {
    const found = verdict(story);
    return make("div", { class: "verdict" },
      make("span", { class: found.isGood ? "seal" : "seal warm", "aria-hidden": "true" }, icon(found.isGood ? "check" : "warn", 24)),
      make("div", {}, make("h1", { text: found.title }), make("p", { class: "said", text: found.words }),
        make("ul", { class: "checks" }, found.checks.map(([isFine, text]) => make("li", { class: isFine ? "" : "warm" }, icon(isFine ? "check" : "warn"), text)))),
      right ? make("div", { class: "since" }, right) : "");
  }

  // A dot for the model, a tick for what it is held against.
  function gauge(value, tick, low, high, words) {
    const at = (one) => `${(4 + 92 * Math.max(0, Math.min(1, (one - low) / (high - low || 1)))).toFixed(1)}%`;
    const line = (x1, x2, y1, y2, kind) => draw("line", { x1, x2, y1, y2, class: kind });
    return draw("svg", { class: "rating gauge", width: "100%", height: 18, role: "img", "aria-label": words },
      line("4%", "96%", 9, 9, "axis"), tick === null ? null : line(at(tick), at(value), 9, 9, "band"), tick === null ? null : line(at(tick), at(tick), 1, 17, "tick"), draw("circle", { cx: at(value), cy: 9, r: 5, class: "dot" }));
  }

  // `live` are the measures of the latest ratings, where a service watches them.
  function keyFigures(story, live, added) {
    const one = tested(story);
    const cover = calibrationOf(story);
    const cards = [];
    const card = (title, value, graphic, words) => cards.push(make("div", { class: "panel kpi" }, make("h2", { text: title }), make("p", { class: "big", text: value }), graphic || "", make("p", { class: "caption", text: words })));
    if (one && typeof one.rmse === "number") {
      const tick = one.averages ? one.averages.rmse : null;
      const [low, high] = [Math.min(one.rmse, tick ?? one.rmse) * 0.9, Math.max(one.rmse, tick ?? one.rmse) * 1.06];
      card("Typical error (RMSE)", number(one.rmse, 3), gauge(one.rmse, tick, low, high, `RMSE ${number(one.rmse, 3)}`), tick === null ? unitOf(story) : `tick: averages, ${number(tick, 3)}`);
    }
    const measure = listMeasure(one);
    if (measure) {
      const tick = one.popular ? one.popular[measure] : null;
      card(`Ranking (${display(measure)})`, number(one[measure], 3), gauge(one[measure], tick, 0, Math.max(one[measure], tick ?? 0) * 1.25, `${display(measure)} ${number(one[measure], 3)}`), tick === null ? "of all unseen items" : `tick: popular first, ${number(tick, 3)}`);
    }
    const expected = cover?.expected_90 ?? 0.9;
    if (cover && typeof cover.coverage_90 === "number") card("Coverage of 90 % intervals", percent(cover.coverage_90, 1), gauge(cover.coverage_90, expected, 0.8, 1, `coverage ${percent(cover.coverage_90, 1)}`), `tick: it expected ${percent(expected, 1)}`);
    if (live) {
      const now = live.measures.coverage_90;
      const isEnough = now && now.n >= ENOUGH;
      card("Live coverage (90 %)", isEnough ? percent(now.value, 1) : "–", isEnough ? gauge(now.value, expected, Math.min(0.8, now.value), 1, `live coverage ${percent(now.value, 1)}`) : "", isEnough ? `${counted(now.n, "rating")}; tick: ${percent(expected, 1)}` : now ? `${counted(now.n, "rating")}: too few to say` : "no ratings since it answers");
    }
    const sizes = `${count(story.data.n_users)} people, ${count(story.data.n_items)} ${things(story)}`;
    card(scaleOf(story).isRating ? "Ratings" : "Choices", count(story.data.n_ratings), "", typeof added === "number" ? `${sizes}; ${added > 0 ? `${count(added)} new` : "none new"} since training` : sizes);
    if (story.trained_at) {
      const days = Math.floor((Date.now() - new Date(story.trained_at)) / 86_400_000);
      card("Last trained", days < 1 ? "today" : days === 1 ? "yesterday" : `${count(days)} days ago`, "", moment(story.trained_at));
    }
    return make("div", { class: "kpis" }, cards);
  }

  const panel = (title, words, ...parts) => make("div", { class: "panel figure" }, make("h3", { text: title }), words ? make("p", { class: "caption", text: words }) : "", ...parts.filter(Boolean));
  const missing = (text) => make("p", { class: "quiet panel", text });
  const facts = (pairs) => make("dl", { class: "panel facts-row" }, pairs.filter(Boolean).map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { dir: "auto" }, value))));

  function accuracy(story) {
    const one = tested(story);
    if (!one) return { id: "accuracy", title: "Accuracy", isFine: false, finding: "Not measured: fit with --holdout 0.1 to hold out a tenth of the ratings.", body: [] };
    const names = Object.keys(one).filter((name) => typeof one[name] === "number" && !["n", "cold", "fit_seconds"].includes(name));
    const body = [];
    const hardest = [];
    const sides = one.groups ? ["users", "items"].filter((side) => (one.groups[side] || []).some((group) => group.n && group.measures)) : [];
    const figures = sides.map((side) => {
      const groups = one.groups[side].filter((group) => group.n && group.measures);
      const measure = Object.keys(groups[0].measures).includes("rmse") ? "rmse" : Object.keys(groups[0].measures)[0];
      const values = groups.map((group) => group.measures[measure]);
      const spread = (group) => (measure === "rmse" ? (SPREAD * group.measures.rmse) / Math.sqrt(2 * group.n) : 0);
      const ticks = niceTicks(Math.min(...groups.map((group) => group.measures[measure] - spread(group))), Math.max(...groups.map((group) => group.measures[measure] + spread(group))), 5);
      const step = ticks.length > 1 ? ticks[1] - ticks[0] : 0.1;
      const [low, high] = [Math.min(ticks[0], ...values.map((value) => value)) - step / 2, ticks[ticks.length - 1] + step / 2];
      const most = Math.max(...groups.map((group) => group.n));
      const who = side === "users" ? "person" : thing(story);
      if (measure === "rmse" && groups.length > 1) {
        const worst = groups.filter((group) => group.n >= 30).sort((a, b) => b.measures.rmse - a.measures.rmse)[0];
        const label = worst && worst.training_ratings.replace(/ ?\(cold\)/, "");
        if (worst) hardest.push(`${side === "users" ? "people" : things(story)} ${label === "0" ? "nobody had rated" : `with ${label.replace("> ", "over ")} ratings`} (RMSE ${number(worst.measures.rmse)})`);
      }
      const all = one[measure];
      const picture = chart({
        x: { labels: groups.map((group) => group.training_ratings.replace(/ ?\(cold\)/, "").replace("> ", "over ")), title: "number of ratings the model learned from" },
        y: { low, high, ticks, format: (value) => number(value, 1 + (step < 0.1)) }, label: `${display(measure)} by ${who}`,
        parts: (px, py, box) => [
          typeof all === "number" && all >= low && all <= high ? [draw("line", { x1: box.left, x2: box.right, y1: py(all), y2: py(all), class: "level" }), draw("text", { x: box.left + 2, y: py(all) + 14, class: "strong" }, `all: ${number(all)}`)] : [],
          groups.map((group, place) => [
            spread(group) ? draw("line", { x1: px(place), x2: px(place), y1: py(group.measures[measure] - spread(group)), y2: py(group.measures[measure] + spread(group)), class: "whisker" }) : null,
            draw("circle", { cx: px(place), cy: py(group.measures[measure]), r: 3 + 3.5 * Math.sqrt(group.n / most), class: "dot" })]),
        ].flat(3).filter(Boolean),
      });
      return panel(`By ${who}`, `${display(measure)}${measure === "rmse" ? ` in ${unitOf(story)}; a larger dot has more test ratings, the line is its 90 % range` : ""}`, picture,
        twin(() => table(`${display(measure)} by ${who}`, ["training ratings", "test ratings", ...Object.keys(groups[0].measures).map(display)], groups.map((group) => [group.training_ratings, group.n, ...Object.values(group.measures).map((value) => number(value, 4))]))));
    });
    if (figures.length) body.push(make("div", { class: "pair" }, figures));
    for (const each of one.verdicts || []) body.push(make("p", { class: "quiet small", text: each.words }));
    const columns = [["model", one], ...(one.averages ? [["averages", one.averages]] : []), ...(one.popular ? [["popular", one.popular]] : [])];
    body.push(twin(() => table("All measures on held-out ratings", ["measure", ...columns.map(([name]) => name)], names.map((name) => [display(name), ...columns.map(([, of]) => (typeof of[name] === "number" ? number(of[name], 4) : "–"))])), "All measures"));
    const gain = against(story);
    return { id: "accuracy", title: "Accuracy", heading: "Accuracy: for whom, and for what", isFine: !gain || gain.gain >= MARGIN, finding: hardest.length ? `Hardest are ${and(hardest)}.` : "", body };
  }

  function coverageChart(found) {
    const rows = Object.keys(found.measures).filter((name) => name.startsWith("coverage_")).map((name) => {
      const nominal = name.slice("coverage_".length);
      return { nominal: Number(nominal) / 100, expected: found.measures[`expected_${nominal}`] ?? Number(nominal) / 100, seen: found.measures[name], width: found.measures[`width_${nominal}`] };
    });
    const side = { low: 0.4, high: 1.02, ticks: [0.4, 0.6, 0.8, 1], format: (value) => percent(value) };
    const words = rows.map((row) => `${percent(row.expected, 1)} expected, ${percent(row.seen, 1)} observed`).join("; ");
    return panel("Expected and observed coverage", `ratings inside ${and(rows.map((row) => String(Math.round(100 * row.nominal))))} % intervals`, chart({
      x: { ...side, title: "expected share" }, y: side, label: words, width: 330, height: 260, left: 50,
      parts: (px, py, box) => [draw("line", { x1: px(0.4), y1: py(0.4), x2: px(1), y2: py(1), class: "axis" }), draw("text", { x: box.right, y: box.bottom - 8, "text-anchor": "end" }, "on the line: as expected"),
        ...rows.flatMap((row, place) => [draw("circle", { cx: px(row.expected), cy: py(row.seen), r: 5, class: "dot" }), draw("text", { x: px(row.expected) - 9, y: py(row.seen) + (place % 2 ? 4 : -2), "text-anchor": "end", class: "ink" }, number(100 * row.seen, 1))])],
    }), twin(() => table("Coverage", ["interval", "expected", "observed", "mean width"], rows.map((row) => [percent(row.nominal), percent(row.expected, 1), percent(row.seen, 1), number(row.width)]))));
  }

  function pitChart(found) {
    const n = found.pit.length;
    const even = 1 / n;
    const half = SPREAD * Math.sqrt((even * (1 - even)) / found.n);
    const high = Math.max(...found.pit, even + half) * 1.12;
    return panel("Where ratings fell (PIT)", `in the predicted range, ${n} equal parts`, chart({
      x: { low: 0, high: n, ticks: [] }, y: { low: 0, high, ticks: [] }, label: `Share of ratings in each of ${n} equally likely parts of the predicted range: ${found.pit.map((share) => percent(share, 1)).join(", ")}`, width: 330, height: 260, left: 12,
      parts: (px, py, box) => [...found.pit.map((share, place) => draw("rect", { x: px(place) + 1, width: px(1) - px(0) - 2, y: py(share), height: box.bottom - py(share), class: "pale" })),
        draw("rect", { x: box.left, width: box.right - box.left, y: py(even + half), height: py(even - half) - py(even + half), class: "band-area" }), draw("line", { x1: box.left, x2: box.right, y1: py(even), y2: py(even), class: "even" }),
        draw("text", { x: box.right, y: box.top + 2, "text-anchor": "end" }, "flat at the line = calibrated"), draw("text", { x: box.left, y: box.bottom + 16 }, "lower than expected"), draw("text", { x: box.right, y: box.bottom + 16, "text-anchor": "end" }, "higher")],
    }), twin(() => table("Probability integral transform", ["part below", "share"], found.pit.map((share, place) => [percent((place + 1) / n), percent(share, 1)]))));
  }

  function spreadChart(found, story) {
    const rows = found.confidence.filter((part) => part.measures && typeof part.measures.rating_sd === "number");
    if (rows.length < 2) return null;
    const all = rows.flatMap((row) => [row.measures.rating_sd, row.measures.rmse]);
    const [low, high] = [Math.min(...all) * 0.93, Math.max(...all) * 1.05];
    const side = { low, high, format: (value) => number(value, 1) };
    return panel("Stated uncertainty and actual error", "RMSE by tenths, from the most to the least certain", chart({
      x: { ...side, title: `stated standard deviation (${unitOf(story)})` }, y: side, label: rows.map((row) => `stated ${number(row.measures.rating_sd)}, RMSE ${number(row.measures.rmse)}`).join("; "), width: 330, height: 260, left: 40,
      parts: (px, py) => [draw("line", { x1: px(low), y1: py(low), x2: px(high), y2: py(high), class: "axis" }), ...rows.map((row) => draw("circle", { cx: px(row.measures.rating_sd), cy: py(row.measures.rmse), r: 5, class: "dot" })),
        draw("text", { x: px(rows[0].measures.rating_sd) + 9, y: py(rows[0].measures.rmse) + 4 }, "most certain tenth"), draw("text", { x: px(rows[rows.length - 1].measures.rating_sd) - 9, y: py(rows[rows.length - 1].measures.rmse) - 4, "text-anchor": "end" }, "least certain")],
    }), twin(() => table("Error by stated uncertainty", ["ratings", "stated sd", "RMSE"], rows.map((row) => [row.share, number(row.measures.rating_sd, 3), number(row.measures.rmse, 4)]))));
  }

  function reliabilityChart(bins) {
    const filled = bins.filter((bin) => bin.n);
    const side = { low: 0, high: 1, ticks: [0, 0.25, 0.5, 0.75, 1], format: (value) => percent(value) };
    return panel("Yes and no", "observed share of yes by predicted probability", chart({
      x: { ...side, title: "predicted probability" }, y: side, label: filled.map((bin) => `predicted ${percent(bin.predicted)}, observed ${percent(bin.yes)}`).join("; "), width: 330, height: 260, left: 50,
      parts: (px, py) => [draw("line", { x1: px(0), y1: py(0), x2: px(1), y2: py(1), class: "axis" }), ...filled.flatMap((bin) => [bin.interval ? draw("line", { x1: px(bin.predicted), x2: px(bin.predicted), y1: py(bin.interval[0]), y2: py(bin.interval[1]), class: "whisker" }) : null, draw("circle", { cx: px(bin.predicted), cy: py(bin.yes), r: 5, class: "dot" })]).filter(Boolean)],
    }), twin(() => table("Yes and no", ["predicted probability", "test ratings", "predicted", "yes"], bins.map((bin) => [`${percent(bin.low)} to ${percent(bin.high)}`, bin.n || 0, bin.n ? percent(bin.predicted, 1) : "–", bin.n ? percent(bin.yes, 1) : "–"]))));
  }

  function calibration(story) {
    const one = tested(story);
    const [found, bins] = [one?.calibration, one?.reliability];
    if (!found && !bins) return one ? { id: "calibration", title: "Calibration", isFine: null, finding: story.can.uncertainty ? "It was not measured." : `${story.class} gives no uncertainty, so there is none to check.`, body: [] } : null;
    const cover = found?.measures;
    let [heading, finding, isFine] = ["Calibration", "", null];
    if (cover && typeof cover.coverage_90 === "number") {
      const off = cover.coverage_90 - (cover.expected_90 ?? 0.9);
      isFine = Math.abs(off) <= OFF;
      heading = isFine ? "Calibration: as sure as it should be" : off < 0 ? "Calibration: too sure of itself" : "Calibration: less sure than it could be";
      const degree = Math.abs(off) < 0.005 ? "as it should be" : `${Math.abs(off) <= OFF ? "slightly " : ""}${off < 0 ? "too sure" : "not sure enough"}`;
      finding = `${percent(cover.coverage_90, 1)} fell into its 90 % intervals where it expected ${percent(cover.expected_90 ?? 0.9, 1)}: ${degree}.`;
      const half = 2.6 * Math.sqrt((0.05 * 0.95) / found.n);
      if (found.pit[0] > 1 / found.pit.length + half) finding += " Very low ratings come more often than predicted.";
    }
    return { id: "calibration", title: "Calibration", heading, isFine, finding, body: [make("div", { class: "pair three" }, bins ? reliabilityChart(bins) : null, found && cover && typeof cover.coverage_90 === "number" ? coverageChart(found) : null, found ? pitChart(found) : null, found ? spreadChart(found, story) : null)] };
  }

  function trace(name, series, warmup, row) {
    const n = series[0].length;
    const later = series.flatMap((one) => one.slice(Math.min(warmup, n - 1))).filter((value) => value !== null);
    const [least, most] = [later.reduce((a, b) => Math.min(a, b), Infinity), later.reduce((a, b) => Math.max(a, b), -Infinity)];
    const margin = (most - least || Math.abs(most) * 0.1 || 1) * 0.4;
    const at = (value) => 60 - (56 * Math.max(0, Math.min(1, (value - least + margin) / (most - least + 2 * margin)))) - 2;
    const isFine = !row || row.verdict === "fine";
    const words = row ? `R-hat ${number(row.rhat, 2)} · ${count(Math.round(row.ess_bulk || 0))} effective draws` : "";
    return make("div", { class: "panel trace" }, make("h3", {}, name, row ? make("span", { class: isFine ? "state" : "state warm" }, icon(isFine ? "check" : "warn", 13), isFine ? "converged" : row.verdict) : ""),
      draw("svg", { class: "chart", viewBox: "0 0 230 60", preserveAspectRatio: "none", role: "img", "aria-label": `${name} by sweep, ${counted(series.length, "chain")}. ${words}` },
        draw("rect", { x: 0, y: 0, width: (230 * warmup) / n, height: 60, class: "warmup" }), series.map((one, chain) => polyline(one.map((value, sweep) => [(230 * sweep) / Math.max(1, n - 1), at(value ?? least)]), "line", `stroke: ${TRACES[chain % TRACES.length]}`))),
      make("p", { class: "caption", text: words }));
  }

  function chains(story) {
    const found = story.chains;
    if (!found) {
      if (!story.course) return { id: "chains", title: "Inference", isFine: null, finding: `${story.class} is computed in one step, so there is no convergence to watch.`, body: [] };
      const values = story.course.values;
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return { id: "chains", title: "Inference", isFine: null, finding: `The ${story.course.name}, step by step: it levels off when the model has converged.`, body: [panel(`The ${story.course.name}`, "", chart({ x: { low: 1, high: values.length, title: "sweep" }, y: { low, high, format: figure }, left: 74, label: `${story.course.name} from ${figure(values[0])} to ${figure(values[values.length - 1])}`, parts: (px, py) => [polyline(values.map((value, sweep) => [px(sweep + 1), py(value)]), "line", `stroke: ${TRACES[0]}`)] }), twin(() => table(story.course.name, ["sweep", story.course.name], values.map((value, sweep) => [String(sweep + 1), value]))))] };
    }
    const odd = oddQuantities(story);
    const isFine = !isUnsettled(story);
    const heading = !isFine ? "Chains: predictions have not converged" : odd.length ? `Chains: predictions have converged, ${counted(odd.length, "quantity has", "quantities have")} not` : "Chains: everything has converged";
    const finding = [found.warning || (odd.length ? `Good enough for predictions. Do not read much into ${and(odd.map((row) => `“${row.quantity}”`))}.` : "Good enough for predictions."), `${found.schedule[0].toUpperCase()}${found.schedule.slice(1)}; warm-up is shaded.`].join(" ");
    const rows = new Map(found.rows.map((row) => [row.quantity, row]));
    const watched = make("div", { class: "panel trace soft" }, make("h3", {}, "Predictions", make("span", { class: isFine ? "state" : "state warm" }, icon(isFine ? "check" : "warn", 13), isFine ? "converged" : "not converged")), make("p", { class: "small", text: found.meaning.replaceAll("\n", " ") }));
    const values = found.rows.map((row) => [row.quantity, row.mean, row.sd, number(row.rhat, 3), row.ess_bulk === null ? "–" : count(Math.round(row.ess_bulk)), row.ess_tail === null ? "–" : count(Math.round(row.ess_tail)), row.mcse, row.verdict]);
    return { id: "chains", title: "Chains", heading, isFine: isFine && !odd.length, finding, body: [make("div", { class: "traces" }, Object.entries(found.quantities).map(([name, series]) => trace(name, series, found.warmup, rows.get(name))), watched),
      twin(() => table("Convergence", ["quantity", "mean", "sd", "R-hat", "bulk ESS", "tail ESS", "MCSE", "verdict"], values, { texts: [7] }))] };
  }

  function histogram(title, one, common, range, who) {
    const most = Math.max(...one.counts);
    const step = (range[1] - range[0]) / 6;
    return panel(title, "", chart({
      x: { low: range[0], high: range[1], ticks: niceTicks(range[0], range[1], 6), format: (value) => number(value, 1), title: "noise standard deviation" }, y: { low: 0, high: most * 1.2, ticks: [] }, left: 12, height: 200, label: `${title}: from ${number(one.edges[0])} to ${number(one.edges[one.edges.length - 1])}`,
      parts: (px, py, box) => [...one.counts.map((n, place) => draw("rect", { x: px(one.edges[place]) + 0.5, width: Math.max(1, px(one.edges[place + 1]) - px(one.edges[place]) - 1), y: py(n), height: box.bottom - py(n), class: "pale" })),
        ...(common === null ? [] : [draw("line", { x1: px(common), x2: px(common), y1: box.top, y2: box.bottom, class: "level" }), draw("text", { x: px(common) + 4, y: box.top + 10, class: "strong" }, `overall ±${number(common)}`)])],
    }), twin(() => table(`Noisiest ${who}`, [who.replace(/s$/, ""), "ratings", "noise sd", "90 % from", "to"], one.noisiest.map((row) => [row.title || row.id, row.ratings, number(row.noise_sd), number(row.low), number(row.high)])), `The noisiest ${who}`));
  }

  function noise(story) {
    const found = story.noise;
    if (!found) return null;
    const unit = unitOf(story);
    let finding = found.sd === null ? "" : `Even a perfect model would be off by about ${number(found.sd)} ${unit}.`;
    if (!found.users) return { id: "noise", title: "Noise", heading: "Noise: how predictable ratings are", isFine: null, finding: `${finding} It is the same for everybody; fit with --set likelihood=heteroscedastic to learn it for each person and item.`.trim(), body: [] };
    const width = (one) => one.edges[one.edges.length - 1] - one.edges[0];
    finding += ` ${width(found.users) > width(found.items) ? `People differ in this more than ${things(story)}` : `${things(story)[0].toUpperCase()}${things(story).slice(1)} differ in this more than people`}: from ±${number((width(found.users) > width(found.items) ? found.users : found.items).edges[0])} to ±${number((width(found.users) > width(found.items) ? found.users : found.items).edges.at(-1))}.`;
    const range = [Math.min(found.users.edges[0], found.items.edges[0]), Math.max(found.users.edges.at(-1), found.items.edges.at(-1))];
    return { id: "noise", title: "Noise", heading: "Noise: how predictable ratings are", isFine: null, finding, body: [make("div", { class: "pair" }, histogram("People", found.users, found.sd, range, "people"), histogram(things(story)[0].toUpperCase() + things(story).slice(1), found.items, found.sd, range, things(story)))] };
  }

  function index(story) {
    const one = story.index;
    if (!one) return { id: "index", title: "Index", heading: "Index: none is needed", isFine: null, finding: `All ${count(story.data.n_items)} ${things(story)} are looked at for every list, so that nothing is missed.`, body: [] };
    const k = one.target.k || 10;
    return { id: "index", title: "Index", heading: `Index: ${one.chosen.description}`, isFine: null, finding: `It finds ${percent(one.chosen.accuracy, 1)} of the true best ${k}, ${number(one.chosen.speedup, 1)} times as fast as a plain scan.`, body: [
      facts([["Structure", one.chosen.description], [`Found of the true best ${k}`, percent(one.chosen.accuracy, 1)], ["Times as fast as a scan", number(one.chosen.speedup, 1)], ["Tried", counted(one.curve.length, "structure")]]),
      twin(() => table("Trials", ["structure", "accuracy", "times as fast", "microseconds"], [one.chosen, ...one.curve].map((point, place) => [(place ? "" : "chosen: ") + point.description, number(point.accuracy, 3), number(point.speedup, 1), Math.round(point.microseconds)])), "All trials")] };
  }

  function data(story) {
    const print = story.data.fingerprint || "";
    const share = story.data.n_ratings / (story.data.n_users * story.data.n_items || 1);
    const scale = scaleOf(story);
    const copy = navigator.clipboard ? make("button", { type: "button", class: "plain", text: "copy", "aria-label": "Copy the fingerprint", onclick: () => navigator.clipboard.writeText(print).then(() => tastespace.say("Copied.")) }) : "";
    const parameters = Object.entries(story.parameters).map(([name, value]) => [name, value === null || value === undefined ? "–" : String(value)]);
    return { id: "data", title: "Data", isFine: null, finding: `${scale.isRating ? `From ${tastespace.stars(scale.low)} to ${tastespace.stars(scale.high)} ${scale.unit}` : "Choices"}; ${percent(share, 1)} of all possible ${scale.isRating ? "ratings" : "choices"} are known.`, body: [
      facts([["Model", story.class], [scale.isRating ? "Ratings" : "Choices", count(story.data.n_ratings)], ["People", count(story.data.n_users)], [things(story)[0].toUpperCase() + things(story).slice(1), count(story.data.n_items)], Object.keys(story.attributes).length ? ["Attributes", Object.keys(story.attributes).join(", ")] : null, ["Fingerprint", make("span", {}, `${print.slice(0, 10)}… `, copy)]]),
      make("p", { class: "quiet small", text: `${story.seen[0].toUpperCase()}${story.seen.slice(1)}.${story.choice ? ` Chosen because ${story.choice.because}.` : ""}` }),
      twin(() => table("Parameters", ["parameter", "value"], parameters, { texts: [1] }), "All parameters")] };
  }

  const sections = (story) => [accuracy, calibration, chains, noise, index, data].map((part) => part(story)).filter(Boolean);

  const sectionOf = ({ id, title, heading, finding, body }, name = "") => make("section", { class: "part", id: `part-${name}${id}`, "aria-label": name ? `${title} of ${name}` : title }, make("h2", { text: heading || title }), finding ? make("p", { class: "quiet finding", text: finding }) : "", body);

  Object.assign(tastespace.story, { tested, display, verdict, verdictBar, keyFigures, sections, sectionOf, facts });
})();
