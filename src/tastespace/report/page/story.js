"use strict";
// Descriptions of one or several models side by side: facts, metrics, groups, calibration, chains, noise, index.
(() => {
  const { make, table, figureOf, figure, number, percent, count } = tastespace;
  const NAMES = { rmse: "RMSE", mae: "MAE", crps: "CRPS", log_score: "log score", kendall_tau: "Kendall tau-b", pairwise_accuracy: "pairwise accuracy", auc: "AUC", map: "MAP", mrr: "MRR", ndcg: "NDCG", ndcg_rated: "NDCG (rated items)", hit_rate: "hit rate", log_loss: "log loss" };
  const HIDDEN = new Set(["kind", "groups", "found", "calibration", "lists", "intervals", "reliability", "popular", "popular_comparison", "verdicts", "fit_seconds"]);
  const TIMES = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
  const kept = {};

  // Values of the model that answers; requested once, and again after an error.
  const asked = (what) => () => {
    kept[what] = kept[what] || tastespace.ask(`model/${what}`).catch((error) => {
      delete kept[what];
      throw error;
    });
    return kept[what];
  };

  const display = (measure) => {
    const [name, k] = measure.split("@");
    return (NAMES[name] || name.replaceAll("_", " ")) + (k ? `@${k}` : "");
  };

  // The most informative metrics of a model: those on held-out ratings.
  const tested = (story) => Object.entries(story.measures).find(([, found]) => found && found.groups) || Object.entries(story.measures)[0] || null;
  const with_ = (models, get) => models.map(([name, story]) => [name, get(story)]).filter(([, found]) => found !== null && found !== undefined);
  const legend = (models) => ({ showlegend: models.length > 1 });
  const missing = (text) => make("p", { class: "quiet", text });

  function facts(models) {
    const rows = [
      ["model", (story) => story.model],
      ["ratings", (story) => count(story.data.n_ratings)],
      ["users", (story) => count(story.data.n_users)],
      ["items", (story) => count(story.data.n_items)],
      ["kind of ratings", (story) => story.data.kind || "–"],
      ["from", (story) => figure(story.range[0])],
      ["to", (story) => figure(story.range[1])],
      ["factors", (story) => figure(story.parameters.n_factors)],
      ["history", (story) => story.seen],
      ...(models.some(([, story]) => story.choice) ? [["chosen because", (story) => (story.choice ? story.choice.because : "–")]] : []),
    ].map(([name, get]) => [name, ...models.map(([, story]) => get(story))]);
    const set = [...new Set(models.flatMap(([, story]) => Object.keys(story.parameters)))];
    const parameters = set.map((name) => [name, ...models.map(([, story]) => (story.parameters[name] === null || story.parameters[name] === undefined ? "–" : String(story.parameters[name])))]);
    const columns = ["fact", ...models.map(([name]) => name)];
    const texts = models.map((_, place) => place + 1);
    return [make("h2", { text: "Fitted on" }), table("Model and training data", columns, rows, { texts }), tastespace.twin(() => table("Parameters", columns, parameters, { texts }), "All parameters")];
  }

  function measures(models) {
    const found = with_(models, tested);
    const parts = [make("h2", { text: "Accuracy" })];
    if (!found.length) return [...parts, missing("Not measured: fit with --holdout 0.1 to hold out a tenth of the ratings, or report with --test FILE.")];
    const names = [...new Set(found.flatMap(([, [, one]]) => Object.keys(one).filter((name) => !HIDDEN.has(name))))];
    // Each measured model is followed by the popularity baseline on the same ratings, which it should beat.
    const columns = found.flatMap(([name, [where, one]]) => [[`${name} (${where})`, one], ...(one.popular ? [[`popular (${found.length > 1 ? `${name}, ` : ""}${where})`, one.popular]] : [])]);
    const rows = names.map((name) => [display(name), ...columns.map(([, one]) => one[name])]);
    for (const [, [, one]] of found) for (const verdict of one.verdicts || []) parts.push(make("p", { text: verdict.words }));
    parts.push(table("Metrics on held-out ratings", ["metric", ...columns.map(([heading]) => heading)], rows));
    return parts;
  }

  function groups(models) {
    const found = with_(models, (story) => (tested(story) && tested(story)[1].groups ? tested(story)[1].groups : null));
    if (!found.length) return [];
    const sides = ["users", "items"].filter((side) => found.some(([, one]) => one[side]));
    return [make("h2", { text: "Accuracy by group" }), make("div", { class: "pair" }, sides.map((side) => {
      const filled = found.map(([name, one]) => [name, (one[side] || []).filter((group) => group.n && group.measures)]).filter(([, entries]) => entries.length);
      if (!filled.length) return null;
      const measure = Object.keys(filled[0][1][0].measures)[0];
      return figureOf({
        title: `${display(measure)} by ${side}`,
        words: `By the number of training ratings of the ${side}: those with few ratings are harder.`,
        traces: () => filled.map(([name, entries]) => ({
          name, mode: "lines+markers", x: entries.map((group) => group.training_ratings), y: entries.map((group) => group.measures[measure]),
          text: entries.map((group) => `${count(group.n)} test ratings`), hovertemplate: "%{x}: %{y:.4f}<br>%{text}",
        })),
        layout: { ...legend(filled), xaxis: { type: "category", title: { text: `training ratings of the ${side}` } } },
        table: () => table(`By training ratings of the ${side}`, ["training ratings", ...filled.flatMap(([name]) => [`${name}: test ratings`, `${name}: ${display(measure)}`])],
          [...new Set(filled.flatMap(([, entries]) => entries.map((group) => group.training_ratings)))].map((label) => [label, ...filled.flatMap(([, entries]) => {
            const group = entries.find((one) => one.training_ratings === label);
            return group ? [group.n, number(group.measures[measure], 4)] : ["–", "–"];
          })])),
      });
    }))];
  }

  function calibration(models) {
    const measured = (what) => with_(models, (story) => (tested(story) ? tested(story)[1][what] : null));
    const [found, reliable] = [measured("calibration"), measured("reliability")];
    const figures = [...(reliable.length ? [reliability(reliable)] : []), ...(found.length ? [coverage(found), spread(found), confidence(found)] : [])];
    if (!figures.length) return [];
    return [make("h2", { text: "Calibration" }), make("div", { class: "pair" }, ...figures)];
  }

  function reliability(found) {
    const filled = (bins) => bins.filter((bin) => bin.n);
    const barred = found.some(([, bins]) => bins.some((bin) => bin.interval));
    const label = (bin) => `${percent(bin.low)} to ${percent(bin.high)}`;
    return figureOf({
      title: "Yes and no",
      words: "Observed share of yes by predicted probability: on the line predictions are calibrated." + (barred ? " Bars hold the share in 95 % of cases." : ""),
      traces: () => [{ x: [0, 1], y: [0, 1], mode: "lines", line: { dash: "dot", color: tastespace.colour("quiet") }, hoverinfo: "skip", showlegend: false },
        ...found.map(([name, bins], place) => ({
          name, mode: "lines+markers", x: filled(bins).map((bin) => bin.predicted), y: filled(bins).map((bin) => bin.yes),
          text: filled(bins).map((bin) => `${count(bin.n)} test ratings`), hovertemplate: "predicted %{x:.1%}, observed %{y:.1%}<br>%{text}",
          error_y: { visible: barred, type: "data", symmetric: false, thickness: 1, array: filled(bins).map((bin) => (bin.interval ? bin.interval[1] - bin.yes : 0)), arrayminus: filled(bins).map((bin) => (bin.interval ? bin.yes - bin.interval[0] : 0)) },
          marker: { color: tastespace.lineColours()[place % 5] }, line: { color: tastespace.lineColours()[place % 5] },
        }))],
      layout: { ...legend(found), xaxis: { title: { text: "predicted probability" }, tickformat: ".0%", range: [-0.02, 1.02] }, yaxis: { title: { text: "share of yes" }, tickformat: ".0%", range: [-0.03, 1.03] } },
      table: () => table("Yes and no", ["predicted probability", ...found.flatMap(([name]) => [`${name}: test ratings`, `${name}: predicted`, `${name}: yes`])],
        found[0][1].map((bin, place) => [label(bin), ...found.flatMap(([, bins]) => { const own = bins[place]; return own && own.n ? [own.n, percent(own.predicted, 1), percent(own.yes, 1)] : [0, "–", "–"]; })])),
    });
  }

  function coverage(found) {
    const of = (one) => Object.keys(one.measures).filter((name) => name.startsWith("coverage_")).map((name) => {
      const nominal = name.slice("coverage_".length);
      const expected = one.measures[`expected_${nominal}`];
      return { nominal: Number(nominal) / 100, expected: expected === undefined ? Number(nominal) / 100 : expected, found: one.measures[name], width: one.measures[`width_${nominal}`] };
    });
    return figureOf({
      title: "Intervals",
      words: "Observed against nominal coverage of intervals: on the line predictions are calibrated.",
      traces: () => [{ x: [0.4, 1], y: [0.4, 1], mode: "lines", line: { dash: "dot", color: tastespace.colour("quiet") }, hoverinfo: "skip", showlegend: false },
        ...found.map(([name, one], place) => ({ name, mode: "lines+markers", x: of(one).map((row) => row.expected), y: of(one).map((row) => row.found), marker: { color: tastespace.lineColours()[place % 5] }, line: { color: tastespace.lineColours()[place % 5] } }))],
      layout: { ...legend(found), xaxis: { title: { text: "nominal coverage" }, tickformat: ".0%" }, yaxis: { tickformat: ".0%" } },
      table: () => table("Intervals", ["interval", ...found.flatMap(([name]) => [`${name}: expected`, `${name}: observed`, `${name}: width`])],
        of(found[0][1]).map((row, place) => [percent(row.nominal), ...found.flatMap(([, one]) => { const own = of(one)[place]; return own ? [percent(own.expected, 1), percent(own.found, 1), number(own.width)] : ["–", "–", "–"]; })])),
    });
  }

  function spread(found) {
    return figureOf({
      title: "Probability integral transform",
      words: "Ratings by their quantile in the predictive distribution: flat if it is calibrated, a hill if it is too wide, a bowl if too narrow.",
      traces: () => found.map(([name, one]) => ({ name, type: "bar", x: one.pit.map((_, place) => (place + 0.5) / one.pit.length), y: one.pit.map((share) => share * one.pit.length), opacity: found.length > 1 ? 0.6 : 1 })),
      layout: { ...legend(found), barmode: "overlay", xaxis: { title: { text: "quantile" }, tickformat: ".0%" }, yaxis: { rangemode: "tozero" } },
      table: () => table("Probability integral transform", ["below", ...found.map(([name]) => name)], found[0][1].pit.map((_, place, all) => [percent((place + 1) / all.length), ...found.map(([, one]) => percent(one.pit[place], 1))])),
    });
  }

  function confidence(found) {
    return figureOf({
      title: "Error by predicted uncertainty",
      words: "Test ratings in order of their predicted uncertainty, the most certain first: errors should be smaller there.",
      traces: () => found.map(([name, one]) => ({ name, mode: "lines+markers", x: one.confidence.map((part) => part.share), y: one.confidence.map((part) => (part.measures ? part.measures.rmse : null)) })),
      layout: { ...legend(found), xaxis: { type: "category", title: { text: "most certain first" } } },
      table: () => table("Error by uncertainty", ["ratings", ...found.flatMap(([name]) => [`${name}: predicted sd`, `${name}: RMSE`])], found[0][1].confidence.map((part, place) => [part.share, ...found.flatMap(([, one]) => { const own = one.confidence[place]; return own && own.measures ? [number(own.measures.rating_sd, 3), number(own.measures.rmse, 4)] : ["–", "–"]; })])),
    });
  }

  function chains(models) {
    return models.flatMap(([name, story]) => {
      const head = make("h2", { text: models.length > 1 ? `Inference of ${name}` : "Inference" });
      if (story.chains) return [head, ...oneChains(name, story.chains, models.length > 1)];
      if (story.course) return [head, course(story.course)];
      return [head, missing(`${story.class} is computed in one step, so there is no convergence to show.`)];
    });
  }

  function oneChains(name, found, several) {
    const verdicts = found.rows.map((row) => [row.quantity, row.mean, row.sd, number(row.rhat, 3), row.ess_bulk === null ? "–" : count(Math.round(row.ess_bulk)), row.ess_tail === null ? "–" : count(Math.round(row.ess_tail)), row.mcse, row.verdict]);
    return [
      make("p", { text: `${found.schedule}.` }),
      found.warning ? make("p", { class: "note", text: found.warning }) : null,
      make("p", { class: "quiet", text: found.meaning }),
      table(several ? `Convergence of ${name}` : "Convergence", ["quantity", "mean", "sd", "R-hat", "bulk ESS", "tail ESS", "MCSE", "verdict"], verdicts, { texts: [7] }),
      make("div", { class: "pair" }, Object.entries(found.quantities).map(([quantity, series]) => figureOf({
        title: quantity, words: `By sweep, one line per chain; shaded: warm-up.`, height: 220,
        traces: () => series.map((values, chain) => ({ name: `chain ${chain + 1}`, mode: "lines", y: values, x: values.map((_, sweep) => sweep + 1), line: { width: 1.2 } })),
        layout: {
          xaxis: { title: { text: "sweep" } }, yaxis: { range: looked(series, found.warmup) },
          shapes: found.warmup ? [{ type: "rect", xref: "x", yref: "paper", x0: 0, x1: found.warmup, y0: 0, y1: 1, fillcolor: tastespace.colour("quiet"), opacity: 0.15, line: { width: 0 } }] : [],
        },
        table: () => table(`${quantity} of ${name}`, ["sweep", ...series.map((_, chain) => `chain ${chain + 1}`)], every(series[0].length).map((sweep) => [String(sweep + 1), ...series.map((values) => values[sweep])])),
      }))),
    ].filter(Boolean);
  }

  // The kept sweeps fill the panel; warm-up far away is cut off.
  function looked(series, warmup) {
    const values = series.flatMap((one) => one.slice(Math.min(warmup, one.length - 1))).filter((value) => value !== null);
    if (!values.length) return undefined;
    const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    const margin = (high - low || Math.abs(high) * 0.1 || 1) * 0.4;
    return [low - margin, high + margin];
  }

  const every = (n) => Array.from({ length: Math.min(n, 25) }, (_, place) => Math.round((place * (n - 1)) / Math.max(1, Math.min(n, 25) - 1)));

  function course(found) {
    return figureOf({
      title: `The ${found.name} by sweep`, words: "It levels off at convergence.", height: 240,
      traces: () => [{ mode: "lines+markers", x: found.values.map((_, sweep) => sweep + 1), y: found.values }],
      layout: { xaxis: { title: { text: "sweep" } } },
      table: () => table(found.name, ["sweep", found.name], every(found.values.length).map((sweep) => [String(sweep + 1), found.values[sweep]])),
    });
  }

  function noise(models) {
    const found = with_(models, (story) => story.noise);
    if (!found.length) return [];
    const parts = [make("h2", { text: "Noise: erratic raters, divisive items" })];
    const common = found.filter(([, one]) => one.sd !== null);
    if (common.length) parts.push(make("p", { text: common.map(([name, one]) => `${models.length > 1 ? `${name}: ratings` : "Ratings"} differ from the expected rating by ${number(one.sd)} (standard deviation).`).join(" ") }));
    const uneven = found.filter(([, one]) => one.users);
    if (!uneven.length) return [...parts, missing("The noise is the same for all ratings. Fit with --set noise=per-user-and-item to learn it per user and item.")];
    for (const [name, one] of uneven) {
      parts.push(make("div", { class: "pair" }, [["users", "Raters by how erratic they are", "Erratic raters"], ["items", "Items by how much they divide opinion", "Divisive items"]].map(([side, title, listed]) => make("div", {},
        figureOf({
          title: models.length > 1 ? `${title} (${name})` : title, words: `Number of ${side} by the noise of their ratings.`, height: 230,
          traces: () => [{ type: "bar", x: one[side].counts.map((_, place) => (one[side].edges[place] + one[side].edges[place + 1]) / 2), y: one[side].counts }],
          layout: { xaxis: { title: { text: "noise sd" } }, bargap: 0.05 },
          table: () => table(title, ["noise sd from", "to", side], one[side].counts.map((n, place) => [number(one[side].edges[place]), number(one[side].edges[place + 1]), n])),
        }),
        table(models.length > 1 ? `${listed} (${name})` : listed, [side === "users" ? "user" : "item", "ratings", "noise sd", "90 % from", "to"], one[side].noisiest.map((row) => [row.title || row.id, row.ratings, number(row.noise_sd), number(row.low), number(row.high)]))))));
    }
    return parts;
  }

  function index(models) {
    const found = with_(models, (story) => story.index);
    if (!found.length) return [make("h2", { text: "Search" }), missing("There is no index: every item is scored, which is right for a small catalogue. `tastespace index MODEL` chooses one.")];
    return [make("h2", { text: "Search" }), ...found.map(([name, one]) => make("div", {},
      make("p", { text: `${models.length > 1 ? `${name}: ` : ""}${one.chosen.description}. It finds ${percent(one.chosen.accuracy, 1)} of the true best ${one.target.k || 10}, ${number(one.chosen.speedup, 1)} times as fast as a plain scan.` }),
      figureOf({
        title: "Trials", words: "Up is faster, right is more accurate; the star was chosen, and measured on held-out queries.",
        traces: () => [
          { mode: "markers", x: one.curve.map((point) => point.accuracy), y: one.curve.map((point) => point.speedup), text: one.curve.map((point) => point.description), hovertemplate: "%{text}<br>accuracy %{x:.3f}, %{y:.1f}×<extra></extra>", marker: { size: 9 } },
          { mode: "markers", x: [one.chosen.accuracy], y: [one.chosen.speedup], text: [one.chosen.description], hovertemplate: "chosen: %{text}<extra></extra>", marker: { size: 16, symbol: "star" } },
        ],
        layout: { xaxis: { title: { text: "share of the true best items found" }, tickformat: ".0%" }, yaxis: { type: "log", tickvals: TIMES, ticktext: TIMES.map(String), title: { text: "times as fast as a scan" } } },
        table: () => table("Trials", ["structure", "accuracy", "times as fast", "microseconds"], [one.chosen, ...one.curve].map((point, place) => [(place ? "" : "chosen: ") + point.description, number(point.accuracy, 3), number(point.speedup, 1), Math.round(point.microseconds)])),
      })))];
  }

  // `models`: pairs of a name and a story.
  const sections = (models) => [facts, measures, groups, calibration, noise, index, chains].flatMap((part) => part(models)).filter(Boolean);

  tastespace.story = { outline: asked("outline"), whole: asked("story"), sections, forget: () => Object.keys(kept).forEach((what) => delete kept[what]) };
})();
