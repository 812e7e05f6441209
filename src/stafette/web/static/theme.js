// Light or dark: as the system says, until the person says otherwise. Loaded before the page, so that nothing flashes.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("theme");
  const dark = () => (chosen() ?? (system.matches ? "dark" : "light")) === "dark";
  const apply = () => {
    if (chosen()) root.dataset.theme = chosen(); else delete root.dataset.theme;
    const button = document.getElementById("theme");
    if (button) {
      button.hidden = false;
      button.textContent = dark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Use ${dark() ? "light" : "dark"} colours`);
    }
    document.dispatchEvent(new Event("themed"));
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      localStorage.setItem("theme", dark() ? "light" : "dark");
      apply();
    });
  });
})();
