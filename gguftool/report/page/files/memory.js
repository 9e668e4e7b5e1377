// Memory against context, to be turned: sums of the planner's own bytes. What was not planned is not drawn.
(function (tools) {
  "use strict";
  const d = tools.data.memory;
  const root = document.querySelector("#memory .turn");
  if (!d || !root) return;
  const { el, size, count } = tools;
  const GIB = 2 ** 30;
  const HOST = "CPU";
  // Fields of a device in the order in which they are stacked, with name and fill.
  const PARTS = [
    ["weights", "weights", 1], ["kv", "KV cache", 2], ["state", "recurrent state", 5], ["compute", "compute buffers", 3],
    ["output", "output rows", 9], ["projector", "projector", 6], ["beside", "draft and adapters", 4],
  ];
  const PROGRAM = ["program", "the program itself", 8];

  // Numbers.
  const types = d.types.length;
  const series = (id, c) => d.series[id][c];
  const runs = new Map(); // "devices,host,experts" -> class of every split
  d.boards.forEach((board, n) => board.spots.forEach((spot) => {
    const classes = [];
    spot.runs.forEach(([group, many]) => { for (let i = 0; i < many; i += 1) classes.push(group); });
    runs.set([n, spot.host, spot.experts].join(), classes);
  }));

  // As `gguftool.report.turned.splits`.
  function splits(layers, devices) {
    if (devices < 2) return [devices ? [layers] : []];
    const out = [];
    for (let a = 1; a < layers; a += 1) {
      for (const rest of splits(layers - a, devices - 1)) if (rest[0] > 0) out.push([a, ...rest]);
    }
    return out;
  }

  function row(st, group) {
    if (group < 0) return -1;
    return d.boards[st.devices].points[group][(st.slot * types + st.k) * types + st.v];
  }

  // Splits that were planned under a setting: [layers of each device, row of compute buffers].
  function planned(st, host, experts) {
    const classes = runs.get([st.devices, host, experts].join());
    if (!classes || refusal(st)) return [];
    const out = [];
    splits(d.layers - host, st.devices).forEach((split, i) => {
      const found = row(st, classes[i]);
      if (found >= 0) out.push([split, found]);
    });
    return out;
  }

  const refusal = (st) => (d.refused ? d.refused[st.k * types + st.v] : "");

  // Bytes of every device, the host last, at the context number c.
  function figures(st, split, found, c) {
    const board = d.boards[st.devices];
    const w = d.weights[board.weights];
    const uses = [...board.devices, HOST].map((name, i) => ({
      name, weights: board.fixed[i], kv: 0, state: 0, compute: series(d.rows[found][i], c),
      output: name === HOST ? d.output[st.slot] : 0, projector: board.projector[i],
      beside: board.drafts ? series(d.rows[found][board.devices.length + 1 + i], c) : 0,
      program: name === HOST ? series(d.program[st.slot], c) : 0,
    }));
    const host = uses.length - 1;
    const at = new Array(d.layers - split.reduce((a, b) => a + b, 0)).fill(host);
    split.forEach((many, i) => { for (let k = 0; k < many; k += 1) at.push(i); });
    const trunk = new Set();
    at.forEach((i, layer) => {
      uses[i].weights += i === host ? w.host[layer] : w.device[layer];
      if (w.host_experts) {
        const home = i === host || layer < st.experts ? host : i;
        uses[home].weights += home === host ? w.host_experts[layer] : w.device_experts[layer];
      }
      const keeps = d.kv_offload ? i : host;
      const cache = d.caches[keeps === host ? 0 : 1][d.kinds[layer]][st.slot];
      uses[keeps].kv += series(cache.k[st.k], c) + series(cache.v[st.v], c);
      uses[keeps].state += cache.state;
      if (layer < d.layers - 1) trunk.add(i);
    });
    const last = at[at.length - 1];
    uses[last].weights += board.tied[last === host ? 0 : 1];
    trunk.forEach((i) => { if (i !== at[0]) uses[i].weights += w.frequencies; });
    uses.forEach((u, i) => {
      u.total = PARTS.reduce((sum, [key]) => sum + u[key], 0);
      u.memory = i === host ? st.ram : st.vram[i];
      u.limit = u.memory === null ? null : Math.max(0, u.memory - d.reserve);
      u.fits = u.memory === null ? null : u.total <= u.limit;
      u.missing = u.memory === null ? 0 : Math.max(0, u.total + d.reserve - u.memory);
    });
    return uses;
  }

  const fitsAll = (uses) => (uses.some((u) => u.fits === false) ? false : uses.some((u) => u.fits === null) ? null : true);

  // Of the splits that were planned the one whose fullest device is the emptiest.
  function filled(st, choices) {
    if (st.devices < 2) return choices[0];
    let best = null, least = Infinity;
    for (const choice of choices) {
      const uses = figures(st, ...choice, st.context).slice(0, -1);
      const most = Math.max(...uses.map((u) => u.total / Math.max(1, u.limit)));
      if (most < least) [best, least] = [choice, most];
    }
    return best;
  }

  // What the plan itself says first; its split only as long as nothing is turned.
  const at = (list, value) => Math.max(0, list.indexOf(value));
  const s0 = d.start;
  const st = {
    devices: s0.vram.length, context: at(d.contexts, s0.context), slot: at(d.slots, s0.slots),
    k: at(d.types, s0.type_k), v: at(d.types, s0.type_v), host: s0.host, experts: s0.experts,
    vram: [...s0.vram], ram: s0.ram,
  };
  let own = s0.split.length > 1 ? s0.split : null;

  // Commands.
  const amount = (bytes) => (bytes % GIB ? bytes + "B" : bytes / GIB + "GiB");
  function words(st, split) {
    const o = d.options;
    const out = [o.ctx, d.contexts[st.context], o.parallel, d.slots[st.slot]];
    const [k, v] = [d.types[st.k], d.types[st.v]];
    out.push(o.cache_type, k === v ? k : k + "/" + v);
    if (d.experts || st.experts) out.push(o.cpu_moe, st.experts);
    if (st.devices) {
      out.push(o.gpu_layers, d.layers - st.host, o.vram, st.vram.slice(0, st.devices).map(amount).join());
      if (split && st.devices > 1) out.push(o.tensor_split, split.join());
    } else out.push(o.device, "none");
    if (st.ram !== null) out.push(o.ram, amount(st.ram));
    return " " + out.join(" ");
  }

  // Knobs.
  const knobs = root.querySelector(".knobs");
  function slider(key, name, stops, get, set, text) {
    const id = "turn-" + key;
    const output = el("output", { for: id });
    const input = el("input", { type: "range", id, min: 0, step: 1 });
    const node = el("div", { class: "knob" }, el("label", { for: id }, name), output, input);
    input.addEventListener("input", () => { own = null; set(stops()[Number(input.value)]); draw(); });
    knobs.append(node);
    return { node, show() {
      const all = stops();
      input.max = Math.max(0, all.length - 1);
      input.disabled = all.length < 2;
      const i = all.indexOf(get());
      if (i >= 0) input.value = i;
      output.textContent = text(get());
      input.setAttribute("aria-valuetext", text(get()));
    } };
  }
  function select(key, name, values, get, set, there) {
    const id = "turn-" + key;
    const input = el("select", { id }, ...values.map(([value, text]) => el("option", { value }, text)));
    const node = el("div", { class: "knob" }, el("label", { for: id }, name), input);
    input.addEventListener("change", () => { own = null; set(Number(input.value)); draw(); });
    knobs.append(node);
    return { node, show() {
      input.value = get();
      [...input.options].forEach((option, i) => { option.textContent = values[i][1] + (there(i) ? "" : " (command only)"); });
    } };
  }
  // Whether anything was planned with so many devices, slots and these types; refusals are answers, too.
  function any(more) {
    const x = { ...st, ...more };
    return Boolean(refusal(x)) || d.boards[x.devices].points.some((p) => p[(x.slot * types + x.k) * types + x.v] >= 0);
  }
  // A pair of which one changed: the other goes with it where the two were not planned as they are.
  function pair(one, other, i) {
    st[one] = i;
    if (!any({}) && any({ [other]: i })) st[other] = i;
  }
  const hosts = () => [...new Set(d.boards[st.devices].spots.map((x) => x.host))]
    .filter((host) => planned(st, host, host ? s0.experts : st.experts).length).sort((a, b) => b - a);
  const expertStops = () => [...new Set(d.boards[1].spots.filter((x) => x.host === 0).map((x) => x.experts))]
    .filter((experts) => planned(st, 0, experts).length).sort((a, b) => a - b);
  const every = (list) => list.map((value, i) => [i, String(value)]);
  const context = slider("context", "Context, tokens", () => d.contexts.map((_, i) => i), () => st.context,
    (i) => { st.context = i; }, (i) => count(d.contexts[i]));
  const shared = [
    context,
    select("slots", "Slots", every(d.slots), () => st.slot, (slot) => { st.slot = slot; }, (slot) => any({ slot })),
    select("k", "Cache type of K", every(d.types), () => st.k, (k) => pair("k", "v", k), (k) => any({ k }) || any({ k, v: k })),
    select("v", "Cache type of V", every(d.types), () => st.v, (v) => pair("v", "k", v), (v) => any({ v }) || any({ k: v, v })),
    select("devices", "Devices", d.boards.map((b, n) => [n, n ? count(n) + " × " + b.devices[0].replace(/\d+$/, "") : "none"]),
      () => st.devices, (n) => {
        st.devices = n;
        while (st.vram.length < n) st.vram.push(st.vram[0] || 16 * GIB);
        [st.host, st.experts] = [0, s0.experts];
      }, (devices) => any({ devices })),
  ];
  const largest = d.boards[d.boards.length - 1].devices;
  const memories = largest.map((name, i) => slider("vram" + i, "Memory of " + name, () => d.vram,
    () => st.vram[i], (bytes) => { st.vram[i] = bytes; }, (bytes) => (bytes === undefined ? "" : size(bytes))));
  const layers = slider("layers", "Layers on the devices", hosts, () => st.host,
    (host) => { st.host = host; if (host) st.experts = s0.experts; },
    (host) => count(d.layers - host) + " of " + count(d.layers));
  const experts = slider("experts", "Layers whose experts stay on the host", expertStops, () => st.experts,
    (n) => { st.experts = n; }, (n) => count(n) + " of " + count(d.layers - 1));
  const ram = slider("ram", "Memory of the host", () => [null, ...d.ram], () => st.ram,
    (bytes) => { st.ram = bytes; }, (bytes) => (bytes === null ? "not named" : size(bytes)));

  // Picture.
  const svg = (tag, attributes, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const short = (tokens) => (tokens % 1024 ? String(tokens) : tokens / 1024 + "k");

  function picture(all, i) {
    const [W, H, left, right, top, bottom] = [place.clientWidth < 500 ? 310 : 420, 250, 66, 10, 24, 30];
    const here = all.map((uses) => uses[i]);
    const now = here[st.context];
    const most = Math.max(...here.map((u) => u.total + u.program));
    const high = now.memory === null ? most * 1.08 : Math.max(most * 1.08, Math.min(now.memory * 1.04, most * 2.2));
    const y = (bytes) => H - bottom - ((H - top - bottom) * bytes) / high;
    const wide = (W - left - right) / here.length;
    const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "wide memory", role: "img",
      "aria-label": saying(now) + ". The tables below hold the same numbers." });
    const hatch = "turn-hatch-" + i;
    picture.append(svg("defs", {}, svg("pattern", { id: hatch, width: 6, height: 6, patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)" }, svg("rect", { width: 2, height: 6, class: "hatch" }))));
    const step = 2 ** Math.ceil(Math.log2(high / 5));
    for (let bytes = 0; bytes <= high; bytes += step) {
      picture.append(svg("line", { x1: left, x2: W - right, y1: y(bytes), y2: y(bytes), class: "grid" }),
        svg("text", { x: left - 6, y: y(bytes) + 4, "text-anchor": "end", class: "soft" }, size(bytes).replace(".0 ", " ")));
    }
    here.forEach((u, c) => {
      const [x, w] = [left + wide * c + wide * 0.14, wide * 0.72];
      let sum = 0;
      for (const [key, name, fill] of [...PARTS, PROGRAM]) {
        if (!u[key]) continue;
        const box = svg("rect", { x, width: w, y: y(sum + u[key]), height: Math.max(0, y(sum) - y(sum + u[key])),
          class: "f" + fill }, svg("title", {}, `${name} at ${count(d.contexts[c])}: ${size(u[key])}`));
        picture.append(box);
        sum += u[key];
      }
      if (u.fits === false) picture.append(svg("text", { x: x + w / 2, y: y(sum) - 3, "text-anchor": "middle", class: "over" }, "✗"));
      if (c === st.context) {
        picture.append(svg("rect", { x: x - 3, width: w + 6, y: Math.max(2, y(sum) - 3), height: y(0) - Math.max(2, y(sum) - 3) + 3,
          class: "now" }));
      }
      const named = here.length < 9 || c === st.context || (st.context - c) % 2 === 0;
      if (named) picture.append(svg("text", { x: x + w / 2, y: H - bottom + 16, "text-anchor": "middle",
        class: c === st.context ? "here" : "soft" }, short(d.contexts[c])));
    });
    if (now.memory !== null && now.limit > high) {
      picture.append(svg("line", { x1: left, x2: W - right, y1: 3, y2: 3, class: "limit" }),
        svg("text", { x: left + 4, y: 18 }, `the limit, ${size(now.limit)}, is above ↑`));
    } else if (now.memory !== null) {
      const above = Math.max(top - 12, y(now.memory));
      picture.append(svg("rect", { x: left, width: W - left - right, y: above, height: Math.max(0, y(now.limit) - above),
        fill: `url(#${hatch})` }, svg("title", {}, `kept free: ${size(d.reserve)}`)));
      picture.append(svg("line", { x1: left, x2: W - right, y1: y(now.limit), y2: y(now.limit), class: "limit" }));
    }
    return picture;
  }

  function saying(u) {
    const much = `${u.name} holds ${size(u.total)}`;
    if (u.fits === null) return much + " of an unknown memory";
    return much + ` of ${size(u.memory)}, ` + (u.fits ? `${size(u.limit - u.total)} left` : `over by ${size(u.missing)}`);
  }

  // "fits up to": of the contexts that were planned, with everything else as it is.
  function upTo(all) {
    const oks = all.map((uses) => fitsAll(uses) !== false);
    const last = oks.lastIndexOf(true);
    const known = all[0].some((u) => u.memory !== null);
    if (!known) return "Name the memory there is to see what fits.";
    if (last < 0) return `Not even ${count(d.contexts[0])} tokens fit.`;
    const next = last + 1 < d.contexts.length ? `, ${count(d.contexts[last + 1])} do not` : ", the longest planned here";
    return `Fits up to ${count(d.contexts[last])} tokens${next}.`;
  }

  const place = document.getElementById("turned");
  const says = el("p", { class: "says", role: "status" });
  const pictures = el("div", { class: "pictures" });
  const legend = el("ul", { class: "legend" });
  const numbers = el("div", {});
  const commands = el("div", { class: "lines" });
  place.append(says, pictures, legend, numbers, commands);

  function table(label, heads, rows, id) {
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, el("table", { id },
      el("caption", {}, label),
      el("thead", {}, el("tr", {}, ...heads.map((head, i) => el("th", { scope: "col", class: i ? "right" : null }, head)))),
      el("tbody", {}, ...rows)));
  }

  function both(bytes) {
    return [size(bytes), el("small", { class: "soft exact" }, count(bytes))];
  }

  function command(line, name) {
    return el("div", { class: "command" }, el("pre", { tabindex: 0, "data-command": name }, line),
      el("button", { type: "button", "data-copy": "", "aria-label": "Copy the command" }, "Copy"));
  }

  function draw() {
    const there = hosts();
    if (st.devices && there.length && !there.includes(st.host)) {
      st.host = there.reduce((a, b) => (Math.abs(b - st.host) < Math.abs(a - st.host) ? b : a));
    }
    if (!st.devices) [st.host, st.experts] = [0, s0.experts];
    shared.forEach((knob) => knob.show());
    memories.forEach((knob, i) => { knob.node.hidden = i >= st.devices; knob.show(); });
    layers.node.hidden = !st.devices;
    layers.show();
    experts.node.hidden = !(d.experts && st.devices === 1 && !st.host);
    experts.show();
    ram.show();
    const choices = planned(st, st.host, st.experts);
    const kept = own && choices.find(([split]) => split.join() === own.join());
    const choice = kept || (choices.length ? filled(st, choices) : null);
    const line = words(st, choice && choice[0]);
    const shown = [command(d.plan + line, "plan")];
    let fits = null;
    pictures.replaceChildren();
    numbers.replaceChildren();
    legend.replaceChildren();
    if (!choice) {
      const why = refusal(st);
      says.textContent = why ? `llama.cpp refuses these cache types: ${why}.`
        : "This setting was not planned for the page. The command below says what it takes.";
      place.dataset.state = why ? "refused" : "unplanned";
    } else {
      const all = d.contexts.map((_, c) => figures(st, ...choice, c));
      const uses = all[st.context];
      fits = fitsAll(uses);
      place.dataset.state = fits === null ? "unknown" : fits ? "fits" : "over";
      const head = fits === false ? "Does not fit: " + uses.filter((u) => u.fits === false).map((u) => `over on ${u.name} by ${size(u.missing)}`).join(", ")
        : (fits ? "Fits: " : "") + uses.map(saying).join("; ");
      const shares = st.devices > 1 ? ` Layers: ${choice[0].map((n, i) => `${d.boards[st.devices].devices[i]} ${n}`).join(", ")}.` : "";
      says.textContent = `${head}. ${upTo(all)}${shares}`;
      uses.forEach((u, i) => pictures.append(el("figure", {}, el("figcaption", {}, el("strong", {}, u.name), " ", saying(u).replace(u.name + " ", "")), picture(all, i))));
      const used = PARTS.filter(([key]) => uses.some((u) => u[key]));
      const swatch = (name, fill) => el("li", {}, el("span", { class: "swatch f" + fill, "aria-hidden": "true" }), name);
      legend.append(...used.map(([, name, fill]) => swatch(name, fill)), swatch(PROGRAM[1] + " (within what is kept free)", PROGRAM[2]),
        el("li", {}, el("span", { class: "swatch kept", "aria-hidden": "true" }), "kept free, from the limit on"));
      const per = series(d.per_slot[st.slot], st.context);
      numbers.append(table(`Bytes at ${count(d.contexts[st.context])} tokens, ${count(per)} a slot`,
        ["device", ...used.map(([, name]) => name), "in all", "of", "program"],
        uses.map((u) => el("tr", { "data-device": u.name }, el("th", { scope: "row" }, u.name),
          ...[...used.map(([key]) => key), "total", "memory", "program"].map((key) => el("td",
            { class: "right", "data-part": key, "data-value": u[key] === null ? "" : u[key] },
            ...(u[key] === null ? ["not named"] : u[key] ? both(u[key]) : ["–"]))))), "turned-now"));
      numbers.append(el("details", {}, el("summary", {}, "The same for every context that was planned"),
        table("Bytes by context", ["context", ...uses.map((u) => u.name), "fits"], all.map((row, c) => el("tr", { "data-context": d.contexts[c] },
          el("th", { scope: "row" }, count(d.contexts[c])),
          ...row.map((u) => el("td", { class: "right", "data-device": u.name, "data-value": u.total }, ...both(u.total))),
          el("td", { class: "right" }, { true: "yes", false: "no" }[fitsAll(row)] || "not known"))), "turned-all")));
    }
    if (d.launch && choice && fits !== false) shown.push(command(d.launch + line, "launch"));
    commands.replaceChildren(...shown);
  }
  draw();
})(window.gguftool);
