// The page of `inkplex-data soma serve`: it sends commands, and shows what the child process tells.
import { bars, bytes, course } from "./charts.js";

const $ = (id) => document.getElementById(id);
const MOST_POINTS = 2000;
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const COURSES = [
  ["bits_per_byte", "Bits per byte", (value) => value.toFixed(2), false],
  ["top1", "Top-1", percent, true],
  ["top5", "Top-5", percent, true],
  ["bytes_per_s", "Bytes a second", (value) => bytes(value), true],
  ["stride", "Stride", (value) => value.toFixed(0), true],
  ["compression", "Compression", percent, true],
  ["learning_rate", "Learning rate", (value) => value.toPrecision(2), true],
];

let chosen = null, models = [], figures = [], work = null, speaking = false, turn = null;

async function send(command) {
  const answer = await fetch("do", { method: "POST", body: JSON.stringify(command) });
  const body = await answer.json();
  // What the page asks by itself does not wipe away what it has just told.
  if (command.do !== "models" || !answer.ok) {
    $("fault").hidden = answer.ok;
    $("fault").textContent = body.fault ?? "";
  }
  return answer.ok ? body : null;
}

// Models and their profiles.

async function readModels() {
  const body = await send({ do: "models" });
  if (!body) return;
  models = body.models;
  if (!models.some((model) => model.file === chosen)) chosen = models[0]?.file ?? null;
  $("models").replaceChildren(...models.map(listed));
  showProfile();
}

function listed(model) {
  const item = document.createElement("li"), button = document.createElement("button"), small = document.createElement("small");
  button.textContent = model.profile.name || model.file;
  small.textContent = [model.profile.name ? model.file : "", model.profile.tagline].filter(Boolean).join(" · ");
  button.append(small);
  button.setAttribute("aria-pressed", model.file === chosen);
  button.onclick = () => { chosen = model.file; $("profile-told").textContent = ""; readModels(); };
  item.append(button);
  return item;
}

function showProfile() {
  const model = models.find((one) => one.file === chosen), form = $("profile-form");
  $("profile").hidden = !model;
  if (!model) return;
  $("art").textContent = model.profile.art;
  const facts = {
    Parameters: model.parameters?.toLocaleString("en"), Bands: model.n_bands, Depth: model.depth,
    Read: model.source_bytes === undefined ? null : bytes(model.source_bytes), "Bits per byte": model.bits_per_byte?.toFixed(3),
    Dreams: model.dreams, "Dream ratio": model.dream_ratio?.toFixed(3), Revision: model.revision_id?.slice(0, 12),
  };
  $("facts").replaceChildren(...Object.entries(facts).filter(([, value]) => value != null).flatMap(([name, value]) => {
    const term = document.createElement("dt"), told = document.createElement("dd");
    term.textContent = name;
    told.textContent = value;
    return [term, told];
  }));
  if (form.contains(document.activeElement)) return;
  for (const name of ["name", "tagline", "art", "about"]) form.elements[name].value = model.profile[name] ?? "";
}

$("profile-form").onsubmit = async (event) => {
  event.preventDefault();
  document.activeElement.blur();
  const profile = Object.fromEntries(new FormData(event.target));
  if (await send({ do: "profile", model: chosen, profile })) $("profile-told").textContent = "saved";
  readModels();
};

// Training.

$("train-form").onsubmit = (event) => {
  event.preventDefault();
  const given = Object.fromEntries(new FormData(event.target));
  figures = [];
  drawCourses();
  $("dreams").hidden = true;
  $("dreams").textContent = "";
  chosen = given.model;
  send({
    do: "train", model: given.model, sources: given.sources.split("\n").map((line) => line.trim()).filter(Boolean),
    bands: Number(given.bands), decimation: Number(given.decimation), "dream-every": Number(given["dream-every"]),
  });
};

function drawCourses() {
  $("charts").replaceChildren(...COURSES.map(([name, title, format, fromZero]) =>
    course(title, figures.map((one) => [one.read_bytes, one[name]]), format, fromZero)));
}

// Chat and dreams.

$("load").onclick = () => { $("dialogue").replaceChildren(); send({ do: "load", model: chosen }); };
$("keep").onclick = () => send({ do: "save" });
$("hush").onclick = () => send({ do: "hush" });
$("dream").onclick = () => speak("dream", "dream");
$("chat-form").onsubmit = (event) => {
  event.preventDefault();
  const text = $("words").value.trim();
  if (!text || speaking) return;
  $("words").value = "";
  added("user", "you").append(text);
  speak("chat", "soma", text);
};

function added(kind, name) {
  const made = document.createElement("div"), label = document.createElement("small");
  made.className = `turn ${kind}`;
  label.textContent = name;
  made.append(label);
  $("dialogue").append(made);
  $("dialogue").scrollTop = $("dialogue").scrollHeight;
  return made;
}

async function speak(what, name, text) {
  turn = added("soma", name);
  speaking = true;
  showWork();
  const limit = Number($("limit").value), temperature = Number($("temperature").value);
  if (!(await send({ do: what, text, limit, temperature }))) { speaking = false; showWork(); }
}

// What goes on inside.

function drawInside(look) {
  $("spectra").replaceChildren(
    bars("Input trace spectrum", look.input_spectrum, ""),
    bars("First-layer weight by band", look.weights_by_band, ""),
    bars("Residual spectrum", look.residual_spectrum, `dominant ${look.dominant_band}`),
  );
  listTokens("active", look.active.map(([token, mass, band]) => [token, `${mass.toPrecision(2)} band ${band}`]));
  listTokens("likely", look.likely.map(([token, chance]) => [token, percent(chance)]));
}

function listTokens(id, rows) {
  $(id).replaceChildren(...rows.map(([token, told]) => {
    const item = document.createElement("li"), side = document.createElement("span");
    side.textContent = told;
    item.append(JSON.stringify(token).slice(1, -1), side);
    return item;
  }));
}

// What is going on.

function showWork() {
  const talks = work?.do === "talk" && work.ready;
  $("work").textContent = !work ? "idle" : work.do === "train" ? `training ${work.model}` : talks ? `${work.model} listens` : `loading ${work.model}`;
  $("stop").disabled = !work;
  $("train").disabled = work?.do === "train";
  $("load").disabled = work?.do === "train";
  for (const id of ["say", "dream", "keep"]) $(id).disabled = !talks || speaking;
  $("hush").disabled = !speaking;
}

$("stop").onclick = () => send({ do: "stop" });

const told = {
  state: (event) => { work = event.work; figures = event.figures; if (work) work.ready = work.do === "talk"; drawCourses(); },
  work: (event) => { work = event.work; speaking = false; },
  figures: (event) => { figures.push(event); figures = figures.slice(-MOST_POINTS); drawCourses(); },
  look: drawInside,
  dream: (event) => { $("dreams").hidden = false; $("dreams").textContent += `dream (feedback ${event.ratio.toFixed(3)}):${event.text}\n`; },
  saved: readModels,
  loaded: () => { work = { ...work, do: "talk", ready: true }; },
  heard: (event) => { if (event.bits_per_byte !== null) turn?.previousElementSibling?.firstChild.append(` · ${event.bits_per_byte.toFixed(2)} bits/byte`); },
  text: (event) => { turn?.append(event.text); $("dialogue").scrollTop = $("dialogue").scrollHeight; },
  said: () => { speaking = false; },
  fault: (event) => { speaking = false; $("fault").hidden = false; $("fault").textContent = event.message; },
  ended: (event) => {
    work = null;
    speaking = false;
    if (event.code !== 0 && !event.stopped) { $("fault").hidden = false; $("fault").textContent = event.errors || `the process ended with ${event.code}`; }
    readModels();
  },
};

const source = new EventSource("events");
source.onmessage = (message) => {
  const event = JSON.parse(message.data);
  told[event.event]?.(event);
  showWork();
};
source.onerror = () => { $("work").textContent = "the server is gone; start it again"; };

for (const tab of document.querySelectorAll("[role=tab]"))
  tab.onclick = () => {
    for (const one of document.querySelectorAll("[role=tab]")) one.setAttribute("aria-selected", one === tab);
    for (const view of document.querySelectorAll("[data-for]")) view.hidden = view.dataset.for !== tab.dataset.view;
  };

drawCourses();
showWork();
readModels();
