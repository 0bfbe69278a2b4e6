// Lets a reader of a report move through the step: what is computed, and what is in memory then.
// Everything that it shows is in the page's own data. Texts are set as text, never as HTML.
"use strict";

const MOST_ROWS = 10;

/** Write three significant digits in binary units, as the rest of the page does. */
function bytesText(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = count, unit = 0;
  while (Math.abs(size) >= 1000 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : Math.abs(size) < 10 ? 2 : Math.abs(size) < 100 ? 1 : 0;
  return `${rounded(size, digits)} ${units[unit]}`;
}

/** Round to so many digits; a half goes to the even neighbour. */
function rounded(value, digits) {
  const scale = 10 ** digits, scaled = value * scale, below = Math.floor(scaled), rest = scaled - below;
  const up = rest > 0.5 || (rest === 0.5 && below % 2 === 1);
  return ((below + (up ? 1 : 0)) / scale).toFixed(digits);
}

/** Return what happens in a step, in words. */
function stepText(data, step) {
  const again = data.again[step] ? " again" : "";
  return `Step ${step + 1} of ${data.steps.length}: ${data.ops[data.steps[step]]}${again}, `
    + `${bytesText(data.live[step])} live`;
}

/** Return what is in memory in a step, the largest first: name, bytes, from and to when. */
function alive(data, step) {
  const { value, bytes, born, last } = data.buffers, found = [];
  for (let i = 0; i < value.length; i += 1) {
    if (born[i] <= step && step <= last[i]) {
      found.push({ name: data.values[value[i]], bytes: bytes[i], born: born[i], last: last[i] });
    }
  }
  const workspace = data.workspace[data.steps[step]];
  if (workspace > 0) {
    found.push({ name: "workspace", bytes: workspace, born: step, last: step });
  }
  found.sort((a, b) => b.bytes - a.bytes);
  return [{ name: "parameters, optimizer, inputs", bytes: data.fixed, born: 0, last: data.steps.length }, ...found];
}

/** Return when a buffer is there, in words. */
function spanText(data, row) {
  const end = row.last >= data.steps.length ? "to the end" : `to step ${row.last + 1}`;
  return `from step ${row.born + 1} ${end}`;
}

/** Return what a cell of R or S says; empty if nothing is there. */
function cellText(data, which, stage, column) {
  const name = data.ops[data.order[column]];
  if (which === "R") {
    for (let step = 0; step < data.steps.length; step += 1) {
      if (data.stage[step] === stage && data.column[step] === column) {
        return `R, stage ${stage + 1}: ${name} is computed${data.again[step] ? " again" : ""} in step ${step + 1}`;
      }
    }
    return "";
  }
  const { column: columns, from, to } = data.held;
  const there = columns.some((each, i) => each === column && from[i] <= stage && stage < to[i]);
  return there ? `S, stage ${stage + 1}: ${name} is held as it begins` : "";
}

/** Return the step under a place of the curve's picture; the place is a share of its width. */
function stepAt(data, share) {
  const { left, right, width } = data.curve;
  const within = (share * width - left) / (width - left - right);
  return Math.max(0, Math.min(data.steps.length - 1, Math.floor(within * data.steps.length)));
}

/** Return the place of a step in the curve's picture, as a share of its width. */
function shareOf(data, step) {
  const { left, right, width } = data.curve;
  return (left + (step + 0.5) / data.steps.length * (width - left - right)) / width;
}

function start(page, data) {
  const found = (name) => page.getElementById(name);
  const slider = found("step"), said = found("now"), cell = found("cell"), rows = found("alive");
  const line = found("scrub-line"), curve = found("curve");

  function show(step) {
    slider.value = String(step);
    slider.setAttribute("aria-valuetext", stepText(data, step));
    said.textContent = stepText(data, step);
    line.style.left = `${100 * shareOf(data, step)}%`;
    const all = alive(data, step), most = Math.max(1, all[0].bytes, all.length > 1 ? all[1].bytes : 0);
    rows.replaceChildren(...all.slice(0, MOST_ROWS).map((row) => rowOf(row, most)));
    const left = all.slice(MOST_ROWS);
    if (left.length > 0) {
      const bytes = left.reduce((sum, row) => sum + row.bytes, 0);
      rows.append(rowOf({ name: `${left.length} more`, bytes, born: -1, last: 0 }, most));
    }
    for (const mark of page.querySelectorAll(".cross")) {
      const share = (mark.dataset.axis === "stage" ? data.stage[step] : data.column[step]) + 0.5;
      mark.style[mark.dataset.axis === "stage" ? "top" : "left"] = `${100 * share / data.order.length}%`;
    }
  }

  function rowOf(row, most) {
    const made = page.createElement("tr"), bar = page.createElement("i");
    bar.style.width = `${100 * row.bytes / most}%`;
    bar.hidden = row.born < 0; // many buffers together are no bar to compare
    const texts = [row.name, "", bytesText(row.bytes), row.born < 0 ? "" : spanText(data, row)];
    texts.forEach((text, i) => {
      const each = page.createElement("td");
      each.textContent = text;
      each.className = ["name", "bar", "n", "muted"][i];
      made.append(each);
    });
    made.children[1].append(bar);
    return made;
  }

  function placeIn(event, element) {
    const box = element.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  slider.addEventListener("input", () => show(Number(slider.value)));
  curve.addEventListener("pointermove", (event) => show(stepAt(data, placeIn(event, curve)[0])));
  curve.addEventListener("pointerdown", (event) => show(stepAt(data, placeIn(event, curve)[0])));
  found("to-peak").addEventListener("click", () => show(data.peak));
  for (const picture of page.querySelectorAll("[data-matrix]")) {
    const count = data.order.length;
    picture.addEventListener("pointermove", (event) => {
      const [x, y] = placeIn(event, picture).map((share) => Math.max(0, Math.min(count - 1, Math.floor(share * count))));
      cell.textContent = cellText(data, picture.dataset.matrix, y, x) || "\u00a0";
    });
  }
  for (const point of page.querySelectorAll("circle[data-said]")) {
    const tell = () => { found("point").textContent = point.dataset.said; };
    point.addEventListener("pointerenter", tell);
    point.addEventListener("focus", tell);
  }
  found("scrub").hidden = false;
  page.body.classList.add("moving");
  show(data.peak);
}

if (typeof document !== "undefined") {
  start(document, JSON.parse(document.getElementById("scrub-data").textContent));
}
