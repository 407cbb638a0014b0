"use strict";
(() => {
  const EVERY = 2000, COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);
  const body = document.querySelector("#runs tbody");
  const chosen = new Set();
  let tag = null, runs = [], compared = "";

  /* everything is built from elements and text: nothing of a run is ever read as markup */
  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const draw = (name, attributes, ...children) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const short = (value, digits = 5) =>
    value === null || value === undefined ? "–" : String(Number(value.toPrecision(digits)));
  const clip = (text, most = 160) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const configText = (config) =>
    Object.entries(config || {})
      .map(([name, value]) => `${name} = ${typeof value === "number" ? short(value, 4) : value}`)
      .join(", ");
  const ago = (seconds) => {
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
      if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
    return `${Math.max(Math.floor(seconds), 0)} s ago`;
  };

  const doneCell = (run) => {
    const of = run.n_evaluations === null ? "" : ` of ${run.n_evaluations}`;
    const failed = run.n_failed ? `, ${run.n_failed} failed` : "";
    const cell = make("td", { class: "done" }, `${run.n_done}${of}${failed}`);
    if (run.n_evaluations) {
      const label = `${run.n_done}${of} evaluations`;
      cell.append(make("progress", { max: run.n_evaluations, value: run.n_done, "aria-label": label }));
    }
    return cell;
  };
  const row = (run) => {
    const readable = run.kind === "run" && run.state !== "unreadable";
    const box = make("input", { type: "checkbox", "aria-label": `compare ${run.name}` });
    box.checked = chosen.has(run.id);
    box.disabled = !readable;
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(run.id);
      else chosen.delete(run.id);
      showChoice();
    });
    const name = readable ? make("a", { href: `run/${run.id}/` }, run.name) : make("span", {}, run.name);
    const first = make("td", { class: "name" }, name);
    if (run.best_config) first.append(make("div", { class: "config" }, clip(configText(run.best_config))));
    if (run.note) first.append(make("div", { class: "note" }, clip(run.note, 300)));
    const state = make("span", { class: `state ${run.state}` }, run.state);
    const line = make("tr", { "data-id": run.id });
    line.append(
      make("td", { class: "choose" }, box), first, make("td", { class: "status" }, state), doneCell(run),
      make("td", { class: "best number", title: run.mode === "min" ? "smaller is better" : "larger is better" }, short(run.best)),
      make("td", { class: "age number", "data-modified": run.modified }),
      make("td", { class: "method" }, run.method || "–"),
      make("td", { class: "seed number" }, run.seed === null ? "–" : String(run.seed)),
      make("td", { class: "objective" }, clip(run.objective || "–")),
    );
    return line;
  };

  const showAges = () => {
    const now = Date.now() / 1000;
    for (const cell of document.querySelectorAll("[data-modified]"))
      cell.textContent = ago(now - Number(cell.dataset.modified));
  };
  const showChoice = () => {
    $("compare").disabled = chosen.size === 0;
    $("compare").textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
  };
  const show = () => {
    const wanted = $("filter").value.toLowerCase();
    const words = (run) => [run.name, run.state, run.method, run.objective].join(" ").toLowerCase();
    const listed = runs.filter((run) => words(run).includes(wanted));
    const focused = document.activeElement && document.activeElement.closest("tr[data-id]");
    const held = focused && focused.dataset.id;
    const link = focused && document.activeElement.tagName === "A";
    body.replaceChildren(...listed.map(row));
    if (held) {
      const again = body.querySelector(`tr[data-id="${held}"] ${link ? "a" : "input"}`);
      if (again) again.focus();
    }
    for (const id of chosen) if (!runs.some((run) => run.id === id)) chosen.delete(id);
    const going = runs.filter((run) => run.state === "running").length;
    const plural = runs.length === 1 ? "run" : "runs";
    $("summary").textContent =
      `${runs.length} ${plural}, ${going} running` + (listed.length < runs.length ? `, ${listed.length} shown` : "");
    $("empty").hidden = runs.length > 0;
    showChoice();
    showAges();
  };

  const poll = async () => {
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch("api/runs", { cache: "no-store", headers });
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(await answer.text());
        tag = answer.headers.get("ETag");
        const told = await answer.json();
        runs = told.runs;
        $("storage").textContent = told.storage;
        $("trouble").hidden = !told.trouble;
        $("trouble").textContent = told.trouble || "";
        show();
        if (compared) compare(compared);
      }
      document.body.classList.remove("stale");
      showAges();
    } catch (error) {
      document.body.classList.add("stale");
      $("summary").textContent = `The dashboard does not answer: ${error.message}`;
      tag = null;
    }
    setTimeout(poll, EVERY);
  };

  const chart = (found) => {
    const width = Math.min(Math.max($("curves").clientWidth, 300), 1100), height = 280, left = 64, right = 20, top = 12, bottom = 34;
    const points = found.runs.flatMap((run) => run.curve);
    if (!points.length) return make("p", {}, "No run has a recommendation yet.");
    const values = points.map((point) => point[1]), most = Math.max(...points.map((point) => point[0]));
    let low = Math.min(...values), high = Math.max(...values);
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    const x = (size) => left + ((width - left - right) * (size - 1)) / Math.max(most - 1, 1);
    const y = (value) => height - bottom - ((height - top - bottom) * (value - low)) / (high - low);
    const label = "Robust value of the recommendation over evaluations";
    const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const value = low + share * (high - low);
      picture.append(draw("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "axis" }));
      picture.append(draw("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, short(value, 4)));
    }
    for (const share of [0, 0.5, 1]) {
      const size = Math.round(1 + share * (most - 1));
      const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
      picture.append(draw("text", { x: x(size), y: height - 14, "text-anchor": anchor }, share < 1 ? String(size) : `${size} evaluations`));
    }
    found.runs.forEach((run, k) => {
      const steps = run.curve.map(([size, value]) => `${x(size).toFixed(1)},${y(value).toFixed(1)}`);
      if (!steps.length) return;
      const color = COLORS[k % COLORS.length], name = draw("title", {}, run.name);
      const line = steps.length > 1
        ? draw("polyline", { points: steps.join(" "), class: "curve", stroke: color }, name)
        : draw("circle", { cx: steps[0].split(",")[0], cy: steps[0].split(",")[1], r: 3, fill: color }, name);
      picture.append(line);
    });
    return picture;
  };
  const compare = async (query) => {
    const answer = await fetch(`api/compare?${query}`, { cache: "no-store" });
    const section = $("comparison");
    section.hidden = false;
    if (!answer.ok) {
      $("comparison-note").textContent = await answer.text();
      return;
    }
    const found = await answer.json();
    $("comparison-note").textContent = found.comparable
      ? "Robust value of what each run recommended as evaluations came in, by its own model."
      : "The robust values do not mean the same: the runs are about different problems.";
    $("curves").replaceChildren(chart(found));
    const heads = ["run", "state", "evaluations", "robust", "± 95 %", "mean", "sure", "seed", "config"];
    $("compared").tHead.replaceChildren(make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head))));
    $("compared").tBodies[0].replaceChildren(...found.runs.map((run, k) => {
      const key = draw("svg", { class: "key", viewBox: "0 0 10 2", preserveAspectRatio: "none" },
        draw("rect", { width: 10, height: 2, fill: COLORS[k % COLORS.length] }));
      const cells = [run.state, String(run.n_done), short(run.robust_value), short(run.std === null ? null : 1.96 * run.std, 2),
        short(run.mean_value), short(run.probability, 2), String(run.seed), clip(configText(run.config))];
      return make("tr", {}, make("td", { class: "name" }, key, run.name), ...cells.map((text, k) => make("td", { class: k === cells.length - 1 ? "config" : "value" }, text)));
    }));
    $("pairs").replaceChildren(...found.pairs.map((pair) => {
      const between = pair.interval ? ` (${short(pair.interval[0], 3)} to ${short(pair.interval[1], 3)}, 95 %)` : "";
      return make("li", {}, `${pair.one} minus ${pair.other}: ${short(pair.difference, 4)}${between} over the seeds ` +
        `${pair.seeds.join(", ")}; better in ${pair.wins}, worse in ${pair.losses}`);
    }));
    $("differences").replaceChildren(...Object.entries(found.differences).map(([name, lines]) =>
      make("li", {}, `${name} differs from ${found.runs[0].name}: ${clip(lines.join("; "), 400)}`)));
  };

  $("filter").addEventListener("input", show);
  $("compare").addEventListener("click", async () => {
    compared = [...chosen].map((id) => `run=${encodeURIComponent(id)}`).join("&");
    await compare(compared);
    $("comparison").scrollIntoView({ block: "start" });
  });
  setInterval(showAges, 1000);
  poll();
})();
