"use strict";
// Filters: a call stays when every field that is filled in matches one of its values.
for (const form of document.querySelectorAll("form.filters")) {
  const fields = [...form.querySelectorAll("[data-filter]")];
  const calls = [...document.querySelectorAll("[data-call]")];
  const rows = calls.filter((call) => call.matches("tr"));
  const told = form.querySelector("output");
  const matches = (call, field) => {
    const wanted = field.value.trim().toLowerCase();
    const values = (call.dataset[field.dataset.filter] || "").toLowerCase().split("\n");
    return !wanted || values.some((value) => (field.matches("select") ? value === wanted : value.includes(wanted)));
  };
  const apply = () => {
    for (const call of calls) call.hidden = !fields.every((field) => matches(call, field));
    told.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} calls listed`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  apply();
}

// The playhead: a line over every lane of the band in which the sound is.
const FRAME_S = 0.08;
for (const player of document.querySelectorAll(".player")) {
  const svg = player.querySelector("svg.timeline");
  const audio = player.querySelector("audio");
  if (!svg || !audio) continue;
  const frames = Number(svg.dataset.frames), left = Number(svg.dataset.left), px = Number(svg.dataset.framePx);
  const bands = svg.dataset.bands.split(",").map((band) => band.split(" ").map(Number));
  const head = document.createElementNS("http://www.w3.org/2000/svg", "line");
  head.setAttribute("class", "playhead");
  svg.append(head);
  const now = player.querySelector("output.now");
  let shown = -1;

  const draw = () => {
    const at = Math.min(Math.max(audio.currentTime / FRAME_S, 0), frames);
    const frame = Math.min(Math.floor(at + 1e-6), frames - 1);
    const index = bands.findLastIndex(([start]) => start <= frame);
    const [start, top, bottom] = bands[index];
    const x = left + (at - start) * px;
    for (const [name, value] of [["x1", x], ["x2", x], ["y1", top], ["y2", bottom]]) head.setAttribute(name, value);
    const seconds = audio.currentTime, minutes = Math.floor(seconds / 60);
    const text = `${minutes}:${(seconds - 60 * minutes).toFixed(2).padStart(5, "0")}, frame ${frame}`;
    now.value = text;
    svg.setAttribute("aria-valuenow", seconds.toFixed(2));
    svg.setAttribute("aria-valuetext", text);
    if (index !== shown && !audio.paused) head.scrollIntoView({ block: "nearest", inline: "nearest" });
    shown = index;
  };
  const run = () => { draw(); if (!audio.paused && !audio.ended) requestAnimationFrame(run); };
  const seek = (seconds) => { audio.currentTime = Math.min(Math.max(seconds, 0), frames * FRAME_S); draw(); };
  const toggle = () => (audio.paused ? audio.play() : audio.pause());

  svg.setAttribute("role", "slider");
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("aria-valuemin", "0");
  svg.setAttribute("aria-valuemax", (frames * FRAME_S).toFixed(2));
  svg.addEventListener("click", (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const band = bands.find(([, top, bottom]) => top <= point.y && point.y <= bottom);
    if (band && point.x >= left) seek((band[0] + (point.x - left) / px) * FRAME_S);
  });
  svg.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? FRAME_S : 1;
    const keys = {
      " ": toggle,
      ArrowRight: () => seek(audio.currentTime + step),
      ArrowLeft: () => seek(audio.currentTime - step),
      Home: () => seek(0),
      End: () => seek(frames * FRAME_S),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  for (const event of ["play", "seeked", "timeupdate", "loadedmetadata"]) audio.addEventListener(event, run);
  // One call is heard at a time.
  audio.addEventListener("play", () => {
    for (const other of document.querySelectorAll("audio")) if (other !== audio) other.pause();
  });
  for (const button of player.closest("details, main").querySelectorAll("button.jump"))
    button.addEventListener("click", () => { seek(Number(button.dataset.frame) * FRAME_S); svg.focus(); });

  // One voice alone, in both ears. The graph is made at the first click: browsers want a gesture for that.
  let gains = null;
  const hear = (ear) => {
    if (!gains) {
      const context = new AudioContext();
      const split = context.createChannelSplitter(2), merge = context.createChannelMerger(2);
      context.createMediaElementSource(audio).connect(split);
      gains = [];
      for (const from of [0, 1]) for (const to of [0, 1]) {
        const gain = context.createGain();
        split.connect(gain, from);
        gain.connect(merge, 0, to);
        gains.push({ gain: gain.gain, from, to });
      }
      merge.connect(context.destination);
      audio.addEventListener("play", () => context.resume());
      context.resume();
    }
    for (const { gain, from, to } of gains)
      gain.value = ear === "both" ? Number(from === to) : Number(from === (ear === "agent" ? 0 : 1));
  };
  for (const button of player.querySelectorAll("button.ear"))
    button.addEventListener("click", () => {
      hear(button.dataset.ear);
      for (const other of player.querySelectorAll("button.ear"))
        other.setAttribute("aria-pressed", String(other === button));
    });
  draw();
}
