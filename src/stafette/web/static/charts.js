// Draws every element with data-chart as it comes into view: fetches its points, and again whenever the page is
// refreshed. Plotly is large, so it is loaded for the first chart somebody sees. Colours come from the style sheet, so
// that a chart follows the theme; the same figures stand in a table behind it.
"use strict";
(() => {
  const PLOTLY = document.currentScript.dataset.plotly;
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => value === null ? "–" : Number(value.toPrecision(4)).toLocaleString("en");

  // Whether some value has no neighbour, so that a line alone would not show it.
  const lonely = (values) => values.some((value, i) => value !== null && (values[i - 1] ?? values[i + 1] ?? null) === null);

  const layout = (found) => ({
    margin: { l: 56, r: 12, t: 8, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("--ink"), family: "inherit", size: 12 },
    hovermode: "x unified",
    hoverlabel: { bgcolor: colour("--panel"), font: { color: colour("--ink") } },
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: { type: "date", range: [found.from, found.to], gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false },
    yaxis: { title: { text: found.unit }, rangemode: "tozero", gridcolor: colour("--line"), zerolinecolor: colour("--line") },
  });

  const table = (element, found) => {
    const place = document.getElementById(`${element.id}-table`);
    if (!place) return;
    const rows = [["Time (UTC)", ...found.lines.map((line) => `${line.name} (${found.unit})`)]];
    found.at.forEach((at, i) => rows.push([at.slice(0, 19).replace("T", " "), ...found.lines.map((line) => short(line.values[i]))]));
    place.replaceChildren(...rows.map((cells, n) => {
      const row = document.createElement("tr");
      row.append(...cells.map((text) => {
        const cell = document.createElement(n ? "td" : "th");
        if (!n) cell.scope = "col";
        cell.textContent = text;
        return cell;
      }));
      return row;
    }));
  };

  let loading = null;
  const plotly = () => loading ??= new Promise((loaded, failed) => {
    const script = document.createElement("script");
    script.src = PLOTLY;
    script.onload = loaded;
    script.onerror = failed;
    document.head.append(script);
  });

  const draw = async (element) => {
    const [answer] = await Promise.all([fetch(element.dataset.chart, { headers: { Accept: "application/json" } }), plotly()]);
    if (!answer.ok) return;
    const found = await answer.json();
    const traces = found.lines.map((line, i) => ({
      x: found.at, y: line.values, name: line.name, type: "scatter", mode: lonely(line.values) ? "lines+markers" : "lines",
      marker: { size: 5 },
      line: { color: colour(`--series-${i + 1}`), dash: DASHES[i % DASHES.length], width: 2 }, connectgaps: false,
    }));
    await Plotly.react(element, traces, layout(found), { displayModeBar: false, responsive: true });
    table(element, found);
    element.dataset.drawn = String(found.at.length);
  };

  const inView = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) { inView.delete(target); continue; }
      inView.add(target);
      draw(target);
    }
  });
  const drawAll = () => inView.forEach(draw);
  const charts = document.querySelectorAll("[data-chart]");
  charts.forEach((element) => watcher.observe(element));
  document.addEventListener("refreshed", drawAll);
  document.addEventListener("themed", drawAll);
  addEventListener("beforeprint", () => charts.forEach(draw));
})();
