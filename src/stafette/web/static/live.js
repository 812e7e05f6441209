// Follows a job: the server sends the whole state first, then what changes. Charts, figures and the log follow it.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("live");
  if (!place || !place.dataset.events) return;
  const CHARTS = [["throughput", "throughput", "requests/s"], ["response-time", "response_ms", "ms"], ["errors-over-time", "errors", "errors/s"]];
  const element = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toLocaleString("en");
  const span = (seconds) => seconds < 120 ? `${Math.round(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  let points = [];
  let waiting = false;

  const layout = (unit) => ({
    margin: { l: 56, r: 12, t: 8, b: 36 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("--ink"), family: "inherit", size: 12 }, hovermode: "x unified",
    hoverlabel: { bgcolor: colour("--panel"), font: { color: colour("--ink") } },
    showlegend: new Set(points.map((point) => point.place)).size > 1,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: { title: { text: "seconds" }, gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false },
    yaxis: { title: { text: unit }, rangemode: "tozero", gridcolor: colour("--line"), zerolinecolor: colour("--line") },
  });

  // Each run is a line of its own, so that the time between them is a gap.
  const traces = (key) => {
    const start = points[0].at;
    const places = [...new Set(points.map((point) => point.place))];
    return places.map((run, i) => {
      const mine = points.filter((point) => point.place === run);
      return {
        x: mine.map((point) => point.at - start), y: mine.map((point) => point[key]), name: `run ${run}`, type: "scatter",
        mode: mine.length < 3 ? "lines+markers" : "lines", line: { color: colour(`--series-${(i % 5) + 1}`), width: 2 },
      };
    });
  };

  const row = (cells, head) => {
    const made = document.createElement("tr");
    made.append(...cells.map((content) => {
      const cell = document.createElement(head ? "th" : "td");
      if (head) cell.scope = "col";
      cell.textContent = content;
      return cell;
    }));
    return made;
  };

  const draw = () => {
    waiting = false;
    if (!points.length || !window.Plotly) return;
    for (const [id, key, unit] of CHARTS) {
      if (!element(id)) continue;
      Plotly.react(element(id), traces(key), layout(unit), { displayModeBar: false, responsive: true });
      element(id).dataset.drawn = String(points.length);
      const table = element(`${id}-table`);
      if (element(`${id}-details`).open || !table.rows.length)
        table.replaceChildren(row(["Second", "Run", unit], true), ...points.map((point) => row([short(point.at - points[0].at), String(point.place), short(point[key])])));
    }
  };

  const show = (state, whole) => {
    const now = state.progress;
    element("phase").textContent = state.phase;
    if (now) {
      element("place").textContent = `${now.place} of ${now.runs}`;
      element("label").textContent = `${now.label}, repetition ${now.repetition}`;
      element("left").textContent = span(now.seconds_left);
      element("later").textContent = span(now.later_seconds);
      element("rate").textContent = short(now.throughput);
      element("response").textContent = `${short(now.response_ms)} ms`;
      element("errors").textContent = short(now.errors);
    }
    if (state.job === "running" && !element("outcome").textContent.includes("running")) tell("good", "running", "");
    const log = element("log");
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    if (whole) log.textContent = "";
    if (state.lines.length) log.textContent += (log.textContent ? "\n" : "") + state.lines.join("\n");
    if (atEnd) log.scrollTop = log.scrollHeight;
    points = whole ? state.points : [...points, ...state.points];
    if (!waiting) { waiting = true; requestAnimationFrame(draw); }
  };

  const tell = (kind, word, sentence) => {
    const mark = document.createElement("span");
    mark.className = `state ${kind}`;
    mark.textContent = word;
    element("outcome").replaceChildren(mark, ` ${sentence}`);
  };

  const source = new EventSource(place.dataset.events);
  source.addEventListener("state", (event) => { place.dataset.connected = "yes"; show(JSON.parse(event.data), true); });
  source.addEventListener("more", (event) => show(JSON.parse(event.data), false));
  source.addEventListener("end", (event) => {
    source.close();
    const ended = JSON.parse(event.data);
    tell({ done: "good", failed: "bad", stopped: "open" }[ended.state], ended.state, ended.sentence);
    element("phase").textContent = ended.state;
    document.querySelectorAll("#job-actions form").forEach((form) => form.remove());
    if (ended.series) {
      const result = element("result");
      result.href = `/lab/series/${encodeURIComponent(ended.series)}`;
      result.hidden = false;
    }
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) location.reload(); // it is over, and the page knows more
  };
  document.addEventListener("themed", draw);
  addEventListener("pagehide", () => source.close());
});
