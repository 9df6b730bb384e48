"use strict";
document.documentElement.classList.add("js");

/* Tables: copy, sort, filter. */
const cellText = (cell) => (cell.dataset.copy ?? cell.innerText).replace(/\s+/g, " ").trim();

function tableRows(table) {
  return [...table.rows].filter((row) => !row.hidden).map((row) => [...row.cells].map(cellText));
}

function asMarkdown(rows) {
  const line = (cells) => `| ${cells.map((c) => c.replace(/\|/g, "\\|").replace(/<(?=[A-Za-z/!?])/g, "\\<")).join(" | ")} |`;
  return [line(rows[0]), line(rows[0].map(() => "---")), ...rows.slice(1).map(line)].join("\n") + "\n";
}

function asCsv(rows) {
  const quote = (c) => (/[",\n]/.test(c) ? `"${c.replace(/"/g, '""')}"` : c);
  return rows.map((cells) => cells.map(quote).join(",")).join("\r\n") + "\r\n";
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

for (const button of document.querySelectorAll("[data-copy-as]")) {
  const words = button.textContent;
  button.addEventListener("click", async () => {
    const rows = tableRows(document.getElementById(`table-${button.dataset.table}`));
    const text = button.dataset.copyAs === "csv" ? asCsv(rows) : asMarkdown(rows);
    button.textContent = (await copy(text)) ? "Copied" : "Could not copy";
    setTimeout(() => { button.textContent = words; }, 1200);
  });
}

/* On a phone a row becomes a list: every value below the other, after the name of its column. */
for (const table of document.querySelectorAll(".wide > table:not(.claims), .claims details table")) {
  // Folded tables have no inner text yet.
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.replace(/\s+/g, " ").trim());
  table.classList.add("stack");
  for (const cell of table.querySelectorAll(":scope > tbody > tr > td")) {
    cell.dataset.label = names[cell.cellIndex] ?? "";
    const value = document.createElement("div");
    value.className = "value";
    value.append(...cell.childNodes);
    if (value.textContent.trim()) cell.append(value);
  }
}

for (const table of document.querySelectorAll(".sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "number";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => row.cells[column].dataset.sort ?? cellText(row.cells[column]);
      const words = new Intl.Collator("en", { numeric: true }).compare;
      const compare = (a, b) => (a !== "" && b !== "" && !isNaN(a) && !isNaN(b) ? a - b : words(a, b));
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * compare(value(a), value(b))));
    });
  });
}

const filter = document.getElementById("filter");
if (filter) {
  const rows = [...document.getElementById("table-runs").tBodies[0].rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      shown += !row.hidden;
    });
    document.getElementById("filter-count").value = filter.value ? `${shown} of ${rows.length}` : "";
  });
}

/* A link from a popover to a run closes it, and the list shows that run. */
for (const link of document.querySelectorAll(".how a[href^='#run-']")) {
  link.addEventListener("click", () => {
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
    link.closest("[popover]").hidePopover?.();
  });
}

/* Standard deviation of grey levels below which an image is shown with more contrast. */
const FAINT = 30;

/* The explorer: rows of attention maps, computed here from theta and phi in few bits. */
const source = document.getElementById("explorer-data");
if (source) explore(JSON.parse(source.textContent));

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function vectors(block, name, heads) {
  const numbers = new (block.bits === 16 ? Int16Array : Int8Array)(bytes(block[name]).buffer);
  const scales = new Float32Array(bytes(block[`${name}_scale`]).buffer);
  return { numbers, scales, count: scales.length / heads, width: block.width };
}

function attentionRow(run, image, b, head, query) {
  const block = run.images[image].blocks[b];
  const heads = block.factor.length;
  block.decoded ??= { theta: vectors(block, "theta", heads), phi: vectors(block, "phi", heads) };
  const { theta, phi } = block.decoded;
  const width = block.width, factor = block.factor[head];
  const q = head * theta.count + query;
  const row = new Float32Array(phi.count);
  for (let j = 0; j < phi.count; j++) {
    const k = head * phi.count + j;
    let sum = 0;
    for (let c = 0; c < width; c++) sum += theta.numbers[q * width + c] * phi.numbers[k * width + c];
    row[j] = factor * sum * theta.scales[q] * phi.scales[k];
  }
  if (run.blocks[b].attention !== "softmax") return row;
  const top = row.reduce((most, value) => Math.max(most, value), -Infinity);
  let total = 0;
  for (let j = 0; j < row.length; j++) total += row[j] = Math.exp(row[j] - top);
  return row.map((value) => value / total);
}

function short(value) {
  return Number(value.toPrecision(2)).toString().replace("-", "\u2212");
}

/* Generated images are faint noise around grey, with patterns that stand out a little more: a power
   of the distance from grey shows the patterns and hides the noise. Other images stay as they are. */
function shown(picture) {
  const canvas = document.createElement("canvas");
  canvas.width = picture.naturalWidth;
  canvas.height = picture.naturalHeight;
  const pen = canvas.getContext("2d");
  pen.drawImage(picture, 0, 0);
  const pixels = pen.getImageData(0, 0, canvas.width, canvas.height);
  const levels = [...pixels.data.filter((_, i) => i % 4 < 3)];
  const mean = levels.reduce((sum, level) => sum + level, 0) / levels.length;
  const variance = levels.reduce((sum, level) => sum + (level - mean) ** 2, 0) / levels.length;
  if (variance > FAINT ** 2) return { picture, faint: false };
  const most = levels.reduce((top, level) => Math.max(top, Math.abs(level - mean)), 1);
  pixels.data.forEach((level, i) => {
    if (i % 4 === 3) return;
    const far = Math.min(1, 1.8 * (Math.abs(level - mean) / most) ** 1.7);
    pixels.data[i] = 128 + 127 * Math.sign(level - mean) * far;
  });
  pen.putImageData(pixels, 0, 0);
  return { picture: canvas, faint: true };
}

function explore(data) {
  const root = document.getElementById("explorer");
  root.hidden = false;
  const blockSelect = root.querySelector("#explorer-block");
  const headSelect = root.querySelector("#explorer-head");
  const says = root.querySelector(".says");
  const state = { image: 0, block: 0, head: 0, row: 0.5, column: 0.5, chosen: false };
  const pictures = data.images.map((image) => {
    const picture = new Image();
    picture.src = `data:image/png;base64,${image.png}`;
    return picture;
  });
  const views = pictures.map((picture) => ({ picture, faint: false }));
  const panels = data.panels.map((runs, index) => makePanel(runs, index));

  function makePanel(runs, index) {
    const panel = document.createElement("div");
    panel.className = "panel";
    const heading = document.createElement("div");
    heading.className = "name";
    const select = document.createElement("select");
    select.setAttribute("aria-label", `Run of picture ${index + 1}`);
    runs.forEach((number) => select.add(new Option(data.runs[number].name, number)));
    const words = document.createElement("span");
    const name = document.createElement("small");
    name.textContent = data.runs[runs[0]].name;
    select.hidden = runs.length < 2;
    name.hidden = !select.hidden;
    heading.append(words, select, name);
    const canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    const legend = document.createElement("div");
    legend.className = "legend";
    const strip = document.createElement("span");
    strip.className = "strip";
    const values = ["low", "middle", "high"].map(() => document.createElement("span"));
    legend.append(strip, ...values);
    const note = document.createElement("p");
    panel.append(heading, canvas, legend, note);
    root.querySelector(".panels").append(panel);
    select.addEventListener("change", refresh);
    const point = (event) => {
      const box = canvas.getBoundingClientRect();
      state.row = Math.min(0.9999, Math.max(0, (event.clientY - box.top) / box.height));
      state.column = Math.min(0.9999, Math.max(0, (event.clientX - box.left) / box.width));
      state.chosen = true;
      draw();
    };
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const [height, width] = sizes(current(select), "query_size");
      const move = (share, count, by) => (Math.min(count - 1, Math.max(0, Math.floor(share * count) + by)) + 0.5) / count;
      state.row = move(state.row, height, step[0]);
      state.column = move(state.column, width, step[1]);
      state.chosen = true;
      draw();
    });
    return { canvas, select, words, note, strip, values };
  }

  function current(select) {
    return data.runs[Number(select.value)];
  }

  /* Height and width of a map; photos may have others than the block. */
  function sizes(run, name) {
    const shape = run.images[state.image].blocks[state.block][name] ?? run.blocks[state.block][name];
    return shape.length > 1 ? shape.slice(-2) : [1, shape[0]];
  }

  function options(select, count, chosen) {
    select.replaceChildren(...Array.from({ length: count }, (_, i) => new Option(`${i + 1}`, i)));
    select.value = Math.min(chosen, count - 1);
    select.parentElement.hidden = count < 2;
    return Number(select.value);
  }

  function refresh() {
    const shown = panels.map((panel) => current(panel.select));
    state.block = options(blockSelect, Math.min(...shown.map((run) => run.blocks.length)), state.block);
    state.head = options(headSelect, Math.min(...shown.map((run) => run.blocks[state.block].heads)), state.head);
    draw();
  }

  function draw() {
    const sentences = panels.map((panel) => drawPanel(panel));
    // Read out only when there is something new to say.
    const text = sentences.join(" ");
    if (says.textContent !== text) says.textContent = text;
  }

  function drawPanel({ canvas, select, words, note, strip, values }) {
    const run = current(select), block = run.blocks[state.block];
    const image = data.images[state.image], answer = run.images[state.image];
    const [height, width] = sizes(run, "query_size"), [keyHeight, keyWidth] = sizes(run, "key_size");
    const at = [Math.floor(state.row * height), Math.floor(state.column * width)];
    const row = attentionRow(run, state.image, state.block, state.head, at[0] * width + at[1]);
    const scale = row.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
    // Photos are smooth; the pixels of small images stay squares.
    const smooth = Math.max(image.width, image.height) > 200, pen = canvas.getContext("2d");
    canvas.width = smooth ? image.width : 320;
    canvas.height = Math.round((canvas.width * image.height) / image.width);
    canvas.style.aspectRatio = `${image.width} / ${image.height}`;
    canvas.style.imageRendering = smooth ? "auto" : "pixelated";
    canvas.parentElement.style.setProperty("--shape", image.width / image.height);
    pen.imageSmoothingEnabled = smooth;
    const view = views[state.image];
    pen.filter = view.faint ? "brightness(0.85)" : "grayscale(0.45) brightness(0.85)";
    pen.drawImage(view.picture, 0, 0, canvas.width, canvas.height);
    pen.filter = "none";
    // Cells begin and end at whole pixels, so that their edges do not show.
    const x = (column) => Math.round((column * canvas.width) / keyWidth);
    const y = (row) => Math.round((row * canvas.height) / keyHeight);
    row.forEach((value, j) => {
      const share = Math.abs(value) / scale, r = Math.floor(j / keyWidth), c = j % keyWidth;
      pen.fillStyle = value >= 0 ? `rgba(240,138,36,${0.9 * share})` : `rgba(138,92,214,${0.9 * share})`;
      pen.fillRect(x(c), y(r), x(c + 1) - x(c), y(r + 1) - y(r));
    });
    pen.lineWidth = 4; pen.strokeStyle = "#000";
    const box = [(at[1] * canvas.width) / width, (at[0] * canvas.height) / height, canvas.width / width, canvas.height / height];
    pen.strokeRect(...box);
    pen.lineWidth = 2; pen.strokeStyle = "#fff";
    pen.strokeRect(...box);
    const best = row.reduce((most, value, j) => (Math.abs(value) > Math.abs(row[most]) ? j : most), 0);
    const where = `row ${Math.floor(best / keyWidth) + 1}, column ${(best % keyWidth) + 1}`;
    words.textContent = block.attention;
    const signed = block.attention !== "softmax";
    strip.classList.toggle("signed", signed);
    [signed ? -scale : 0, signed ? 0 : scale / 2, scale].forEach((value, i) => { values[i].textContent = short(value); });
    note.textContent = `${image.label ?? image.title ?? "image"}${answer.predicted === null ? "" : `, taken for ${answer.predicted}`}; strongest key ${short(row[best])} at ${where}.`;
    const sentence = `${block.attention}: query row ${at[0] + 1}, column ${at[1] + 1} attends most to ${where}.`;
    canvas.setAttribute("aria-label", `${sentence} Arrow keys move the query.`);
    canvas.dataset.query = at.join(",");
    canvas.dataset.strongest = best;
    return sentence;
  }

  const buttons = data.images.map((image, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("role", "radio");
    button.setAttribute("aria-label", image.label ?? image.title ?? `image ${index + 1}`);
    button.title = image.label ?? image.title ?? "";
    const small = document.createElement("canvas");
    small.width = image.width;
    small.height = image.height;
    pictures[index].addEventListener("load", () => {
      views[index] = shown(pictures[index]);
      if (views[index].faint) root.querySelector(".strengthened").hidden = false;
      small.getContext("2d").drawImage(views[index].picture, 0, 0);
      if (index === state.image) draw();
    });
    button.append(small);
    button.addEventListener("click", () => choose(index));
    button.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      choose((state.image + by + data.images.length) % data.images.length);
      buttons[state.image].focus();
    });
    return button;
  });
  root.querySelector(".images").append(...buttons);
  root.querySelector(".images").hidden = buttons.length < 2;

  function choose(index) {
    state.image = index;
    buttons.forEach((button, i) => {
      button.setAttribute("aria-checked", i === index);
      button.tabIndex = i === index ? 0 : -1;
    });
    if (!state.chosen) pointAtTheSharpest();
    refresh();
  }

  /* Until somebody points, show the query whose row has the largest entry of all. */
  function pointAtTheSharpest() {
    const run = current(panels[0].select), [height, width] = sizes(run, "query_size");
    let most = -1;
    for (let query = 0; query < Math.min(height * width, 1024); query++) {
      const row = attentionRow(run, state.image, state.block, state.head, query);
      const peak = row.reduce((top, value) => Math.max(top, Math.abs(value)), 0);
      if (peak <= most) continue;
      most = peak;
      state.row = (Math.floor(query / width) + 0.5) / height;
      state.column = ((query % width) + 0.5) / width;
    }
  }

  blockSelect.addEventListener("change", () => { state.block = Number(blockSelect.value); refresh(); });
  headSelect.addEventListener("change", () => { state.head = Number(headSelect.value); draw(); });
  choose(0);
}
