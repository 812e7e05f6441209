// Draws each element with data-chart when it comes into view, and again whenever the page is refreshed. Plotly is large,
// so it is loaded with the first chart that is visible. Colours come from the style sheet, so that charts follow the
// theme. A table below each chart has the same data.
"use strict";
(() => {
  const PLOTLY = document.currentScript.dataset.plotly;
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => value === null ? "–" : Number(value.toPrecision(4)).toLocaleString("en");

  // Whether a value has no neighbour, so that a line alone would not show it.
  const hasLonePoint = (values) => values.some((value, i) => value !== null && (values[i - 1] ?? values[i + 1] ?? null) === null);

  const layout = (chart) => ({
    margin: { l: 56, r: 12, t: 8, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("--ink"), family: "inherit", size: 12 },
    hovermode: "x unified",
    hoverlabel: { bgcolor: colour("--panel"), font: { color: colour("--ink") } },
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: { type: "date", range: [chart.from, chart.to], gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false },
    yaxis: { title: { text: chart.unit }, rangemode: "tozero", gridcolor: colour("--line"), zerolinecolor: colour("--line") },
  });

  const fillTable = (element, chart) => {
    const table = document.getElementById(`${element.id}-table`);
    if (!table) return;
    const rows = [["Time (UTC)", ...chart.lines.map((line) => `${line.name} (${chart.unit})`)]];
    chart.at.forEach((at, i) => rows.push([at.slice(0, 19).replace("T", " "), ...chart.lines.map((line) => short(line.values[i]))]));
    table.replaceChildren(...rows.map((cells, n) => {
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
  const loadPlotly = () => loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = PLOTLY;
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });

  const draw = async (element) => {
    const [answer] = await Promise.all([fetch(element.dataset.chart, { headers: { Accept: "application/json" } }), loadPlotly()]);
    if (!answer.ok) return;
    const chart = await answer.json();
    const traces = chart.lines.map((line, i) => ({
      x: chart.at, y: line.values, name: line.name, type: "scatter", mode: hasLonePoint(line.values) ? "lines+markers" : "lines",
      marker: { size: 5 },
      line: { color: colour(`--series-${i + 1}`), dash: DASHES[i % DASHES.length], width: 2 }, connectgaps: false,
    }));
    await Plotly.react(element, traces, layout(chart), { displayModeBar: false, responsive: true });
    fillTable(element, chart);
    element.dataset.drawn = String(chart.at.length);
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
