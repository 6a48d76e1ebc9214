"use strict";
/* Filling the charts with what the filters and the time shown let through. */

const MOST_QUADS = 3000;
const COLUMNS = 1200;

/* A source for one RGBA image; BokehJS wants its own kind of array. */
function showImage(name, words, rows, columns, x, y, dw, dh) {
  const NDArray = Bokeh.require("core/util/ndarray").Uint32NDArray;
  const image = rows && columns ? [new NDArray(words.buffer, [rows, columns])] : [];
  const once = (value) => image.map(() => value);
  tx8.models[name].data = { image, x: once(x), y: once(y), dw: once(dw), dh: once(dh) };
}

tx8.time = () => {
  const { start, end } = tx8.models.time;
  return [Math.max(start, 0), Math.min(end, tx8.data.cycles)];
};

tx8.setTime = function (start, end) {
  const all = tx8.data.cycles;
  const length = Math.max(Math.min(end - start, all), Math.min(10, all));
  const first = Math.min(Math.max(start, 0), all - length);
  tx8.models.time.setv({ start: first, end: first + length });
};

tx8.rowsShown = () => tx8.data.rows
  .map(([tile, track], row) => ({ tile, track, row }))
  .filter(({ tile, track }) => (tx8.shown.tile < 0 || tile === tx8.shown.tile) && tx8.shown.tracks.has(track));

/* --- timeline ------------------------------------------------------------------------------- */

tx8.drawTimeline = function () {
  const rows = tx8.rowsShown();
  tx8.lanes = rows;
  const drawn = tx8.visibleSlices(rows);
  const words = new Uint32Array(rows.length * COLUMNS);
  if (tx8.data.slices_left_out) tx8.paintBins(rows, words);
  else tx8.paintNarrow(rows, words, drawn.narrow);
  const [start, end] = tx8.time();
  showImage("cells", words, rows.length, COLUMNS, start, 0, end - start, rows.length);
  tx8.drawSlices(drawn.slices, rows);
  tx8.labelRows(rows);
};

/* Pixels below the slices: where slices were left out, bins say how busy the row was. */
tx8.paintBins = function (rows, words) {
  const { data, hue, passes } = tx8;
  const [start, end] = tx8.time();
  const step = (end - start) / COLUMNS / data.bin_cycles, from = start / data.bin_cycles;
  rows.forEach(({ row }, lane) => {
    for (let column = 0; column < COLUMNS; column++) {
      const cell = tx8.cell(row, from + column * step, from + (column + 1) * step);
      if (!cell.kind) continue;
      const alpha = passes[cell.kind] ? 0.25 + 0.75 * cell.busy : DIM;
      words[(rows.length - 1 - lane) * COLUMNS + column] = rgba(hue[cell.kind], alpha);
    }
  });
};

/* Pixels below the slices: those that are narrower than a pixel, or one too many to be a box. */
tx8.paintNarrow = function (rows, words, narrow) {
  const { data, hue } = tx8;
  const [start, end] = tx8.time();
  const lane = new Map(rows.map(({ row }, at) => [row, rows.length - 1 - at]));
  const column = (time) => Math.floor(((time - start) / (end - start)) * COLUMNS);
  for (const at of narrow) {
    const match = tx8.sliceMatches(at), colour = rgba(hue[data.slice_kind[at]], match ? 1 : DIM);
    const row = lane.get(data.slice_row[at]) * COLUMNS, first = Math.max(column(data.slice_start[at]), 0);
    const last = Math.min(column(data.slice_start[at] + data.slice_length[at]), COLUMNS - 1);
    for (let place = row + first; place <= row + last; place++) if (match || !words[place]) words[place] = colour;
  }
};

/* Busy share and most frequent kind of a row between two bins (fractions are rounded outwards). */
tx8.cell = function (row, from, to) {
  const { data, passes } = tx8;
  const first = Math.floor(from), last = Math.min(Math.max(Math.ceil(to), first + 1), data.bins);
  let busy = 0, kind = 0, best = -1;
  for (let bin = first; bin < last; bin++) {
    const at = row * data.bins + bin, value = data.busy[at];
    busy += value;
    const weight = value + (passes[data.busy_kind[at]] ? 256 : 0);
    if (value && weight > best) [best, kind] = [weight, data.busy_kind[at]];
  }
  return { busy: busy / 255 / Math.max(last - first, 1), kind };
};

/* The slices in the time shown: those that are wide enough to be drawn as boxes, and the narrow ones. */
tx8.visibleSlices = function (rows) {
  const { data } = tx8;
  const [start, end] = tx8.time();
  const there = new Set(rows.map(({ row }) => row));
  const pixel = (end - start) / COLUMNS;
  const wide = [], narrow = [];
  for (let at = 0; at < data.slice_start.length && data.slice_start[at] < end; at++) {
    if (data.slice_start[at] + data.slice_length[at] < start || !there.has(data.slice_row[at])) continue;
    (data.slice_length[at] >= pixel ? wide : narrow).push(at);
  }
  wide.sort((a, b) => data.slice_length[b] - data.slice_length[a]);
  return { slices: wide.slice(0, MOST_QUADS), narrow: narrow.concat(wide.slice(MOST_QUADS)) };
};

tx8.sliceMatches = function (at) {
  const { data, shown, passes } = tx8;
  if (shown.line >= 0) return data.slice_line[at] === shown.line;
  const kind = data.slice_kind[at], line = data.slice_line[at];
  if (!shown.text || !passes[kind]) return passes[kind] || (shown.text && line >= 0 && tx8.lineMatches(line));
  return line < 0 || tx8.lineMatches(line) || tx8.kindName(kind).toLowerCase().includes(shown.text.toLowerCase());
};

tx8.drawSlices = function (slices, rows) {
  const { data, hue } = tx8;
  const lane = new Map(rows.map(({ row }, at) => [row, rows.length - 1 - at]));
  const bottom = slices.map((at) => lane.get(data.slice_row[at]));
  const match = slices.map(tx8.sliceMatches);
  tx8.models.slices.data = {
    left: slices.map((at) => data.slice_start[at]),
    right: slices.map((at) => data.slice_start[at] + data.slice_length[at]),
    bottom: bottom.map((y) => y + 0.08), top: bottom.map((y) => y + 0.92),
    fill: slices.map((at) => hue[data.slice_kind[at]]),
    alpha: match.map((yes) => (yes ? 1 : DIM)), line: match.map((yes) => (yes ? tx8.colours.edge : "transparent")),
  };
  tx8.matched = match.filter(Boolean).length;
  document.body.dataset.slices = slices.length;
  document.body.dataset.matched = tx8.matched;
};

/* A label for every row, or for every tile when rows are many. */
tx8.labelRows = function (rows) {
  const axis = tx8.models.timeline.left[0], names = tx8.data.tracks;
  const range = tx8.models.timeline.y_range;
  const key = rows.map(({ row }) => row).join();
  if (key === tx8.labelled) return;
  tx8.labelled = key;
  const ticks = [], labels = new Map();
  rows.forEach(({ tile, track }, at) => {
    const first = at === 0 || rows[at - 1].tile !== tile;
    if (rows.length > 36 && !first) return;
    const y = rows.length - at - 0.5;
    ticks.push(y);
    labels.set(y, rows.length > 36 ? `tile ${tile}` : `${tile} ${names[track]}`);
  });
  axis.ticker = new (Bokeh.require("models/tickers/fixed_ticker").FixedTicker)({ ticks });
  axis.major_label_overrides = labels;
  range.setv({ start: 0, end: Math.max(rows.length, 1), reset_start: 0, reset_end: Math.max(rows.length, 1) });
};

/* --- scratchpad ----------------------------------------------------------------------------- */

tx8.drawScratchpad = function () {
  const { data, hue, passes } = tx8;
  const tile = Number(el("spm-tile").value);
  const { first_block, blocks, columns, block_bytes, column_cycles } = data.spm;
  const [low, height] = [first_block * block_bytes, blocks * block_bytes];
  const words = new Uint32Array(blocks * columns);
  const at = data.active_tiles.indexOf(tile) * blocks * columns;
  for (let place = 0; place < words.length; place++) {
    const kind = data.spm_kind[at + place];
    if (kind) words[place] = rgba(hue[kind], passes[kind] ? 1 : DIM);
  }
  showImage("places", words, blocks, columns, 0, low, columns * column_cycles, height);
  tx8.models.spm.y_range.setv({ start: low, end: low + height, reset_start: low, reset_end: low + height });
};

/* --- buffers that the program declares ------------------------------------------------------ */

tx8.liveMatches = function (at) {
  const { data, shown } = tx8;
  const { name, node, phase, role, roles } = data.lives;
  if (shown.node >= 0 && phase[at] !== shown.node) return false;
  return `${name[at]} ${node[at]} ${roles[role[at]]}`.toLowerCase().includes(shown.text.toLowerCase());
};

/* The buffers in use on the tile shown; where they are in the arrays of all tiles. */
tx8.livesShown = function () {
  const { data } = tx8, count = data.lives.name.length;
  const from = data.active_tiles.indexOf(Number(el("spm-tile").value)) * count;
  return data.lives.name.map((_, at) => ({ at, place: from + at })).filter(({ place }) => data.live_end[place] >= 0);
};

tx8.drawBuffers = function () {
  const { data } = tx8, { first, bytes, role, spm_bytes } = data.lives;
  const lives = tx8.livesShown(), match = lives.map(({ at }) => tx8.liveMatches(at));
  tx8.models.lives.data = {
    left: lives.map(({ place }) => data.live_start[place]), right: lives.map(({ place }) => data.live_end[place]),
    bottom: lives.map(({ at }) => first[at]), top: lives.map(({ at }) => first[at] + bytes[at]),
    fill: lives.map(({ at }) => HUES[role[at]]), alpha: match.map((yes) => (yes ? 0.8 : DIM)),
    line: match.map((yes) => (yes ? tx8.colours.ink : "transparent")),
  };
  tx8.models.buffers.y_range.setv({ start: 0, end: spm_bytes, reset_start: 0, reset_end: spm_bytes });
};

tx8.describeBuffer = function (address, time) {
  const { data } = tx8, { name, role, node, phase, first, bytes, roles } = data.lives;
  const found = tx8.livesShown().filter(({ at, place }) => first[at] <= address && address < first[at] + bytes[at]
    && data.live_start[place] <= time && time < data.live_end[place]);
  const texts = found.map(({ at, place }) => `${name[at]}: ${roles[role[at]]} of ${node[at] || data.nodes[phase[at]]}, `
    + `${whole(bytes[at])} bytes, 0x${first[at].toString(16)}..0x${(first[at] + bytes[at] - 1).toString(16)}, `
    + `cycles ${whole(data.live_start[place])} to ${whole(data.live_end[place])}`);
  return { text: texts.join("; "), phase: found.length ? phase[found[0].at] : -1 };
};

/* --- traffic -------------------------------------------------------------------------------- */

tx8.drawTraffic = function () {
  const { data, shown } = tx8;
  const { columns, column_cycles } = data.traffic;
  const time = Array.from({ length: columns }, (_, i) => i * column_cycles);
  const read = new Float64Array(columns), written = new Float64Array(columns);
  data.active_tiles.forEach((tile, at) => {
    if (shown.tile >= 0 && tile !== shown.tile) return;
    for (let i = 0; i < columns; i++) {
      read[i] += data.ddr_bytes[at * 2 * columns + i] / column_cycles;
      written[i] += data.ddr_bytes[(at * 2 + 1) * columns + i] / column_cycles;
    }
  });
  tx8.models.ddr_rates.data = { time, read: [...read], written: [...written] };
  const all = new Float64Array(columns), busiest = new Float64Array(columns);
  data.links.forEach((_, link) => {
    for (let i = 0; i < columns; i++) {
      const rate = data.link_bytes[link * columns + i] / column_cycles;
      all[i] += rate;
      busiest[i] = Math.max(busiest[i], rate);
    }
  });
  tx8.models.noc_rates.data = { time, all: [...all], busiest: [...busiest] };
};

/* Bytes on every link in the time shown. */
tx8.drawMesh = function () {
  const { data } = tx8;
  const [start, end] = tx8.time();
  const { columns, column_cycles } = data.traffic;
  const first = Math.floor(start / column_cycles), last = Math.min(Math.ceil(end / column_cycles), columns);
  const rows = { x0: [], y0: [], x1: [], y1: [], bytes: [], text: [] };
  data.links.forEach(([a, b], link) => {
    const [ax, ay] = data.tile_xy[a], [bx, by] = data.tile_xy[b];
    const dx = bx - ax, dy = by - ay, px = ax - 0.09 * dy, py = ay + 0.09 * dx;
    let bytes = 0;
    for (let i = first; i < last; i++) bytes += data.link_bytes[link * columns + i];
    rows.x0.push(px + 0.26 * dx); rows.x1.push(px + 0.74 * dx);
    rows.y0.push(py + 0.26 * dy); rows.y1.push(py + 0.74 * dy);
    rows.bytes.push(bytes);
    rows.text.push(`tile ${a} to ${b}: ${whole(bytes)} bytes`);
  });
  tx8.models.heat.high = Math.max(...rows.bytes, 1);
  tx8.models.links.data = rows;
};

tx8.drawTiles = function () {
  const { data } = tx8, tiles = data.tile_xy.map((_, tile) => tile);
  const bytes = (tile) => {
    const at = data.active_tiles.indexOf(tile), { columns } = data.traffic;
    return at < 0 ? 0 : data.ddr_bytes.slice(at * 2 * columns, (at + 1) * 2 * columns).reduce((a, b) => a + b, 0);
  };
  tx8.models.tiles.data = {
    x: data.tile_xy.map(([x]) => x), y: data.tile_xy.map(([, y]) => y), name: tiles.map(String),
    text: tiles.map((t) => `tile ${t}: ${whole(bytes(t))} bytes of DDR`),
  };
};

tx8.drawRoofline = function () {
  const { roofline } = tx8.data;
  el("h-roofline").parentElement.hidden = !roofline.points.length;  // no arithmetic, or nothing from DDR
  const { x_range, y_range } = tx8.models.roofline;
  for (const [range, [start, end]] of [[x_range, roofline.x], [y_range, roofline.y]]) {
    range.setv({ start, end, reset_start: start, reset_end: end });
  }
  tx8.models.roofs.data = {
    xs: roofline.roofs.map((r) => r.x), ys: roofline.roofs.map((r) => r.y), name: roofline.roofs.map((r) => r.name),
    x: roofline.roofs.map((r) => r.x.at(-1)), y: roofline.roofs.map((r) => r.y.at(-1)),
    label: roofline.roofs.map((r) => r.label),
  };
  const points = roofline.points;
  tx8.models.points.data = {
    x: points.map((p) => p.x), y: points.map((p) => p.y), name: points.map((p) => p.name),
    text: points.map((p) => p.text), size: points.map((p) => (p.node < 0 ? 16 : 9)),
    fill: points.map((p) => (p.node < 0 ? tx8.colours.ink : HUES[(Math.max(p.node, 1) - 1) % HUES.length])),
  };
};
