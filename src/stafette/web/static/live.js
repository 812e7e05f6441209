// Follows a job: the server sends the full state first, then the changes. Charts, numbers and the log show it.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const section = document.getElementById("live");
  if (!section || !section.dataset.events) return;
  const CHARTS = [["throughput", "throughput", "requests/s"], ["response-time", "response_ms", "ms"], ["errors-over-time", "errors", "errors/s"]];
  const element = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toLocaleString("en");
  const duration = (seconds) => seconds < 120 ? `${Math.round(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  let points = [];
  let isDrawScheduled = false;

  const layout = (unit) => ({
    margin: { l: 56, r: 12, t: 8, b: 36 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("--ink"), family: "inherit", size: 12 }, hovermode: "x unified",
    hoverlabel: { bgcolor: colour("--panel"), font: { color: colour("--ink") } },
    showlegend: new Set(points.map((point) => point.place)).size > 1,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: { title: { text: "seconds" }, gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false },
    yaxis: { title: { text: unit }, rangemode: "tozero", gridcolor: colour("--line"), zerolinecolor: colour("--line") },
  });

  // Each run is a line of its own, so that there is a gap between runs.
  const traces = (key) => {
    const start = points[0].at;
    const runs = [...new Set(points.map((point) => point.place))];
    return runs.map((run, i) => {
      const runPoints = points.filter((point) => point.place === run);
      return {
        x: runPoints.map((point) => point.at - start), y: runPoints.map((point) => point[key]), name: `run ${run}`, type: "scatter",
        mode: runPoints.length < 3 ? "lines+markers" : "lines", line: { color: colour(`--series-${(i % 5) + 1}`), width: 2 },
      };
    });
  };

  const tableRow = (cells, isHead) => {
    const row = document.createElement("tr");
    row.append(...cells.map((content) => {
      const cell = document.createElement(isHead ? "th" : "td");
      if (isHead) cell.scope = "col";
      cell.textContent = content;
      return cell;
    }));
    return row;
  };

  const draw = () => {
    isDrawScheduled = false;
    if (!points.length || !window.Plotly) return;
    for (const [id, key, unit] of CHARTS) {
      if (!element(id)) continue;
      Plotly.react(element(id), traces(key), layout(unit), { displayModeBar: false, responsive: true });
      element(id).dataset.drawn = String(points.length);
      const table = element(`${id}-table`);
      if (element(`${id}-details`).open || !table.rows.length)
        table.replaceChildren(tableRow(["Second", "Run", unit], true), ...points.map((point) => tableRow([short(point.at - points[0].at), String(point.place), short(point[key])])));
    }
  };

  const show = (state, isFull) => {
    const progress = state.progress;
    element("phase").textContent = state.phase;
    if (progress) {
      element("place").textContent = `${progress.place} of ${progress.runs}`;
      element("label").textContent = `${progress.label}, repetition ${progress.repetition}`;
      element("left").textContent = duration(progress.seconds_left);
      element("later").textContent = duration(progress.later_seconds);
      element("rate").textContent = short(progress.throughput);
      element("response").textContent = `${short(progress.response_ms)} ms`;
      element("errors").textContent = short(progress.errors);
    }
    if (state.job === "running" && !element("outcome").textContent.includes("running")) showOutcome("good", "running", "");
    const log = element("log");
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    if (isFull) log.textContent = "";
    if (state.lines.length) log.textContent += (log.textContent ? "\n" : "") + state.lines.join("\n");
    if (atEnd) log.scrollTop = log.scrollHeight;
    points = isFull ? state.points : [...points, ...state.points];
    if (!isDrawScheduled) { isDrawScheduled = true; requestAnimationFrame(draw); }
  };

  const showOutcome = (kind, label, detail) => {
    const mark = document.createElement("span");
    mark.className = `state ${kind}`;
    mark.textContent = label;
    element("outcome").replaceChildren(mark, ` ${detail}`);
  };

  const source = new EventSource(section.dataset.events);
  source.addEventListener("state", (event) => { section.dataset.connected = "yes"; show(JSON.parse(event.data), true); });
  source.addEventListener("more", (event) => show(JSON.parse(event.data), false));
  source.addEventListener("end", (event) => {
    source.close();
    const job = JSON.parse(event.data);
    showOutcome({ done: "good", failed: "bad", stopped: "open" }[job.state], job.state, job.sentence);
    element("phase").textContent = job.state;
    document.querySelectorAll("#job-actions form").forEach((form) => form.remove());
    if (job.series) {
      const result = element("result");
      result.href = `/lab/series/${encodeURIComponent(job.series)}`;
      result.hidden = false;
    }
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) location.reload(); // the job has ended; the page has its result
  };
  document.addEventListener("themed", draw);
  addEventListener("pagehide", () => source.close());
});
