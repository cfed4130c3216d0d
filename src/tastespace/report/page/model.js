"use strict";
// The model that answers: how it was fitted, and how good it is.
(() => {
  const { make } = tastespace;

  async function show(main) {
    const story = await tastespace.story.whole();
    main.replaceChildren(
      make("h1", { text: `Model: ${story.class}` }),
      make("p", { class: "quiet", text: `Version ${story.version}. How it was fitted, its accuracy and calibration, and its index.` }),
      ...tastespace.story.sections([[story.model, story]]));
  }

  tastespace.views.model = { title: "Model", show };
})();
