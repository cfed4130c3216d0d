"use strict";
// The model that answers: is it any good, what proves that, how it does live, and which versions there are.
(() => {
  const { make, icon, ask, table, number, count, percent, moment, say } = tastespace;
  const MEASURES = { rmse: "RMSE", bias: "rating minus expected rating", coverage_90: "ratings within their 90 % interval", crps: "CRPS", pit_distance: "distance of the PIT from uniform", liked: "share of liked ratings", liked_expected: "the same, as expected", hit_rate_10: "rated items that had been among the first 10 shown" };
  const between = (measure) => (!measure ? "–" : number(measure.value, 3) + (typeof measure.low === "number" ? ` (${number(measure.low, 3)} to ${number(measure.high, 3)})` : ""));

  // Ratings that came while a version answered, held against what it believed just before each.
  function live(health) {
    const found = health.versions.filter((one) => one.ratings);
    const flagged = found.find((one) => one.drift.flagged);
    const base = { id: "live", title: "Live", isFine: found.length ? !flagged : null };
    if (!health.versions.length) return { ...base, heading: "Live: not watched", finding: "The service does not watch how ratings turn out (--watch-days 0).", body: [] };
    if (!found.length) return { ...base, heading: "Live: nothing to compare yet", finding: "No rating has been stored since this version answers. Each will be compared with what the model expected.", body: [] };
    const name = (one) => (one.version === health.version ? "this version" : "challenger");
    const rows = Object.keys(MEASURES).filter((measure) => found.some((one) => one.measures[measure])).map((measure) => [MEASURES[measure], ...found.map((one) => between(one.measures[measure]))]);
    const finding = flagged ? `Since ${moment(flagged.drift.since)}, ${flagged.drift.because} than the model expects. It is time to retrain it.` : `No sign of drift in ${count(found[0].drift.tested)} tested ratings; false alarms for at most ${percent(found[0].drift.false_alarm_rate)} of all versions.`;
    return { ...base, heading: flagged ? "Live: the ratings have changed" : "Live: as expected", finding, body: [make("div", { class: "panel" }, make("p", { class: "caption", text: "The latest ratings, each compared with what the model believed just before it was stored; 95 % intervals in brackets." }), table("How ratings turned out", ["measure", ...found.map(name)], [["ratings", ...found.map((one) => count(one.ratings))], ["people", ...found.map((one) => count(one.users))], ...rows]))] };
  }

  // A button that does something for everybody: the second click does it.
  function sureButton(text, words, act, kind = "") {
    const button = make("button", { type: "button", class: kind, text });
    let timer = 0;
    button.addEventListener("click", async () => {
      if (!timer) {
        button.textContent = words;
        timer = setTimeout(() => ((timer = 0), (button.textContent = text)), 6000);
        return;
      }
      clearTimeout(timer);
      timer = 0;
      button.disabled = true;
      try {
        await act();
      } catch (error) {
        tastespace.showTrouble(error);
      }
      button.disabled = false;
      button.textContent = text;
    });
    return button;
  }

  function versions(info, again) {
    const swap = (what) => async () => {
      const done = await ask(`model/${what}`, { method: "POST" });
      tastespace.story.forget();
      say(done.changed ? `${done.version} answers now.` : `Nothing has changed: ${done.version} still answers.`);
      await again(done.changed ? `${done.version} answers now.` : `${done.version} still answers: the model on disk is the same.`);
    };
    const shown = info.versions.slice(0, 8);
    const before = shown.find((one) => one.version !== info.version);
    const rows = shown.map((one, place) => [
      make("span", {}, make("b", { text: one.version }), place === 0 ? make("span", { class: "chip soft", text: "answers now" }) : ""),
      place ? `${moment(one.at)} to ${moment(shown[place - 1].at)}` : `since ${moment(one.at)}`, one.reason,
      number(one.measures.rmse ?? null, 3), typeof one.measures.coverage_90 === "number" ? percent(one.measures.coverage_90, 1) : "–",
      one === before && before ? sureButton("Go back to this", "Click again to go back", swap("rollback")) : "",
    ]);
    return { id: "versions", title: "Versions", isFine: null, finding: "Swapping and going back take no restart.", body: [make("div", { class: "panel versions" },
      table("Kept versions", ["version", "answering", "why", "RMSE", "coverage", "change"], rows, { texts: [1, 2] }),
      make("p", { class: "quiet small" }, sureButton("Load the model on disk", "Click again to load it", swap("reload"), "main"), " It is checked first; one that cannot be read changes nothing."))] };
  }

  async function show(main, state, go) {
    const draw = async (note) => {
      const [story, health, info] = await Promise.all([tastespace.story.whole(), ask("model/health"), ask("model")]);
      if (!main.isConnected) return;
      const own = health.versions.find((one) => one.version === health.version);
      const parts = tastespace.story.sections(story);
      parts.splice(parts.length - 1, 0, live(health), versions(info, draw));
      const active = info.versions[0];
      const right = [make("b", { text: story.version }), make("span", { class: "quiet small", text: active ? `answering since ${moment(active.at)}` : "" })];
      const list = make("nav", { class: "parts", "aria-label": "Parts of this view" }, parts.map((part) => make("button", { type: "button", class: "plain", onclick: () => goTo(part.id) }, part.title, part.isFine === null || part.isFine === undefined ? "" : make("span", { class: part.isFine ? "" : "warm" }, icon(part.isFine ? "check" : "warn"), make("span", { class: "unseen", text: part.isFine ? "fine" : "look here" })))));
      const goTo = (id) => {
        state.part = id;
        go(state);
        const target = main.querySelector(`#part-${id} h2`);
        target.tabIndex = -1;
        target.scrollIntoView({ block: "start" });
        target.focus({ preventScroll: true });
      };
      main.replaceChildren(tastespace.story.verdictBar(story, right), note ? make("p", { class: "note", role: "status", text: note }) : "", tastespace.story.keyFigures(story, own, info.ratings_stored - story.data.n_ratings),
        make("div", { class: "model" }, list, make("div", { class: "sections" }, parts.map((part) => tastespace.story.sectionOf(part)))));
      const links = [...list.querySelectorAll("button")];
      const places = [...main.querySelectorAll(".part")];
      const seen = new IntersectionObserver(() => {
        if (!places[0].isConnected) return seen.disconnect();
        const tops = places.map((part) => part.getBoundingClientRect().top);
        const at = Math.max(0, tops.filter((top) => top < 160).length - 1);
        links.forEach((link, place) => (place === at ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
      }, { threshold: [0, 0.2, 0.5, 1], rootMargin: "-70px 0px 0px" });
      for (const part of places) seen.observe(part);
      if (state.part && main.querySelector(`#part-${CSS.escape(state.part)}`)) goTo(state.part);
    };
    await draw();
  }

  tastespace.views.model = { show };
})();
