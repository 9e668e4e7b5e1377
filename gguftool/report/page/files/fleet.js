// The page of a folder: its models as areas.
(function (tools) {
  "use strict";
  const { data, count, size } = tools;
  const root = document.querySelector("#bytes .tree");
  if (!data.models || !root) return;
  const STATES = { good: 5, "with warnings": 3, "with errors": 8, broken: 6 };
  const items = data.models.filter((x) => x.size).map((x, i) => ({
    id: "t" + i, name: x.name, bytes: x.size, label: {},
    facets: { architecture: x.architecture || "", quantisation: x.quantisation || "", state: x.state },
    show: () => [tools.el("h3", {}, x.name), tools.facts([
      ["state", x.state], x.said && ["first finding", x.said],
      ["architecture", x.architecture || "not known"], ["quantisation", x.quantisation || "not known"],
      ["size", size(x.size)], x.parameters && ["parameters", count(x.parameters)],
      x.context_length && ["context", count(x.context_length)], x.load && ["llama.cpp", x.load],
    ])],
  }));
  if (!items.length) { root.hidden = true; return; }
  tools.treemap(root, items, {
    architecture: { colour: "state", none: "not known" }, quantisation: { colour: "state", none: "not known" },
    state: { colour: "architecture", fills: STATES },
  });
})(window.gguftool);
