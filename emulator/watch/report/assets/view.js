"use strict";
/* What is shown: filters, colours, and the tables. Charts are redrawn by `tx8.draw`. */

/* Okabe and Ito's colours, which people with any colour vision tell apart. */
const HUES = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442"];
const GREY = "#8a94a0";
const DIM = 0.12;

const tx8 = { data: null, models: {}, dark: false, shown: { tile: -1, tracks: new Set(), node: -1, text: "", line: -1, colour: "node" } };

const el = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const whole = (value) => Math.round(value).toLocaleString("en-US");

function rgba(hex, alpha) {
  const word = parseInt(hex.slice(1), 16);
  return (((alpha * 255) << 24) | ((word & 255) << 16) | (word & 0xff00) | (word >> 16)) >>> 0;
}

tx8.kindName = function (kind) {
  const { kinds, nodes } = tx8.data;
  const node = nodes[kinds.node[kind]];
  return kinds.name[kind] + (node ? ` of ${node}` : "");
};

/* Colour of each kind, and whether the filters of node and text let it through. */
tx8.prepareKinds = function () {
  const { data, shown } = tx8;
  const { node, name } = data.kinds;
  const names = [...new Set(name)].sort();
  const byNode = shown.colour === "node" && data.nodes.length > 1;
  const wanted = shown.text.toLowerCase();
  const ofLines = new Set(data.lines.filter((line, at) => tx8.lineMatches(at)).map((line) => line.kind));
  tx8.hue = name.map((what, kind) => {
    if (kind < 2 || what.startsWith("wait")) return GREY;
    return byNode ? (node[kind] ? HUES[(node[kind] - 1) % HUES.length] : GREY) : HUES[names.indexOf(what) % HUES.length];
  });
  tx8.passes = name.map((what, kind) => {
    if (shown.node >= 0 && node[kind] !== shown.node) return false;
    if (shown.line >= 0) return data.lines[shown.line].kind === kind;
    return !wanted || what.includes(wanted) || data.nodes[node[kind]].toLowerCase().includes(wanted) || ofLines.has(kind);
  });
};

tx8.lineMatches = function (at) {
  const { shown, data } = tx8;
  const line = data.lines[at];
  const text = `${line.file}:${line.line} ${line.text} ${data.nodes[line.node]}`.toLowerCase();
  return (shown.node < 0 || line.node === shown.node) && text.includes(shown.text.toLowerCase());
};

/* A table whose rows are chosen by click, Enter or space. `cells` are [text, class] or {bar: share}. */
function fill(table, heads, rows, choose) {
  const cell = (tag, [text, kind]) => {
    const made = document.createElement(tag);
    if (typeof text === "object") {
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.width = `${(100 * text.bar).toFixed(1)}%`;
      made.title = percent(text.share);
      made.append(bar);
    } else made.textContent = text;
    made.className = kind || "";
    return made;
  };
  const head = document.createElement("tr");
  head.append(...heads.map((h) => cell("th", h)));
  table.tHead.replaceChildren(head);
  table.tBodies[0].replaceChildren(...rows.map(({ id, cells, chosen }) => {
    const row = document.createElement("tr");
    row.append(...cells.map((c) => cell("td", c)));
    if (choose) {
      row.tabIndex = 0;
      row.dataset.id = id;
      row.setAttribute("aria-selected", chosen);
      row.onclick = () => choose(id);
      row.onkeydown = (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(id); }
      };
    }
    return row;
  }));
}

tx8.fillNodes = function () {
  const { data, shown } = tx8;
  const most = Math.max(...data.node_times.map((n) => n.cycles), 1);
  const rows = data.node_times.map((n) => ({
    id: n.node, chosen: n.node === shown.node,
    cells: [[data.nodes[n.node] || "(no node)"], [{ bar: n.cycles / most, share: n.share }, "share"],
      [whole(n.cycles), "number"], [percent(n.share), "number"], [n.bound],
      [n.bound && (n.reached > 1 ? "hidden" : percent(n.reached)), "number"]],
  }));
  const heads = [["node"], ["", "share"], ["cycles", "number"], ["of the run", "number"], ["bound"], ["reached", "number"]];
  fill(el("nodes"), heads, rows, (node) => tx8.select({ node: shown.node === node ? -1 : node, line: -1 }));
};

const MOST_ROWS = 400;

tx8.fillLines = function () {
  const { data, shown } = tx8;
  let found = data.lines.map((line, at) => at).filter(tx8.lineMatches);
  const all = found.length;
  if (all > MOST_ROWS) {
    found = found.sort((a, b) => data.lines[b].busy - data.lines[a].busy).slice(0, MOST_ROWS).sort((a, b) => a - b);
  }
  const most = Math.max(...found.map((at) => data.lines[at].busy), 1);
  const total = data.lines.reduce((sum, line) => sum + line.busy, 0) || 1;
  const rows = found.map((at) => {
    const line = data.lines[at];
    return { id: at, chosen: at === shown.line, cells: [
      [line.line ? `${line.file.split("/").pop()}:${line.line}` : `0x${line.pc.toString(16)}`, "place"], [line.text || `(core, ${data.kinds.name[line.kind]})`, "code"],
      [{ bar: line.busy / most, share: line.busy / total }, "share"], [whole(line.times), "number"],
      [whole(line.busy), "number"], [whole(line.lost), "number"]] };
  });
  const heads = [["line", "place"], ["instruction, with its first operands"], ["", "share"], ["times", "number"],
    ["busy", "number"], ["lost", "number"]];
  fill(el("lines"), heads, rows, (line) => tx8.select({ line: shown.line === line ? -1 : line }));
  el("lines-of").textContent = shown.node < 0 ? "" : `of ${data.nodes[shown.node] || "no node"}`;
  const more = [];
  if (all > MOST_ROWS) more.push(`the ${MOST_ROWS} that took longest of ${whole(all)} lines`);
  if (data.lines_left_out) more.push(`${whole(data.lines_left_out)} lines that took least are not in this page`);
  el("lines-note").textContent = more.join("; ");
};

/* Change what is shown, and draw it. */
tx8.select = function (change) {
  Object.assign(tx8.shown, change);
  tx8.prepareKinds();
  for (const id of ["tile", "node", "colour", "text"]) el(id).value = tx8.shown[id];
  if ("tile" in change && change.tile >= 0) el("spm-tile").value = el("buffers-tile").value = change.tile;
  tx8.fillNodes();
  tx8.fillLines();
  tx8.draw();
};

function options(select, pairs) {
  select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value)));
}

tx8.prepareFilters = function () {
  const { data, shown } = tx8;
  const tiles = data.active_tiles.map((t) => [t, t]);
  options(el("tile"), [[-1, "all"], ...tiles]);
  for (const id of ["spm-tile", "buffers-tile"]) options(el(id), tiles);
  options(el("node"), [[-1, "all"], ...data.node_times.map((n) => [n.node, data.nodes[n.node] || "(no node)"])]);
  const used = [...new Set(data.rows.map(([, track]) => track))].sort((a, b) => a - b);
  for (const track of used) {
    shown.tracks.add(track);
    const label = document.createElement("label"), box = document.createElement("input");
    Object.assign(box, { type: "checkbox", checked: true, value: track, id: `track-${data.tracks[track]}` });
    box.onchange = () => { shown.tracks[box.checked ? "add" : "delete"](track); tx8.select({}); };
    label.append(box, data.tracks[track]);
    el("tracks").append(label);
  }
  for (const id of ["tile", "node"]) el(id).onchange = () => tx8.select({ [id]: Number(el(id).value), line: -1 });
  el("colour").onchange = () => tx8.select({ colour: el("colour").value });
  el("text").oninput = () => tx8.select({ text: el("text").value, line: -1 });
  for (const [id, other] of [["spm-tile", "buffers-tile"], ["buffers-tile", "spm-tile"]]) {
    el(id).onchange = () => { el(other).value = el(id).value; tx8.draw(); };
  }
  el("filters").onsubmit = (event) => event.preventDefault();
};

tx8.prepareTexts = function () {
  const { data } = tx8;
  el("status").textContent = data.fault || "ran to its end";
  el("status").classList.toggle("fault", Boolean(data.fault));
  el("facts").replaceChildren(...data.facts.map(([term, text]) => {
    const pair = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = term;
    dd.textContent = text;
    pair.append(dt, dd);
    return pair;
  }));
  el("origin").textContent = data.origin;
  el("grain").textContent = data.slices_left_out
    ? `The ${whole(data.slice_start.length)} longest of ${whole(data.slice_start.length + data.slices_left_out)} slices `
      + `are drawn one by one, the others as bins of ${whole(data.bin_cycles)} cycles: as strong as they were busy, `
      + "in the colour of the longest slice."
    : `All ${whole(data.slice_start.length)} slices are here; zoom in to see the short ones.`;
  tx8.fillLosses();
  tx8.fillAgainst();
  tx8.fillHazards();
  tx8.fillRoles();
};

/* The colours of the roles, and the most that is in use at once; nothing where no program declares buffers. */
tx8.fillRoles = function () {
  const { lives, nodes } = tx8.data;
  el("h-buffers").parentElement.hidden = !lives.name.length;
  el("roles").replaceChildren(...lives.roles.map((role, at) => {
    const made = document.createElement("span"), colour = document.createElement("i");
    colour.style.background = HUES[at];
    made.append(colour, role);
    return made;
  }));
  const where = nodes[lives.peak_phase] ? `, in ${nodes[lives.peak_phase]}` : "";
  const more = lives.left_out ? `; the ${whole(lives.left_out)} smallest buffers are not in this page` : "";
  el("buffers-peak").textContent = `At most ${whole(lives.peak)} of ${whole(lives.spm_bytes)} bytes hold something `
    + `at once (${percent(lives.peak / lives.spm_bytes)})${where}${more}.`;
};

tx8.fillLosses = function () {
  const rows = tx8.data.losses.map(({ text, cycles, share }, at) => ({
    id: at, cells: [[text], [{ bar: Math.min(share, 1), share }, "share"], [whole(cycles), "number"], [percent(share), "number"]],
  }));
  el("h-losses").parentElement.hidden = !rows.length;
  fill(el("losses"), [["what"], ["", "share"], ["cycles", "number"], ["of the run", "number"]], rows, null);
};

/* The tables of --against in one: a row with the title of each, then its figures. */
tx8.fillAgainst = function () {
  const rows = tx8.data.against.flatMap(({ title, rows: changes, left_out: more }) => [
    [title], ...changes, ...(more ? [[`and ${more} with smaller differences`]] : []),
  ]).map((cells, at) => ({
    id: at, cells: [0, 1, 2, 3, 4].map((column) => [cells[column] || "", ...(column ? ["number"] : [])]),
  }));
  el("h-against").parentElement.hidden = !rows.length;
  const heads = [["what"], ["before", "number"], ["after", "number"], ["difference", "number"], ["", "number"]];
  fill(el("against"), heads, rows, null);
};

tx8.fillHazards = function () {
  const { hazards } = tx8.data;
  if (hazards === null || !hazards.length) {
    el("hazards").textContent = hazards === null ? "Not looked for: run with --strict to find them." : "None found.";
    return;
  }
  const table = document.createElement("table");
  table.append(document.createElement("thead"), document.createElement("tbody"));
  const heads = [["kind"], ["category"], ["instruction"], ["what it does"], ["what would fix it"], ["times", "number"]];
  const rows = hazards.map((h, at) => ({
    id: at, chosen: false,
    cells: [[h.kind], [h.category], [h.at], [h.what], [h.fix], [whole(h.times), "number"]],
  }));
  fill(table, heads, rows, (at) => {
    const line = tx8.data.lines.findIndex(({ pc }) => pc === hazards[at].pc);
    if (line >= 0) tx8.select({ node: tx8.data.lines[line].node, line });
  });
  el("hazards").replaceChildren(table);
  if (tx8.data.hazards_left_out) el("hazards").append(`and ${whole(tx8.data.hazards_left_out)} more`);
};
