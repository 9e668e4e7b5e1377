// The page without which nothing is lost: switches, copying, sorting, choosing. Text is only ever text here, and what hides in
// it was spelled out before it came here (`report.page.render.inert`).
window.gguftool = (function () {
  "use strict";
  const tools = { data: JSON.parse(document.getElementById("data").textContent) };

  // el("p", {class: "soft"}, "text", node …): attributes by name, children as nodes or as text.
  tools.el = function (tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };

  // Numbers as Python writes them: the even neighbour where both are as near.
  const even = (x) => (x - Math.floor(x) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));
  // As `gguftool.quantity.human`.
  const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  tools.size = function (bytes) {
    if (bytes < 1024) return bytes + " B";
    let [value, at] = [bytes / 1024, 0];
    while (value >= 1023.95 && at < UNITS.length - 1) [value, at] = [value / 1024, at + 1];
    return (even(value * 10) / 10).toFixed(1) + " " + UNITS[at];
  };
  tools.count = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  // As `report.page.filters.percent`.
  tools.percent = function (part) {
    const p = part * 100;
    if (p && p < 0.01) return "< 0.01 %";
    const scale = p && p < 9.5 ? 10 ** -Math.floor(Math.log10(p)) : 1;
    return Number((even(p * scale) / scale).toPrecision(3)) + " %";
  };

  const live = document.getElementById("live");
  tools.say = function (text) {
    live.textContent = "";
    setTimeout(() => { live.textContent = text; }, 30);
  };

  // Buttons of which one is pressed; `chosen` is told its value.
  tools.choice = function (group, chosen) {
    const buttons = [...group.querySelectorAll("button")];
    const press = (value) => buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.value === value)));
    buttons.forEach((b) => b.addEventListener("click", () => { press(b.value); chosen(b.value); }));
    return press;
  };

  document.querySelectorAll("[data-needs-script]").forEach((node) => { node.hidden = false; });
  document.querySelectorAll("[data-without-script]").forEach((node) => { node.hidden = true; });

  // Light, dark, or as the system has it.
  const theme = document.getElementById("theme");
  const KEY = "gguftool-theme";
  const dress = (value) => {
    if (value === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = value;
  };
  let kept = "auto";
  try { kept = localStorage.getItem(KEY) || "auto"; } catch { /* a browser that keeps nothing for files */ }
  if (!["light", "dark"].includes(kept)) kept = "auto";
  dress(kept);
  tools.choice(theme, (value) => {
    dress(value);
    try { localStorage.setItem(KEY, value); } catch { /* the same */ }
  })(kept);

  // Copy what stands in the element named by data-copy, or beside the button.
  const copied = async (text, back) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = tools.el("textarea", { class: "only-read", "aria-hidden": "true", tabindex: "-1" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      back.focus({ preventScroll: true });
      return done;
    }
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const done = await copied(button.parentElement.querySelector("pre, code").textContent, button);
    if (button.dataset.was === undefined) button.dataset.was = button.textContent;
    button.textContent = done ? "Copied" : "Select it";
    tools.say(done ? "Copied" : "Could not be copied");
    setTimeout(() => { button.textContent = button.dataset.was; }, 1400);
  });

  // Tables whose head says how they are sorted.
  document.querySelectorAll("table[data-sort]").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    const value = (row, i) => row.cells[i].dataset.value ?? row.cells[i].textContent.trim();
    heads.forEach((head, i) => {
      if (!head.textContent.trim()) return;
      const button = tools.el("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [value(a, i), value(b, i)];
          const [m, n] = [Number(x), Number(y)];
          const order = x !== "" && y !== "" && !isNaN(m) && !isNaN(n) ? m - n : x.localeCompare(y);
          return down ? -order : order;
        });
        body.append(...rows);
      });
    });
  });

  // What scrolls can be reached by keyboard, and has a name; what does not is no stop.
  const scrolls = (box) => box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
  const reach = (box) => {
    if (!scrolls(box)) { box.removeAttribute("tabindex"); return; }
    box.tabIndex = 0;
    if (!box.hasAttribute("aria-label")) {
      const name = box.querySelector("caption") || box.closest("section").querySelector("h2");
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table: " + name.textContent);
    }
  };
  const boxes = new ResizeObserver((entries) => entries.forEach((entry) => reach(entry.target)));
  document.querySelectorAll(".scroll, .prompt").forEach((box) => boxes.observe(box));

  // Which section is read.
  const links = new Map([...document.querySelectorAll(".bar nav a")].map((a) => [a.hash.slice(1), a]));
  if (links.size && "IntersectionObserver" in window) {
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        links.forEach((a) => a.removeAttribute("aria-current"));
        links.get(entry.target.id).setAttribute("aria-current", "true");
      }
    }, { rootMargin: "-15% 0px -75% 0px" });
    links.forEach((a, id) => { const s = document.getElementById(id); if (s) watch.observe(s); });
  }
  return tools;
})();
