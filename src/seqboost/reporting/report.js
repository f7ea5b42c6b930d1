"use strict";
// Text from the data enters the page through textContent alone, never as HTML.
(() => {
  const PAGE_POSITIONS = 1200, PAGE_SEQUENCES = 20;
  const $ = (id) => document.getElementById(id);
  const make = (name, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
  };
  const read = (id) => JSON.parse($(id).textContent);

  // Lists of features: one view at a time.
  for (const select of document.querySelectorAll("select[data-views]")) {
    select.addEventListener("change", () => {
      for (const view of document.querySelectorAll(`[data-view^="${select.dataset.views}-"]`))
        view.hidden = view.dataset.view !== `${select.dataset.views}-${select.value}`;
    });
  }

  // Charts: the values of a round under the pointer, or by arrow keys.
  for (const plot of document.querySelectorAll("[data-chart]")) {
    const { rounds, last, curves } = read(plot.dataset.chart);
    const cross = plot.querySelector(".cross"), readout = plot.parentNode.querySelector(".readout");
    let at = rounds.length - 1;
    const show = (k) => {
      at = Math.max(0, Math.min(rounds.length - 1, k));
      cross.hidden = false;
      cross.style.left = `${100 * rounds[at] / Math.max(last, 1)}%`;
      const values = Object.entries(curves).map(([name, list]) => `${name} ${list[at] === null ? "–" : list[at].toPrecision(4)}`);
      readout.textContent = `Round ${rounds[at]}: ${values.join(", ")}`;
    };
    const hide = () => { cross.hidden = true; readout.textContent = ""; };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect(), round = last * (event.clientX - box.left) / box.width;
      let best = 0;
      rounds.forEach((r, k) => { if (Math.abs(r - round) < Math.abs(rounds[best] - round)) best = k; });
      show(best);
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("focus", () => { if (plot.matches(":focus-visible")) show(at); });
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -rounds.length, End: rounds.length }[event.key];
      if (step) { event.preventDefault(); show(at + step); }
    });
  }

  // The browser of sequences.
  const data = read("sequences-data"), home = $("browser"), tip = $("tip");
  const isWrong = (s, t) => Boolean(s.truth) && s.truth[t] >= 0 && s.truth[t] !== s.predicted[t];
  for (const s of data.sequences) s.wrong = s.predicted.reduce((n, _, t) => n + isWrong(s, t), 0);
  const state = { wrongOnly: false, label: -1, order: "data", page: 0 };
  let shown = [], pages = [];

  const option = (value, text) => make("option", { value, textContent: text });
  const onlyWrong = make("input", { type: "checkbox", id: "wrong-only" });
  const labels = make("select", { id: "label-filter" }, option(-1, "any label"), ...data.labels.map((x, k) => option(k, x)));
  const order = make("select", { id: "order" }, option("data", "as in the data"), option("wrong", "most mistakes first"), option("long", "longest first"));
  const status = make("p", { className: "note", id: "shown" });
  status.setAttribute("role", "status");
  const list = make("div", { id: "list" });
  const previous = make("button", { type: "button", className: "button", id: "previous", textContent: "← Back" });
  const next = make("button", { type: "button", className: "button", id: "next", textContent: "Next →" });
  const place = make("span", { id: "page" });
  const pager = make("div", { className: "pager" }, previous, place, next);

  const colour = (node, k) => { if (k >= 0) node.style.setProperty("--c", data.colours[k]); return node; };
  const chip = (k, text) => colour(make("span", { className: "chip", textContent: text ?? data.labels[k] }), k);
  const share = (thousandths) => `${(thousandths / 10).toFixed(1)} %`;

  function choose() {
    const holds = (s) => state.label < 0 || s.predicted.includes(state.label) || (s.truth || []).includes(state.label);
    shown = data.sequences.filter((s) => (!state.wrongOnly || s.wrong > 0) && holds(s));
    if (state.order === "wrong") shown.sort((a, b) => b.wrong - a.wrong);
    if (state.order === "long") shown.sort((a, b) => b.length - a.length);
    pages = [];
    let held = Infinity;
    for (const s of shown) {
      if (held + s.predicted.length > PAGE_POSITIONS || pages.at(-1).length === PAGE_SEQUENCES) { pages.push([]); held = 0; }
      pages.at(-1).push(s);
      held += s.predicted.length;
    }
    state.page = 0;
    draw();
  }

  function draw() {
    hide();
    list.replaceChildren(...(pages[state.page] || []).map(sequence));
    status.textContent = `${shown.length} of ${data.sequences.length} sequences` + (shown.length ? "" : ": none is like that");
    place.textContent = `Page ${state.page + 1} of ${Math.max(pages.length, 1)}`;
    previous.disabled = state.page === 0;
    next.disabled = state.page >= pages.length - 1;
    pager.hidden = pages.length < 2;
  }

  function sequence(s) {
    const cut = s.length - s.predicted.length;
    const wrong = s.truth ? make("span", { className: s.wrong ? "count wrong" : "count", textContent: s.wrong ? ` · ${s.wrong} wrong` : " · all right" }) : "";
    const count = make("span", { textContent: ` · ${s.length} position${s.length === 1 ? "" : "s"}` });
    const title = make("h3", {}, `Sequence ${s.number}`, count, wrong);
    const cells = make("div", { className: s.words ? "cells words" : "cells" });
    cells.setAttribute("role", "group");
    cells.setAttribute("aria-label", `Sequence ${s.number}: arrow keys go from position to position`);
    cells.sequence = s;
    s.predicted.forEach((_, t) => cells.append(cell(s, t)));
    const left = cut ? make("p", { className: "note", textContent: `${cut} positions more are left out of this page.` }) : "";
    return make("div", { className: "sequence" }, title, cells, left);
  }

  function cell(s, t) {
    const node = make("button", { type: "button", className: isWrong(s, t) ? "cell wrong" : "cell", tabIndex: t ? -1 : 0 });
    const truth = s.truth ? `true ${s.truth[t] < 0 ? "unknown" : data.labels[s.truth[t]]}, ` : "";
    node.setAttribute("aria-label", `Position ${t}${s.words ? `, ${s.words[t]}` : ""}: ${truth}predicted ${data.labels[s.predicted[t]]}`);
    node.dataset.t = t;
    if (s.words) node.append(make("span", { textContent: s.words[t] || " " }));
    if (s.truth) node.append(colour(make("i"), s.truth[t]));
    node.append(colour(make("i"), s.predicted[t]));
    return node;
  }

  function fill(s, t) {
    const parts = [make("div", { className: "where", textContent: `Sequence ${s.number}, position ${t}` })];
    if (s.words) parts.push(make("b", { textContent: s.words[t] || "(missing)" }));
    const pair = make("div", { className: "pair" });
    if (s.truth) pair.append(make("span", { textContent: "true" }), s.truth[t] < 0 ? "not known" : chip(s.truth[t]));
    pair.append(make("span", { textContent: "predicted" }), chip(s.predicted[t]));
    parts.push(pair);
    if (s.truth && s.truth[t] >= 0)
      parts.push(make("div", { className: isWrong(s, t) ? "verdict wrong" : "verdict", textContent: isWrong(s, t) ? "✗ wrong" : "✓ right" }));
    if (s.proba) {
      const rows = [];
      for (let k = 0; k < s.proba[t].length; k += 2) {
        const [label, p] = s.proba[t].slice(k, k + 2);
        const bar = make("span");
        bar.style.cssText = `width:${p / 10}%;background:${data.colours[label]}`;
        rows.push(make("li", {}, make("span", { textContent: data.labels[label] }), make("span", { className: "track" }, bar), make("span", { textContent: share(p) })));
      }
      parts.push(make("ul", {}, ...rows));
    }
    if (s.values && s.values[t].length) parts.push(make("div", { className: "values", textContent: s.values[t].join(" · ") }));
    tip.replaceChildren(...parts);
  }

  function show(node) {
    fill(node.parentNode.sequence, Number(node.dataset.t));
    tip.hidden = false;
    const at = node.getBoundingClientRect(), box = tip.getBoundingClientRect(), gap = 8;
    const below = at.bottom + gap + box.height < innerHeight;
    tip.style.left = `${Math.max(gap, Math.min(at.left, innerWidth - box.width - gap))}px`;
    tip.style.top = `${below ? at.bottom + gap : Math.max(gap, at.top - box.height - gap)}px`;
  }
  function hide() { tip.hidden = true; }

  const cellOf = (event) => event.target.closest?.(".cell");
  const focused = () => (document.activeElement?.matches(".cell") ? document.activeElement : null);
  list.addEventListener("pointerover", (event) => { const node = cellOf(event); if (node && event.pointerType !== "touch") show(node); });
  list.addEventListener("pointerout", (event) => { if (cellOf(event) && event.pointerType !== "touch") focused() ? show(focused()) : hide(); });
  list.addEventListener("click", (event) => { const node = cellOf(event); if (node) { walk(node, node); show(node); } });
  list.addEventListener("focusin", (event) => { const node = cellOf(event); if (node) show(node); });
  list.addEventListener("focusout", hide);
  // Not while a cell is scrolled into view by the keyboard: its place is known only afterwards.
  addEventListener("scroll", () => { const node = focused(); if (node && !tip.hidden) show(node); else if (!node) hide(); }, { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // One stop for the tabulator in each sequence, arrow keys inside it.
  function walk(from, to) {
    if (!to) return;
    for (const node of from.parentNode.querySelectorAll('[tabindex="0"]')) node.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
  list.addEventListener("keydown", (event) => {
    const node = cellOf(event);
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = [...node.parentNode.children], t = all.indexOf(node);
    const to = { ArrowLeft: t - 1, ArrowRight: t + 1, Home: 0, End: all.length - 1, n: all.findIndex((x, k) => k > t && x.matches(".wrong")) }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    walk(node, all[to]);
  });

  onlyWrong.addEventListener("change", () => { state.wrongOnly = onlyWrong.checked; choose(); });
  labels.addEventListener("change", () => { state.label = Number(labels.value); choose(); });
  order.addEventListener("change", () => { state.order = order.value; choose(); });
  const turn = (by) => { state.page += by; draw(); home.scrollIntoView({ block: "start" }); };
  previous.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));

  const control = (...parts) => make("label", { className: "control" }, ...parts);
  const controls = make("div", { className: "controls" });
  if (data.hasTruth) controls.append(control(onlyWrong, "only sequences with mistakes"));
  controls.append(control("with", labels), control("order", order));
  if (!data.hasTruth) order.options[1].remove();
  const legend = make("ul", { className: "legend" }, ...data.labels.map((_, k) => make("li", {}, chip(k))));
  home.append(controls, legend, status, list, pager);
  choose();
})();
