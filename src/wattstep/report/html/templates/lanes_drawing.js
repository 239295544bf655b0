"use strict";
// Draws a stretch of a run's timeline: at most a line or a bar for each pixel, whatever its length.
const lanesDrawing = (() => {
  const AXIS = 22;
  const STEPS = 20;
  const PHASES = 12;
  const TITLE = 16;
  const PLOT = 26;
  const LOW_PLOT = 12; // where there are many channels
  const MANY = 24;
  const ROW = 17;
  const GAP = 6;
  const UNCERTAIN = new Set(["modelled", "predicted"]);
  const OPERATIONS = "Operations";

  // --- searching -------------------------------------------------------------------------------

  // The first position in [low, high) whose value is at least (or, `after`, above) a number.
  function search(values, number, low, high, after = false) {
    let [first, last] = [low, high];
    while (first < last) {
      const middle = (first + last) >>> 1;
      if (values[middle] < number || (after && values[middle] === number)) first = middle + 1;
      else last = middle;
    }
    return first;
  }

  // Visits intervals in view; those within a pixel together, with one search for each pixel.
  function eachMerged(view, starts, ends, first, last, visit) {
    const x = (t) => (t - view.from) * view.scale;
    let i = search(ends, view.from, first, last, true);
    while (i < last && starts[i] < view.to) {
      const [left, right] = [x(starts[i]), x(ends[i])];
      if (right - left >= 1) { // what begins far outside of the view is cut at its edges
        visit(i, i + 1, Math.max(left, -4), Math.min(right, view.width + 4));
        i += 1;
      } else {
        const pixel = Math.floor(left);
        const edge = view.from + (pixel + 1) / view.scale;
        // One that begins in this pixel and ends beyond it has a bar of its own.
        const next = search(ends, edge, i + 1, search(starts, edge, i + 1, last), true);
        visit(i, next, pixel, pixel + 1);
        i = next;
      }
    }
  }

  // --- words -----------------------------------------------------------------------------------

  const PREFIXES = { "-9": "n", "-6": "µ", "-3": "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T" };
  const PREFIXED = { s: [-9, 0], B: [0, 12], W: [-6, 6], Hz: [0, 9] };

  function number(value) {
    if (!value) return "0";
    const digits = Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value))));
    return value.toLocaleString("en", {
      minimumFractionDigits: 0, maximumFractionDigits: Math.min(digits, 12),
    });
  }

  function quantity(value, unit) {
    if (unit === "ratio") return `${number(100 * value)} %`;
    if (!(unit in PREFIXED)) return `${number(value)} ${unit}`.trimEnd();
    const [least, most] = PREFIXED[unit];
    const power = value ? 3 * Math.floor(Math.log10(Math.abs(value) * (1 + 5e-5)) / 3) : 0;
    const used = Math.min(Math.max(power, least), most);
    return `${number(value / 10 ** used)} ${PREFIXES[used]}${unit}`;
  }

  const marked = (text, status) => (UNCERTAIN.has(status) ? `≈ ${text}` : text);

  // --- places ----------------------------------------------------------------------------------

  // What is drawn where, from above; the groups of channels that are hidden take no room.
  function layout(data, hidden) {
    const bands = [];
    let y = 0;
    const add = (kind, height, more = {}) => {
      bands.push({ kind, y, height, ...more });
      y += height;
    };
    add("axis", AXIS);
    if (data.steps.index.length) add("steps", STEPS);
    if (data.steps.phase.length) add("phases", PHASES);
    const shown = data.channels.filter((lane) => !hidden.has(lane.group));
    const plot = shown.length > MANY ? LOW_PLOT : PLOT;
    for (const lane of shown) {
      y += GAP;
      add("lane", TITLE + plot, { lane });
    }
    const rows = data.operations && !hidden.has(OPERATIONS) ? data.operations.rows : [];
    rows.forEach((row, n) => {
      if (!n || rows[n - 1].thread !== row.thread) {
        y += GAP;
        add("thread", TITLE, { text: `Operations, ${row.thread}` });
      }
      add("row", ROW, { row });
    });
    return { bands, height: y + GAP };
  }

  // --- drawing ---------------------------------------------------------------------------------

  // Rectangles by colour: one fill for each.
  class Bars {
    constructor(view) {
      this.paths = new Map();
      this.Path = view.Path ?? Path2D;
    }

    add(color, x, y, width, height) {
      if (!this.paths.has(color)) this.paths.set(color, new this.Path());
      this.paths.get(color).rect(x, y, width, height);
    }

    fill(view) {
      for (const [color, path] of this.paths) {
        view.ctx.fillStyle = view.color(color);
        view.ctx.fill(path);
      }
    }
  }

  function write(view, text, x, y, color = "--ink-soft", align = "left", bold = false) {
    view.ctx.font = `${bold ? 600 : 400} 11px ${view.font}`;
    view.ctx.fillStyle = view.color(color);
    view.ctx.textAlign = align;
    view.ctx.fillText(text, x, y);
  }

  function writeInside(view, text, left, right, y, color) {
    const begin = Math.max(left, 0) + 3;
    const room = Math.min(right, view.width) - begin - 3;
    if (room < 14) return;
    // Letters are at least this wide: no need to measure what cannot fit.
    let shown = text.length * 3 > room ? text.slice(0, Math.ceil(room / 3)) : text;
    view.ctx.font = `400 11px ${view.font}`;
    while (shown && view.ctx.measureText(shown).width > room) {
      shown = shown.slice(0, Math.floor(shown.length * 0.8));
    }
    if (shown.length < text.length) shown = shown.length > 3 ? `${shown.slice(0, -1)}…` : "";
    if (shown) write(view, shown, begin, y, color);
  }

  function ticks(view) {
    const least = (view.to - view.from) / Math.max(view.width / 90, 2);
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((n) => n * power).find((each) => each >= least);
    const times = [];
    for (let n = Math.ceil(view.from / step); n * step <= view.to; n += 1) times.push(n * step);
    return { step, times };
  }

  function drawAxis(view, band, height) {
    const { step, times } = ticks(view);
    const unit = step >= 1 ? 0 : Math.max(3 * Math.floor(Math.log10(step) / 3), -9);
    const digits = Math.max(0, unit - Math.floor(Math.log10(step) + 1e-9));
    const [ctx, format] = [view.ctx, { maximumFractionDigits: digits }];
    ctx.strokeStyle = view.color("--grid");
    ctx.beginPath();
    for (const t of times) {
      const x = Math.round((t - view.from) * view.scale) + 0.5;
      ctx.moveTo(x, band.y + AXIS - 4);
      ctx.lineTo(x, height);
    }
    ctx.stroke();
    for (const t of times) {
      const x = (t - view.from) * view.scale;
      const text = `${(t / 10 ** unit || 0).toLocaleString("en", format)} ${PREFIXES[unit]}s`;
      if (x > 18 && x < view.width - 26) write(view, text, x, band.y + 13, "--ink-soft", "center");
    }
  }

  // The gravest of what steps carry comes last, so that it is seen.
  const FLAG_COLORS = {
    warmup: "--idle", traced: "--accent", disturbed: "--evaluation", throttled: "--alert",
  };

  function flagsOf(steps, first, last) {
    return steps.flags.filter((_, bit) => steps.before[bit][last] > steps.before[bit][first]);
  }

  function stepColor(steps, first, last) {
    const carried = flagsOf(steps, first, last);
    const name = Object.keys(FLAG_COLORS).reverse().find((flag) => carried.includes(flag));
    if (name) return FLAG_COLORS[name];
    return first % 2 ? "--grid" : "--rule";
  }

  function drawSteps(view, band, height) {
    const { steps } = view.data;
    const [bars, shades, named] = [new Bars(view), new Bars(view), []];
    const traced = steps.flags.indexOf("traced");
    eachMerged(view, steps.start, steps.end, 0, steps.index.length, (i, j, left, right) => {
      const plain = j - i > 1 && !flagsOf(steps, i, j).length;
      bars.add(plain ? "--rule" : stepColor(steps, i, j), left, band.y + 2, right - left, STEPS - 4);
      if (j - i === 1 && (steps.flag[i] >> traced) & 1) {
        shades.add("--band", left, AXIS, right - left, height - AXIS);
      }
      if (right - left > 24) named.push([i, left, right]);
    });
    shades.fill(view);
    bars.fill(view);
    for (const [i, left, right] of named) {
      const flags = flagsOf(steps, i, i + 1);
      const ink = flags.some((flag) => flag !== "warmup") ? "--on-bar" : "--ink";
      writeInside(view, [stepName(steps, i), ...flags].join(" "), left, right, band.y + 14, ink);
    }
  }

  function stepName(steps, i) {
    const first = steps.index[i].toLocaleString("en");
    return steps.each > 1 ? `steps from ${first}` : `step ${first}`;
  }

  function drawPhases(view, band) {
    const { steps } = view.data;
    const bars = new Bars(view);
    const { phaseStart, phaseEnd, phase } = steps;
    eachMerged(view, phaseStart, phaseEnd, 0, phase.length, (i, j, left, right) => {
      const several = j - i > 1;
      const color = several ? "--rule" : steps.phase_colors[phase[i]];
      bars.add(color, left, band.y + 1, right - left, PHASES - 2);
    });
    bars.fill(view);
  }

  // The curve of a channel: lines between samples, or the lowest and highest of each pixel.
  function drawCurve(view, lane, top, height) {
    const { t, value, low, high } = lane;
    const { ctx } = view;
    const begin = Math.max(search(t, view.from, 0, t.length) - 1, 0);
    const end = Math.min(search(t, view.to, 0, t.length, true) + 1, t.length);
    const y = (v) => top + height - (height * (v - low)) / (high - low);
    ctx.beginPath();
    if (end - begin > 2 * view.width) pixels(view, lane, begin, end, y);
    else lines(view, lane, begin, end, y);
    ctx.strokeStyle = view.color(UNCERTAIN.has(lane.status) ? "--modelled" : lane.color);
    ctx.lineWidth = 1;
    ctx.setLineDash(UNCERTAIN.has(lane.status) && end - begin <= 2 * view.width ? [3, 3] : []);
    ctx.stroke();
    ctx.setLineDash([]);
    if (end - begin < view.width / 8) dots(view, t, value, begin, end, y);
  }

  function pixels(view, { t, value }, begin, end, y) {
    const { ctx, from, scale } = view;
    let [pixel, low, high, open] = [-1, 0, 0, false];
    const flush = () => {
      if (pixel < 0) return;
      if (open) ctx.lineTo(pixel + 0.5, y(high));
      else ctx.moveTo(pixel + 0.5, y(high) - 0.5);
      ctx.lineTo(pixel + 0.5, y(low) + 0.5);
      open = true;
    };
    for (let i = begin; i < end; i += 1) {
      const v = value[i];
      const at = Math.max(Math.floor((t[i] - from) * scale), 0);
      if (v !== v) { // a gap: nothing is known
        flush();
        pixel = -1;
        open = false;
      } else if (at === pixel) {
        if (v < low) low = v;
        if (v > high) high = v;
      } else {
        flush();
        [pixel, low, high] = [at, v, v];
      }
    }
    flush();
  }

  function lines(view, { t, value, held }, begin, end, y) {
    const { ctx, from, scale } = view;
    let open = false;
    for (let i = begin; i < end; i += 1) {
      const [x, v] = [(t[i] - from) * scale, value[i]];
      if (v !== v) {
        open = false;
      } else if (held && i) { // the mean since the sample before
        const before = (t[i - 1] - from) * scale;
        if (open) ctx.lineTo(before, y(v));
        else ctx.moveTo(before, y(v));
        ctx.lineTo(x, y(v));
        open = true;
      } else {
        if (open) ctx.lineTo(x, y(v));
        else ctx.moveTo(x, y(v));
        open = true;
      }
    }
  }

  function dots(view, t, value, begin, end, y) {
    view.ctx.fillStyle = view.ctx.strokeStyle;
    for (let i = begin; i < end; i += 1) {
      if (value[i] === value[i]) {
        view.ctx.fillRect((t[i] - view.from) * view.scale - 1.5, y(value[i]) - 1.5, 3, 3);
      }
    }
  }

  function drawLane(view, band) {
    const { lane } = band;
    const [top, height] = [band.y + TITLE, band.height - TITLE - 2];
    view.ctx.fillStyle = view.color("--rule");
    view.ctx.fillRect(0, top + height, view.width, 1);
    drawCurve(view, lane, top, height);
    const ends = `${quantity(lane.low, lane.unit)} to ${quantity(lane.high, lane.unit)}`;
    const text = `${marked(lane.name, lane.status)}, ${lane.status} · ${ends}`;
    writeInside(view, text, -3, view.width - 84, band.y + 12, "--ink-soft");
  }

  function drawRow(view, band) {
    const { start, end, label, labels, texts, colors } = view.data.operations;
    const [bars, named] = [new Bars(view), []];
    eachMerged(view, start, end, band.row.first, band.row.last, (i, j, left, right) => {
      const gap = right - left > 3 ? 1 : 0;
      const [phase, last] = [labels[label[i]][2], labels[label[j - 1]][2]];
      const color = phase === last ? colors[phase] : "--other"; // of several phases
      bars.add(color, left, band.y + 1, right - left - gap, ROW - 2);
      if (right - left > 24) named.push([texts[labels[label[i]][0]], left, right]);
    });
    bars.fill(view);
    for (const [text, left, right] of named) {
      writeInside(view, text, left, right, band.y + 12, "--on-bar");
    }
  }

  function draw(view) {
    const { ctx, bands, height } = view;
    ctx.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    ctx.clearRect(0, 0, view.width, height);
    ctx.direction = "ltr";
    ctx.textBaseline = "alphabetic";
    for (const band of bands) {
      if (band.kind === "axis") drawAxis(view, band, height);
      else if (band.kind === "steps") drawSteps(view, band, height);
      else if (band.kind === "phases") drawPhases(view, band);
      else if (band.kind === "lane") drawLane(view, band);
      else if (band.kind === "thread") write(view, band.text, 0, band.y + 12);
      else drawRow(view, band);
    }
  }

  // The whole run in a strip: how long steps took, and which were traced, throttled, disturbed.
  function drawStrip(view, data, low, high, height) {
    const strip = { ...view, from: low, to: high, scale: view.width / (high - low) };
    const { steps } = data;
    strip.ctx.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    strip.ctx.clearRect(0, 0, view.width, height);
    let longest = 0;
    for (let i = 0; i < steps.index.length; i += 1) {
      longest = Math.max(longest, steps.end[i] - steps.start[i]);
    }
    const bars = new Bars(strip);
    const marks = height - 15; // three rows of five pixels below the lengths of steps
    eachMerged(strip, steps.start, steps.end, 0, steps.index.length, (i, j, left, right) => {
      let most = 0;
      for (let n = i; n < j; n += 1) most = Math.max(most, steps.end[n] - steps.start[n]);
      const tall = (marks - 2) * (most / longest);
      bars.add("--rule", left, marks - tall, right - left, tall);
      ["traced", "throttled", "disturbed"].forEach((flag, n) => {
        const sums = steps.before[steps.flags.indexOf(flag)];
        const wide = Math.max(right - left, 1);
        if (sums[j] > sums[i]) bars.add(FLAG_COLORS[flag], left, marks + 5 * n, wide, 4);
      });
    });
    bars.fill(strip);
  }

  return { draw, drawStrip, flagsOf, layout, marked, quantity, search, stepName, write };
})();
