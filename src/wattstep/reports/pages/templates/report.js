"use strict";
// Draws the charts as they come into view, in the colours of the theme, and sorts tables.
// Data only ever reach the page as text: nothing here writes HTML.
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const drawn = new Set();
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
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

  function draw(element) {
    const chart = charts[element.id];
    const config = {
      responsive: true, displaylogo: false,
      displayModeBar: chart.tools && !coarse ? "hover" : false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    };
    drawn.add(element);
    return Plotly.react(element, themed(chart.data, ""), layoutOf(chart), config);
  }

  const places = [...document.querySelectorAll(".chart")];
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "600px" });
  places.forEach((place) => watcher.observe(place));

  dark.addEventListener("change", () => drawn.forEach(draw));
  window.addEventListener("beforeprint", () => {
    places.filter((place) => !drawn.has(place)).forEach(draw);
    drawn.forEach((place) => Plotly.Plots.resize(place));
  });
  document.querySelectorAll("details").forEach((details) => {
    details.addEventListener("toggle", () => {
      drawn.forEach((place) => details.contains(place) && Plotly.Plots.resize(place));
    });
  });

  // Sorting: numbers from large to small first; what is missing stays at the end.
  const textOf = (cell) => cell.textContent.trim();
  const numberOf = (cell) => ("number" in cell.dataset ? Number(cell.dataset.number) : null);
  function sort(table, index, numeric, sign) {
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((a, b) => {
      const [left, right] = [a.cells[index], b.cells[index]];
      if (!numeric) {
        return sign * textOf(left).localeCompare(textOf(right), "en", { numeric: true });
      }
      const [x, y] = [numberOf(left), numberOf(right)];
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (x - y);
    });
    body.append(...rows);
  }
  document.querySelectorAll("table.sortable").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      const numeric = head.classList.contains("number");
      button.addEventListener("click", () => {
        const was = head.getAttribute("aria-sort");
        const order = was ? (was === "ascending" ? "descending" : "ascending")
          : (numeric ? "descending" : "ascending");
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        sort(table, index, numeric, order === "ascending" ? 1 : -1);
      });
    });
  });
})();
