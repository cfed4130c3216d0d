"use strict";
// The model that answers: how it was fitted, how good it is, and how well it keeps what it promises.
(() => {
  const { make, table, number, count, percent } = tastespace;
  const MEASURES = {
    rmse: "RMSE",
    bias: "rating minus expected rating",
    coverage_90: "ratings within their 90 % interval",
    crps: "CRPS",
    pit_distance: "distance of the PIT from uniform",
    liked: "share of liked ratings",
    liked_expected: "the same, as expected",
    hit_rate_10: "rated items that had been among the first 10 shown",
  };
  const between = (measure) => {
    if (!measure) return "–";
    const span = measure.low === undefined || measure.low === null ? "" : ` (${number(measure.low, 3)} to ${number(measure.high, 3)})`;
    return number(measure.value, 3) + span;
  };

  function drift({ drift }, name) {
    const rate = percent(drift.false_alarm_rate);
    if (drift.flagged) {
      return make("p", { role: "status", text: `${name}: since ${new Date(drift.since).toLocaleString()}, ${drift.because} than the model expects. It is time to retrain it. (False alarms: at most ${rate} of all versions.)` });
    }
    return make("p", { class: "quiet", text: `${name}: no sign of drift in ${count(drift.tested)} tested ratings. (False alarms: at most ${rate} of all versions.)` });
  }

  // Ratings that came while a version answered, held against what it believed just before each.
  function promises(health) {
    const found = health.versions.filter((one) => one.ratings);
    const title = make("h2", { text: "Promises" });
    if (!health.versions.length) return [title, make("p", { class: "quiet", text: "The service does not watch how ratings turn out (--watch-days 0)." })];
    if (!found.length) return [title, make("p", { class: "quiet", text: "No rating has been stored since this version answers. Each will be compared with what the model expected." })];
    const name = (one) => (one.version === health.version ? "current version" : "challenger");
    const rows = Object.keys(MEASURES)
      .filter((measure) => found.some((one) => one.measures[measure]))
      .map((measure) => [MEASURES[measure], ...found.map((one) => between(one.measures[measure]))]);
    return [
      title,
      make("p", { class: "quiet", text: "The latest ratings, each compared with what the model believed just before it was stored; 95 % intervals in brackets." }),
      table("How ratings turned out", ["", ...found.map(name)], [["ratings", ...found.map((one) => count(one.ratings))], ["users", ...found.map((one) => count(one.users))], ...rows]),
      ...found.map((one) => drift(one, name(one))),
    ];
  }

  async function show(main) {
    const [story, health] = await Promise.all([tastespace.story.whole(), tastespace.ask("model/health")]);
    main.replaceChildren(
      make("h1", { text: `Model: ${story.class}` }),
      make("p", { class: "quiet", text: `Version ${story.version}. How it was fitted, its accuracy and calibration, its index, and how its promises are kept.` }),
      ...promises(health),
      ...tastespace.story.sections([[story.model, story]]));
  }

  tastespace.views.model = { title: "Model", show };
})();
