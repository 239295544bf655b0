"use strict";
// Draws the charts in the colours of the theme that the reader chose; sorts,
// filters and copies tables. Data only ever reach the page as text: nothing here writes HTML.
(() => {
  let charts = {};
  const drawn = new Set();
  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const coarse = window.matchMedia("(pointer: coarse)").matches;

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Replaces names of colours ("--forward") by the colours that the theme gives them.
  const isColor = (key) => key === "color" || key.endsWith("color");
  function themed(thing, key) {
    if (Array.isArray(thing)) return thing.map((each) => themed(each, key));
    if (thing && typeof thing === "object") {
      return Object.fromEntries(Object.entries(thing).map(([k, v]) => [k, themed(v, k)]));
    }
    return typeof thing === "string" && isColor(key) && thing.startsWith("--") ? css(thing) : thing;
  }

  function layoutOf(chart) {
    const layout = themed(chart.layout, "");
    const ink = css("--ink");
    layout.autosize = true;
    layout.paper_bgcolor = "rgba(0,0,0,0)";
    layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: css("--font"), size: 12, color: ink };
    layout.hoverlabel = {
      bgcolor: css("--surface"), bordercolor: css("--rule"), align: "left",
      font: { family: css("--font"), size: 12, color: ink },
    };
    layout.hovermode = "closest";
    layout.dragmode = chart.tools && !coarse ? "zoom" : false;
    for (const key of Object.keys(layout)) {
      if (!/^[xy]axis\d*$/.test(key)) continue;
      layout[key] = {
        gridcolor: css("--grid"), linecolor: css("--rule"), zerolinecolor: css("--rule"),
        tickfont: { size: 11, color: css("--ink-soft") }, ...layout[key],
      };
    }
    return layout;
  }

  // Charts and plotly are unpacked while nothing waits for them; plotly runs when it is needed: that
  // takes as long as all the rest. What is there is painted first, and the first timeline; then all
  // charts in view or further down are drawn, one by one, before the page counts as loaded: what
  // takes its picture or prints it then finds no empty place. Those folded away wait to be opened.
  const script = document.createElement("script");
  const event = (target, kind) => new Promise((resolve) => {
    target.addEventListener(kind, resolve, { once: true });
  });
  const timeline = document.querySelector(".lanes") ? event(window, "wattstep:timeline") : null;
  const unpacked = event(document, "DOMContentLoaded").then(async () => {
    const packed = (id) => unpack.text(document.getElementById(id).textContent);
    charts = JSON.parse(await packed("charts"));
    if (places.length) script.textContent = await packed("plotly");
  });
  event(document, "DOMContentLoaded").then(() => unpack.beforeLoad(async () => {
    await unpacked;
    await timeline;
    for (const place of places) {
      await unpack.painted();
      if (!drawn.has(place) && place.offsetParent !== null) await draw(place);
    }
  }));
  function ready() {
    if (!window.Plotly) document.head.append(script);
  }

  function draw(place) {
    ready();
    const chart = charts[place.id];
    const config = {
      responsive: true, displaylogo: false,
      displayModeBar: chart.tools && !coarse ? "hover" : false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    };
    drawn.add(place);
    return Plotly.react(place, themed(chart.data, ""), layoutOf(chart), config);
  }

  const places = [...document.querySelectorAll(".chart")];
  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      Promise.all([unpacked, timeline]).then(unpack.painted).then(() => drawn.has(target) || draw(target));
    }
  }, { rootMargin: "600px" });
  document.addEventListener("DOMContentLoaded", () => {
    places.forEach((place) => watcher.observe(place));
    places.forEach(offerImages);
  });

  // Every chart as a file, in the colours that it has.
  function offerImages(place) {
    const title = (place.getAttribute("aria-label") || place.id).replace("Chart: ", "");
    const buttons = images.buttons(place, title, async (format, filename) => {
      await unpacked;
      await draw(place);
      Plotly.downloadImage(place, { format, scale: format === "png" ? 2 : 1, filename });
    });
    place.after(element("div", { className: "tools images" }, ...buttons));
  }

  document.querySelectorAll("details").forEach((details) => {
    details.addEventListener("toggle", () => {
      drawn.forEach((place) => details.contains(place) && Plotly.Plots.resize(place));
    });
  });

  // --- Theme: that of the system, unless the reader chooses one. -----------------------------------
  // The rules of the dark theme stand in the style once, for systems that are dark; here they are
  // made to hold always, or never. Others who draw in colours listen to "wattstep:theme".
  const THEME = "wattstep-theme";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const darkRules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
    .filter((rule) => rule.media && rule.media.mediaText.includes("prefers-color-scheme: dark"))
    .map((rule) => ({ media: rule.media, text: rule.media.mediaText }));
  const remembered = () => {
    try { return localStorage.getItem(THEME); } catch { return null; } // a file may have no storage
  };
  const remember = (theme) => {
    try { localStorage.setItem(THEME, theme); } catch { /* it holds until the page is closed */ }
  };
  function wear(theme) {
    for (const { media, text } of darkRules) {
      media.mediaText = { auto: text, dark: "screen", light: "not all" }[theme];
    }
    document.documentElement.style.colorScheme = theme === "auto" ? "" : theme;
    drawn.forEach(draw);
    document.dispatchEvent(new CustomEvent("wattstep:theme", { detail: theme }));
  }
  let theme = ["light", "dark"].includes(remembered()) ? remembered() : "auto";
  dark.addEventListener("change", () => theme === "auto" && wear("auto"));
  const header = document.querySelector("header.page");
  if (header) {
    const choice = element("select", {}, ...["auto", "light", "dark"].map((each) => (
      element("option", { value: each, textContent: each, selected: each === theme }))));
    choice.addEventListener("change", () => { theme = choice.value; remember(theme); wear(theme); });
    header.prepend(element("label", { className: "theme", textContent: "Colours " }, choice));
  }
  if (theme !== "auto") wear(theme);

  // On paper: light colours and every chart; details as the reader left them; then all as it was.
  // The page takes the width of a sheet first, so that what is drawn fits it.
  window.addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    const seen = script.textContent ? places.filter((place) => place.offsetParent !== null) : [];
    seen.forEach((place) => drawn.add(place));
    wear("light");
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    wear(theme);
  });

  // --- Tables: sorted, filtered, copied; of thousands of rows the first are shown. ------------------
  const DRAWN = 40;
  const FILTERED_FROM = 9; // rows; fewer are seen at a glance
  const COPIED_FROM = 3;
  const EXACT = ["number", "unit", "status", "low", "high"];
  const words = new Intl.Collator("en", { numeric: true });
  const counted = new Intl.NumberFormat("en");

  // A cell as the page has it, or as the block of further rows has it.
  function cellOf(place, column) {
    const exact = Object.fromEntries(EXACT.map((name) => [name, place.dataset[name] ?? ""]));
    return complete({ ...exact, text: place.textContent.trim(), title: place.title }, column);
  }
  // The rows of a block: it has them by columns (report/tables.py `Table.more`).
  function rowsOf(more) {
    if (!more) return [];
    return more.places.map((place, row) => more.columns.map((column) => {
      if (Array.isArray(column)) return column[row];
      if (!column.value[row]) return null;
      const parts = Object.entries(column).map(([name, all]) => (
        [name, Array.isArray(all) ? all[row] : place + all]));
      return Object.fromEntries(parts.filter(([, part]) => part));
    }));
  }
  function figureCell(given, column) {
    if (given === null || typeof given === "string") return complete({ text: given ?? "" }, column);
    return complete({ ...given, text: textOf(given, column) }, column);
  }
  const textOf = (given, column) => {
    if (!("number" in given)) return "missing";
    const status = column.status ? "" : ` ${given.status}`;
    return `${given.value}${given.interval ? ` (${given.interval})` : ""}${status}`;
  };
  function complete(cell, column) {
    if (cell.number || cell.status) {
      cell.status ||= column.status;
      cell.unit ||= column.unit;
    }
    cell.text = cell.text.replaceAll(/\s+/g, " ");
    cell.reason = cell.status === "missing" ? cell.title : "";
    cell.value = cell.number ? Number(cell.number) : null;
    return cell;
  }

  // The same cell as the macro `cell` of parts.html makes.
  function drawCell(given, column, first) {
    if (first) return element("th", { scope: "row" }, named(given ?? ""));
    const rare = column.rare ? ["rare"] : [];
    if (typeof given === "string") return element("td", rare.length ? { className: "rare" } : {}, named(given));
    const place = element("td", { className: "number" });
    if (given === null) {
      place.classList.add(...rare);
      return place;
    }
    const status = given.status ?? column.status;
    place.classList.add(status, ...rare);
    for (const name of ["figure", ...EXACT]) if (given[name]) place.dataset[name] = given[name];
    if (given.title) place.title = given.title;
    place.append("number" in given ? given.value : "missing");
    if (given.interval) place.append(" ", element("small", { textContent: `(${given.interval})` }));
    if (!column.status && "number" in given) {
      place.append(" ", element("span", { className: `badge ${status}`, textContent: status }));
    }
    return place;
  }
  function named(text) {
    if (text.length <= 20) return text;
    const long = text.length > 120;
    return element("span", {
      className: long ? "name long" : "name", title: long ? text : "", textContent: text,
    });
  }

  class Rows {
    constructor(table, more) {
      this.table = table;
      this.heads = [...table.tHead.rows[0].cells];
      this.columns = this.heads.map((head) => ({
        label: (head.querySelector(".label") ?? head).textContent.trim(),
        key: head.dataset.key ?? "",
        numeric: head.classList.contains("number"),
        status: head.dataset.status ?? "", unit: head.dataset.unit ?? "",
        rare: head.classList.contains("rare"),
      }));
      this.rows = [...table.tBodies[0].rows].map((place) => ({
        place, cells: [...place.cells].map((cell, at) => cellOf(cell, this.columns[at])),
      }));
      for (const given of rowsOf(more)) {
        this.rows.push({ given, cells: given.map((cell, at) => figureCell(cell, this.columns[at])) });
      }
      for (const row of this.rows) {
        row.words = row.cells.map((cell) => cell.text.toLowerCase());
      }
      this.shown = this.rows; // as sorted and filtered
      this.tests = [];
      this.all = false;
    }

    // Numbers from large to small first; what is missing stays at the end.
    sort(at, sign) {
      const { numeric } = this.columns[at];
      this.rows.sort(({ cells: a }, { cells: b }) => {
        const [left, right] = [a[at], b[at]];
        if (!numeric) return sign * words.compare(left.text, right.text);
        if (left.value === null || right.value === null) {
          return (left.value === null) - (right.value === null);
        }
        return sign * (left.value - right.value);
      });
      this.keep();
    }

    filter(text) {
      this.tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word, at) => (
        this.test(word, text.split(/\s+/).filter(Boolean)[at])));
      this.keep();
    }

    // "conv" in any cell; "phase:backward" in one column; "time>1ms" a number of one.
    test(word, asWritten) {
      const parts = /^([\p{L}_/-]+)(:|>=|<=|>|<|=)(.+)$/u.exec(word);
      const at = parts ? this.columnOf(parts[1]) : -1;
      const bound = at < 0 ? null : boundOf(asWritten.slice(parts[1].length + parts[2].length),
        this.columns[at]);
      const compare = { ">": (a) => a > bound, "<": (a) => a < bound, ">=": (a) => a >= bound,
        "<=": (a) => a <= bound, "=": (a) => a === bound }[parts?.[2]];
      if (compare && bound !== null) {
        return ({ cells }) => cells[at].value !== null && compare(cells[at].value);
      }
      if (at >= 0 && parts[2] === ":") return (row) => row.words[at].includes(parts[3]);
      return (row) => row.words.some((each) => each.includes(word));
    }

    columnOf(name) {
      const spelt = name.replaceAll("_", "");
      const labels = this.columns.map(({ label }) => label.toLowerCase().replaceAll(/[\s_]/g, ""));
      const exactly = labels.indexOf(spelt);
      if (exactly >= 0) return exactly;
      const keys = this.columns.map(({ key }) => key.replaceAll("_", ""));
      return keys.includes(spelt) ? keys.indexOf(spelt)
        : labels.findIndex((label) => label.startsWith(spelt));
    }

    keep() {
      this.shown = this.rows.filter((row) => this.tests.every((test) => test(row)));
      this.draw();
    }

    draw() {
      const some = this.all ? this.shown : this.shown.slice(0, DRAWN);
      for (const row of some) {
        row.place ??= element("tr", {}, ...row.given.map((cell, at) => (
          drawCell(cell, this.columns[at], at === 0))));
      }
      this.table.tBodies[0].replaceChildren(...some.map((row) => row.place));
    }

    // What one would paste into a text: cells as they stand, the status of a column in its heading.
    written() {
      const few = this.table.classList.contains("few");
      const seen = (cells) => cells.filter((_, at) => !(few && this.columns[at].rare));
      const heading = this.columns.map(({ label, status }) => label + (status && `, ${status}`));
      return [seen(heading), ...this.shown.map(({ cells }) => seen(cells).map((cell) => cell.text))];
    }

    // Every number with all its digits, and what belongs to it in columns of its own.
    copied() {
      const parts = this.columns.map(({ label, numeric }, at) => {
        const used = (name) => this.rows.some(({ cells }) => cells[at][name]);
        const numbers = numeric && used("number");
        const beside = [...EXACT.slice(1), "reason"].filter((name) => numbers && used(name));
        return [[label, (cell) => (numbers ? cell.number ?? "" : inert(cell.text))],
          ...beside.map((name) => [`${label}, ${name}`, (cell) => cell[name] ?? ""])];
      });
      const heading = parts.flat().map(([label]) => label);
      return [heading, ...this.shown.map(({ cells }) => (
        parts.flatMap((columns, at) => columns.map(([, of]) => of(cells[at])))))];
    }
  }

  // A bound such as "1ms" in the unit of a column; null where it is none.
  function boundOf(text, column) {
    const parts = /^(-?[\d.]+(?:e[+-]?\d+)?)(\D*)$/.exec(text);
    if (!parts || Number.isNaN(Number(parts[1]))) return null;
    const [, number, unit] = parts;
    if (unit === "%") return Number(number) / 100;
    const prefix = unit && unit.toLowerCase().endsWith(column.unit.toLowerCase())
      ? unit.slice(0, unit.length - column.unit.length) : unit;
    const power = { "": 0, p: -12, n: -9, u: -6, "µ": -6, "μ": -6, m: -3, k: 3, K: 3, M: 6, G: 9, T: 12, P: 15 }[prefix];
    return power === undefined ? null : Number(`${number}e${power}`);
  }

  // A spreadsheet must not take a name for a formula.
  const inert = (text) => (/^[=+\-@]/.test(text) ? `'${text}` : text);
  const tabbed = (lines) => lines.map((line) => line.join("\t")).join("\n") + "\n";
  const markdown = ([heading, ...lines]) => [heading, heading.map(() => "---"), ...lines]
    .map((line) => `| ${line.map(escaped).join(" | ")} |`).join("\n") + "\n";
  const escaped = (text) => text.replaceAll(/[\\`*_[\]<>|~&]/g, "\\$&");

  // A page in a file may not reach the clipboard: then the text stands there, marked, to be taken.
  async function copy(text, tools, say) {
    tools.querySelector("textarea")?.remove();
    try {
      await navigator.clipboard.writeText(text);
      return say("copied");
    } catch {
      const field = element("textarea", { value: text, readOnly: true, rows: 4 });
      field.setAttribute("aria-label", "What is to be copied");
      tools.append(field);
      field.focus();
      field.select();
      if (document.execCommand("copy")) { field.remove(); return say("copied"); }
      return say("press Ctrl+C to copy");
    }
  }

  async function equip(table, number) {
    const box = table.parentElement;
    const more = box.querySelector("script.rows");
    const rows = new Rows(table, more ? JSON.parse(await unpack.text(more.textContent)) : null);
    const count = element("span", { className: "count" });
    count.setAttribute("role", "status");
    const all = element("button", { type: "button", textContent: "Show all" });
    function tell(done = "") {
      const [shown, of] = [rows.shown.length, rows.rows.length].map((n) => counted.format(n));
      const seen = rows.all || rows.shown.length <= DRAWN ? "" : `, the first ${DRAWN} are shown`;
      const what = rows.tests.length ? `${shown} of ${of} rows` : `${of} rows`;
      count.textContent = `${what}${seen}${done && `; ${done}`}`;
      all.hidden = !seen;
    }
    rows.heads.forEach((head, at) => {
      const button = element("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const was = head.getAttribute("aria-sort");
        const order = was ? (was === "ascending" ? "descending" : "ascending")
          : (rows.columns[at].numeric ? "descending" : "ascending");
        rows.heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        rows.sort(at, order === "ascending" ? 1 : -1);
      });
    });
    const tools = element("div", { className: "tools" });
    const many = rows.rows.length >= FILTERED_FROM;
    if (many) tools.append(filterOf(rows, number, tell), count, all);
    all.addEventListener("click", () => { rows.all = true; rows.draw(); tell(); });
    const copies = {
      "Copy": [() => tabbed(rows.copied()), "a spreadsheet, numbers with all digits"],
      "Markdown": [() => markdown(rows.written()), "a Markdown text, as they stand"],
    };
    const group = element("span", { className: "copies" });
    if (table.classList.contains("few")) group.append(columnsOf(table, rows.columns.length));
    for (const [label, [spell, target]] of Object.entries(copies)) {
      const button = element("button", { type: "button", textContent: label });
      button.title = `Copy the rows that are shown for ${target}`;
      button.addEventListener("click", () => copy(spell(), tools, (done) => {
        tell(done);
        if (!many) count.textContent = done;
      }));
      group.append(button);
    }
    tools.append(group);
    if (!many) group.before(count);
    tell();
    if (!many) count.textContent = "";
    if (rows.rows.length >= COPIED_FROM || table.classList.contains("few")) box.before(tools);
    resized.observe(box);
    box.addEventListener("scroll", () => shade(table), { passive: true });
  }

  // The columns that few ask for, on request.
  function columnsOf(table, count) {
    const button = element("button", { type: "button" });
    const name = () => {
      const few = table.classList.contains("few");
      button.textContent = few ? `All ${count} columns` : "Fewer columns";
    };
    button.addEventListener("click", () => { table.classList.toggle("few"); name(); shade(table); });
    name();
    return button;
  }

  // Marks a table that goes on beyond its right edge.
  function shade(table) {
    const box = table.parentElement;
    box.toggleAttribute("data-more", box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  }
  const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => (
    shade(target.querySelector("table")))));

  function filterOf(rows, number, tell) {
    const id = `filter-${number}`;
    const field = element("input", {
      type: "search", id, autocomplete: "off", spellcheck: false, placeholder: hintOf(rows.columns),
      title: "Words in any cell; column:word; column>number. All of them must be true of a row.",
    });
    field.addEventListener("input", () => { rows.filter(field.value); tell(); });
    const label = element("label", { textContent: "Filter " }, field);
    label.htmlFor = id;
    return label;
  }
  function hintOf(columns) {
    const [word, number] = ["phase", "time"].map((key) => columns.some((each) => each.key === key));
    return `words${word ? ", phase:backward" : ""}${number ? ", time>1ms" : ""}`;
  }

  document.querySelectorAll("table.sortable").forEach(equip);
})();
