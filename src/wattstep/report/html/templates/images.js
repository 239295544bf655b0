"use strict";
// Charts as files: two buttons for each; and pictures of what the page draws without plotly.
const images = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MARGIN = 8; // pixels
  const SCALE = 2; // pixels of a PNG for each of the page
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (number) => Math.round(100 * number) / 100;

  // Rectangles and lines, as in a Path2D.
  class Path {
    d = "";
    moveTo(x, y) { this.d += `M${short(x)} ${short(y)}`; }
    lineTo(x, y) { this.d += `L${short(x)} ${short(y)}`; }
    rect(x, y, width, height) {
      this.d += `M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}z`;
    }
  }

  // As much of a canvas's context as the page draws with. What is drawn becomes elements, and names
  // their text: none of it is ever read as markup.
  class Drawing {
    lineWidth = 1;
    dash = [];

    constructor(width, height) {
      this.measure = document.createElement("canvas").getContext("2d");
      this.root = document.createElementNS(SVG, "svg");
      Object.assign(this, { width, height });
      const corner = { x: -MARGIN, y: -MARGIN, width: "100%", height: "100%" };
      this.add("rect", { ...corner, fill: css("--surface") });
    }

    add(tag, attributes) {
      const made = document.createElementNS(SVG, tag);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      this.root.append(made);
      return made;
    }

    beginPath() { this.path = new Path(); }
    moveTo(x, y) { this.path.moveTo(x, y); }
    lineTo(x, y) { this.path.lineTo(x, y); }
    setLineDash(dash) { this.dash = dash; }
    setTransform() {} // every number is one of the page's own pixels
    clearRect() {}

    stroke() {
      if (!this.path.d) return;
      this.add("path", {
        d: this.path.d, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth,
        ...(this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {}),
      });
    }

    fill(path) { this.add("path", { d: path.d, fill: this.fillStyle }); }

    fillRect(x, y, width, height) {
      this.add("rect", {
        x: short(x), y: short(y), width: short(width), height: short(height), fill: this.fillStyle,
      });
    }

    measureText(text) {
      this.measure.font = this.font;
      return this.measure.measureText(text);
    }

    fillText(text, x, y) {
      const anchor = { center: "middle", right: "end" }[this.textAlign] ?? "start";
      const place = { x: short(x), y: short(y), fill: this.fillStyle, "text-anchor": anchor };
      this.add("text", { ...place, style: `font: ${this.font}` }).textContent = text;
    }

    // Swatches with their names in lines as wide as the picture, the first of them at y.
    key(entries, y) {
      let [x, line] = [0, y];
      for (const [color, name] of entries) {
        const width = 30 + this.measureText(name).width;
        if (x && x + width > this.width) [x, line] = [0, line + 18];
        this.fillStyle = color;
        this.fillRect(x, line - 9, 10, 10);
        this.fillStyle = css("--ink-soft");
        this.fillText(name, x + 15, line);
        x += width;
      }
      return line;
    }

    get size() { return [this.width, this.height].map((each) => Math.ceil(each) + 2 * MARGIN); }

    get text() {
      const [width, height] = this.size;
      const attributes = { width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}` };
      for (const [name, value] of Object.entries(attributes)) this.root.setAttribute(name, value);
      return new XMLSerializer().serializeToString(this.root);
    }
  }

  async function rastered(drawing, url) {
    const image = Object.assign(new Image(), { src: url });
    await image.decode();
    const [width, height] = drawing.size.map((each) => SCALE * each);
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    canvas.getContext("2d").drawImage(image, 0, 0, width, height);
    return URL.createObjectURL(await new Promise((resolve) => { canvas.toBlob(resolve); }));
  }

  async function save(drawing, format, name) {
    const svg = URL.createObjectURL(new Blob([drawing.text], { type: "image/svg+xml" }));
    const href = format === "svg" ? svg : await rastered(drawing, svg);
    Object.assign(document.createElement("a"), { href, download: `${name}.${format}` }).click();
    setTimeout(() => [svg, href].forEach(URL.revokeObjectURL), 60_000); // ms: it is being saved
  }

  // A button for each format; `saved` is called with it and with a name for the file: what is shown,
  // and of which run.
  function buttons(place, title, saved) {
    const run = (place.closest("article:has(> header)") ?? document).querySelector("h1, h2");
    const name = `${run?.textContent ?? ""} ${title}`.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-|-$/g, "");
    return ["png", "svg"].map((format) => {
      const button = document.createElement("button");
      const words = { textContent: format.toUpperCase(), title: `Save this chart as ${format.toUpperCase()}` };
      Object.assign(button, { type: "button", ...words });
      button.addEventListener("click", () => saved(format, name));
      return button;
    });
  }

  // The bars of the first screen, below each of them its key.
  function divided(section) {
    const drawing = new Drawing(760, 0);
    drawing.font = `13px ${css("--font")}`;
    const words = (place) => place.textContent.replaceAll(/\s+/g, " ").trim();
    for (const group of section.querySelectorAll(":scope > div:not(.images)")) {
      for (const bar of group.querySelectorAll(".bar")) {
        drawing.fillStyle = css("--ink");
        drawing.fillText(words(bar.querySelector(".of")), 0, drawing.height + 12);
        let x = 0;
        for (const part of bar.querySelectorAll(".segments > span")) {
          drawing.fillStyle = getComputedStyle(part).backgroundColor;
          const width = Number(part.style.flexGrow) * drawing.width;
          drawing.fillRect(x, drawing.height + 20, width, 22);
          x += width;
        }
        drawing.height += 50;
      }
      const entries = [...group.querySelectorAll(".part")].map((part) => [
        getComputedStyle(part.querySelector(".swatch")).backgroundColor,
        [...part.children].map(words).filter(Boolean).join(" "),
      ]);
      drawing.height = drawing.key(entries, drawing.height + 8) + 14;
    }
    return drawing;
  }

  for (const section of document.querySelectorAll(".divided")) {
    const box = Object.assign(document.createElement("div"), { className: "tools images" });
    box.append(...buttons(section, section.getAttribute("aria-label"), (format, name) => (
      save(divided(section), format, name))));
    section.append(box);
  }

  return { Drawing, Path, buttons, save };
})();
