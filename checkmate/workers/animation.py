"""``python -m checkmate.workers.animation``: makes one animated picture out of frames, and ends.

In: ``begin`` (path; width, height; milliseconds: of each frame; colors: [[r, g, b], …] that must be exact; samples: how many),
then as many ``sample`` and ``frame`` as were announced (body: RGB, 8 bit, rows without padding). Out: ``hello``; ``taken`` after each
frame; ``saving``; ``saved`` (bytes); ``error`` (message, hint). Nothing is written before all frames are there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from checkmate.errors import CheckmateError
from checkmate.formats.animation import Animation
from checkmate.ipc.child import Channel, Inbox, begin


def main() -> int:
    """Make one picture."""
    channel, inbox = begin("film"), Inbox()
    channel.listen(inbox.put)
    try:
        size = _make(channel, inbox)
        channel.send({"type": "saved", "bytes": size})
    except CheckmateError as error:
        channel.send({"type": "error", "message": str(error), "hint": error.hint})
    except ImportError:
        channel.send(
            {"type": "error", "message": "animated pictures need Pillow", "hint": "pip install pillow"}
        )
    inbox.tasks.get()  # the window ends the process by closing its end, once it has read the answer
    return 0


def _make(channel: Channel, inbox: Inbox) -> int:
    header = inbox.tasks.get().header
    size = (int(header["width"]), int(header["height"]))
    samples = [inbox.tasks.get().body for _ in range(int(header["samples"]))]
    animation = Animation(size, samples, [(int(r), int(g), int(b)) for r, g, b in header["colors"]])
    milliseconds = [int(value) for value in header["milliseconds"]]
    while len(animation) < len(milliseconds):
        animation.add(inbox.tasks.get().body)
        channel.send({"type": "taken", "frames": len(animation)})
    channel.send({"type": "saving"})
    return animation.save(Path(header["path"]), milliseconds)


if __name__ == "__main__":
    sys.exit(main())
