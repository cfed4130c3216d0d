"use strict";
// The model that answers: what it says of itself.
(() => {
  const { make } = tastespace;

  async function show(main) {
    const story = await tastespace.story.whole();
    main.replaceChildren(
      make("h1", { text: `Model: ${story.class}` }),
      make("p", { class: "quiet", text: `Version ${story.version}. How it was fitted, how good and how sure it is, and how it finds what it recommends.` }),
      ...tastespace.story.sections([[story.model, story]]));
  }

  tastespace.views.model = { title: "Model", show };
})();
