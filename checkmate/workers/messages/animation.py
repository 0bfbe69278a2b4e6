"""Messages between the window and the process that writes animations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkmate.ipc.messages import Message

# From the window.


@dataclass(frozen=True)
class BeginAnimation(Message):
    """Make an animated picture of the frames that follow.

    ``samples`` messages ``AnimationSample`` come first, then an ``AnimationFrame`` for each of
    ``milliseconds``.

    ``milliseconds``: how long each frame is shown. ``colors``: red, green and blue of those that must be
    exact.
    """

    path: Path
    width: int
    height: int
    milliseconds: tuple[int, ...]
    colors: tuple[tuple[int, int, int], ...]
    samples: int


@dataclass(frozen=True)
class AnimationSample(Message):
    """A frame that the colours are chosen from, and its number from 0. RGB, 8 bit, rows without padding."""

    number: int
    pixels: bytes


@dataclass(frozen=True)
class AnimationFrame(Message):
    """The next frame and its number from 0; as an ``AnimationSample``."""

    number: int
    pixels: bytes


# From the animation process.


@dataclass(frozen=True)
class FrameTaken(Message):
    """``frames`` frames have been taken in; the window may send the next."""

    frames: int


@dataclass(frozen=True)
class AnimationSaved(Message):
    """The file is written; the message has its size in bytes."""

    size_bytes: int


@dataclass(frozen=True)
class AnimationFailed(Message):
    """Nothing was written: a sentence for the user, and what can be done."""

    message: str
    hint: str
