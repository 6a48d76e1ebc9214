"use strict";
/* The embedded data: four bytes with the length of a JSON text, the text, and behind it arrays. */

const ARRAYS = { u1: Uint8Array, u2: Uint16Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

async function readData() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  for (const [name, { type, at, count }] of Object.entries(data.arrays)) {
    data[name] = new ARRAYS[type](bytes, at, count);
  }
  return data;
}
