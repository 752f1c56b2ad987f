"""What must hold of a page in a browser, as scripts that look at it."""

from __future__ import annotations

from tests.conftest import some

QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTHS = some((360, 1280, 800, 390, 1400), 3)

LIGHT = """
  const parse = text => { const found = text.match(/[\\d.]+/g).map(Number); return [...found.slice(0, 3), found[3] ?? 1]; };
  const linear = value => { const c = value / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const contrast = (one, other) => (Math.max(light(one), light(other)) + 0.05) / (Math.min(light(one), light(other)) + 0.05);
"""
"""Contrast as WCAG 2.2 defines it."""

WEAK_TEXTS = f"""() => {{ {LIGHT}
  const ground = node => {{
    for (let at = node; at; at = at.parentElement) {{
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }}
    return [255, 255, 255, 1];
  }};
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {{
    const parent = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || parent.closest("title, desc") || !parent.checkVisibility()) continue;
    seen += 1;
    const style = getComputedStyle(parent);
    const ratio = contrast(parse(parent.closest("svg") ? style.fill : style.color), ground(parent));
    if (ratio < 4.5) weak.push([ratio.toFixed(2), parent.outerHTML.slice(0, 80)]);
  }}
  return {{seen, weak}};
}}"""

SHAPES = f"""() => {{ {LIGHT}
  const ground = parse(getComputedStyle(document.body).backgroundColor);
  const stops = ["ground.solid", "marks.text", "marks.run", "marks.block", "marks.new"];
  return stops.map(name => contrast(parse(getComputedStyle(document.querySelector("stop." + name)).stopColor), ground));
}}"""

OVERFLOW = """() => [...document.querySelectorAll("body *")].filter(node => {
  if (!node.checkVisibility() || node.closest("svg, .scroll, pre, .skip, .paints, .unseen")) return false;
  const box = node.getBoundingClientRect(), frame = node.closest(".card")?.getBoundingClientRect();
  if (frame && (box.right > frame.right + 1 || box.left < frame.left - 1)) return true;
  return box.right > document.documentElement.clientWidth + 1 || box.left < -1;
}).map(node => node.outerHTML.slice(0, 80))"""

TEXTS_CUT = """() => [...document.querySelectorAll("svg.drawing")].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(text => getComputedStyle(text).display !== "none").filter(text => {
    const box = text.getBoundingClientRect();
    return box.right > frame.right + 6 || box.left < frame.left - 6 || box.bottom > frame.bottom + 3 || box.top < frame.top - 3;
  }).map(text => [svg.id, text.textContent]);
})"""

OVERLAPS = """() => [...document.querySelectorAll("svg.drawing")].flatMap(svg => {
  const texts = [...svg.querySelectorAll("text")].filter(text => getComputedStyle(text).display !== "none");
  const boxes = texts.map(text => text.getBoundingClientRect());
  const found = [];
  for (let a = 0; a < texts.length; a++) for (let b = a + 1; b < texts.length; b++) {
    const across = Math.min(boxes[a].right, boxes[b].right) - Math.max(boxes[a].left, boxes[b].left);
    const down = Math.min(boxes[a].bottom, boxes[b].bottom) - Math.max(boxes[a].top, boxes[b].top);
    if (across > 1 && down > 3) found.push([svg.id, texts[a].textContent, texts[b].textContent]);
  }
  return found;
})"""
