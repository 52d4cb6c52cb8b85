"""Draw docs/images/rooms.svg and docs/images/manifest.svg:  python hack/docs/diagrams.py

The folders in rooms.svg are listed here by layer; tests/docs/test_architecture.py compares them
with the source tree. Plain SVG with its own background: it renders on GitHub, in both color schemes
of the site, and without a network.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[2] / "docs/images"

LAYERS: dict[str, list[list[str]]] = {
    "agentrl_operator": [
        ["controller", "telemetry", "testing"],
        ["planning", "clients", "leader_election"],
        ["manifests"],
        ["api"],
    ],
    "agentrl_pipelines": [
        ["cli"],
        ["local", "stages", "sizing"],
        ["kfp_pipeline", "platform"],
    ],
    "agentrl_components": [
        ["stages"],
        ["run", "reporting"],
        ["tracking", "ray_workers"],
        ["workers", "sharded"],
        ["evaluation", "rollout", "streaming", "warmstart"],
        ["engines", "update", "model"],
        ["exchange", "dialogue", "trajectory", "storage"],
        ["schedule", "spec"],
    ],
    "agentrl_envs": [
        ["protocols"],
        ["conformance"],
        ["client", "server"],
        ["environments"],
        ["browser"],
        ["calls", "chat", "http", "output"],
    ],
}
"""Folders of each package, the layer that may import the others first."""

PURPOSE = {
    "agentrl_operator": "what should run",
    "agentrl_pipelines": "in which order",
    "agentrl_components": "what a stage does",
    "agentrl_envs": "the environments",
}

COLOR = {
    "agentrl_operator": "#3f51b5",
    "agentrl_pipelines": "#00796b",
    "agentrl_components": "#b35900",
    "agentrl_envs": "#7b1fa2",
}

STYLE = """<style>
  text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #1f2430; }
  .small { font-size: 12px; fill: #4a5160; }
  .name { font-weight: 600; }
  .white { fill: #fff; }
  .mono { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 13px; }
</style>
<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
  <path d="M 0 0 L 10 5 L 0 10 z" fill="#4a5160"/></marker></defs>"""  # noqa: E501


class Drawing:
    """SVG elements on a light background."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            STYLE,
            f'<rect width="{width}" height="{height}" rx="10" fill="#f7f8fa"/>',
        ]

    def box(self, x: float, y: float, width: float, height: float, fill: str, edge: str) -> None:
        """Draw a rectangle with round corners."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
            f' fill="{fill}" stroke="{edge}"/>'
        )

    def text(
        self, x: float, y: float, text: str, style: str = "", *, anchor: str = "middle"
    ) -> None:
        """Write one line."""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{style}">'
            f"{escape(text)}</text>"
        )

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draw a line through `points` with an arrow head at its end."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="#4a5160" stroke-width="1.5"'
            ' marker-end="url(#arrow)"/>'
        )

    def __str__(self) -> str:
        return "\n".join([*self._parts, "</svg>", ""])


def rooms() -> Drawing:
    """Draw packages from top to bottom, folders in the layers in which they may import."""
    width, row, left = 900, 34, 210
    heights = [len(layers) * row + 16 for layers in LAYERS.values()]
    drawing = Drawing(width, sum(heights) + 26 * (len(heights) - 1) + 56, "Packages and folders")
    y = 16.0
    for index, (package, layers) in enumerate(LAYERS.items()):
        color, height = COLOR[package], heights[index]
        drawing.box(16, y, width - 32, height, "#ffffff", color)
        drawing.box(16, y, left - 30, height, color, color)
        middle = y + height / 2
        drawing.text(16 + (left - 30) / 2, middle - 2, package, "name white")
        drawing.text(16 + (left - 30) / 2, middle + 16, PURPOSE[package], "white small")
        for level, names in enumerate(layers):
            wide = (width - 16 - left) / len(names)
            for place, name in enumerate(names):
                x = left + place * wide
                drawing.box(x, y + 10 + level * row, wide - 10, row - 6, "#eef0f4", "#c4c9d4")
                drawing.text(x + (wide - 10) / 2, y + 29 + level * row, f"{name}/", "mono")
        y += height
        if index < len(heights) - 1:
            drawing.arrow((width / 2, y + 2), (width / 2, y + 24))
        y += 26
    note = "Imports point down: between packages, and between the layers inside a package."
    drawing.text(width / 2, y + 4, note, "small")
    return drawing


FLOW = [
    ("user", "kubectl apply", "AgentRLRun manifest"),
    ("API server", "admit", "CRD schema and CEL rules"),
    ("controller/", "watch and queue", "watches, work_queue"),
    ("controller/", "observe", "KFP, store, pods, Kueue"),
    ("planning/", "reconcile", "a pure function: Plan"),
    ("controller/", "execute", "Deployments, KFP run"),
]

STAGES = {
    "provision": ("check the environments", 0, 1),
    "rollout": ("play episodes", 1, 0),
    "update": ("train on episodes", 1, 2),
    "evaluate": ("play held-out tasks", 2, 1),
    "expand": ("decide what follows", 3, 1),
}
"""A stage's task, its column, and its place in the column in half rows."""


def manifest() -> Drawing:
    """Draw a manifest's way: to a KFP run, through its stages, and back to the operator."""
    width, wide, top, phase = 1140, 172, 44, 184
    grey, blue, brown = "#4a5160", COLOR["agentrl_operator"], COLOR["agentrl_components"]
    drawing = Drawing(width, 476, "From a manifest to the decision of a phase")
    step = (width - 32 - wide) / (len(FLOW) - 1)
    drawing.text(16, 30, "Control plane", "name", anchor="start")
    for index, (place, verb, detail) in enumerate(FLOW):
        x = 16 + index * step
        drawing.box(x, top, wide, 66, "#ffffff", blue if place.endswith("/") else grey)
        drawing.text(x + wide / 2, top + 20, verb, "name")
        drawing.text(x + wide / 2, top + 38, place, "mono")
        drawing.text(x + wide / 2, top + 56, detail, "small")
        if index:
            drawing.arrow((x - step + wide + 1, top + 33), (x - 1, top + 33))

    inner = 880
    drawing.box(16, phase, inner, 176, "#fff8f0", brown)
    title = "Phase k: one KFP run with a pod for each stage"
    drawing.text(30, phase + 24, title, "name", anchor="start")
    column = (inner - 28) / 4
    for name, (task, across, down) in STAGES.items():
        x, y = 30 + across * column, phase + 42 + down * 33
        drawing.box(x, y, column - 40, 54, "#ffffff", brown)
        drawing.text(x + (column - 40) / 2, y + 23, name, "name")
        drawing.text(x + (column - 40) / 2, y + 42, task, "small")
    gap, middle = column - 40, phase + 42 + 33 + 27
    for down in (0, 2):
        y = phase + 42 + down * 33 + 27
        drawing.arrow((30 + gap + 1, middle), (30 + column - 1, y))
        drawing.arrow((30 + column + gap + 1, y), (30 + 2 * column - 1, middle))
    drawing.arrow((30 + 2 * column + gap + 1, middle), (30 + 3 * column - 1, middle))

    drawing.box(width - 196, phase, 180, 176, "#f6effa", COLOR["agentrl_envs"])
    drawing.text(width - 106, phase + 76, "environment servers", "name")
    drawing.text(width - 106, phase + 96, "a Deployment for each", "small")
    drawing.text(width - 106, phase + 112, "environment, over HTTP", "small")
    drawing.arrow((16 + inner + 1, phase + 92), (width - 197, phase + 92))

    execute = 16 + 5 * step
    drawing.arrow((execute + wide - 30, 111), (execute + wide - 30, phase - 1))
    drawing.arrow((execute + 30, 111), (execute + 30, 146), (770, 146), (770, phase - 1))
    drawing.text(762, 168, "starts the KFP run of phase k", "small", anchor="end")

    store = phase + 176 + 44
    drawing.box(16, store, width - 32, 56, "#ffffff", "#c4c9d4")
    drawing.text(width / 2, store + 23, "object store", "name")
    line = "episodes, weights, checkpoints, records, and the decision: advance, finish or stop"
    drawing.text(width / 2, store + 43, line, "small")
    drawing.arrow((770, phase + 177), (770, store - 1))
    drawing.text(778, store - 18, "commits", "small", anchor="start")
    observe = 16 + 3 * step + wide / 2
    drawing.arrow((15, store + 28), (7, store + 28), (7, 146), (observe, 146), (observe, 111))
    text = "decision of phase k: start phase k+1, or end the run"
    drawing.text(16, 168, text, "small", anchor="start")
    return drawing


if __name__ == "__main__":
    (IMAGES / "rooms.svg").write_text(str(rooms()), encoding="utf-8")
    (IMAGES / "manifest.svg").write_text(str(manifest()), encoding="utf-8")
