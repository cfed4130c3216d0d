"use strict";
// The taste map on a canvas: land where items are, dots, titles where there is room, and what a person thinks of them.
(() => {
  const { make, icon, colour, count, titleOf, twin, table } = tastespace;
  const NEAR = 14; // pixels within which a point is meant
  const [LABELS, MORE_LABELS, CANDIDATES] = [50, 160, 600];
  const HIGHLIGHTS = [["#4477aa", "#88b4e7"], ["#aa3377", "#e890c0"], ["#8a7a00", "#ddcc55"]]; // light and dark; three at most
  const [PLACES, STEPS] = [10, 25]; // clusters, and rounds of k-means
  const LAND = 360; // pixels of a side of the land

  // Groups of neighbours by k-means, from the same start every time: the next one far from those before.
  function clustersOf({ x, y }) {
    const n = x.length;
    const k = Math.min(PLACES, Math.floor(n / 12));
    if (k < 2) return null;
    const centres = [[x[0], y[0]]];
    const far = new Float64Array(n).fill(Infinity);
    while (centres.length < k) {
      const [cx, cy] = centres[centres.length - 1];
      let best = 0;
      for (let item = 0; item < n; item++) {
        far[item] = Math.min(far[item], (x[item] - cx) ** 2 + (y[item] - cy) ** 2);
        if (far[item] > far[best]) best = item;
      }
      centres.push([x[best], y[best]]);
    }
    const of = new Int32Array(n);
    for (let step = 0; step < STEPS; step++) {
      const sums = centres.map(() => [0, 0, 0]);
      for (let item = 0; item < n; item++) {
        let least = Infinity;
        for (let c = 0; c < k; c++) {
          const d = (x[item] - centres[c][0]) ** 2 + (y[item] - centres[c][1]) ** 2;
          if (d < least) (least = d), (of[item] = c);
        }
        const sum = sums[of[item]];
        (sum[0] += x[item]), (sum[1] += y[item]), sum[2]++;
      }
      sums.forEach(([sx, sy, m], c) => m && (centres[c] = [sx / m, sy / m]));
    }
    return { of, centres };
  }

  // Two genres at most that are frequent, and more so than elsewhere; a decade or "classics" if years agree. Rather no
  // name than a weak one, and none twice.
  function namesOf(map, clusters) {
    const kinds = Object.values(map.attributes).filter((about) => about.values && about.of);
    const years = map.attributes.year?.numbers;
    const n = map.x.length;
    const names = clusters.centres.map((_, c) => {
      const members = [];
      for (let item = 0; item < n; item++) if (clusters.of[item] === c) members.push(item);
      const strong = (holds) => {
        const all = Array.from({ length: n }, (_, item) => item).filter(holds).length / n;
        const share = members.filter(holds).length / (members.length || 1);
        const z = (share - all) / Math.sqrt((all * (1 - all)) / (members.length || 1) || 1);
        return { share, z, is: share >= 0.1 && share >= 1.35 * all && z >= 2.5 };
      };
      const found = kinds.flatMap((about) => about.values.map((value, place) => ({ value, ...strong((item) => about.of[item].includes(place)) })))
        .filter((one) => one.is && !/^\(.*\)$/.test(one.value)).sort((a, b) => b.z - a.z).slice(0, 2).map((one) => one.value);
      if (years && found.length < 2) {
        const decade = [...new Set(members.map((item) => years[item] && Math.floor(years[item] / 10) * 10))].filter(Boolean)
          .map((from) => ({ from, ...strong((item) => years[item] >= from && years[item] < from + 10) })).filter((one) => one.is && one.share >= 0.5)[0];
        const old = strong((item) => years[item] && years[item] < 1975);
        if (decade) found.push(`${decade.from}s`);
        else if (old.is && old.share >= 0.5) found.push("classics");
      }
      return found.join(" · ");
    });
    return names.map((name, c) => (names.indexOf(name) === c ? name : ""));
  }

  // The element and its methods. `pick(item)` is called with the chosen one, or -1; `over(item)` with the one pointed at.
  function tasteCanvas(map, { pick = () => {}, label }) {
    const canvas = make("canvas", { tabindex: "0", role: "application", "aria-label": label, "aria-roledescription": "map" });
    const heard = make("p", { class: "unseen", role: "status" });
    const tip = make("div", { class: "tip", hidden: true });
    const view = { x: 0, y: 0, scale: 1 };
    const state = { over: -1, picked: -1, lines: [], place: null, kinds: new Map(), high: [], least: 0, waiting: false };
    const n = map.x.length;
    const order = Uint32Array.from(map.ratings.keys()).sort((a, b) => map.ratings[a] - map.ratings[b]); // the most rated last
    const sizes = Float32Array.from(map.ratings, (rated) => 1.2 + 1.15 * Math.log10(1 + rated));
    const entryOf = (item) => ({ item: map.items[item], title: map.titles && map.titles[item] });
    const nameOf = (item) => titleOf(entryOf(item));
    const clusters = clustersOf(map);
    const names = clusters ? namesOf(map, clusters) : [];
    const widths = new Map();
    let [width, height, land, paints] = [1, 1, null, {}];

    const bounds = [map.x, map.y].map((places) => [places.reduce((a, b) => Math.min(a, b)), places.reduce((a, b) => Math.max(a, b))]);
    const [spanX, spanY] = bounds.map(([low, high]) => high - low || 1);
    const [centreX, centreY] = bounds.map(([low, high]) => (low + high) / 2);
    const home = () => Object.assign(view, { x: centreX, y: centreY, scale: 1 });
    home();
    // Both directions are stretched to fill the picture: distances along one are comparable, and neighbours stay so.
    const unitX = () => (0.88 * width * view.scale) / spanX;
    const unitY = () => (0.86 * height * view.scale) / spanY;
    const toScreen = (x, y) => [width / 2 + (x - view.x) * unitX(), height / 2 - (y - view.y) * unitY()];

    // Dots, blurred and cut off at a level: done once for each theme, and then drawn as a picture.
    function makeLand(paint) {
      const picture = document.createElement("canvas");
      picture.width = picture.height = LAND;
      const pen = picture.getContext("2d", { willReadFrequently: true });
      pen.filter = "blur(9px)";
      for (let item = 0; item < n; item++) {
        pen.beginPath();
        pen.arc(LAND * (0.1 + (0.8 * (map.x[item] - bounds[0][0])) / spanX), LAND * (0.9 - (0.8 * (map.y[item] - bounds[1][0])) / spanY), 9, 0, 7);
        pen.fill();
        if (n > 3000) item += Math.floor(n / 3000);
      }
      const data = pen.getImageData(0, 0, LAND, LAND);
      const rgb = paint.match(/\d+(\.\d+)?/g).map(Number);
      for (let at = 0; at < data.data.length; at += 4) {
        const cover = Math.max(0, Math.min(1, (data.data[at + 3] - 70) / 24));
        data.data.set([rgb[0], rgb[1], rgb[2], Math.round(255 * cover)], at);
      }
      pen.filter = "none";
      pen.putImageData(data, 0, 0);
      return picture;
    }

    function redraw() {
      paints = Object.fromEntries(["land", "ink", "quiet", "edge", "accent", "warm", "panel", "sea"].map((name) => [name, colour(name)]));
      land = makeLand(paints.land);
      draw();
    }

    function resize() {
      const sharp = Math.min(2, window.devicePixelRatio || 1);
      width = canvas.clientWidth || 600;
      height = canvas.clientHeight || 400;
      canvas.width = Math.round(width * sharp);
      canvas.height = Math.round(height * sharp);
      canvas.getContext("2d").setTransform(sharp, 0, 0, sharp, 0, 0);
      if (!land) redraw();
      else draw();
    }

    const isShown = (item) => map.ratings[item] >= state.least;
    const highPaint = (item) => {
      const place = state.high.findIndex(([about, value]) => about.of[item].includes(value));
      return place < 0 ? null : HIGHLIGHTS[place][tastespace.isDark() ? 1 : 0];
    };

    function draw() {
      state.waiting = false;
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, width, height);
      const [ux, uy] = [unitX(), unitY()];
      const [left, top] = [width / 2 - view.x * ux, height / 2 + view.y * uy];
      const corner = toScreen(bounds[0][0] - spanX / 8, bounds[1][1] + spanY / 8);
      pen.drawImage(land, corner[0], corner[1], 1.25 * spanX * ux, 1.25 * spanY * uy);
      const grown = Math.min(2, Math.sqrt(view.scale));
      for (const item of order) {
        if (!isShown(item) || state.kinds.has(item)) continue;
        const [x, y] = [left + map.x[item] * ux, top - map.y[item] * uy];
        if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
        const paint = state.high.length ? highPaint(item) : null;
        pen.fillStyle = paint || paints.edge;
        pen.globalAlpha = paint ? 0.95 : state.high.length ? 0.2 : 0.42;
        const size = sizes[item] * grown;
        pen.beginPath();
        pen.arc(x, y, size, 0, 7);
        pen.fill();
      }
      pen.globalAlpha = 1;
      for (const near of state.picked >= 0 ? state.lines : []) {
        pen.strokeStyle = paints.accent;
        pen.lineWidth = 1.2;
        pen.beginPath();
        pen.moveTo(...toScreen(map.x[state.picked], map.y[state.picked]));
        pen.lineTo(...toScreen(map.x[near], map.y[near]));
        pen.stroke();
      }
      if (state.place?.draws) drawPlace(pen);
      for (const [item, kind] of state.kinds) if (isShown(item)) symbol(pen, kind, ...toScreen(map.x[item], map.y[item]), Math.max(4.5, sizes[item] * grown * 1.15));
      for (const item of [state.over, state.picked]) if (item >= 0) ring(pen, item, paints.ink);
      drawTitles(pen);
    }

    const around = (pen, x, y, size) => (pen.beginPath(), pen.arc(x, y, size, 0, 7));
    function ring(pen, item, paint) {
      pen.strokeStyle = paint;
      pen.lineWidth = 2.5;
      around(pen, ...toScreen(map.x[item], map.y[item]), 10);
      pen.stroke();
    }

    // Shapes tell kinds apart, colours only help.
    function symbol(pen, kind, x, y, size) {
      pen.lineWidth = 2;
      pen.strokeStyle = pen.fillStyle = kind === "disliked" ? paints.warm : kind === "between" ? paints.quiet : paints.accent;
      if (kind === "liked") {
        around(pen, x, y, size), pen.fill();
        pen.strokeStyle = paints.panel;
        pen.lineWidth = 1;
        pen.stroke();
      } else if (kind === "disliked") {
        pen.beginPath();
        for (const [dx, dy] of [[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]]) pen.lineTo(x + dx * size, y + dy * size);
        pen.closePath(), pen.fill();
        pen.strokeStyle = paints.panel;
        pen.lineWidth = 1;
        pen.stroke();
      } else {
        pen.fillStyle = paints.panel;
        around(pen, x, y, kind === "between" ? size : size + 3);
        pen.fill(), pen.stroke();
        if (kind === "recommended") around(pen, x, y, Math.max(2, size - 2)), (pen.fillStyle = paints.accent), pen.fill();
      }
    }

    // Where a person is: the ellipse that holds 90 % of a normal distribution with the covariance of the draws.
    function drawPlace(pen) {
      const [long, short, turn] = ellipse(state.place.draws.map(([x, y]) => [x * unitX(), y * unitY()]));
      pen.strokeStyle = pen.fillStyle = paints.accent;
      pen.lineWidth = 2;
      pen.globalAlpha = 0.14;
      pen.beginPath();
      pen.ellipse(...toScreen(...state.place.middle), Math.max(4, long), Math.max(4, short), -turn, 0, 7);
      pen.fill();
      pen.globalAlpha = 1;
      pen.stroke();
    }

    // Names of places first, then titles by importance, as long as none covers another.
    function drawTitles(pen) {
      const boxes = [];
      const fits = (x, y, w, h) => {
        if (x < 2 || y < 2 || x + w > width - 2 || y + h > height - 2) return false;
        if (boxes.some((box) => x < box[0] + box[2] && box[0] < x + w && y < box[1] + box[3] && box[1] < y + h)) return false;
        boxes.push([x, y, w, h]);
        return true;
      };
      const write = (text, x, y, paint, size, weight) => {
        pen.font = `${weight} ${size}px system-ui, "Liberation Sans", sans-serif`;
        pen.lineWidth = 3;
        pen.strokeStyle = paints.sea;
        pen.lineJoin = "round";
        pen.globalAlpha = 0.85;
        pen.strokeText(text, x, y);
        pen.globalAlpha = 1;
        pen.fillStyle = paint;
        pen.fillText(text, x, y);
      };
      pen.textBaseline = "middle";
      pen.textAlign = "left";
      const measured = (text, font) => {
        const key = font + text;
        if (!widths.has(key)) (pen.font = font), widths.set(key, pen.measureText(text).width);
        return widths.get(key);
      };
      pen.letterSpacing = "1.5px";
      clusters?.centres.forEach(([cx, cy], c) => {
        if (!names[c]) return;
        const [x, y] = toScreen(cx, cy);
        const text = names[c].toUpperCase();
        const w = measured(text, '700 12px system-ui, "Liberation Sans", sans-serif') + text.length * 1.5;
        if (fits(x - w / 2 - 4, y - 10, w + 8, 20)) write(text, x - w / 2, y, paints.quiet, 12, 700);
      });
      pen.letterSpacing = "0px";
      const most = Math.round(Math.min(MORE_LABELS, (LABELS * view.scale * width * height) / 700_000));
      const first = [state.picked, state.over, ...[...state.kinds.keys()].filter((item) => state.kinds.get(item) === "recommended")].filter((item) => item >= 0);
      let written = 0;
      for (const item of new Set([...first, ...[...state.kinds.keys()].filter((item) => state.kinds.get(item) !== "between").sort((a, b) => map.ratings[b] - map.ratings[a]).slice(0, 25), ...[...order.slice(-CANDIDATES)].reverse()])) {
        if (written >= most) break;
        const [x, y] = toScreen(map.x[item], map.y[item]);
        if (!isShown(item) || x < 0 || y < 0 || x > width || y > height) continue;
        const weight = first.includes(item) ? 700 : 400;
        const name = nameOf(item);
        const text = name.length > 24 && !first.includes(item) ? `${name.slice(0, 23).trimEnd()}…` : name.slice(0, 60);
        const w = measured(text, `${weight} 12px system-ui, "Liberation Sans", sans-serif`);
        const gap = sizes[item] + (state.kinds.has(item) ? 7 : 4);
        const at = [x + gap, x - gap - w].find((left) => fits(left, y - 8, w, 16));
        if (at === undefined) continue;
        write(text, at, y, paints.ink, 12, weight);
        written++;
      }
    }

    const soon = () => {
      if (state.waiting || !land) return;
      state.waiting = true;
      requestAnimationFrame(draw);
    };

    function nearest(x, y, within) {
      let [best, least] = [-1, within * within];
      for (let item = 0; item < n; item++) {
        if (!isShown(item)) continue;
        const [sx, sy] = toScreen(map.x[item], map.y[item]);
        const distance = (sx - x) ** 2 + (sy - y) ** 2 - (state.kinds.has(item) ? 30 : 0);
        if (distance < least) (least = distance), (best = item);
      }
      return best;
    }

    function hover(item) {
      tip.hidden = item < 0 || item === state.picked;
      if (item !== state.over) {
        state.over = item;
        canvas.style.cursor = item < 0 ? "grab" : "pointer";
        soon();
      }
      if (item < 0) return;
      tip.textContent = `${nameOf(item)} · ${count(map.ratings[item])} ratings`;
      const [x, y] = toScreen(map.x[item], map.y[item]);
      tip.style.left = `${Math.max(4, Math.min(width - tip.offsetWidth - 4, x + 12))}px`;
      tip.style.top = `${y > 44 ? y - 36 : y + 14}px`;
    }

    const zoom = (factor, x = width / 2, y = height / 2) => {
      const [atX, atY] = [view.x + (x - width / 2) / unitX(), view.y - (y - height / 2) / unitY()];
      view.scale = Math.max(0.8, Math.min(60, view.scale * factor));
      view.x = atX - (x - width / 2) / unitX();
      view.y = atY + (y - height / 2) / unitY();
      moved();
    };
    const moved = () => {
      tip.hidden = true;
      api.moved?.();
      soon();
    };

    const pointers = new Map();
    let dragged = 0;
    const here = (event) => [event.offsetX, event.offsetY];
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, here(event));
      dragged = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = here(event);
      const before = pointers.get(event.pointerId);
      if (!before) return hover(nearest(x, y, NEAR));
      if (pointers.size === 1) {
        dragged += Math.abs(x - before[0]) + Math.abs(y - before[1]);
        if (dragged > 4) (view.x -= (x - before[0]) / unitX()), (view.y += (y - before[1]) / unitY()), moved();
      } else {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
        dragged = 9;
        zoom(apart([x, y]) / apart(before), (x + other[0]) / 2, (y + other[1]) / 2);
      }
      pointers.set(event.pointerId, [x, y]);
    });
    const lift = (event) => pointers.delete(event.pointerId);
    canvas.addEventListener("pointerup", (event) => {
      if (pointers.size === 1 && dragged <= 4) choose(nearest(...here(event), NEAR + (event.pointerType === "touch" ? 10 : 0)));
      lift(event);
    });
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => hover(-1));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * 0.0015), ...here(event));
    }, { passive: false });

    // Arrow keys go to the next item in that direction; the first one is the most rated.
    function step(dx, dy) {
      if (state.over < 0) return visit(state.picked >= 0 ? state.picked : order[n - 1]);
      const [x, y] = toScreen(map.x[state.over], map.y[state.over]);
      let [best, least] = [-1, Infinity];
      for (let item = 0; item < n; item++) {
        if (item === state.over || !isShown(item)) continue;
        const [sx, sy] = toScreen(map.x[item], map.y[item]);
        const along = (sx - x) * dx + (sy - y) * dy;
        const across = Math.abs((sx - x) * dy) + Math.abs((sy - y) * dx);
        if (along > 0.5 && across <= 2 * along && along + 2 * across < least) (least = along + 2 * across), (best = item);
      }
      if (best >= 0) visit(best);
    }
    function visit(item) {
      const [x, y] = toScreen(map.x[item], map.y[item]);
      if (x < 40 || y < 40 || x > width - 40 || y > height - 40) (view.x = map.x[item]), (view.y = map.y[item]), moved();
      hover(item);
      heard.textContent = `${nameOf(item)}, ${count(map.ratings[item])} ratings${state.kinds.has(item) ? `, ${state.kinds.get(item)}` : ""}`;
    }
    canvas.addEventListener("keydown", (event) => {
      const act = { ArrowRight: () => step(1, 0), ArrowLeft: () => step(-1, 0), ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1), "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), "−": () => zoom(1 / 1.4), 0: () => (home(), moved()), Enter: () => state.over >= 0 && choose(state.over) }[event.key];
      if (!act || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      act();
    });

    function choose(item) {
      state.picked = item;
      state.lines = [];
      tip.hidden = true;
      soon();
      pick(item);
    }

    const buttons = [["+", "Zoom in", () => zoom(1.4)], ["−", "Zoom out", () => zoom(1 / 1.4)], [icon("home"), "Whole map", () => (home(), moved())]]
      .map(([face, words, act]) => make("button", { type: "button", class: "icon-button", "aria-label": words, onclick: act }, face));
    const values = twin(() => table("Items on the map, the most rated", ["item", "ratings", "place", ...(state.kinds.size ? ["for this user"] : [])], [...order].reverse().filter(isShown).slice(0, 200).map((item) => [nameOf(item), map.ratings[item], (clusters && names[clusters.of[item]]) || "–", ...(state.kinds.size ? [state.kinds.get(item) || "–"] : [])]), { texts: [2, 3] }));
    const element = make("div", { class: "map" }, canvas, tip, make("div", { class: "zoom" }, buttons), heard);
    canvas.redraw = redraw;
    new ResizeObserver(resize).observe(canvas);

    const api = {
      element, values, nameOf, clusters, names, choose,
      where: (item) => toScreen(map.x[item], map.y[item]),
      size: () => [width, height],
      // Kinds by position: liked, disliked, between, recommended.
      mark: (kinds) => { state.kinds = kinds; values.renew(); soon(); },
      show: (place) => { state.place = place; soon(); },
      link: (items) => { state.lines = items; soon(); },
      highlight: (chosen) => { state.high = chosen.slice(0, HIGHLIGHTS.length); soon(); },
      minRatings: (least) => { state.least = least; values.renew(); soon(); },
      goTo: (item) => { Object.assign(view, { x: map.x[item], y: map.y[item], scale: Math.max(view.scale, 2) }); moved(); },
      paintOf: (place) => HIGHLIGHTS[place][tastespace.isDark() ? 1 : 0],
    };
    return api;
  }

  // Half axes and direction of the ellipse that holds 90 % of a normal distribution with the covariance of the points.
  function ellipse(points) {
    const n = points.length;
    const mean = [0, 1].map((side) => points.reduce((sum, point) => sum + point[side], 0) / n);
    const cov = (a, b) => points.reduce((sum, point) => sum + (point[a] - mean[a]) * (point[b] - mean[b]), 0) / Math.max(1, n - 1);
    const [xx, xy, yy] = [cov(0, 0), cov(0, 1), cov(1, 1)];
    const half = Math.sqrt(((xx - yy) / 2) ** 2 + xy ** 2);
    const factor = -2 * Math.log(0.1);
    return [Math.sqrt(factor * ((xx + yy) / 2 + half)), Math.sqrt(factor * Math.max(0, (xx + yy) / 2 - half)), 0.5 * Math.atan2(2 * xy, xx - yy)];
  }

  Object.assign(tastespace, { tasteCanvas, ellipse });
})();
