"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);

  /* The lowest weighted mean of x over sum p^2 / q <= 1 + 2 radius; context by context from the
     lowest on, as long as the next one still gets weight. */
  function worstCase(values, reference, radius) {
    const support = [];
    reference.forEach((weight, i) => { if (weight > 0) support.push(i); });
    const low = Math.min(...support.map((i) => values[i]));
    const range = Math.max(...support.map((i) => values[i])) - low || Number.MIN_VALUE;
    const order = support.map((i) => [(values[i] - low) / range, reference[i], i]);
    order.sort((a, b) => a[0] - b[0]);
    let mass = 0, mean = 0, variation = 1e-290, last = 0;
    for (let k = 0; k < order.length; k += 1) {
      const [x, q] = order[k];
      if (k > 0) {
        const gap = (x - mean) * (x - mean);
        const slack = 2 * radius * mass - (1 - mass) + 4e-16;
        if (variation < mass * slack * gap) break;
        variation += (q * mass / (mass + q)) * gap;
      }
      mass += q;
      mean += (q / mass) * (x - mean);
      last = k;
    }
    if (last === order.length - 1) mass = 1;
    const slack = 2 * radius * mass - (1 - mass);
    const floor = last === order.length - 1 ? 0 : 4e-16;
    const tilt = Math.sqrt(Math.max(slack, floor) / mass) / Math.sqrt(variation);
    let total = 0, sum = 0;
    const weights = values.map(() => 0);
    for (const [x, q, i] of order) {
      const weight = q * Math.max(0, 1 / mass + tilt * (mean - x));
      weights[i] = weight;
      total += weight;
      sum += weight * x;
    }
    return { value: low + range * (sum / total), weights: weights.map((weight) => weight / total) };
  }

  function ranked(radius) {
    const rows = data.configs.map((config) => ({
      number: config.number,
      robust: worstCase(config.gains, data.reference, radius).value,
    }));
    rows.sort((a, b) => b.robust - a.robust);
    return rows;
  }
  window.drbqo = { worstCase: worstCase, ranked: ranked };

  /* what is shown is kept to the range of the scores; the ranking is not */
  function digits(estimate) {
    const [low, high] = data.ends;
    const value = Math.min(Math.max(estimate, low ?? -Infinity), high ?? Infinity);
    return data.places === null ? value.toExponential(3) : value.toFixed(data.places);
  }

  /* the table */
  const table = document.getElementById("configs");
  const body = table ? table.tBodies[0] : null;
  const heads = table ? Array.from(table.tHead.rows[0].cells) : [];

  function key(row, column) {
    const cell = row.cells[column];
    if (!("sort" in cell.dataset)) return cell.textContent;
    return cell.dataset.sort === "" ? Infinity : Number(cell.dataset.sort);
  }

  function sortBy(column, down) {
    const rows = Array.from(body.rows);
    rows.sort((a, b) => {
      const one = key(a, column), two = key(b, column);
      if (typeof one === "number" && typeof two === "number") {
        if (one === two) return 0;
        if (one === Infinity) return 1;
        if (two === Infinity) return -1;
        return down ? two - one : one - two;
      }
      return (down ? -1 : 1) * String(one).localeCompare(String(two));
    });
    rows.forEach((row) => body.appendChild(row));
    heads.forEach((head, i) => {
      head.setAttribute("aria-sort", i === column ? (down ? "descending" : "ascending") : "none");
    });
  }

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.appendChild(button);
    button.addEventListener("click", () => {
      sortBy(column, head.getAttribute("aria-sort") === "ascending");
    });
  });

  /* the table as a file, full digits; a text that a spreadsheet would take for a formula gets a ' */
  function csvCell(text) {
    const number = /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);
    const safe = !number && /^[\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(text) ? "'" + text : text;
    return /[",;\r\n\t']/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  }

  function cellText(cell) {
    return cell.dataset.sort || cell.dataset.tip || cell.textContent;
  }

  function csv() {
    const lines = [heads.map((head) => head.textContent)];
    for (const row of body.rows) lines.push(Array.from(row.cells, cellText));
    return lines.map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n";
  }
  window.drbqo.csv = csv;
  window.drbqo.csvCell = csvCell;

  const save = document.getElementById("save-table");
  if (save && body) {
    save.hidden = false;
    save.addEventListener("click", () => {
      const address = URL.createObjectURL(new Blob(["\ufeff", csv()], { type: "text/csv" }));
      const link = document.createElement("a");
      const name = document.querySelector("h1").textContent.replace(/[^\w.-]+/g, "-");
      link.href = address;
      link.download = name.replace(/^[-.]+|[-.]+$/g, "").slice(0, 60) + "-configs.csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    });
  }

  /* the radius slider */
  const box = document.getElementById("slider");
  function column(name) { return heads.findIndex((head) => head.dataset.key === name); }

  function show(radius) {
    const order = ranked(radius);
    const rank = column("rank"), robust = column("robust"), std = column("std");
    const place = new Map(order.map((row, i) => [row.number, [i + 1, data.sign * row.robust]]));
    const own = Math.abs(radius - data.radius) < 1e-12;
    for (const row of body.rows) {
      const found = place.get(Number(row.dataset.number));
      if (!found) continue;
      row.cells[rank].textContent = String(found[0]);
      row.cells[rank].dataset.sort = String(found[0]);
      row.cells[robust].textContent = digits(found[1]);
      row.cells[robust].dataset.sort = String(found[1]);
      const band = row.cells[std];
      if (!("own" in band.dataset)) {
        band.dataset.own = band.textContent;
        band.dataset.ownSort = band.dataset.sort;
      }
      band.textContent = own ? band.dataset.own : "–";
      band.dataset.sort = own ? band.dataset.ownSort : "";
    }
    sortBy(rank, false);
    const best = order[0];
    document.getElementById("radius-winner").textContent =
      "At radius " + Number(radius.toPrecision(4)) + " config " + best.number + " is best: " +
      digits(data.sign * best.robust) + " in the worst case.";
    probe(radius);
  }

  function probe(radius) {
    const picture = document.querySelector("#radius svg");
    if (!picture) return;
    let mark = picture.querySelector(".probe");
    if (!mark) {
      mark = document.createElementNS(picture.namespaceURI, "line");
      mark.setAttribute("class", "probe");
      mark.setAttribute("y1", data.plot.top);
      mark.setAttribute("y2", data.plot.bottom);
      picture.appendChild(mark);
    }
    const share = Math.sqrt(Math.min(radius, data.high) / data.high);
    const x = data.plot.left + share * (data.plot.right - data.plot.left);
    mark.setAttribute("x1", x);
    mark.setAttribute("x2", x);
  }

  if (box && body && data.slider && data.configs.length) {
    const range = document.getElementById("radius-slider");
    const number = document.getElementById("radius-number");
    const place = (radius) => { range.value = 1000 * Math.sqrt(Math.min(1, radius / data.high)); };
    number.max = data.high;
    number.value = Number(data.radius.toPrecision(6));
    place(data.radius);
    range.addEventListener("input", () => {
      const radius = data.high * (range.value / 1000) ** 2;
      number.value = Number(radius.toPrecision(6));
      show(radius);
    });
    number.addEventListener("input", () => {
      const radius = Number(number.value);
      if (number.value === "" || !(radius >= 0)) return;
      place(radius);
      show(radius);
    });
    document.getElementById("radius-reset").addEventListener("click", () => {
      number.value = Number(data.radius.toPrecision(6));
      place(data.radius);
      show(data.radius);
    });
    box.hidden = false;
  }

  /* words beside the pointer */
  const tip = document.getElementById("tip");
  function tell(mark, words) {
    mark.dataset.tip = words;
    mark.addEventListener("pointermove", (event) => {
      tip.textContent = mark.dataset.tip;
      tip.hidden = false;
      const left = Math.min(event.pageX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
      tip.style.left = Math.max(8, left) + "px";
      tip.style.top = event.pageY + 18 + "px";
    });
    mark.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
  for (const title of document.querySelectorAll("svg title")) {
    const mark = title.parentNode;
    title.remove();
    tell(mark, title.textContent);
  }
  for (const named of document.querySelectorAll(".named, td[title]")) {
    tell(named, named.title);
    named.removeAttribute("title");
  }

  /* a run that goes on */
  const known = document.querySelector('meta[name="drbqo-version"]');
  if (known) {
    setInterval(async () => {
      try {
        const answer = await fetch("version", { cache: "no-store" });
        if (answer.ok && (await answer.text()) !== known.content) location.reload();
      } catch (error) {
        document.body.dataset.stale = "true";
      }
    }, 2000);
  }
})();
