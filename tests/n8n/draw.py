"""Draws the workflows as they stand in n8n's editor: one SVG each, from the JSON alone.

    python3 tests/n8n/draw.py          writes docs/n8n/*.svg
"""

import html
import json
import os
import re
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NODE_W, NODE_H, NOTE_PAD = 192, 72, 12
# The mark and the colour of a kind of node.
LOOKS = {
    "scheduleTrigger": ("TIME", "#2f9e6e"), "webhook": ("HOOK", "#2f9e6e"), "manualTrigger": ("HAND", "#2f9e6e"),
    "set": ("SET", "#6a7ff0"), "postgres": ("SQL", "#336791"), "httpRequest": ("HTTP", "#c2563a"), "respondToWebhook": ("REPLY", "#8a5bd1"),
    "if": ("IF", "#b58900"), "noOp": ("END", "#8a8f98"), "crypto": ("#", "#55606e"),
}
STYLE = """text{font:13px 'Noto Sans','DejaVu Sans',sans-serif;fill:#22262e}.t{font-weight:600}.k{font-size:11px;fill:#69707d}.n{font-size:12px}
.h{font-size:17px;font-weight:700}.l{font-size:10.5px;fill:#69707d}.w{stroke:#8a93a3;stroke-width:2;fill:none}"""


def kind(node):
    return node["type"].rsplit(".", 1)[-1]


def wrap(words, width):
    return [line for paragraph in words.split("\n") for line in (textwrap.wrap(paragraph, width) or [""])]


def close_up(flow):
    """Notes above the nodes stand on them, and the heading on the notes: an editor has room to spare, a page has not."""
    notes = [node for node in flow["nodes"] if kind(node) == "stickyNote" and node["position"][1] < 0]
    steps = [node for node in notes if not node["parameters"]["content"].startswith("## ")]
    height = lambda node: (lambda bounds: bounds[3] - bounds[1])(note(node)[0])
    for node in steps:
        node["position"][1] = -22 - height(node)
    for node in notes:
        if node not in steps:
            node["position"][1] = -22 - max(map(height, steps)) - 22 - height(node)


def note(node):
    """A sticky note, as high as its words need."""
    (x, y), p = node["position"], node["parameters"]
    content = re.sub(r"[*`]", "", p["content"])
    width = p["width"]
    lines, out, at = wrap(content, int(width / 7.4)), [], 0
    for line in lines:
        head = line.startswith("## ")
        at += 24 if head else 17
        out.append(f'<text class="{"h" if head else "n"}" x="{x + NOTE_PAD}" y="{y + at + 6}">{html.escape(line.lstrip("# "))}</text>')
    height = at + 20
    colour = "#eef3ff" if p.get("color") == 4 else "#fff8dc"
    return (x, y, x + width, y + height), [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{colour}" stroke="#e3dcc0"/>', *out]


def box(node):
    x, y = node["position"]
    mark, colour = LOOKS.get(kind(node), ("▪", "#555"))
    lines = wrap(node["name"], 18)[:3]
    out = [f'<rect x="{x}" y="{y}" width="{NODE_W}" height="{NODE_H}" rx="9" fill="#fff" stroke="{colour}" stroke-width="2"/>',
           f'<rect x="{x}" y="{y}" width="36" height="{NODE_H}" rx="9" fill="{colour}"/>',
           f'<text x="{x + 18}" y="{y + NODE_H / 2 + 4}" text-anchor="middle" style="font-size:10px;font-weight:700;fill:#fff">{mark}</text>']
    top = y + NODE_H / 2 - (len(lines) + 1) * 8 + 8
    for n, line in enumerate(lines):
        out.append(f'<text class="t" x="{x + 45}" y="{top + n * 16}">{html.escape(line)}</text>')
    out.append(f'<text class="k" x="{x + 45}" y="{top + len(lines) * 16}">{kind(node)}</text>')
    return (x, y, x + NODE_W, y + NODE_H), out


def wires(flow, places):
    for name, outputs in flow["connections"].items():
        x, y = places[name]
        branches = outputs["main"]
        for index, targets in enumerate(branches):
            start = (x + NODE_W, y + NODE_H * (index + 1) / (len(branches) + 1))
            if len(branches) > 1 and targets:
                label = "true" if kind_of(flow, name) == "if" and index == 0 else "false" if kind_of(flow, name) == "if" else "" if index == 0 else "error"
                yield f'<text class="l" x="{start[0] + 6}" y="{start[1] - 5}">{label}</text>'
            for target in targets or []:
                tx, ty = places[target["node"]]
                end = (tx, ty + NODE_H / 2)
                bend = max(40, abs(end[0] - start[0]) / 2)
                yield (f'<path class="w" marker-end="url(#a)" d="M{start[0]:.0f},{start[1]:.0f} C{start[0] + bend:.0f},{start[1]:.0f} '
                       f'{end[0] - bend:.0f},{end[1]:.0f} {end[0] - 6:.0f},{end[1]:.0f}"/>')


def kind_of(flow, name):
    return next(kind(node) for node in flow["nodes"] if node["name"] == name)


def draw(flow):
    close_up(flow)
    notes = [note(node) for node in flow["nodes"] if kind(node) == "stickyNote"]
    nodes = [box(node) for node in flow["nodes"] if kind(node) != "stickyNote"]
    places = {node["name"]: node["position"] for node in flow["nodes"]}
    edges = list(zip(*[bounds for bounds, _ in notes + nodes]))
    left, top, right, bottom = min(edges[0]) - 20, min(edges[1]) - 20, max(edges[2]) + 20, max(edges[3]) + 20
    body = [line for _, lines in notes for line in lines] + list(wires(flow, places)) + [line for _, lines in nodes for line in lines]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left} {top} {right - left} {bottom - top}" width="{right - left}">',
                      f'<title>{html.escape(flow["name"])}</title><style>{STYLE}</style>',
                      '<defs><marker id="a" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#8a93a3"/></marker></defs>',
                      f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" fill="#f7f8fa"/>', *body, "</svg>", ""])


def main():
    folder = f"{ROOT}/docs/n8n"
    os.makedirs(folder, exist_ok=True)
    for name in sorted(os.listdir(f"{ROOT}/workflows")):
        with open(f"{ROOT}/workflows/{name}") as file:
            flow = json.load(file)
        with open(f"{folder}/{name[:-5]}.svg", "w") as file:
            file.write(draw(flow))


if __name__ == "__main__":
    main()
