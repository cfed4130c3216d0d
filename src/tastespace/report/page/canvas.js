"use strict";
// The taste map on a canvas: zooming ten thousand points takes a few milliseconds here, and took Plotly more than half a
// second.
(() => {
  const { make, colour, count, table, twin } = tastespace;
  const PALETTE = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#e08a2c", "#7a68c9"]; // Tol's bright, and two
  const OTHERS = "#9aa5ad";
  const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // dark to light
  const NEAR = 14; // pixels within which a point is selected

  function ramp(share) {
    const place = Math.max(0, Math.min(1, share)) * (RAMP.length - 1);
    const low = Math.min(RAMP.length - 2, Math.floor(place));
    const mixed = RAMP[low].map((value, channel) => Math.round(value + (place - low) * (RAMP[low + 1][channel] - value)));
    return `rgb(${mixed.join(",")})`;
  }

  // The colour of each item, and the legend.
  function colouring(map, by) {
    if (by === "ratings") return numbers(map.ratings.map((n) => Math.log10(1 + n)), (value) => count(Math.round(10 ** value - 1)), "ratings");
    const about = map.attributes[by];
    if (!about) return { of: map.x.map(() => PALETTE[0]), legend: [] };
    if (about.numbers) return numbers(about.numbers, (value) => String(Math.round(value)), by);
    const named = about.values.slice(0, PALETTE.length);
    // Among several values the rarest is shown.
    const of = about.of.map((values) => {
      const shown = values.filter((value) => value < named.length);
      return shown.length ? PALETTE[Math.max(...shown)] : OTHERS;
    });
    const legend = named.map((value, place) => [value, PALETTE[place]]);
    return { of, legend: about.values.length > named.length || about.of.some((values) => !values.length) ? [...legend, ["others", OTHERS]] : legend };
  }

  function numbers(values, format, name) {
    const known = values.filter((value) => value !== null).sort((a, b) => a - b);
    if (!known.length) return { of: values.map(() => OTHERS), legend: [] };
    const low = known[Math.floor(0.02 * (known.length - 1))];
    const high = known[Math.ceil(0.98 * (known.length - 1))];
    const of = values.map((value) => (value === null ? OTHERS : ramp((value - low) / (high - low || 1))));
    return { of, legend: [], scale: { low: format(low), high: format(high), name } };
  }

  function legendOf({ legend, scale }) {
    const entries = legend.map(([name, paint]) => {
      const dot = make("i");
      dot.style.background = paint;
      return make("li", { dir: "auto" }, dot, name);
    });
    if (scale) {
      const strip = make("span", { class: "scale", "aria-hidden": "true" });
      strip.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(ramp).join(",")})`;
      entries.push(make("li", {}, `${scale.name}: ${scale.low} `, strip, ` ${scale.high}`));
    }
    return make("ul", { class: "legend", "aria-label": "Colours" }, entries);
  }

  // The element and its methods. `chosen(position)` is called with the selected item.
  function tasteCanvas(map, { by, chosen = () => {}, label }) {
    const canvas = make("canvas", { tabindex: "0", role: "img", "aria-label": label });
    const tip = make("div", { class: "tip", hidden: true });
    const heard = make("p", { class: "unseen", role: "status" });
    const view = { x: 0, y: 0, scale: 1 }; // the point in the middle of the canvas, and how much it is enlarged
    const state = { paint: colouring(map, by), marked: new Map(), place: null, over: -1, waiting: false };
    const n = map.x.length;
    // The most rated last, above the others, and a little larger.
    const order = Uint32Array.from(map.ratings.keys()).sort((a, b) => map.ratings[a] - map.ratings[b]);
    const sizes = Float32Array.from(map.ratings, (rated) => 1.3 + 0.7 * Math.log10(1 + rated));
    const nameOf = (item) => (map.titles && map.titles[item]) || `Item ${map.items[item]}`;
    const legend = make("div", {}, legendOf(state.paint));
    let width = 1;
    let height = 1;

    // All items fit at first, with some room around them.
    const bounds = [map.x, map.y].map((places) => [places.reduce((a, b) => Math.min(a, b)), places.reduce((a, b) => Math.max(a, b))]);
    const [spanX, spanY] = bounds.map(([low, high]) => high - low || 1);
    const [centreX, centreY] = bounds.map(([low, high]) => (low + high) / 2);
    const unit = () => 0.92 * Math.min(width / spanX, height / spanY) * view.scale;
    const toScreen = (x, y) => [width / 2 + (x - view.x) * unit(), height / 2 - (y - view.y) * unit()];

    function resize() {
      const sharpness = Math.min(2, window.devicePixelRatio || 1);
      width = canvas.clientWidth || 600;
      height = canvas.clientHeight || 400;
      canvas.width = Math.round(width * sharpness);
      canvas.height = Math.round(height * sharpness);
      canvas.getContext("2d").setTransform(sharpness, 0, 0, sharpness, 0, 0);
      draw();
    }

    function draw() {
      state.waiting = false;
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, width, height);
      const u = unit();
      const grown = Math.min(2.5, Math.sqrt(view.scale));
      const left = width / 2 - view.x * u;
      const top = height / 2 + view.y * u;
      pen.globalAlpha = state.marked.size ? 0.35 : 0.8;
      let last = "";
      for (const item of order) {
        const x = left + map.x[item] * u;
        const y = top - map.y[item] * u;
        if (x < -5 || y < -5 || x > width + 5 || y > height + 5) continue;
        if (state.paint.of[item] !== last) pen.fillStyle = last = state.paint.of[item];
        const size = sizes[item] * grown;
        pen.fillRect(x - size, y - size, 2 * size, 2 * size);
      }
      pen.globalAlpha = 1;
      for (const [item, strong] of state.marked) ring(pen, item, strong ? 8 : 6, strong ? colour("warm") : colour("ink"));
      if (state.place) drawPlace(pen);
      if (state.over >= 0) ring(pen, state.over, 7, colour("accent"));
    }

    function ring(pen, item, size, paint) {
      const [x, y] = toScreen(map.x[item], map.y[item]);
      pen.fillStyle = state.paint.of[item];
      pen.strokeStyle = paint;
      pen.lineWidth = 2.5;
      pen.beginPath();
      pen.arc(x, y, size, 0, 2 * Math.PI);
      pen.fill();
      pen.stroke();
    }

    // A user: a dot per draw, the ellipse that holds 90 % of a normal distribution with their covariance, and the middle.
    function drawPlace(pen) {
      const { middle, draws } = state.place;
      pen.fillStyle = pen.strokeStyle = colour("warm");
      const [x, y] = toScreen(...middle);
      if (draws) {
        pen.globalAlpha = 0.6;
        for (const draw of draws) {
          const [dotX, dotY] = toScreen(...draw);
          pen.beginPath();
          pen.arc(dotX, dotY, 2.5, 0, 2 * Math.PI);
          pen.fill();
        }
        const [long, short, turn] = ellipse(draws);
        pen.globalAlpha = 0.3;
        pen.beginPath();
        pen.ellipse(x, y, Math.max(1, long * unit()), Math.max(1, short * unit()), -turn, 0, 2 * Math.PI);
        pen.fill();
        pen.globalAlpha = 1;
        pen.lineWidth = 2.5;
        pen.stroke();
      }
      for (const [paint, size] of [[colour("panel"), 7], [colour("warm"), 3]]) {
        pen.strokeStyle = paint;
        pen.lineWidth = size;
        pen.beginPath();
        for (const [dx, dy] of [[10, 0], [0, 10]]) {
          pen.moveTo(x - dx, y - dy);
          pen.lineTo(x + dx, y + dy);
        }
        pen.stroke();
      }
    }

    const renew = tastespace.later(() => listed.renew(), 300);
    const soon = () => {
      renew();
      if (!state.waiting) {
        state.waiting = true;
        requestAnimationFrame(draw);
      }
    };

    function nearest(x, y, within) {
      const u = unit();
      let best = -1;
      let least = within * within;
      for (let item = 0; item < n; item++) {
        const dx = width / 2 + (map.x[item] - view.x) * u - x;
        const dy = height / 2 - (map.y[item] - view.y) * u - y;
        const distance = dx * dx + dy * dy;
        if (distance < least) (least = distance), (best = item);
      }
      return best;
    }

    function hover(x, y, within = NEAR) {
      const item = nearest(x, y, within);
      tip.hidden = item < 0;
      if (item !== state.over) {
        state.over = item;
        canvas.style.cursor = item < 0 ? "grab" : "pointer";
        soon();
      }
      if (item < 0) return;
      tip.textContent = `${nameOf(item)} · ${count(map.ratings[item])} ratings`;
      const [atX, atY] = toScreen(map.x[item], map.y[item]);
      tip.style.left = `${Math.min(atX + 12, Math.max(0, width - 200))}px`;
      tip.style.top = `${Math.max(0, atY - 34)}px`;
    }

    function zoom(factor, x = width / 2, y = height / 2) {
      const u = unit();
      const atX = view.x + (x - width / 2) / u;
      const atY = view.y - (y - height / 2) / u;
      view.scale = Math.max(0.8, Math.min(60, view.scale * factor));
      view.x = atX - (x - width / 2) / unit();
      view.y = atY + (y - height / 2) / unit();
      soon();
    }

    function move(dx, dy) {
      view.x -= dx / unit();
      view.y += dy / unit();
      soon();
    }

    function choose(item) {
      if (item >= 0) chosen(item);
    }

    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const held = new Map(); // pointers that are down; two of them zoom
    let travelled = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, at(event));
      travelled = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      const from = held.get(event.pointerId);
      if (!from) return hover(x, y);
      const other = [...held].find(([id]) => id !== event.pointerId);
      if (other) {
        const apart = (point) => Math.hypot(point[0] - other[1][0], point[1] - other[1][1]) || 1;
        zoom(apart([x, y]) / apart(from), (x + other[1][0]) / 2, (y + other[1][1]) / 2);
      } else {
        move(x - from[0], y - from[1]);
      }
      travelled += Math.hypot(x - from[0], y - from[1]);
      held.set(event.pointerId, [x, y]);
      tip.hidden = true;
    });
    const release = (event) => {
      const was = held.delete(event.pointerId);
      if (event.type === "pointerup" && was && travelled < 5) choose(nearest(...at(event), NEAR));
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; if (state.over >= 0) (state.over = -1), soon(); });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 400), ...at(event));
      tip.hidden = true;
    }, { passive: false });
    // Arrow keys move the map below a mark in its middle; the item nearest to the mark is selected.
    const KEYS = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own
      if (KEYS[event.key]) move(...KEYS[event.key]);
      else if (event.key === "+" || event.key === "=") zoom(1.3);
      else if (event.key === "-") zoom(1 / 1.3);
      else if (event.key === "0" || event.key === "Home") reset();
      else if (event.key === "Enter" || event.key === " ") choose(state.over >= 0 ? state.over : nearest(width / 2, height / 2, Infinity));
      else return;
      event.preventDefault();
      if (event.key !== "Enter" && event.key !== " ") {
        hover(width / 2, height / 2, Infinity);
        heard.textContent = state.over >= 0 ? nameOf(state.over) : "";
      }
    });

    function reset() {
      Object.assign(view, { x: centreX, y: centreY, scale: 1 });
      soon();
    }

    function inView() {
      const found = [];
      for (let item = 0; item < n; item++) {
        const [x, y] = toScreen(map.x[item], map.y[item]);
        if (x >= 0 && y >= 0 && x <= width && y <= height) found.push(item);
      }
      return found.sort((a, b) => map.ratings[b] - map.ratings[a]).slice(0, 50);
    }

    const listed = twin(() => table("The 50 most rated items in view", ["item", "x", "y", "ratings"],
      inView().map((item) => [nameOf(item), map.x[item].toFixed(3), map.y[item].toFixed(3), map.ratings[item]])));
    const button = (text, name, action) => make("button", { type: "button", text, "aria-label": name, onclick: action });
    const element = make("div", {},
      make("div", { class: "map" }, canvas, tip, make("div", { class: "zoom" },
        button("+", "Zoom in", () => zoom(1.5)), button("−", "Zoom out", () => zoom(1 / 1.5)), button("⌂", "Whole map", reset))),
      heard, legend, listed);
    reset();
    new ResizeObserver(resize).observe(canvas);
    canvas.redraw = draw;

    return {
      element,
      nameOf,
      colourBy(name) {
        state.paint = colouring(map, name);
        legend.replaceChildren(legendOf(state.paint));
        soon();
      },
      mark(items, strong = -1) {
        state.marked = new Map(items.map((item) => [item, item === strong]));
        soon();
      },
      show(place) {
        state.place = place;
        soon();
      },
      goTo(item) {
        Object.assign(view, { x: map.x[item], y: map.y[item], scale: Math.max(view.scale, 5) });
        soon();
      },
    };
  }

  // Half axes and angle of the ellipse that holds 90 % of a normal distribution with the covariance of the points.
  function ellipse(points) {
    const mean = [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length);
    const moment = (a, b) => points.reduce((sum, point) => sum + (point[a] - mean[a]) * (point[b] - mean[b]), 0) / Math.max(1, points.length - 1);
    const [xx, xy, yy] = [moment(0, 0), moment(0, 1), moment(1, 1)];
    const middle = (xx + yy) / 2;
    const apart = Math.hypot((xx - yy) / 2, xy);
    const reach = Math.sqrt(-2 * Math.log(0.1)); // of a normal distribution in the plane
    return [reach * Math.sqrt(middle + apart), reach * Math.sqrt(Math.max(0, middle - apart)), Math.atan2(2 * xy, xx - yy) / 2];
  }

  Object.assign(tastespace, { tasteCanvas, ellipse });
})();
