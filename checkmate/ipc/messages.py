"""Messages between processes: dataclasses, and the table that sends them.

A message's class name is its type on the pipe, its fields are the frame's header. One field may be ``bytes``;
it travels raw, as the frame's body. No field may be called ``type``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, get_type_hints

from checkmate.ipc.fields import Field, FieldError, layout_of, read_fields, write_fields
from checkmate.ipc.protocol import Frame, FrameDecoder, ProtocolError, encode_frame


class MessageError(ProtocolError):
    """A frame holds no known message, or one with wrong fields."""


@dataclass(frozen=True)
class Message:
    """Something that one process tells another."""


@dataclass(frozen=True)
class Hello(Message):
    """The first message of every child process: it runs, and listens. ``kind``: what it is, in words."""

    kind: str
    pid: int


@dataclass(frozen=True)
class Cancel(Message):
    """Stop the job of this number, also while it is being worked on."""

    job: int


@dataclass(frozen=True)
class NewestJob(Message):
    """A task that takes the place of every older one of its kind.

    Those are cancelled as soon as it arrives.
    """

    job: int


class MessageTable:
    """The messages that the two ends of a pipe know, by class name.

    ``Hello`` and ``Cancel`` are always among them.
    """

    def __init__(self, *classes: type[Message]) -> None:
        self._classes = {kind.__name__: kind for kind in (Hello, Cancel, *classes)}
        if len(self._classes) != len(classes) + 2:
            raise ValueError("two messages have one name")
        self._layouts: dict[str, _Layout] = {}  # of the messages that came or went so far

    @property
    def classes(self) -> tuple[type[Message], ...]:
        return tuple(self._classes.values())

    def encode(self, message: Message) -> bytes:
        """Return the frame of ``message``.

        Raises:
            MessageError: its class is not in the table.
        """
        name = type(message).__name__
        if self._classes.get(name) is not type(message):
            raise MessageError(f"{name} is not in the table of messages")
        layout = self._layout(name)
        header = {"type": name, **write_fields(layout.fields, message)}
        return encode_frame(header, getattr(message, layout.body) if layout.body else b"")

    def decode(self, frame: Frame) -> Message:
        """Return the message in ``frame``, whose header is used up.

        Raises:
            MessageError: the type is unknown, or the fields are not those of the type.
        """
        name = frame.header.pop("type", None)
        if not isinstance(name, str) or name not in self._classes:
            raise MessageError(f"there is no message of type {name!r}")
        layout = self._layout(name)
        if frame.body and not layout.body:
            raise MessageError(f"{name} has a body of {len(frame.body)} bytes, and should have none")
        try:
            found = read_fields(layout.fields, frame.header)
        except FieldError as error:
            raise MessageError(f"{name}: {error}") from error
        if layout.body:
            found[layout.body] = frame.body
        message: Message = self._classes[name](**found)
        return message

    def reader(self) -> MessageReader:
        """Return a reader for one stream of bytes."""
        return MessageReader(self)

    def read_all(self, stream: IO[bytes]) -> Iterator[Message]:
        """Yield the messages of ``stream`` as they come; close it at its end.

        Raises:
            OSError, ValueError: the stream cannot be read, or was closed. ProtocolError: as for ``feed``.
        """
        reader = self.reader()
        with stream:
            while data := stream.read(2**16):
                yield from reader.feed(data)

    def _layout(self, name: str) -> _Layout:
        if name not in self._layouts:
            self._layouts[name] = _Layout.of(self._classes[name])
        return self._layouts[name]


class MessageReader:
    """Turns one stream of bytes into messages, wherever the bytes are cut."""

    def __init__(self, table: MessageTable) -> None:
        self._table, self._frames = table, FrameDecoder()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that ``data`` completes.

        Raises:
            ProtocolError: the bytes are no frames, or a frame holds no known message.
        """
        for frame in self._frames.feed(data):
            yield self._table.decode(frame)


@dataclass(frozen=True)
class _Layout:
    """How a message of one class is written.

    ``body``: the name of the field that is the frame's body; empty: none. ``fields``: all other fields.
    """

    body: str
    fields: dict[str, Field]

    @classmethod
    def of(cls, kind: type[Message]) -> _Layout:
        """Return the layout of one class.

        Raises:
            TypeError: it has more than one body, or a field that cannot be written.
        """
        raw = [name for name, hint in get_type_hints(kind).items() if hint is bytes]
        if len(raw) > 1:
            raise TypeError(f"{kind.__name__} has more than one body: {', '.join(raw)}")
        return cls(raw[0] if raw else "", layout_of(kind, *raw))
