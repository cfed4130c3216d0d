"use strict";
// Figures by Plotly, which is loaded with the first one; each has a caption and a table with the same data.
(() => {
  const { make, colour, twin } = tastespace;
  const LINES = ["#0f7b8a", "#c0622d", "#6b55b5", "#5b7f3a", "#b03a63"];
  const ON_DARK = ["#6fd0de", "#ffb47e", "#b9a8ff", "#b5d98a", "#ff9dbd"];
  let loading = null;

  function plotly() {
    if (window.Plotly) return Promise.resolve(window.Plotly);
    loading = loading || new Promise((resolve, reject) => {
      const script = make("script", { src: "page/plotly.min.js" });
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => {
        loading = null;
        script.remove();
        reject(new tastespace.Trouble("The figures cannot be drawn: Plotly could not be loaded. The tables have the same data.", 0));
      };
      document.head.append(script);
    });
    return loading;
  }

  const lines = () => (tastespace.isDark() ? ON_DARK : LINES);

  function merged(layout, height) {
    const ink = colour("ink");
    const axis = { gridcolor: colour("line"), zerolinecolor: colour("line"), automargin: true };
    return {
      height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12, family: "system-ui, sans-serif" },
      margin: { l: 48, r: 12, t: 12, b: 42 }, colorway: lines(), showlegend: false, dragmode: false, hovermode: "closest",
      legend: { orientation: "h", y: 1.12 }, ...layout,
      xaxis: { ...axis, ...(layout.xaxis || {}) }, yaxis: { ...axis, ...(layout.yaxis || {}) },
    };
  }

  // `traces` is called again for each theme, `table` when it is opened.
  function figureOf({ title, words, traces, layout = {}, table, height = 300 }) {
    const plot = make("div", { class: "plot", role: "img", "aria-label": `${title}. ${words} The table below has the same data.` });
    plot.style.minHeight = `${height}px`;
    const element = make("figure", {}, make("h3", { text: title }), make("figcaption", { text: words }), plot, twin(table));
    const draw = async () => {
      if (!element.isConnected) return;
      try {
        const library = await plotly();
        await library.react(plot, traces(), merged(layout, height), { displayModeBar: false });
        if (!plot.dataset.drawn) new ResizeObserver(() => plot.isConnected && library.Plots.resize(plot)).observe(plot);
        plot.dataset.drawn = "yes";
      } catch (error) {
        if (!(error instanceof tastespace.Trouble)) console.error(error);
        plot.removeAttribute("role"); // Text, not a picture.
        plot.removeAttribute("aria-label");
        plot.replaceChildren(make("p", { class: "note", text: error.message }));
      }
    };
    // Drawn when it comes near the viewport: a page has many.
    const watcher = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) {
        watcher.disconnect();
        draw();
      }
    }, { rootMargin: "600px" });
    watcher.observe(plot);
    plot.redraw = () => plot.dataset.drawn && draw();
    return element;
  }

  Object.assign(tastespace, { figureOf, lineColours: lines });
})();
