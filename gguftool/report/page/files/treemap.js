// Bytes as areas. One list box: the arrow keys move by geometry, Enter or a click shows what a piece is.
(function (tools) {
  "use strict";
  const { el, size, count, percent } = tools;
  const SMALLEST = 3; // pixels; what is narrower is in the list only

  // Rectangles for weights that sum up to w × h, in the order given: rows as square as they come (Bruls et al. 2000).
  function squares(weights, w, h) {
    const total = weights.reduce((a, b) => a + b, 0);
    const scale = total ? (w * h) / total : 0;
    const areas = weights.map((weight) => weight * scale);
    const out = [];
    let [x, y, left, high] = [0, 0, w, h];
    const worst = (sum, least, most, side) =>
      Math.max((side * side * most) / (sum * sum), (sum * sum) / (side * side * least));
    for (let i = 0; i < areas.length;) {
      const side = Math.min(left, high);
      let [sum, least, most, end] = [areas[i], areas[i], areas[i], i + 1];
      while (end < areas.length) {
        const [s, l, m] = [sum + areas[end], Math.min(least, areas[end]), Math.max(most, areas[end])];
        if (worst(s, l, m, side) > worst(sum, least, most, side)) break;
        [sum, least, most] = [s, l, m];
        end += 1;
      }
      const thick = side ? sum / side : 0;
      let at = 0;
      for (let k = i; k < end; k += 1) {
        const long = thick ? areas[k] / thick : 0;
        out.push(left >= high ? { x, y: y + at, w: thick, h: long } : { x: x + at, y, w: long, h: thick });
        at += long;
      }
      if (left >= high) { x += thick; left -= thick; } else { y += thick; high -= thick; }
      i = end;
    }
    return out;
  }

  function place(node, box, w, h) {
    node.style.left = (100 * box.x) / w + "%";
    node.style.top = (100 * box.y) / h + "%";
    node.style.width = (100 * box.w) / w + "%";
    node.style.height = (100 * box.h) / h + "%";
  }

  // root: an element with .map, .legend, .about, .found, .small-ones, [data-groups], input[type=search].
  // items: {id, name, bytes, label: {facet: short text}, facets: {facet: key}, show() → nodes}.
  // facets: by name {colour: facet that colours it, natural: by name and number, not by size, none: what "" is called,
  // fills: colours of keys}; the first is shown first.
  tools.treemap = function (root, items, facets) {
    const map = root.querySelector(".map");
    const about = root.querySelector(".about");
    const legend = root.querySelector(".legend");
    const find = root.querySelector("input[type=search]");
    const found = root.querySelector(".found");
    const total = items.reduce((sum, item) => sum + item.bytes, 0);
    let group = "", colour = "", active = null, chosen = null, wanted = "", muted = null;

    const sums = (facet) => {
      const out = new Map();
      for (const item of items) {
        const key = item.facets[facet];
        const one = out.get(key) || { key, title: key || facets[facet].none, bytes: 0, items: [] };
        one.bytes += item.bytes;
        one.items.push(item);
        out.set(key, one);
      }
      const all = [...out.values()];
      return all.sort(facets[facet].natural
        ? (a, b) => a.key.localeCompare(b.key, "en", { numeric: true }) : (a, b) => b.bytes - a.bytes);
    };
    const palette = {};
    for (const facet of Object.keys(facets)) {
      palette[facet] = new Map(sums(facet).map((s, i) => [s.key, facets[facet].fills?.[s.key] || Math.min(i + 1, 10)]));
    }

    function draw() {
      const [w, h] = [map.clientWidth, map.clientHeight];
      if (!w || !h) return;
      map.replaceChildren();
      let small = 0;
      const groups = sums(group);
      const boxes = squares(groups.map((g) => g.bytes), w, h);
      groups.forEach((g, i) => {
        const box = boxes[i];
        if (box.w < SMALLEST || box.h < SMALLEST) { small += g.items.length; return; }
        const outer = el("div", { class: "group", role: "group", "aria-label": g.title + ", " + size(g.bytes) });
        place(outer, box, w, h);
        const titled = box.h > 34 && box.w > 22 && groups.length > 1;
        const inner = el("div", { class: titled ? "inner titled" : "inner", role: "presentation" });
        if (titled) {
          const long = g.title + (box.w > 110 ? "  " + size(g.bytes) : "");
          outer.append(el("div", { class: "title", "aria-hidden": "true" }, box.w > 60 ? long : g.title.replace(/^\D+/, "")));
        }
        const [iw, ih] = [Math.max(box.w - 2, 1), Math.max(box.h - (titled ? 17 : 2), 1)];
        const parts = [...g.items].sort((a, b) => b.bytes - a.bytes);
        squares(parts.map((p) => p.bytes), iw, ih).forEach((b, k) => {
          const item = parts[k];
          if (b.w < SMALLEST || b.h < SMALLEST) { small += 1; return; }
          const cell = el("div", {
            class: "cell f" + palette[colour].get(item.facets[colour]),
            role: "option",
            id: item.id,
            "aria-selected": String(item === chosen),
            "aria-label": item.name + ", " + size(item.bytes) + ", " + (item.facets[colour] || facets[colour].none),
          });
          const label = item.label[group] || item.name;
          if (b.h > 15 && 6.7 * label.length + 8 < b.w) {
            cell.append(label);
            if (b.h > 32 && b.w > 66) cell.append(el("small", {}, size(item.bytes)));
          }
          place(cell, b, iw, ih);
          cell.item = item;
          inner.append(cell);
        });
        outer.append(inner);
        map.append(outer);
      });
      root.querySelector(".small-ones").textContent =
        small ? count(small) + (small === 1 ? " piece is" : " pieces are") + " too small to be drawn: see the list." : "";
      legend.replaceChildren(...sums(colour).map((s) => {
        const button = el("button", { type: "button", "aria-pressed": String(muted === s.key) },
          el("span", { class: "swatch f" + palette[colour].get(s.key), "aria-hidden": "true" }),
          s.title + " ", el("span", { class: "soft" }, percent(s.bytes / total)));
        button.addEventListener("click", () => {
          muted = muted === s.key ? null : s.key;
          dim();
          legend.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === button && muted !== null)));
        });
        return el("li", {}, button);
      }));
      dim();
      mark();
    }

    const matches = (item) => item.name.toLowerCase().includes(wanted) && (muted === null || item.facets[colour] === muted);
    function dim() {
      map.querySelectorAll(".cell").forEach((c) => c.classList.toggle("faint", !matches(c.item)));
      const hits = items.filter(matches);
      found.textContent = wanted || muted !== null
        ? count(hits.length) + " of " + count(items.length) + ", " + size(hits.reduce((s, i) => s + i.bytes, 0)) : "";
    }

    function mark() {
      map.querySelectorAll(".cell").forEach((c) => {
        c.classList.toggle("active", c.item === active && document.activeElement === map);
        c.classList.toggle("chosen", c.item === chosen);
        c.setAttribute("aria-selected", String(c.item === chosen));
      });
      const cell = active && document.getElementById(active.id);
      if (cell) map.setAttribute("aria-activedescendant", active.id);
      else map.removeAttribute("aria-activedescendant");
    }

    function choose(item) {
      active = chosen = item;
      about.replaceChildren(...item.show());
      mark();
    }

    // The nearest cell in that direction, what lies straight ahead first.
    function step(dx, dy) {
      const cells = [...map.querySelectorAll(".cell")];
      const here = active && document.getElementById(active.id);
      if (!here) return cells[0];
      const a = here.getBoundingClientRect();
      const [ax, ay] = [(a.left + a.right) / 2, (a.top + a.bottom) / 2];
      let best = null, least = Infinity;
      for (const cell of cells) {
        if (cell === here) continue;
        const b = cell.getBoundingClientRect();
        const ahead = dx ? (dx > 0 ? b.left - a.right : a.left - b.right) : (dy > 0 ? b.top - a.bottom : a.top - b.bottom);
        if (ahead < -2) continue;
        const off = dx ? Math.max(b.top - ay, ay - b.bottom, 0) : Math.max(b.left - ax, ax - b.right, 0);
        const far = ahead + 4 * off;
        if (far < least) [best, least] = [cell, far];
      }
      return best;
    }

    const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    map.addEventListener("keydown", (event) => {
      const cells = [...map.querySelectorAll(".cell")];
      let cell = null;
      if (KEYS[event.key]) cell = step(...KEYS[event.key]);
      else if (event.key === "Home") cell = cells[0];
      else if (event.key === "End") cell = cells[cells.length - 1];
      else if ((event.key === "Enter" || event.key === " ") && active) { choose(active); event.preventDefault(); return; }
      else return;
      event.preventDefault();
      if (cell) { active = cell.item; mark(); }
    });
    map.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (cell) choose(cell.item);
    });
    map.addEventListener("focus", () => { active = active || chosen || items[0]; mark(); });
    map.addEventListener("blur", mark);
    find.addEventListener("input", () => { wanted = find.value.trim().toLowerCase(); dim(); });
    find.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      const hit = items.filter(matches).sort((a, b) => b.bytes - a.bytes)[0];
      if (hit) choose(hit);
    });

    const groups = tools.choice(root.querySelector("[data-groups]"), (value) => { group = value; recolour(); });
    function recolour() {
      muted = null;
      // Groups by one thing, colours by another: the same one twice would say nothing.
      colour = facets[group].colour;
      draw();
    }
    group = Object.keys(facets)[0];
    groups(group);
    colour = facets[group].colour;
    choose(items.reduce((a, b) => (b.bytes > a.bytes ? b : a)));
    draw();
    let waiting = 0;
    new ResizeObserver(() => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(draw); }).observe(map);
  };

  // A list of facts: [[name, text or node], …]; null is left out.
  tools.facts = (rows) => el("dl", { class: "facts" },
    ...rows.filter(Boolean).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
})(window.gguftool);
