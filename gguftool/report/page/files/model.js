// The page of one model: its tensors as areas, its conversations one at a time.
(function (tools) {
  "use strict";
  const { el, size, count, percent, data } = tools;
  const t = data.tensors;
  const root = document.querySelector("#bytes .tree");
  if (t && root && t.count) {
    const FILLS = {
      attention: 1, "feed-forward": 2, experts: 3, embedding: 4, state: 5, output: 6, rope: 7, other: 9, norm: 10,
    };
    const all = (t.bytes || []).reduce((sum, bytes) => sum + (bytes || 0), 0);
    const at = (name, i) => (t[name] ? t[name][i] : null);
    const number = (x) => (x === null ? "none" : Number(x.toPrecision(5)).toString());
    // What tells tensors of a layer apart, and layers apart.
    const bare = (name, block) =>
      (block && name.startsWith(block + ".") ? name.slice(block.length + 1) : name).replace(/\.weight$/, "");

    function show(i) {
      const bytes = at("bytes", i), shape = at("shape", i), values = at("values", i), sha = at("sha256", i);
      const elements = shape.reduce((a, b) => a * b, 1);
      const rows = [
        ["kind", t.kinds[t.kind[i]] + (t.blocks[t.block[i]] ? ", " + t.blocks[t.block[i]] : "")],
        ["type", t.types[t.type[i]] + (bytes && elements ? ", " + ((8 * bytes) / elements).toFixed(2) + " bits per weight" : "")],
        ["shape", shape.map(count).join(" × ") || "scalar"],
        ["weights", count(elements)],
        ["bytes", bytes === null ? "unknown" : count(bytes) + " (" + percent(bytes / all) + " of all tensors)"],
        ["offset", count(at("offset", i)) + (at("file", i) ? ", file " + (at("file", i) + 1) : "")],
        t.would && t.would[i] && ["mixture", "llama-quantize would make it " + t.would[i]],
        sha && ["sha256", el("span", { class: "row" }, el("code", {}, sha),
          el("button", { type: "button", "data-copy": true, "aria-label": "Copy the sha256 of " + at("name", i) }, "Copy"))],
      ];
      if (values) {
        rows.push(
          ["range", number(values.least) + " … " + number(values.most)],
          ["mean, rms", number(values.mean) + ", " + number(values.rms)],
          ["outliers", values.outliers ? count(values.outliers) + " beyond 6 × rms" : "none beyond 6 × rms"],
          values.zeros && ["zeros", count(values.zeros) + " (" + percent(values.zeros / elements) + ")"],
          (values.nan || values.inf) && ["not finite", count(values.nan) + " NaN, " + count(values.inf) + " infinite"],
        );
      }
      return [el("h3", {}, at("name", i)), tools.facts(rows), ...(values ? spread(values) : [])];
    }

    // The range on a line: where zero is, one root mean square on both sides, and the edges beyond which outliers lie.
    function spread(v) {
      const NS = "http://www.w3.org/2000/svg";
      const svg = (tag, attributes, ...children) => {
        const node = document.createElementNS(NS, tag);
        for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
        node.append(...children);
        return node;
      };
      const [low, high] = [Math.min(v.least, 0), Math.max(v.most, 0)];
      if (!(high > low)) return [];
      const x = (value) => (1000 * (Math.min(Math.max(value, low), high) - low)) / (high - low);
      const band = (a, b, fill, y, h) => svg("rect", { x: x(a), width: Math.max(x(b) - x(a), 2), y, height: h, class: fill });
      const drawn = svg("svg", { viewBox: "0 0 1000 40", preserveAspectRatio: "none", class: "wide spread", role: "img",
        "aria-label": "From " + number(v.least) + " to " + number(v.most) + "; most within " + number(v.rms) + " of zero" },
      band(v.least, v.most, "f0", 14, 12), band(-6 * v.rms, 6 * v.rms, "f2", 14, 12), band(-v.rms, v.rms, "f1", 8, 24),
      svg("rect", { x: x(0) - 1, width: 2, y: 0, height: 40, class: "zero" }));
      const means = [["f1", "within rms"], ["f2", "within 6 × rms"], ["f0", "beyond"]].map(([fill, text]) =>
        el("li", {}, el("span", { class: "swatch " + fill, "aria-hidden": "true" }), text));
      return [drawn, el("ul", { class: "legend" }, ...means)];
    }

    const items = [];
    for (let i = 0; i < t.count; i += 1) {
      const [name, block, kind, type] = [at("name", i), t.blocks[t.block[i]], t.kinds[t.kind[i]], t.types[t.type[i]]];
      if (!at("bytes", i)) continue;
      items.push({
        id: "t" + i, name, bytes: at("bytes", i),
        label: { layer: bare(name, block), kind: block ? block.replace(/^blk\./, "") + " " + bare(name, block) : name,
          type: block ? block.replace(/^blk\./, "") + " " + bare(name, block) : name },
        facets: { layer: block, kind, type },
        show: () => show(i),
      });
    }
    if (items.length) {
      tools.treemap(root, items, {
        layer: { natural: true, colour: "kind", none: "outside the layers" }, kind: { colour: "type", fills: FILLS }, type: { colour: "kind" },
      });
      document.querySelector("[data-list=bytes]").open = false;
    } else root.hidden = true;
  }

  // One conversation at a time.
  const select = document.getElementById("talk");
  if (select) {
    const talks = [...document.querySelectorAll(".talks > details")];
    const choose = () => talks.forEach((talk, i) => {
      talk.hidden = String(i) !== select.value;
      talk.open = true;
      talk.classList.add("alone");
    });
    select.addEventListener("change", choose);
    choose();
  }
})(window.gguftool);
