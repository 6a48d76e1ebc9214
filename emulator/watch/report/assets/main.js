"use strict";
/* Putting it together: models by name, light and dark, pointing, and when what is drawn. */

tx8.draw = function () {
  tx8.drawTimeline();
  tx8.drawBuffers();
  tx8.drawScratchpad();
  tx8.drawTraffic();
  tx8.drawMesh();
};

tx8.timeChanged = function () {
  if (tx8.pending) return;
  tx8.pending = requestAnimationFrame(() => {
    tx8.pending = 0;
    tx8.drawTimeline();
    tx8.drawMesh();
    [document.body.dataset.start, document.body.dataset.end] = tx8.time();
  });
};

/* --- pointing and clicking ------------------------------------------------------------------ */

tx8.sliceAt = function (row, time) {
  const { data } = tx8;
  let found = -1;
  for (let at = 0; at < data.slice_start.length && data.slice_start[at] <= time; at++) {
    if (data.slice_row[at] === row && data.slice_start[at] + data.slice_length[at] > time) found = at;
  }
  return found;
};

tx8.describe = function (lane, time) {
  const { data } = tx8, at = tx8.sliceAt(lane.row, time);
  const place = `tile ${lane.tile} ${data.tracks[lane.track]}`;
  if (at < 0) {
    const cell = tx8.cell(lane.row, time / data.bin_cycles, time / data.bin_cycles);
    const most = cell.kind ? `, longest: ${tx8.kindName(cell.kind)}` : "";
    return `${place}, cycle ${whole(time)}: ${(100 * cell.busy).toFixed(0)} % busy${most}`;
  }
  const blocked = data.slice_blocked[at], line = data.lines[data.slice_line[at]];
  const held = blocked && data.slice_cause[at] ? `, blocked ${whole(blocked)} (${data.causes[data.slice_cause[at]]})` : "";
  const where = line ? ` | ${line.line ? `${line.file}:${line.line} ` : ""}${line.text}` : "";
  const from = data.slice_start[at], length = data.slice_length[at];
  return `${place}: ${tx8.kindName(data.slice_kind[at])}, ${length.toLocaleString("en-US")} cycles from ${whole(from)}${held}${where}`;
};

tx8.pointed = function (chart, event) {
  if (chart === "timeline") tx8.pointedAtTimeline(event);
  if (chart === "buffers" && event.event_name !== "mouseleave") {
    const { text, phase } = tx8.describeBuffer(event.y, event.x);
    el("buffers-pointed").textContent = text || `nothing at 0x${Math.max(Math.floor(event.y), 0).toString(16)}`;
    if (event.event_name === "tap") tx8.select({ node: phase === tx8.shown.node ? -1 : phase, line: -1 });
  }
  if (chart === "spm" && event.event_name === "mousemove") {
    const { first_block, blocks, columns, block_bytes, column_cycles } = tx8.data.spm;
    const block = Math.floor(event.y / block_bytes) - first_block, column = Math.floor(event.x / column_cycles);
    if (block < 0 || block >= blocks || column < 0 || column >= columns) return;
    const tile = tx8.data.active_tiles.indexOf(Number(el("spm-tile").value));
    const kind = tx8.data.spm_kind[(tile * blocks + block) * columns + column];
    const first = (first_block + block) * block_bytes;
    el("spm-pointed").textContent = `0x${first.toString(16)}..0x${(first + block_bytes - 1).toString(16)}, `
      + `cycle ${whole(column * column_cycles)}: ${kind ? `written by ${tx8.kindName(kind)}` : "nothing that is read later"}`;
  }
};

tx8.pointedAtTimeline = function (event) {
  const lane = tx8.lanes[tx8.lanes.length - 1 - Math.floor(event.y)];
  if (!lane || event.event_name === "mouseleave") return;
  el("pointed").textContent = tx8.describe(lane, event.x);
  if (event.event_name !== "tap") return;
  const at = tx8.sliceAt(lane.row, event.x);
  const kind = at >= 0 ? tx8.data.slice_kind[at] : tx8.cell(lane.row, event.x / tx8.data.bin_cycles, event.x / tx8.data.bin_cycles).kind;
  if (!kind) return tx8.select({ node: -1, line: -1 });
  tx8.select({ node: tx8.data.kinds.node[kind], line: at >= 0 ? tx8.data.slice_line[at] : -1 });
  el("lines").querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  el("nodes").querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
};

/* --- light and dark ------------------------------------------------------------------------- */

tx8.dress = function (dark) {
  document.documentElement.classList.toggle("dark", dark);
  const style = getComputedStyle(document.documentElement);
  const [ink, panel, rule] = ["--ink", "--panel", "--rule"].map((name) => style.getPropertyValue(name).trim());
  tx8.colours = { ink, edge: dark ? "#000000" : "#ffffff" };
  if (dark !== tx8.dark) tx8.models.heat.palette = [...tx8.models.heat.palette].reverse();  // little is near the page
  tx8.dark = dark;
  const text = { axis_label_text_color: ink, major_label_text_color: ink, title_text_color: ink, label_text_color: ink };
  const lines = { axis_line_color: rule, major_tick_line_color: rule, minor_tick_line_color: null, grid_line_color: rule,
    bar_line_color: rule, outline_line_color: rule };
  const paint = { ...text, ...lines, background_fill_color: panel, border_fill_color: panel };
  for (const model of tx8.all) {
    if (!/^(Figure|LinearAxis|LogAxis|Grid|Legend|ColorBar)$/.test(model.type)) continue;
    const known = Object.entries(paint).filter(([name]) => name in model.properties);
    model.setv(Object.fromEntries(known));
  }
};

tx8.prepareButtons = function () {
  const move = (zoom, shift) => () => {
    const [start, end] = tx8.time(), length = end - start, middle = (start + end) / 2 + shift * length;
    tx8.setTime(middle - length * zoom / 2, middle + length * zoom / 2);
  };
  el("zoom-in").onclick = move(0.5, 0);
  el("zoom-out").onclick = move(2, 0);
  el("earlier").onclick = move(1, -0.5);
  el("later").onclick = move(1, 0.5);
  el("zoom-all").onclick = () => tx8.setTime(0, tx8.data.cycles);
  for (const box of document.querySelectorAll("#graph g[data-node]")) {
    const node = Number(box.dataset.node);
    box.onclick = () => tx8.select({ node: tx8.shown.node === node ? -1 : node, line: -1 });
  }
  el("theme").onclick = () => {
    tx8.dress(!document.documentElement.classList.contains("dark"));
    tx8.drawRoofline();
    tx8.draw();
  };
};

/* A program that copies nothing between tiles has no use for the mesh. */
tx8.hideNoc = function () {
  const used = tx8.data.link_bytes.some((bytes) => bytes > 0);
  for (const id of ["h-noc", "h-mesh"]) el(id).parentElement.hidden = !used;
};

/* --- start ---------------------------------------------------------------------------------- */

tx8.start = async function () {
  tx8.data = await readData();
  const { document: content, roots } = JSON.parse(el("figures").textContent);
  const elements = Object.fromEntries(Object.entries(roots).map(([name, id]) => [id, el(name)]));
  const item = { docid: "report", roots: elements, root_ids: Object.keys(elements) };
  await Bokeh.embed.embed_items({ report: content }, [item]);
  tx8.all = [...Bokeh.documents[0]._all_models.values()];
  tx8.models = Object.fromEntries(tx8.all.filter((m) => m.name).map((m) => [m.name, m]));
  tx8.prepareTexts();
  tx8.prepareFilters();
  tx8.prepareButtons();
  tx8.dress(matchMedia("(prefers-color-scheme: dark)").matches);
  tx8.hideNoc();
  tx8.drawTiles();
  tx8.drawRoofline();
  tx8.select({});
  for (const name of ["start", "end"]) tx8.models.time.properties[name].change.connect(tx8.timeChanged);
  tx8.timeChanged();
  document.body.dataset.ready = "yes";
};

tx8.start().catch((error) => {
  el("status").textContent = `this page could not be drawn: ${error}`;
  el("status").classList.add("fault");
  throw error;
});
