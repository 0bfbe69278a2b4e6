"""Count what it takes to answer one question about a step's memory.

``python -m tests.desk.question``: which tensors fill the memory at the peak, and what would it cost to drop
them? The hand begins at the start page, with a graph that was profiled before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from app.presenters.hotspot_rows import View
from tests.desk.desk import Desk

LINK, HELPS = "link unet-b8.graph", "tab What helps"


def ask(desk: Desk) -> dict[str, Any]:
    """Answer the question by hand; return clicks, keys and seconds so far."""
    desk.until(lambda: LINK in desk.state["places"], "the start page came up")
    desk.still()
    clicks = keys = 0
    begun, seconds = time.monotonic(), {}

    def passed(what: str) -> None:
        seconds[what] = round(time.monotonic() - begun, 1)

    def click(place: str) -> None:
        x, y, wide, high = desk.panel(place)
        desk.hand.click(x + wide / 2, y + high / 2)

    click(LINK)
    clicks += 1
    desk.until(lambda: HELPS in desk.state["places"], "the graph is on screen")
    passed("the graph is open")
    desk.hand.command("playback.peak")
    keys += 1
    desk.until(
        lambda: desk.state["memory"]["at_peak"] and desk.state["memory"]["rows"] > 0, "tensors are listed"
    )
    passed("the tensors at the peak are listed")
    click(HELPS)
    clicks += 1
    desk.until(lambda: _helps(desk), "what dropping costs is listed")
    passed("what dropping each would cost is listed")
    return {"clicks": clicks, "keys": keys, "seconds": seconds}


def _helps(desk: Desk) -> bool:
    memory = desk.state["memory"]
    return memory["view"] == View.HELPS.value and not memory["busy"] and memory["priced"] > 0


def main() -> int:
    load = round(os.getloadavg()[0], 1)
    with Desk(None) as desk:
        found = ask(desk)
    print(json.dumps({**found, "cores": os.cpu_count(), "load": load}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
