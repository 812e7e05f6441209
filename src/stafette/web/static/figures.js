// Draws the figures of the report when they come into view, in the colours of the theme: each colour of the light palette
// has a counterpart in the dark one.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement;
  const counterparts = JSON.parse(document.getElementById("colours").dataset.dark);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  const jsonByElement = new Map();

  // Only values of keys that name a colour are replaced, so that names in the data stay as they are.
  const darken = (value, key) => {
    if (Array.isArray(value)) return value.map((entry) => darken(entry, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, darken(entry, name)]));
    if (typeof value !== "string" || !/color$/.test(key)) return value;
    const dark = counterparts[value.slice(0, 7)];
    return dark ? dark + value.slice(7) : value;
  };

  const draw = async (element) => {
    if (!jsonByElement.has(element)) {
      const answer = await fetch(element.dataset.figure, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      jsonByElement.set(element, await answer.text());
    }
    let content = JSON.parse(jsonByElement.get(element));
    if (isDark()) content = darken(content, "");
    await Plotly.react(element, content.data, content.layout, { responsive: true, displaylogo: false, displayModeBar: false });
    element.dataset.drawn = isDark() ? "dark" : "light";
  };

  const elements = [...document.querySelectorAll("[data-figure]")];
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "400px" });
  for (const element of elements) {
    element.style.minHeight = `${element.dataset.height}px`;
    watcher.observe(element);
  }
  document.addEventListener("themed", () => elements.filter((element) => element.dataset.drawn).forEach(draw));
  addEventListener("beforeprint", () => elements.forEach(draw));
  document.getElementById("run")?.addEventListener("change", (event) => event.target.form.requestSubmit());
});
