"use strict";
// Filters, sorts and refreshes the list of runs. Names only ever reach it in HTML that the server
// wrote and escaped; the page's policy lets no other script run.
(() => {
  const table = document.getElementById("runs");
  if (!table) return;
  const body = table.tBodies[0];
  const filters = document.getElementById("filters");
  const chosen = document.getElementById("chosen");
  const shown = document.getElementById("shown");
  const all = document.getElementById("all");
  const QUICK = 2000, SLOW = 8000;

  // --- filter -----------------------------------------------------------------------------------
  function filter() {
    const words = filters.elements.q.value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = filters.elements.state.value;
    let count = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      const fits = (!state || row.dataset.state === state) && words.every((word) => text.includes(word));
      row.hidden = !fits;
      if (!fits) row.querySelector("input:checked")?.click();
      count += fits;
    }
    shown.firstElementChild.textContent = `${count} of ${body.rows.length} shown`;
    const address = new URL(location.href);
    for (const [name, value] of [["q", filters.elements.q.value], ["state", state]]) {
      if (value) address.searchParams.set(name, value); else address.searchParams.delete(name);
    }
    address.searchParams.delete("moved");
    history.replaceState(null, "", address);
  }
  filters.elements.q.addEventListener("input", filter);
  filters.elements.state.addEventListener("change", filter);

  // --- sort -------------------------------------------------------------------------------------
  const cellOf = (row, key) => row.querySelector(key === "batch" ? ".batch" : key === "place" ? ".place" : `[data-key="${key}"]`);
  const numberOf = (row, key) => {
    const text = cellOf(row, key)?.dataset.number;
    return text === undefined || text === "" ? null : Number(text);
  };
  function sort(order) {
    const down = order.startsWith("-"), key = order.replace(/^-/, ""), sign = down ? -1 : 1;
    const head = table.querySelector(`.sorts[data-key="${key}"]`);
    const numeric = head ? head.dataset.numeric === "1" : key === "batch";
    const rows = [...body.rows].sort((a, b) => {
      if (!numeric) {
        const [x, y] = [a, b].map((row) => cellOf(row, key)?.textContent.trim() ?? "");
        return sign * x.localeCompare(y, "en", { numeric: true });
      }
      const [x, y] = [numberOf(a, key), numberOf(b, key)];
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (x - y);
    });
    body.append(...rows);
    table.dataset.sort = order;
    filters.elements.sort.value = order;
    table.querySelectorAll("[aria-sort]").forEach((each) => each.removeAttribute("aria-sort"));
    head?.closest("th").setAttribute("aria-sort", down ? "descending" : "ascending");
    const address = new URL(location.href);
    address.searchParams.set("sort", order);
    history.replaceState(null, "", address);
  }
  table.querySelectorAll(".sorts").forEach((link) => {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const key = link.dataset.key, was = table.dataset.sort;
      const first = link.dataset.numeric === "1" ? `-${key}` : key;
      sort(was === first ? (first === key ? `-${key}` : key) : first);
    });
  });
  filters.elements.sort.addEventListener("change", () => sort(filters.elements.sort.value));

  // --- choose -----------------------------------------------------------------------------------
  const boxes = () => [...body.querySelectorAll("input[name=run]")];
  function count() {
    const marked = boxes().filter((box) => box.checked).length;
    chosen.querySelector(".count b").textContent = marked ? `${marked} chosen:` : "Choose runs to";
    chosen.querySelectorAll("button").forEach((button) => {
      button.disabled = marked < (button.formAction.endsWith("/compare") ? 2 : 1);
    });
    // One sweep is compared by what it holds.
    const one = marked === 1 && boxes().find((box) => box.checked).closest("tr");
    if (one && (one.classList.contains("kind-sweep") || one.classList.contains("kind-daily"))) {
      chosen.querySelector("[formaction='/compare']").disabled = false;
    }
  }
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const row of body.rows) {
      const box = row.querySelector("input[name=run]");
      if (box && !row.hidden) box.checked = all.checked;
    }
    count();
  });
  body.addEventListener("change", count);
  window.addEventListener("pageshow", count);  // a browser that goes back keeps what was ticked

  // --- refresh ----------------------------------------------------------------------------------
  let wait = 700;
  async function refresh() {
    try {
      if (document.visibilityState === "visible") await update();
    } catch {
      wait = SLOW;  // the server ended, or will answer again later
    }
    setTimeout(refresh, wait);
  }
  async function update() {
    const answer = await fetch(`/changes?since=${encodeURIComponent(table.dataset.version)}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const { version, rows, gone, pending } = await answer.json();
    wait = pending ? QUICK : SLOW;
    if (String(version) === table.dataset.version) return;
    table.dataset.version = version;
    for (const id of gone) document.getElementById(`e-${id}`)?.remove();
    for (const [id, html] of Object.entries(rows)) {
      const holder = document.createElement("template");
      holder.innerHTML = `<table><tbody>${html}</tbody></table>`;
      const row = holder.content.querySelector("tr");
      const old = document.getElementById(`e-${id}`);
      if (old) {
        const box = row.querySelector("input[name=run]");
        if (box) box.checked = old.querySelector("input[name=run]")?.checked ?? false;
        old.replaceWith(row);
      } else {
        body.append(row);
      }
    }
    sort(table.dataset.sort);
    filter();
    count();
  }
  count();
  setTimeout(refresh, wait);
})();
