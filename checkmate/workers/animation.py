"""Make one animated picture out of frames: ``python -m checkmate.workers.animation``.

In: ``BeginAnimation``, then the pictures that it announced. Out: ``FrameTaken`` after each frame, then
``AnimationSaved``. Nothing is written before all frames are there.
"""

from __future__ import annotations

from checkmate.errors import UsageError
from checkmate.formats.animation import Animation
from checkmate.processes.messages import Message, MessageError
from checkmate.processes.serve import Server
from checkmate.workers.window_messages import (
    WINDOW_MESSAGES,
    AnimationSaved,
    BeginAnimation,
    FrameTaken,
    Picture,
)


class AnimationServer(Server):
    kind, table = "animation", WINDOW_MESSAGES
    _begun: BeginAnimation | None = None
    _animation: Animation | None = None

    def work(self, asked: Message) -> Message | None:
        if isinstance(asked, BeginAnimation):
            self._begun, self._samples = asked, list[bytes]()
            return None
        begun = self._begun
        if begun is None or not isinstance(asked, Picture):
            raise MessageError(f"expected BeginAnimation, not {type(asked).__name__}")
        taken = len(self._samples) + (0 if self._animation is None else len(self._animation))
        if asked.number != taken:  # one was lost, or came twice
            raise MessageError(f"expected picture {taken}, not {asked.number}")
        if self._animation is not None:
            self._animation.add(asked.pixels)
            self.channel.send(FrameTaken(len(self._animation)))
        else:
            self._samples.append(asked.pixels)
            if len(self._samples) == begun.samples:
                self._animation = self._started(begun)
        if self._animation is None or len(self._animation) < len(begun.milliseconds):
            return None
        return AnimationSaved(self._animation.save(begun.path, begun.milliseconds))

    def _started(self, begun: BeginAnimation) -> Animation:
        try:
            return Animation((begun.width, begun.height), self._samples, begun.colors)
        except ImportError as error:
            raise UsageError("animated pictures need Pillow", hint="pip install pillow") from error


if __name__ == "__main__":
    AnimationServer.main()
