// The editor: the server checks the text a moment after each change. The text is the document; the form follows it, and
// the server puts a changed field of the form into the text.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const CHECK_DELAY_MS = 350;
  const editor = document.getElementById("editor");
  const text = document.getElementById("text");
  const fields = document.getElementById("fields");
  const problems = document.getElementById("problems");
  const plan = document.getElementById("plan");
  const gutter = document.getElementById("gutter");
  let timer = null;
  let lastCheck = 0;

  const inputs = () => [...fields.querySelectorAll("[data-field]")];
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  const duration = (seconds) => seconds < 120 ? `${Math.round(seconds)} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;

  // Numbers the lines, and marks those that have a problem.
  const numberLines = (list) => {
    const messages = new Map(list.filter((problem) => problem.line).map((problem) => [problem.line, problem.message]));
    gutter.replaceChildren(...text.value.split("\n").map((_, i) => {
      const line = document.createElement("span");
      line.textContent = `${messages.has(i + 1) ? "✗" : " "}${String(i + 1).padStart(3)}\n`;
      if (messages.has(i + 1)) { line.className = "wrong"; line.title = messages.get(i + 1); }
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

  const showProblems = (list) => {
    text.setAttribute("aria-invalid", list.length ? "true" : "false");
    if (!list.length) {
      const notice = document.createElement("p");
      notice.className = "notice";
      notice.textContent = "No problems.";
      problems.replaceChildren(notice);
      return;
    }
    const entries = document.createElement("ul");
    entries.append(...list.map((problem) => {
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
    problems.replaceChildren(entries);
  };

  const updateForm = async (form) => {
    if (!form) return;
    const newFields = form.flatMap((part) => part.fields);
    const paths = inputs().map((input) => input.dataset.field).join();
    if (newFields.map((field) => field.path).join() !== paths) return replaceForm();
    for (const field of newFields) {
      const input = inputs().find((candidate) => candidate.dataset.field === field.path);
      if (field.kind === "check") { input.checked = false; continue; }
      const before = editor.elements[`o:${field.path}`];
      if (before) before.value = field.value;
      if (input === document.activeElement && input.value.trim() === field.value) continue;
      if (input.tagName === "SELECT" && ![...input.options].some((option) => option.value === field.value))
        input.add(new Option(field.value, field.value));
      input.value = field.value;
    }
  };

  // After a group or factor was added or removed, the server renders the form again.
  const replaceForm = async () => {
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
    const thisCheck = ++lastCheck;
    editor.dataset.checked = "no";
    let result;
    try {
      const answer = await fetch("/lab/check", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-CSRF-Token": editor.dataset.csrf, Accept: "application/json" },
        body: JSON.stringify({ text: text.value, field, value, name: editor.dataset.name || null }),
      });
      result = await answer.json();
      if (!answer.ok) throw new Error(result.message);
    } catch (error) {
      showProblems([{ line: null, message: `not checked: ${error.message}` }]);
      return;
    }
    if (thisCheck !== lastCheck) return; // a newer check is on its way
    if (field !== null && text.value !== result.toml) text.value = result.toml;
    showProblems(result.problems);
    numberLines(result.problems);
    plan.textContent = result.plan ? `${plural(result.plan.points, "point")}, ${plural(result.plan.runs, "run")}, ${duration(result.plan.seconds)} of load` : "";
    await updateForm(result.form);
    editor.dataset.checked = "yes";
  };

  text.addEventListener("input", () => {
    clearTimeout(timer);
    editor.dataset.checked = "no";
    numberLines([]);
    timer = setTimeout(check, CHECK_DELAY_MS);
  });
  text.addEventListener("scroll", () => { gutter.scrollTop = text.scrollTop; });
  fields.addEventListener("change", (event) => {
    const path = event.target.dataset.field;
    if (path) check(path, event.target.type === "checkbox" ? "yes" : event.target.value);
  });
  check();
});
