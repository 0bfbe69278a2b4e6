"""Write the page of the window's frames and stalls from what was measured.

``python -m tests.desk.course -o docs/results/window/frames.json`` measures frames on a real display; the page
names what measures the rest. Then ``python docs/render_window.py`` writes
``docs/pages/benchmarks/window.md``. With ``--check`` it only says whether the page is up to date (exit code
1: it is not).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page_file import write_or_check
from render_figures import figures

MEASURED = Path(__file__).parent / "results" / "window" / "frames.json"
PAGE = Path(__file__).parent / "pages" / "benchmarks" / "window.md"
_ANSWER = "input to first changed pixel, ms"
_DEEDS = {
    "drag": "drag the budget",
    "play": "play the step",
    "steps": "click along the curve",
    "zoom": "zoom with the wheel",
    "resize": "resize the window",
    "theme": "change the theme, to and fro",
    "open": "open another graph",
}

_HEAD = """\
# Frames of the window

<!-- Written by docs/render_window.py from docs/results/window/frames.json. Change that, not this page. -->

Is a panel ever empty while the window works, and when does it answer? A hand uses the window on a real X
server, with a mouse and keys that the server itself sends, and every frame is captured meanwhile. A panel is
*blank* in a frame if more than half of what it shows before and afterwards is missing, and *half-painted* if
more than a fifth is. The answer to an input is the first pixel of the panel that changes, measured from the
captured frames.
"""
_FOOT = """\
A drag sends a move each 50 ms and the wheel a notch each 100 ms, whether or not the last one was answered.
What is answered later, or changes no pixel (the handle snaps to a known schedule, or the plot is at its end),
is not in these figures; the last column counts it. An answer to a click is awaited for 3 s.

To measure again, run `python -m tests.desk.course -o docs/results/window/frames.json`, then
`python docs/render_window.py`. It needs Xvfb, openbox and xdotool.
"""
_MORE = """\
## Stalls { #stalls }

A timer should beat every 8 ms in the window's event loop; a late beat is a *stall*. *Own work* is what the
window's thread itself computed between two beats, so other programs do not count in it. *Checked elsewhere*:
as the window does it for graphs of this size. Drawn offscreen, 1400 × 900. The goal is a p99 of 16 ms while
1,000 ops are solved and the slider moves.

{stalls}
`python -m tests.benchmarks.stalls -o docs/results/window/stalls.json` measures them.

## Answers and memory { #answers }

From a deed to all views painted, offscreen; the goals are a first window within a second, an answer to the
slider within 100 ms, a frame of a drag within 16 ms, and less than 300 MB for a graph of 10,000 ops.

{answers}
`python -m tests.benchmarks.hand -o docs/results/window/answers.json` measures them.
"""
_TITLES = ("graph", "deed", "frames", "blank or half-painted", "answers", "p50, ms", "p99, ms", "no answer")


def page(found: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    whole = found["all"]
    bad, frames = whole["blank or half-painted"], whole["frames"]
    said = f"**{bad} of {frames:,} frames** show a blank or half-painted panel."
    return "\n".join([_HEAD, said, "", _made_on(found), "", *_table(found), "", _FOOT, _more()])


def _more() -> str:
    return _MORE.format(stalls=figures("window/stalls"), answers=figures("window/answers"))


def _made_on(found: dict[str, Any]) -> str:
    machine = found["machine"]
    load = machine["load before and after (1, 5, 15 minutes)"]
    return (
        f"*Measured in the {found['theme']} theme with PySide6 {machine['PySide6']} on {machine['display']}, "
        f"{machine['cores']} cores; the load was {load[0]:g} before and "
        f"{load[3]:g} after. From `docs/results/window/frames.json`.*"
    )


def _table(found: dict[str, Any]) -> Iterator[str]:
    yield "| " + " | ".join(_TITLES) + " |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for graph, deeds in found.items():
        if not (graph.endswith(" ops") or graph == "first graph"):
            continue
        for deed, facts in deeds.items():
            words = "open it from the start page" if graph == "first graph" else _DEEDS[deed]
            answer = facts.get(_ANSWER)
            times = ("", "", "", "") if answer is None else _times(answer, facts["unanswered inputs"])
            cells = (_name(graph), words, facts["frames"], facts["blank or half-painted"], *times)
            yield "| " + " | ".join(str(cell) for cell in cells) + " |"


def _name(graph: str) -> str:
    return f"{int(graph.removesuffix(' ops')):,} ops" if graph.endswith(" ops") else graph


def _times(answer: dict[str, float], unanswered: int) -> tuple[object, ...]:
    return answer["count"], answer.get("p50", ""), answer.get("p99", ""), unanswered


if __name__ == "__main__":
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    sys.exit(write_or_check(PAGE, page(measured), "docs/render_window.py"))
