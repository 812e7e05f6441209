// Light or dark: as the system says, until somebody chooses. Loaded before the page, so that nothing flashes.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const choice = () => localStorage.getItem("theme");
  const isDark = () => (choice() ?? (system.matches ? "dark" : "light")) === "dark";
  const apply = () => {
    if (choice()) root.dataset.theme = choice(); else delete root.dataset.theme;
    const button = document.getElementById("theme");
    if (button) {
      button.hidden = false;
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`);
    }
    document.dispatchEvent(new Event("themed"));
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      localStorage.setItem("theme", isDark() ? "light" : "dark");
      apply();
    });
  });
})();
