"""The part of a report that a reader moves through, step by step; no Qt.

``resources/report/scrub.js`` shows the data that is written here.
"""

from __future__ import annotations

import json
from typing import Any

from app.presenters.report.charts import CURVE_PLACE
from app.state.knowledge import ListedSchedule
from checkmate.catalog.bundled import resource

MOST_STEPS = 50_000  # a page of more would be tens of megabytes


def scrub_data(shown: ListedSchedule) -> dict[str, Any]:
    """Return all that the script shows of a schedule.

    ``steps``: op per step; ``again``, ``live``, ``stage`` and ``column`` are per step too. ``ops`` and
    ``workspace`` are per op, ``values`` are names. ``buffers`` and ``held`` are the timeline's and S's lists.
    ``order``: op per column. ``curve``: where the curve is in its picture, in pixels.
    """
    graph, timeline, matrices = shown.graph, shown.timeline, shown.matrices
    left, right, width = CURVE_PLACE
    return {
        "steps": shown.schedule.steps.tolist(),
        "again": (~shown.schedule.first_occurrence).astype(int).tolist(),
        "live": timeline.live_bytes.tolist(),
        "stage": matrices.stage_of_step.tolist(),
        "column": matrices.column_of_step.tolist(),
        "ops": [op.name for op in graph.ops],
        "workspace": graph.workspace_bytes.tolist(),
        "values": [value.name for value in graph.values],
        "buffers": {
            "value": timeline.buffer_value.tolist(),
            "bytes": timeline.buffer_bytes.tolist(),
            "born": timeline.buffer_born.tolist(),
            "last": timeline.buffer_last.tolist(),
        },
        "held": {
            "column": matrices.held_column.tolist(),
            "from": matrices.held_from.tolist(),
            "to": matrices.held_to.tolist(),
        },
        "order": matrices.order.tolist(),
        "fixed": timeline.fixed_bytes,
        "peak": timeline.peak_step,
        "curve": {"left": left, "right": right, "width": width},
    }


def scrub_controls(shown: ListedSchedule) -> str:
    """Return the slider and what it tells, hidden until the script shows it."""
    last = len(shown.schedule.steps) - 1
    return (
        '<div id="scrub" hidden><div class="scrub-row">'
        f'<input type="range" id="step" min="0" max="{last}" value="0" aria-label="Step">'
        '<button type="button" id="to-peak">Peak</button></div>'
        '<p id="now"></p>'
        '<div class="wide"><table><thead><tr><th>In memory then</th><th></th><th class="n">bytes</th>'
        '<th>there</th></tr></thead><tbody id="alive"></tbody></table></div></div>'
    )


def scrub_script(shown: ListedSchedule) -> str:
    """Return the data and the script, as elements of a page.

    No text in the data can end its element, or begin another.
    """
    data = json.dumps(scrub_data(shown), separators=(",", ":")).replace("<", "\\u003c")
    script = resource("report", "scrub.js").read_text("utf-8")
    return f'<script type="application/json" id="scrub-data">{data}</script>\n<script>\n{script}</script>'


SCRUB_STYLE = """.over { position: relative; } .over > i { position: absolute; display: none;
  pointer-events: none; background: var(--text); } .moving .over > i { display: block; }
.over > .line { top: 0; bottom: 8%; width: 1px; } #curve { cursor: crosshair; touch-action: pan-y; }
.cross[data-axis=stage] { left: 0; right: 0; height: 1px; opacity: .55; }
.cross[data-axis=column] { top: 0; bottom: 0; width: 1px; opacity: .55; }
.over > img { display: block; } .scrub-row { display: flex; gap: 12px; align-items: center; }
#step { flex: 1; accent-color: var(--accent); } #now { font-weight: 600; margin: 8px 0; }
#to-peak { font: inherit; color: inherit; background: none; border: 1px solid var(--line);
  border-radius: 6px; padding: 2px 12px; } #alive td { overflow-wrap: normal; }
#alive .name { width: 42%; overflow-wrap: anywhere; } #alive .bar { width: 18%; }
#alive .bar i { display: block; height: 8px; border-radius: 4px; background: var(--forward); min-width: 2px; }
#alive .bar i[hidden] { display: none; }
#alive .n, #alive .muted { white-space: nowrap; } circle[data-said] { cursor: pointer; }
#point, #cell { min-height: 1.5em; margin: 4px 0; }
@media print { #scrub, .moving .over > i { display: none; } }
"""
