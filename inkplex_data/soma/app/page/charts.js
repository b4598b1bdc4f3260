// Two kinds of charts in SVG: a course over source bytes, and bars over bands.

const WIDTH = 280, HEIGHT = 110, LEFT = 48, BOTTOM = 16, TOP = 6;
const SVG = "http://www.w3.org/2000/svg";

function node(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function card(title, value) {
  const made = document.createElement("div");
  made.className = "card";
  const head = document.createElement("h3");
  head.textContent = title;
  const shown = document.createElement("b");
  shown.textContent = value;
  head.append(shown);
  const svg = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  svg.append(node("title", {}, `${title}: ${value}`));
  made.append(head, svg);
  return [made, svg];
}

function scale(svg, low, high, format) {
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low || 1)) * (HEIGHT - BOTTOM - TOP);
  for (const value of [low, high]) {
    svg.append(node("line", { x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) }));
    svg.append(node("text", { x: LEFT - 4, y: y(value) + 3, "text-anchor": "end" }, format(value)));
  }
  return y;
}

export function bytes(count) {
  if (count >= 1e6) return `${(count / 1e6).toFixed(1)} MB`;
  return count >= 1e3 ? `${(count / 1e3).toFixed(1)} kB` : `${Math.round(count)} B`;
}

// points: [source bytes, value or null], in order.
export function course(title, points, format, fromZero) {
  const known = points.filter((point) => point[1] !== null);
  const last = known.at(-1);
  const [made, svg] = card(title, last ? format(last[1]) : "–");
  if (last) {
    const values = known.map((point) => point[1]);
    const low = fromZero ? 0 : Math.min(...values), high = Math.max(...values, low + 1e-12);
    const y = scale(svg, low, high, format);
    const first = known[0][0], span = last[0] - first || 1;
    const x = (at) => LEFT + ((at - first) / span) * (WIDTH - LEFT);
    svg.append(node("path", { d: "M" + known.map((point) => `${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("L") }));
    svg.append(node("text", { x: LEFT, y: HEIGHT - 3 }, bytes(first)));
    svg.append(node("text", { x: WIDTH, y: HEIGHT - 3, "text-anchor": "end" }, bytes(last[0])));
  }
  return made;
}

export function bars(title, values, value) {
  const [made, svg] = card(title, value);
  const y = scale(svg, 0, Math.max(...values, 1e-12), (number) => number.toPrecision(2));
  const step = (WIDTH - LEFT) / values.length;
  values.forEach((height, band) => {
    const top = y(height);
    svg.append(node("rect", { x: LEFT + band * step + 1, width: step - 2, y: top, height: HEIGHT - BOTTOM - top }));
    if (band === 0 || band === values.length - 1 || band === values.length >> 1)
      svg.append(node("text", { x: LEFT + (band + 0.5) * step, y: HEIGHT - 3, "text-anchor": "middle" }, band));
  });
  return made;
}
