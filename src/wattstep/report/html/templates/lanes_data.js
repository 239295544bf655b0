"use strict";
// Reads the columns of a run's timeline (report/html/lanes.py writes them), in pieces, so that the
// page answers meanwhile.
const lanesData = (() => {
  const NS = 1e-9;

  // A column of integers: bytes of one weight together, folded (0, -1, 1, -2, ...), as differences.
  function column(spec, bytes) {
    const { at, count, planes, middle, first, differences } = spec;
    const values = new Float64Array(count);
    const begin = differences && count ? 1 : 0;
    const coded = count - begin;
    for (let plane = 0; plane < planes; plane += 1) {
      const weight = 256 ** plane;
      const from = at + plane * coded - begin;
      for (let i = begin; i < count; i += 1) values[i] += bytes[from + i] * weight;
    }
    if (begin) values[0] = first;
    for (let i = begin; i < count; i += 1) {
      const folded = values[i];
      const value = (folded % 2 ? -(folded + 1) / 2 : folded / 2) + middle;
      values[i] = differences ? values[i - 1] + value : value;
    }
    return values;
  }

  function scaled(values, factor) {
    for (let i = 0; i < values.length; i += 1) values[i] *= factor;
    return values;
  }

  function stepsOf(document, bytes) {
    const index = column(document.index, bytes);
    const start = column(document.start, bytes);
    const end = column(document.length, bytes);
    const flag = Uint8Array.from(column(document.flag, bytes));
    const each = column(document.phases, bytes);
    const phaseStart = column(document.phase_start, bytes);
    const phase = Uint16Array.from(column(document.phase, bytes));
    const phaseEnd = new Float64Array(phase.length);
    const firstPhase = new Uint32Array(index.length + 1);
    for (let i = 0; i < index.length; i += 1) {
      end[i] += start[i];
      const [first, last] = [firstPhase[i], firstPhase[i] + each[i]];
      firstPhase[i + 1] = last;
      for (let p = first; p < last; p += 1) phaseStart[p] += start[i];
      for (let p = first; p < last; p += 1) phaseEnd[p] = p + 1 < last ? phaseStart[p + 1] : end[i];
    }
    // How many steps before each one carry a flag: a stretch has any of it if its ends differ.
    const before = document.flags.map((_, bit) => {
      const sums = new Uint32Array(flag.length + 1);
      for (let i = 0; i < flag.length; i += 1) sums[i + 1] = sums[i] + ((flag[i] >> bit) & 1);
      return sums;
    });
    return {
      ...document, index, flag, firstPhase, phase, before,
      start: scaled(start, NS), end: scaled(end, NS),
      phaseStart: scaled(phaseStart, NS), phaseEnd: scaled(phaseEnd, NS),
    };
  }

  // Where a picture of the channel ends below and above: whole from 0 where 0 means something.
  function rangeOf(value, unit) {
    let [low, high] = [Infinity, -Infinity];
    for (let i = 0; i < value.length; i += 1) {
      if (value[i] < low) low = value[i];
      if (value[i] > high) high = value[i];
    }
    if (unit === "ratio") return [0, Math.max(high, 1)];
    if (unit !== "°C") low = Math.min(low, 0);
    return high > low ? [low, high] : [low - 1, high + 1];
  }

  function channelOf(document, bytes) {
    const t = scaled(column(document.t, bytes), document.every_ns * NS);
    const value = column(document.value, bytes);
    const { power, times } = document;
    for (let i = 0; i < value.length; i += 1) {
      value[i] = power < 0 ? (value[i] * times) / 10 ** -power : value[i] * times * 10 ** power;
    }
    for (const at of column(document.gaps, bytes)) value[at] = NaN;
    const [low, high] = rangeOf(value, document.unit);
    return { ...document, t, value, low, high };
  }

  function operationsOf(document, bytes) {
    const start = column(document.gap, bytes);
    const end = column(document.length, bytes);
    for (let i = 0; i < start.length; i += 1) {
      if (i) start[i] += end[i - 1];
      end[i] += start[i];
    }
    let last = 0;
    const rows = document.rows.map(([thread, depth], n) => {
      const first = last;
      last += document.counts[n];
      return { thread, depth, first, last };
    });
    const every = document.every_ns * NS;
    const label = Uint16Array.from(column(document.label, bytes));
    return { ...document, rows, label, start: scaled(start, every), end: scaled(end, every) };
  }

  // Calls `arrived` after each part, so that what is there can be drawn.
  async function read(id, arrived) {
    const text = (part) => document.getElementById(`${id}-${part}`).textContent;
    const spec = JSON.parse(await unpack.text(text("document")));
    const data = { channels: [], operations: null, zooms: spec.zooms };
    data.steps = stepsOf(spec.steps, await unpack.bytes(text("steps")));
    arrived(data, "steps");
    const samples = await unpack.bytes(text("channels"));
    for (const channel of spec.channels) {
      data.channels.push(channelOf(channel, samples));
      await unpack.pause();
    }
    arrived(data, "channels");
    const operations = await unpack.bytes(text("operations"));
    await unpack.pause();
    data.operations = operationsOf(spec.operations, operations);
    arrived(data, "ready");
  }

  return { read };
})();
