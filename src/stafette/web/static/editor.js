// The editor: what is typed, in the text or in the form, is checked by the server a moment later. The text is the
// document; the form follows it, and a changed field comes back as a changed text.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const PATIENCE = 350;
  const editor = document.getElementById("editor");
  const text = document.getElementById("text");
  const fields = document.getElementById("fields");
  const problems = document.getElementById("problems");
  const plan = document.getElementById("plan");
  const gutter = document.getElementById("gutter");
  let timer = null;
  let asked = 0;

  const inputs = () => [...fields.querySelectorAll("[data-field]")];
  const many = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;
  const span = (seconds) => seconds < 120 ? `${Math.round(seconds)} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;

  // The numbers of the lines; those with a problem are marked, and it is written beside them.
  const number = (found) => {
    const wrong = new Map(found.filter((problem) => problem.line).map((problem) => [problem.line, problem.message]));
    gutter.replaceChildren(...text.value.split("\n").map((_, i) => {
      const line = document.createElement("span");
      line.textContent = `${wrong.has(i + 1) ? "✗" : " "}${String(i + 1).padStart(3)}\n`;
      if (wrong.has(i + 1)) { line.className = "wrong"; line.title = wrong.get(i + 1); }
      return line;
    }));
    gutter.scrollTop = text.scrollTop;
  };

  const goTo = (line) => {
    const lines = text.value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(start, start + lines[line - 1].length);
  };

  const complain = (found) => {
    text.setAttribute("aria-invalid", found.length ? "true" : "false");
    if (!found.length) {
      const good = document.createElement("p");
      good.className = "said";
      good.textContent = "Nothing is wrong with it.";
      problems.replaceChildren(good);
      return;
    }
    const list = document.createElement("ul");
    list.append(...found.map((problem) => {
      const entry = document.createElement("li");
      entry.className = "problem";
      if (problem.line) {
        const link = document.createElement("button");
        link.type = "button";
        link.className = "quiet";
        link.textContent = `line ${problem.line}`;
        link.addEventListener("click", () => goTo(problem.line));
        entry.append(link, `: ${problem.message}`);
      } else entry.textContent = problem.message;
      return entry;
    }));
    problems.replaceChildren(list);
  };

  const follow = async (form) => {
    if (!form) return;
    const known = form.flatMap((part) => part.fields);
    const here = inputs().map((input) => input.dataset.field).join();
    if (known.map((field) => field.path).join() !== here) return redraw();
    for (const field of known) {
      const input = inputs().find((one) => one.dataset.field === field.path);
      if (field.kind === "check") { input.checked = false; continue; }
      const before = editor.elements[`o:${field.path}`];
      if (before) before.value = field.value;
      if (input === document.activeElement && input.value.trim() === field.value) continue;
      if (input.tagName === "SELECT" && ![...input.options].some((option) => option.value === field.value))
        input.add(new Option(field.value, field.value));
      input.value = field.value;
    }
  };

  // A group or factor more or less: the server draws the form anew.
  const redraw = async () => {
    const content = new URLSearchParams({ csrf: editor.dataset.csrf, before: editor.dataset.name, text: text.value, action: "check" });
    const answer = await fetch(editor.getAttribute("action"), { method: "POST", body: content, headers: { Accept: "text/html", "X-CSRF-Token": editor.dataset.csrf } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("fields");
    if (!fresh) return;
    const active = document.activeElement?.id;
    fields.innerHTML = fresh.innerHTML;
    if (active && active.startsWith("field-")) document.getElementById(active)?.focus({ preventScroll: true });
  };

  const check = async (field = null, value = "") => {
    clearTimeout(timer);
    const number_ = ++asked;
    editor.dataset.checked = "no";
    let found;
    try {
      const answer = await fetch("/lab/check", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-CSRF-Token": editor.dataset.csrf, Accept: "application/json" },
        body: JSON.stringify({ text: text.value, field, value, name: editor.dataset.name || null }),
      });
      found = await answer.json();
      if (!answer.ok) throw new Error(found.message);
    } catch (error) {
      complain([{ line: null, message: `it could not be checked: ${error.message}` }]);
      return;
    }
    if (number_ !== asked) return; // somebody went on typing
    if (field !== null && text.value !== found.toml) text.value = found.toml;
    complain(found.problems);
    number(found.problems);
    plan.textContent = found.plan ? `${many(found.plan.points, "point")}, ${many(found.plan.runs, "run")}, ${span(found.plan.seconds)} of load` : "";
    await follow(found.form);
    editor.dataset.checked = "yes";
  };

  text.addEventListener("input", () => {
    clearTimeout(timer);
    editor.dataset.checked = "no";
    number([]);
    timer = setTimeout(check, PATIENCE);
  });
  text.addEventListener("scroll", () => { gutter.scrollTop = text.scrollTop; });
  fields.addEventListener("change", (event) => {
    const path = event.target.dataset.field;
    if (path) check(path, event.target.type === "checkbox" ? "yes" : event.target.value);
  });
  check();
});
