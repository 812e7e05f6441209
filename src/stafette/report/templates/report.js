// Draws the figures, in the colours of the page: every colour of the light palette has a counterpart in the dark one.
"use strict";
(() => {
  const counterparts = JSON.parse(document.getElementById("dark-colours").textContent);
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const requested = new URLSearchParams(location.search).get("theme");
  if (requested === "dark" || requested === "light") root.dataset.theme = requested;
  const PRINT_WIDTH = 680; // what A4 has between its margins, in CSS pixels
  let printing = false;

  const isDark = () => !printing && (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  // Only values of keys that name a colour are replaced: a name in the data may look like a colour.
  const recolour = (value, key) => {
    if (Array.isArray(value)) return value.map((entry) => recolour(entry, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, recolour(entry, name)]));
    if (typeof value !== "string" || !/color$/.test(key)) return value;
    const dark = counterparts[value.slice(0, 7)];
    return dark ? dark + value.slice(7) : value;
  };

  const draw = (figure) => {
    const plot = figure.querySelector(".plot");
    let content = JSON.parse(figure.querySelector("script").textContent);
    if (isDark()) content = recolour(content, "");
    if (printing) content.layout.width = PRINT_WIDTH;
    const config = { responsive: !printing, displaylogo: false, displayModeBar: false };
    Plotly.react(plot, content.data, content.layout, config);
    figure.dataset.drawn = isDark() ? "dark" : "light";
  };
  const figures = [...document.querySelectorAll("figure")];
  const visibleFigures = () => figures.filter((figure) => !figure.hidden);
  const drawAll = () => visibleFigures().forEach(draw);

  const choosers = [...document.querySelectorAll("select.run")];
  const choose = (event) => {
    const chosen = event.target.value;
    const text = event.target.selectedOptions[0].textContent;
    const topBefore = event.target.getBoundingClientRect().top;
    choosers.forEach((chooser) => { chooser.value = chosen; });
    document.querySelectorAll(".chosen").forEach((label) => { label.textContent = text; });
    figures.filter((figure) => figure.dataset.run !== undefined).forEach((figure) => {
      figure.hidden = figure.dataset.run !== chosen;
      if (!figure.hidden) draw(figure);
    });
    scrollBy(0, event.target.getBoundingClientRect().top - topBefore);
  };
  choosers.forEach((chooser) => { chooser.value = "0"; chooser.addEventListener("change", choose); });

  const button = document.getElementById("theme");
  const labelButton = () => { button.textContent = isDark() ? "Light page" : "Dark page"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; labelButton(); drawAll(); });
  system.addEventListener("change", () => { labelButton(); drawAll(); });

  let opened = [];
  addEventListener("beforeprint", () => {
    printing = true;
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((details) => { details.open = true; });
    drawAll();
  });
  addEventListener("afterprint", () => {
    printing = false;
    opened.forEach((details) => { details.open = false; });
    drawAll();
  });

  labelButton();
  drawAll();
})();
