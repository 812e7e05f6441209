// Refreshes the elements marked data-live, on a click or every few seconds. It pauses while the page is hidden, keeps the
// focus, and leaves an element alone while it has an edited field or selected text.
"use strict";
(() => {
  const select = document.getElementById("refresh");
  if (!select) return;
  const status = document.getElementById("refreshed");
  const FIELDS = "input, textarea, select";
  let timer = null;
  let busy = false;

  // Returns a function that finds an element again after its container was replaced: by its index among similar ones.
  const locator = (element, container) => {
    const href = element.getAttribute("href");
    const selector = element.id ? `#${CSS.escape(element.id)}` : href ? `a[href="${CSS.escape(href)}"]` : element.localName;
    const index = [...container.querySelectorAll(selector)].indexOf(element);
    return () => {
      const similar = container.querySelectorAll(selector);
      return similar[Math.min(index, similar.length - 1)] ?? null;
    };
  };

  const isEdited = (field) => field.matches("select")
    ? [...field.options].some((option) => option.selected !== option.defaultSelected)
    : field.value !== field.defaultValue || field.checked !== field.defaultChecked;

  const isInUse = (container, active) => {
    if (active && active.matches(FIELDS)) return true;
    if ([...container.querySelectorAll(FIELDS)].some(isEdited)) return true;
    const selection = getSelection();
    return !selection.isCollapsed && container.contains(selection.anchorNode);
  };

  const replace = (old, fresh) => {
    if (!fresh || old.innerHTML === fresh.innerHTML) return;
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    if (isInUse(old, active)) return;
    const openDetails = [...old.querySelectorAll("details[open]")].map((details) => locator(details, old));
    const scrolled = [...old.querySelectorAll(".scroll, pre")].filter((box) => box.scrollLeft || box.scrollTop)
      .map((box) => [locator(box, old), box.scrollLeft, box.scrollTop]);
    const findActive = active && active !== old ? locator(active, old) : null;
    old.innerHTML = fresh.innerHTML;
    for (const find of openDetails) find()?.setAttribute("open", "");
    for (const [find, left, top] of scrolled) find()?.scrollTo(left, top);
    if (findActive) (findActive() ?? old).focus({ preventScroll: true });
  };

  const refresh = async () => {
    if (busy) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { "X-Refresh": "1", Accept: "text/html" } });
      if (answer.redirected) { location.reload(); return; }
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!answer.ok) throw new Error(fresh.querySelector(".problem")?.textContent ?? answer.statusText);
      for (const old of document.querySelectorAll("[data-live][id]")) replace(old, fresh.getElementById(old.id));
      document.body.classList.remove("stale");
      status.textContent = "";
      status.classList.add("hidden");
      document.dispatchEvent(new Event("refreshed"));
    } catch (error) {
      document.body.classList.add("stale");
      status.textContent = `not refreshed: ${error.message}`;
      status.classList.remove("hidden");
    } finally {
      busy = false;
    }
  };

  const start = () => {
    clearInterval(timer);
    const seconds = Number(select.value);
    timer = seconds && !document.hidden ? setInterval(refresh, seconds * 1000) : null;
    document.body.dataset.refreshing = timer ? "yes" : "no";
  };

  select.value = localStorage.getItem("refresh") ?? "5";
  if (!select.value) select.value = "5";
  select.addEventListener("change", () => { localStorage.setItem("refresh", select.value); start(); });
  document.getElementById("refresh-now").addEventListener("click", refresh);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && Number(select.value)) refresh(); start(); });
  start();
})();
