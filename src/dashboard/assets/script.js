// The small script of the dashboard. Every page works without it: it only saves steps.
(() => {
  "use strict";
  // The zone in which times are shown. The next page uses it.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.includes("punctual-zone=")) {
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `punctual-zone=${zone}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  }
  // The code of a mailed link follows a #, so that no server and no proxy sees it.
  const code = document.querySelector("input[data-from-link]");
  if (code && !code.value && location.hash.length > 1) {
    code.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname + location.search);
  }
  // Controls that need this script are hidden without it, also in parts that htmx inserts.
  const show = () => {
    for (const control of document.querySelectorAll("[data-copy], [data-all]")) control.hidden = false;
  };
  show();
  // Opened parts of the page of a job stay open in its new content.
  let opened = [];
  const parts = () => [...document.querySelectorAll("#job details")];
  const remember = () => { opened = parts().map((part) => part.open); };
  const reopen = () => parts().forEach((part, place) => { part.open = Boolean(opened[place]); });
  document.addEventListener("htmx:beforeSwap", remember);
  document.addEventListener("htmx:afterSwap", reopen);
  // If the service does not answer a test request, the panel shows a message.
  for (const failure of ["htmx:responseError", "htmx:sendError"]) {
    document.addEventListener(failure, ({ detail }) => {
      if (detail.target?.id !== "test-result") return;
      detail.target.textContent = "The service did not answer. Wait a moment, and send the test request again.";
    });
  }
  // The message beside a field disappears when the field changes.
  document.addEventListener("input", ({ target }) => {
    if (target.getAttribute("aria-invalid") !== "true") return;
    target.removeAttribute("aria-invalid");
    target.closest(".wrong")?.classList.remove("wrong");
    document.getElementById(`${target.id}-message`)?.remove();
  });
  // The first wrong field of a refused form takes the focus.
  const focus = (part) => part.querySelector("[aria-invalid=true]")?.focus();
  document.addEventListener("htmx:load", (event) => { show(); focus(event.detail.elt); });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) {
      for (const box of boxes()) box.checked = event.target.checked;
    }
    if (event.target.matches("[data-all], [data-one]")) offerMatching();
  });
  // The choice of all schedules that match appears when all boxes of the page are ticked.
  const boxes = () => [...document.querySelectorAll("input[data-one]")];
  const offerMatching = () => {
    const choice = document.querySelector("[data-matching]");
    if (!choice) return;
    choice.hidden = !boxes().every((box) => box.checked);
    if (choice.hidden) choice.querySelector("input").checked = false;
  };
  offerMatching();
  // A bulk action goes on by itself until no schedule remains.
  document.querySelector("form[data-continue]")?.requestSubmit();
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    const text = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = text; }, 1500);
  });
  // The page of an unfinished job follows the job by a stream of events. If the stream is refused,
  // the page asks every 3 seconds.
  const job = () => document.querySelector("#job[data-events]");
  let stream, timer;
  const ask = () => {
    if (job()) htmx.trigger(job(), "refresh"); else clearInterval(timer);
  };
  const poll = () => {
    stream.close();
    clearInterval(timer);
    timer = setInterval(ask, 3000);
  };
  const follow = () => {
    stream?.close();
    clearInterval(timer);
    // A hidden page frees its connection: browsers open only a few to one host.
    if (!job() || document.hidden) return;
    stream = new EventSource(job().dataset.events);
    stream.addEventListener("job", ({ data }) => {
      const next = new DOMParser().parseFromString(data, "text/html").querySelector("#job");
      remember();
      job().replaceWith(next);
      reopen();
      htmx.process(next);
      show();
    });
    stream.addEventListener("final", () => { poll(); ask(); });
    stream.addEventListener("error", () => { if (stream.readyState === EventSource.CLOSED) poll(); });
  };
  follow();
  document.addEventListener("visibilitychange", follow);
  focus(document);
})();
