"use strict";
// Shows the moves that are asked for; the part of the address behind # may ask, as in #policy=modified&tenant=12.
(() => {
  const form = document.getElementById("choice");
  if (!form) return;
  const rows = [...document.querySelectorAll("#moved tbody tr")];
  const show = () => {
    const { policy, cause, tenant } = Object.fromEntries(new FormData(form));
    let shown = 0;
    for (const row of rows) {
      const { policy: itsPolicy, cause: itsCause, tenant: itsTenant } = row.dataset;
      const fits = (!policy || policy === itsPolicy) && (!cause || cause === itsCause) && itsTenant.includes(tenant);
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    document.getElementById("chosen").textContent = `${shown} of ${rows.length} moves`;
  };
  const preset = () => {
    if (!location.hash.includes("=")) return;
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const name of ["policy", "cause", "tenant"]) form.elements[name].value = asked.get(name) ?? "";
    show();
    document.getElementById("moves").scrollIntoView();
  };
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", preset);
  show();
  preset();
})();
