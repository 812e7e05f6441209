// Refreshes what is marked data-live, by hand or every few seconds: pauses while the page is hidden, never moves the
// focus, and leaves a part alone in which somebody is writing or has marked text.
"use strict";
(() => {
  const select = document.getElementById("refresh");
  if (!select) return;
  const said = document.getElementById("refreshed");
  const FIELDS = "input, textarea, select";
  let timer = null;
  let busy = false;

  // How to find an element again in a newer version of its part: which one it is of those that look alike.
  const place = (element, within) => {
    const href = element.getAttribute("href");
    const like = element.id ? `#${CSS.escape(element.id)}` : href ? `a[href="${CSS.escape(href)}"]` : element.localName;
    const number = [...within.querySelectorAll(like)].indexOf(element);
    return () => {
      const alike = within.querySelectorAll(like);
      return alike[Math.min(number, alike.length - 1)] ?? null;
    };
  };

  const written = (field) => field.matches("select")
    ? [...field.options].some((option) => option.selected !== option.defaultSelected)
    : field.value !== field.defaultValue || field.checked !== field.defaultChecked;

  const inUse = (part, active) => {
    if (active && active.matches(FIELDS)) return true;
    if ([...part.querySelectorAll(FIELDS)].some(written)) return true;
    const marked = getSelection();
    return !marked.isCollapsed && part.contains(marked.anchorNode);
  };

  const replace = (old, fresh) => {
    if (!fresh || old.innerHTML === fresh.innerHTML) return;
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    if (inUse(old, active)) return;
    const open = [...old.querySelectorAll("details[open]")].map((details) => place(details, old));
    const scrolled = [...old.querySelectorAll(".scroll, pre")].filter((box) => box.scrollLeft || box.scrollTop)
      .map((box) => [place(box, old), box.scrollLeft, box.scrollTop]);
    const again = active && active !== old ? place(active, old) : null;
    old.innerHTML = fresh.innerHTML;
    for (const find of open) find()?.setAttribute("open", "");
    for (const [find, left, top] of scrolled) find()?.scrollTo(left, top);
    if (again) (again() ?? old).focus({ preventScroll: true });
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
      said.textContent = "";
      said.classList.add("hidden");
      document.dispatchEvent(new Event("refreshed"));
    } catch (error) {
      document.body.classList.add("stale");
      said.textContent = `not refreshed: ${error.message}`;
      said.classList.remove("hidden");
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
