"use strict";
// The report: the same parts as the page, with values from the file itself.
(() => {
  const { make, table, number, count, row, listTable, tasteCanvas } = tastespace;
  const { models, notes } = JSON.parse(document.getElementById("values").textContent);
  const main = document.getElementById("main");

  function theme() {
    document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    document.dispatchEvent(new Event("tastespace:theme"));
  }

  // Several models side by side: every measure, with that of the best in bold.
  function sideBySide() {
    const found = models.map((model) => [model.name, tastespace.story.tested(model.story)]).filter(([, one]) => one);
    const verdicts = table("Verdicts", ["model", "verdict", "in words"], models.map((model) => { const one = tastespace.story.verdict(model.story); return [model.name, one.title, one.words]; }), { texts: [1, 2] });
    const parts = [make("h2", { text: "Side by side" }), make("div", { class: "panel" }, verdicts)];
    if (!found.length) return parts;
    const columns = found.flatMap(([name, one]) => [[name, one], ...(one.popular ? [[`popular (${name})`, one.popular]] : [])]);
    const names = [...new Set(found.flatMap(([, one]) => Object.keys(one).filter((name) => typeof one[name] === "number" && !["n", "cold", "fit_seconds"].includes(name))))];
    return [...parts, make("div", { class: "panel" }, table("Measures on held-out ratings", ["measure", ...columns.map(([name]) => name)], names.map((name) => [tastespace.story.display(name), ...columns.map(([, one]) => (typeof one[name] === "number" ? number(one[name], 4) : "–"))])))];
  }

  function mapOf(model) {
    if (!model.map) return [];
    const words = make("p", { class: "quiet small", role: "status", dir: "auto" });
    const shown = tasteCanvas(model.map, { label: `Map of the items of ${model.name}. Arrow keys go from one to the next.`, pick: (item) => { words.textContent = item < 0 ? "" : `${shown.nameOf(item)}, ${count(model.map.ratings[item])} ratings`; } });
    const user = model.lists.find((list) => list.place);
    if (user) shown.show(user.place);
    const of = `${count(model.map.x.length)} of ${count(model.map.total)} items, the most rated.`;
    return [make("section", { class: "part", "aria-label": `Taste map of ${model.name}` }, make("h2", { text: "Taste map" }),
      make("p", { class: "quiet finding", text: of + (user?.place.draws && model.map.method === "pca" ? ` The ellipse holds the place of ${user.user} with a probability of 90 %.` : "") }), make("div", { class: "sea framed" }, shown.element), words, shown.values)];
  }

  function listsOf(model) {
    return model.lists.map((list) => make("section", { class: "part", "aria-label": `List of ${list.user} by ${model.name}` }, make("h2", { dir: "auto", text: `Picked for ${list.user}` }),
      make("div", { class: "lists" }, row(list.items, { story: model.story, found: list, acts: {} }, `List of ${list.user}`)), listTable(list.items, list, model.story, `List of ${list.user}`)));
  }

  const parts = models.flatMap((model) => {
    const story = model.story;
    const name = models.length > 1 ? model.name : "";
    return [models.length > 1 ? make("h2", { class: "which", text: model.name }) : "", tastespace.story.verdictBar(story), tastespace.story.keyFigures(story, null),
      make("div", { class: "sections" }, tastespace.story.sections(story).map((part) => tastespace.story.sectionOf(part, name)), mapOf(model), listsOf(model))];
  });
  main.classList.add("report");
  main.replaceChildren(...(models.length > 1 ? [make("h1", { text: `${models.length} models` }), ...sideBySide()] : []), ...parts.filter(Boolean),
    make("dl", { class: "panel facts-row" }, Object.entries(notes).map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: String(value) })))));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
  theme();
})();
