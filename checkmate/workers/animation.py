"""Make one animated picture out of frames, and end.

This is the process ``python -m checkmate.workers.animation``.

In: ``BeginAnimation``, then as many ``AnimationSample`` and ``AnimationFrame`` as were announced. Out:
``FrameTaken`` after each frame; ``AnimationSaved`` or ``AnimationFailed``. Nothing is written before all
frames are there.
"""

from __future__ import annotations

import sys
from typing import TypeVar

from checkmate.errors import CheckmateError
from checkmate.formats.animation import Animation
from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.ipc.messages import Message, MessageError
from checkmate.workers.messages.animation import (
    AnimationFailed,
    AnimationFrame,
    AnimationSample,
    AnimationSaved,
    BeginAnimation,
    FrameTaken,
)
from checkmate.workers.messages.table import WINDOW_MESSAGES

_M = TypeVar("_M", bound=Message)
_P = TypeVar("_P", AnimationSample, AnimationFrame)


def main() -> int:
    """Make one picture."""
    channel, inbox = begin("animation", WINDOW_MESSAGES), Inbox()
    channel.listen(inbox.put)
    try:
        channel.send(AnimationSaved(_make(channel, inbox)))
    except CheckmateError as error:
        channel.send(AnimationFailed(str(error), error.hint))
    except ImportError:
        channel.send(AnimationFailed("animated pictures need Pillow", "pip install pillow"))
    inbox.tasks.get()  # the window ends the process by closing its end, once it has read the answer
    return 0


def _make(channel: Channel, inbox: Inbox) -> int:
    """Return the bytes of the file that was written."""
    asked = _next(inbox, BeginAnimation)
    samples = [_next_picture(inbox, AnimationSample, number) for number in range(asked.samples)]
    animation = Animation((asked.width, asked.height), samples, asked.colors)
    while len(animation) < len(asked.milliseconds):
        animation.add(_next_picture(inbox, AnimationFrame, len(animation)))
        channel.send(FrameTaken(len(animation)))
    return animation.save(asked.path, asked.milliseconds)


def _next_picture(inbox: Inbox, kind: type[_P], number: int) -> bytes:
    """Return the pixels of the next picture.

    Raises:
        MessageError: it has another number: one was lost, or came twice.
    """
    message = _next(inbox, kind)
    if message.number != number:
        raise MessageError(f"expected picture {number}, not {message.number}")
    return message.pixels


def _next(inbox: Inbox, kind: type[_M]) -> _M:
    """Return the next message.

    Raises:
        MessageError: it is of another type than ``kind``.
    """
    message = inbox.tasks.get()
    if not isinstance(message, kind):
        raise MessageError(f"expected {kind.__name__}, not {type(message).__name__}")
    return message


if __name__ == "__main__":
    sys.exit(main())
