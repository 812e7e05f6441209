// Draws the report's figures when they come into view, in the colours of the page: every colour of the light palette has
// a counterpart in the dark one.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement;
  const counterparts = JSON.parse(document.getElementById("colours").dataset.dark);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  const fetched = new Map();

  // Only values of keys that name a colour are replaced, so that a name in the data stays as it is.
  const recoloured = (value, key) => {
    if (Array.isArray(value)) return value.map((entry) => recoloured(entry, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, recoloured(entry, name)]));
    if (typeof value !== "string" || !/color$/.test(key)) return value;
    const dark = counterparts[value.slice(0, 7)];
    return dark ? dark + value.slice(7) : value;
  };

  const draw = async (place) => {
    if (!fetched.has(place)) {
      const answer = await fetch(place.dataset.figure, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      fetched.set(place, await answer.text());
    }
    let content = JSON.parse(fetched.get(place));
    if (isDark()) content = recoloured(content, "");
    await Plotly.react(place, content.data, content.layout, { responsive: true, displaylogo: false, displayModeBar: false });
    place.dataset.drawn = isDark() ? "dark" : "light";
  };

  const places = [...document.querySelectorAll("[data-figure]")];
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "400px" });
  for (const place of places) {
    place.style.minHeight = `${place.dataset.height}px`;
    watcher.observe(place);
  }
  document.addEventListener("themed", () => places.filter((place) => place.dataset.drawn).forEach(draw));
  addEventListener("beforeprint", () => places.forEach(draw));
  document.getElementById("run")?.addEventListener("change", (event) => event.target.form.requestSubmit());
});
