"use strict";
// A reviewer's verdicts: kept in this browser, and saved as one JSON line for each claim.
const selects = [...document.querySelectorAll("select[data-claim]")];
const place = "inkplex-grounding:" + document.title;
let kept = {};
try { kept = JSON.parse(localStorage.getItem(place)) || {}; } catch { kept = {}; }

function lines() {
  return selects.filter((one) => one.value).map((one) => JSON.stringify(
    { schema: "inkplex/grounding-verdict@1", ...JSON.parse(one.dataset.claim), verdict: one.value }) + "\n");
}

function changed() {
  kept = Object.fromEntries(selects.filter((one) => one.value).map((one) => [one.dataset.claim, one.value]));
  try { localStorage.setItem(place, JSON.stringify(kept)); } catch { /* a page without storage still saves its file */ }
  const alike = selects.filter((one) => one.value && one.value === one.dataset.automatic).length;
  document.getElementById("count").textContent =
    `${lines().length} of ${selects.length} claims reviewed, ${alike} as the automatic verdict`;
}

for (const one of selects) {
  if (kept[one.dataset.claim]) one.value = kept[one.dataset.claim];
  one.addEventListener("change", changed);
}
document.getElementById("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines(), { type: "application/jsonl" }));
  link.download = "verdicts.jsonl";
  link.click();
});
changed();
