"use strict";
// The report: the same parts as the page, with values from the file itself.
(() => {
  const { make } = tastespace;
  const { models, notes } = JSON.parse(document.getElementById("values").textContent);
  const main = document.getElementById("main");

  function theme() {
    document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    document.dispatchEvent(new Event("tastespace:theme"));
  }

  function maps() {
    const drawn = models.filter((model) => model.map);
    if (!drawn.length) return [];
    return [make("h2", { text: "Taste map" }), make("div", { class: "pair" }, drawn.map((model) => {
      const colourings = [...Object.keys(model.map.attributes), "ratings"];
      const shown = tastespace.tasteCanvas(model.map, { by: colourings[0], label: `Map of the items of ${model.name}`, chosen: (item) => { selected.textContent = shown.nameOf(item); } });
      const selected = make("p", { class: "quiet", role: "status", dir: "auto" });
      const by = make("select", { onchange: (event) => shown.colourBy(event.target.value) }, tastespace.options(colourings.map((name) => [name, name === "ratings" ? "popularity" : name]), colourings[0]));
      const user = model.lists.find((list) => list.place);
      if (user) shown.show(user.place);
      return make("section", { class: "panel", "aria-label": `Taste map of ${model.name}` },
        models.length > 1 ? make("h3", { text: model.name }) : null,
        make("div", { class: "controls" }, tastespace.labelled("Colour", by)), shown.element, selected,
        user ? make("p", { class: "quiet", text: placeWords(user) }) : null);
    }))];
  }

  function placeWords({ user, place }) {
    const at = `The cross is ${user}, at ${tastespace.number(place.middle[0])}, ${tastespace.number(place.middle[1])}`;
    if (!place.draws) return `${at}.`;
    const [long, short] = tastespace.ellipse(place.draws);
    return `${at}; the ellipse, of ${tastespace.number(long)} and ${tastespace.number(short)}, holds 90 % of the posterior draws.`;
  }

  function lists() {
    const users = [...new Set(models.flatMap((model) => model.lists.map((list) => list.user)))];
    if (!users.length) return [];
    return [make("h2", { text: "Some lists" }), ...users.map((user) => make("section", { "aria-label": `Lists of ${user}` },
      make("h3", { dir: "auto", text: `For ${user}` }),
      make("div", { class: "pair" }, models.map((model) => {
        const list = model.lists.find((one) => one.user === user);
        if (!list) return make("p", { class: "quiet", text: `${model.name} does not know ${user}.` });
        return make("div", {}, models.length > 1 ? make("h4", { text: model.name }) : null,
          tastespace.cards(list.items, { range: tastespace.oldScale(model.story), n: list.items.length, before: null, foundBy: null, whose: "the ratings", isChoice: model.story.takes_choices, liking: list, tag: models.length > 1 ? "h5" : "h4" }),
          tastespace.cardTable(list.items, `List of ${user}${models.length > 1 ? `, ${model.name}` : ""}`, tastespace.oldScale(model.story)));
      }))))];
  }

  main.replaceChildren(
    make("h1", { text: models.length > 1 ? `${models.length} models side by side` : `Model: ${models[0].name}` }),
    make("dl", { class: "notes" }, Object.entries(notes).flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: String(value) })])),
    ...tastespace.story.sections(models.map((model) => [model.name, model.story])),
    ...maps(),
    ...lists());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
  theme();
})();
