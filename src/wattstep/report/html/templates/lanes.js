"use strict";
// The timeline of a whole run: zooming, panning, and what is under the pointer in words.
// Data only ever reach the page as text: on the canvas or as text content, never as HTML.
(() => {
  const { draw, drawStrip, flagsOf, layout, marked, quantity, search, stepName, write } =
    lanesDrawing;
  const LEAST = 1e-6; // seconds in view
  const WHEEL = 0.0016;
  const IDLE = 1200; // ms after the page is there: what is not in view yet is read, for print
  const STRIP = 46;
  const GROUP_COLORS = {
    Processor: "--series-1", GPU: "--series-3", Power: "--series-2", Temperature: "--series-5",
    Frequency: "--series-6", Memory: "--series-4",
  };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  class Timeline {
    constructor(section) {
      this.section = section;
      this.find = (name) => section.querySelector(`.lanes-${name}`);
      this.canvas = this.find("canvas");
      this.cursor = this.find("cursor");
      this.strip = this.find("strip");
      this.frame = this.find("window");
      this.told = this.find("told");
      this.hidden = new Set();
      this.pointers = new Map();
      this.data = null;
      this.at = null; // where the pointer is: pixels
    }

    // --- what there is -------------------------------------------------------------------------

    load() {
      this.loading ??= this.read();
      return this.loading;
    }

    async read() {
      try {
        await lanesData.read(this.section.id, (data, state) => this.arrived(data, state));
      } catch (error) {
        this.told.textContent = `The timeline cannot be read here: ${error.message}`;
      }
    }

    arrived(data, state) {
      const first = !this.data;
      this.data = data;
      for (const lane of data.channels) lane.color = GROUP_COLORS[lane.group];
      const [was, all] = [this.low === this.from && this.high === this.to, this.extent()];
      [this.low, this.high] = all;
      if (first || was) [this.from, this.to] = all;
      if (first) this.listen();
      this.resize();
      this.section.dataset.state = state;
    }

    extent() {
      const { steps, channels } = this.data;
      const count = steps.index.length;
      const begins = channels.filter((lane) => lane.t.length).map((lane) => lane.t[0]);
      const ends = channels.filter((lane) => lane.t.length).map((lane) => lane.t[lane.t.length - 1]);
      if (count) begins.push(steps.start[0]);
      if (count) ends.push(steps.end[count - 1]);
      if (!begins.length) return [0, 1];
      const [low, high] = [Math.min(...begins), Math.max(...ends)];
      return [low, Math.max(high, low + LEAST)];
    }

    // --- drawing -------------------------------------------------------------------------------

    resize() {
      const { bands, height } = layout(this.data, this.hidden);
      const width = this.find("view").clientWidth;
      const ratio = window.devicePixelRatio || 1;
      for (const [canvas, tall] of [
        [this.canvas, height], [this.cursor, height], [this.strip, STRIP],
      ]) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(tall * ratio);
        canvas.style.height = `${tall}px`;
      }
      Object.assign(this, { bands, height, width, ratio, colors: new Map() });
      drawStrip(this.view(this.strip), this.data, this.low, this.high, STRIP);
      this.redraw();
    }

    view(canvas) {
      return {
        ctx: canvas.getContext("2d"), data: this.data, bands: this.bands, width: this.width,
        height: this.height, ratio: this.ratio, from: this.from, to: this.to,
        scale: this.width / (this.to - this.from), font: css("--font"),
        color: (name) => this.color(name),
      };
    }

    // What is in view, with its key, for a file.
    picture() {
      const drawing = new images.Drawing(this.width, this.height);
      draw({ ...this.view(this.canvas), ctx: drawing, Path: images.Path });
      drawing.font = `13px ${css("--font")}`;
      const entries = [...this.section.querySelectorAll(".key > span:has(.swatch)")].map((each) => (
        [getComputedStyle(each.firstChild).backgroundColor, each.textContent]));
      drawing.height = drawing.key(entries, this.height + 18) + 10;
      return drawing;
    }

    color(name) {
      if (!this.colors.has(name)) this.colors.set(name, css(name));
      return this.colors.get(name);
    }

    // At most once a frame, however many events there are.
    later() {
      this.due ??= requestAnimationFrame(() => {
        this.due = null;
        this.redraw();
      });
    }

    redraw() {
      if (!this.width) return;
      const begin = performance.now();
      draw(this.view(this.canvas));
      this.point();
      const span = this.high - this.low;
      this.frame.style.left = `${(100 * (this.from - this.low)) / span}%`;
      this.frame.style.width = `${(100 * (this.to - this.from)) / span}%`;
      // For tests and benchmarks: what is in view, and how long drawing it took.
      Object.assign(this.canvas.dataset, { from: this.from, to: this.to });
      const ms = performance.now() - begin;
      this.section.dispatchEvent(new CustomEvent("lanes-drawn", { detail: { ms } }));
    }

    // --- what is under the pointer -------------------------------------------------------------

    point() {
      const view = this.view(this.cursor);
      const { ctx } = view;
      ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      ctx.clearRect(0, 0, this.width, this.height);
      if (!this.at) {
        this.tell(this.inView());
        return;
      }
      const { x, y } = this.at;
      ctx.fillStyle = this.color("--ink-soft");
      ctx.fillRect(x, 0, 1, this.height);
      for (const band of this.bands.filter((each) => each.kind === "lane")) {
        const { lane } = band;
        write(view, this.valueOf(lane, x), this.width, band.y + 12, "--ink", "right", true);
      }
      this.tell([...this.stepAt(x), ...this.bandAt(x, y)]);
    }

    tell(parts) {
      const text = parts.filter(Boolean).join(" · ");
      if (this.told.textContent !== text) this.told.textContent = text;
    }

    timeOf(x) { return this.from + (x / this.width) * (this.to - this.from); }

    inView() {
      const { steps } = this.data;
      const count = steps.index.length;
      const first = search(steps.end, this.from, 0, count, true);
      const last = search(steps.start, this.to, 0, count) - 1;
      const shown = quantity(this.to - this.from, "s");
      if (last < first) return [`${shown} in view`];
      if (last === first) return [stepName(steps, first), `${shown} in view`];
      return [`${stepName(steps, first)} to ${stepName(steps, last)}`, `${shown} in view`];
    }

    stepAt(x) {
      const { steps } = this.data;
      const time = this.timeOf(x);
      const i = search(steps.end, time, 0, steps.index.length, true);
      const when = `at ${(time).toFixed(6)} s`;
      if (i >= steps.index.length || steps.start[i] > time) return [when];
      const p = search(steps.phaseEnd, time, steps.firstPhase[i], steps.firstPhase[i + 1], true);
      const inside = p < steps.firstPhase[i + 1] && steps.phaseStart[p] <= time;
      return [
        [stepName(steps, i), ...flagsOf(steps, i, i + 1)].join(", "),
        inside ? steps.phase_names[steps.phase[p]] : "", when,
      ];
    }

    bandAt(x, y) {
      const band = this.bands.find((each) => y >= each.y && y < each.y + each.height);
      if (!band) return [];
      if (band.kind === "lane") {
        const { lane } = band;
        return [`${lane.name}: ${this.valueOf(lane, x)}, ${lane.status}, ${lane.source}`];
      }
      if (band.kind === "steps" || band.kind === "phases") return this.lengthAt(x);
      return band.kind === "row" ? this.operationAt(band.row, x) : [];
    }

    lengthAt(x) {
      const { steps } = this.data;
      const time = this.timeOf(x);
      const i = search(steps.end, time, 0, steps.index.length, true);
      if (i >= steps.index.length || steps.start[i] > time) return [];
      return [`takes ${quantity(steps.end[i] - steps.start[i], "s")}`];
    }

    operationAt(row, x) {
      const { start, end, label, labels, texts } = this.data.operations;
      const [begin, stop] = [this.timeOf(x), this.timeOf(x + 1)];
      const i = search(end, begin, row.first, row.last, true);
      if (i >= row.last || start[i] >= stop) return [];
      const [name, layer, phase] = labels[label[i]].map((n) => texts[n]);
      const others = search(start, stop, i, row.last) - i - 1;
      return [
        [name, layer, phase].filter(Boolean).join(", "), quantity(end[i] - start[i], "s"),
        others > 0 ? `and ${others.toLocaleString("en")} more at this place` : "",
      ];
    }

    // The value there; where a pixel holds several, the lowest and the highest of them.
    valueOf(lane, x) {
      const { t, value, unit, status, held } = lane;
      const [begin, stop] = [this.timeOf(x), this.timeOf(x + 1)];
      const [low, high] = [search(t, begin, 0, t.length), search(t, stop, 0, t.length)];
      if (high - low > 1) {
        const inside = value.subarray(low, high).filter((v) => v === v);
        if (!inside.length) return "not known";
        const ends = [inside.reduce((a, b) => Math.min(a, b)), inside.reduce((a, b) => Math.max(a, b))];
        return marked([...new Set(ends.map((v) => quantity(v, unit)))].join(" to "), status);
      }
      let i = low;
      if (!held && i && (i >= t.length || begin - t[i - 1] < t[i] - begin)) i -= 1;
      const far = i >= t.length || (i === 0 && t[0] > stop) || value[i] !== value[i];
      const after = !held && i === t.length - 1 && begin > t[i] + (t[i] - (t[i - 1] ?? t[i]));
      return far || after ? "not known" : marked(quantity(value[i], unit), status);
    }

    // --- moving --------------------------------------------------------------------------------

    show(from, to) {
      const span = Math.min(Math.max(to - from, LEAST), this.high - this.low);
      this.from = Math.min(Math.max(from, this.low), this.high - span);
      this.to = this.from + span;
      this.later();
    }

    zoom(factor, x = this.width / 2) {
      const span = Math.min(Math.max((this.to - this.from) * factor, LEAST), this.high - this.low);
      const from = this.timeOf(x) - (x / this.width) * span;
      this.show(from, from + span);
    }

    pan(pixels) {
      const by = (pixels / this.width) * (this.to - this.from);
      this.show(this.from + by, this.to + by);
    }

    // The step with a number, a quarter of the view on either side of it, and what happens there.
    jump(number) {
      const { steps } = this.data;
      const i = Math.max(search(steps.index, number, 0, steps.index.length, true) - 1, 0);
      const [start, end] = [steps.start[i], steps.end[i]];
      this.show(start - (end - start) / 2, end + (end - start) / 2);
      this.at = { x: this.width / 2, y: -1 };
    }

    place(event) {
      const box = this.canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    }

    // --- hearing -------------------------------------------------------------------------------

    listen() {
      const { canvas } = this;
      canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
      canvas.addEventListener("keydown", (event) => this.key(event));
      canvas.addEventListener("dblclick", () => this.show(this.low, this.high));
      canvas.addEventListener("pointerdown", (event) => this.press(event));
      canvas.addEventListener("pointermove", (event) => this.move(event));
      for (const name of ["pointerup", "pointercancel"]) {
        canvas.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
      }
      canvas.addEventListener("pointerleave", (event) => {
        if (event.pointerType === "touch") return; // a tap goes on showing what it told
        this.at = null;
        this.later();
      });
      this.strip.addEventListener("pointerdown", (event) => this.seek(event));
      this.strip.addEventListener("pointermove", (event) => event.buttons && this.seek(event));
      this.find("jump").addEventListener("change", (event) => {
        if (event.target.value !== "") this.jump(Number(event.target.value));
      });
      const moving = this.section.querySelectorAll("button");
      const title = this.section.querySelector("h3").textContent;
      this.find("images").append(...images.buttons(this.section, title, (format, name) => (
        images.save(this.picture(), format, name))));
      for (const button of moving) {
        button.addEventListener("click", () => this.pressed(button));
      }
      new ResizeObserver(() => {
        if (this.find("view").clientWidth !== this.width) this.resize();
      }).observe(this.find("view"));
      dark.addEventListener("change", () => this.resize());
      document.addEventListener("wattstep:theme", () => this.resize());
      window.addEventListener("beforeprint", () => this.resize());
      window.addEventListener("afterprint", () => this.resize());
    }

    // The wheel scrolls the page until the timeline was clicked, or with Ctrl.
    wheel(event) {
      const mine = event.ctrlKey || event.metaKey || document.activeElement === this.canvas;
      if (!mine) return;
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX * lines);
      else this.zoom(Math.exp(event.deltaY * lines * WHEEL), this.place(event).x);
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const moves = {
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        ArrowLeft: () => this.pan(-this.width / 8), ArrowRight: () => this.pan(this.width / 8),
        Home: () => this.show(this.low, this.high),
      };
      if (!(event.key in moves)) return;
      event.preventDefault();
      moves[event.key]();
    }

    press(event) {
      this.canvas.focus({ preventScroll: true });
      this.canvas.setPointerCapture(event.pointerId);
      this.at = this.place(event);
      this.pointers.set(event.pointerId, this.at);
      this.later();
    }

    // One pointer pans; two also zoom, and what is under them stays there.
    move(event) {
      const now = this.place(event);
      const before = this.pointers.get(event.pointerId);
      this.at = now;
      if (!before) {
        this.later();
        return;
      }
      const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
      this.pointers.set(event.pointerId, now);
      if (!others.length) {
        this.pan(before.x - now.x);
        return;
      }
      const [, still] = others[0];
      const apart = Math.max(Math.abs(now.x - still.x), 8);
      this.zoom(Math.max(Math.abs(before.x - still.x), 8) / apart, still.x);
    }

    seek(event) {
      const box = this.strip.getBoundingClientRect();
      const at = this.low + ((event.clientX - box.left) / box.width) * (this.high - this.low);
      const half = (this.to - this.from) / 2;
      this.show(at - half, at + half);
    }

    pressed(button) {
      const { group, act, zoom } = button.dataset;
      if (zoom) {
        const [from, to] = this.data.zooms[zoom];
        const margin = (to - from) / 50;
        this.show(from - margin, to + margin);
      } else if (group) {
        const hides = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!hides));
        if (hides) this.hidden.add(group);
        else this.hidden.delete(group);
        this.resize();
      } else if (act === "all") {
        this.show(this.low, this.high);
      } else {
        this.zoom(act === "in" ? 0.5 : 2);
      }
    }
  }

  const timelines = [...document.querySelectorAll(".lanes")].map((each) => new Timeline(each));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      watcher.unobserve(entry.target);
      timelines.find((each) => each.section === entry.target).load();
    }
  }, { rootMargin: "300px" });
  // The data stand at the end of the page.
  document.addEventListener("DOMContentLoaded", async () => {
    timelines.forEach((each) => watcher.observe(each.section));
    // The first is read in pieces at once: plotly, which starts in one, would hold it up.
    try {
      await timelines[0]?.load();
    } finally {
      window.dispatchEvent(new Event("wattstep:timeline"));
    }
  });
  window.addEventListener("load", () => setTimeout(async () => {
    for (const each of timelines) await each.load();
  }, IDLE));
})();
