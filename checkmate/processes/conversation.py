"""Talk with a child process by messages, without waiting for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping

from checkmate.processes.children import module_command, start_child, write_all
from checkmate.processes.messages import Hello, Message, MessageError, MessageTable


class Conversation:
    """A child process of this program that runs a ``Server``; a thread writes to it, another one reads.

    A child that is still starting reads nothing, so its writer waits, and that must not be the caller.
    """

    def __init__(
        self, module: str, table: MessageTable, environment: Mapping[str, str] | None = None
    ) -> None:
        self._table = table
        self.garbled = False  # the child sent what cannot be read
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._arrived: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.child = start_child(module_command(module), environment=environment)
        for work in (self._write, self._read):
            threading.Thread(target=work, daemon=True, name=module.rpartition(".")[0]).start()

    def send(self, message: Message) -> None:
        self._outbox.put(message)

    def receive(self, timeout: float) -> Message | None:
        """The next message, else ``queue.Empty``; None: the child has ended, or sent what cannot be read."""
        return self._arrived.get(timeout > 0, timeout)

    def close(self) -> int:
        self._outbox.put(None)
        self.child.kill()
        return self.child.wait()

    def _write(self) -> None:
        assert self.child.stdin is not None
        try:
            with self.child.stdin as stream:
                while (message := self._outbox.get()) is not None:
                    write_all(stream, self._table.encode(message))
        except (OSError, ValueError):
            return  # the child has ended; the reading thread reports that

    def _read(self) -> None:
        assert self.child.stdout is not None
        reader = self._table.reader()
        try:
            with self.child.stdout as stream:
                while data := stream.read(2**16):
                    for message in reader.feed(data):
                        if not isinstance(message, Hello):
                            self._arrived.put(message)
        except MessageError:
            self.garbled = True
        except (OSError, ValueError):
            pass  # it was killed
        self._outbox.put(None)
        self.child.kill()
        self.child.wait()
        self._arrived.put(None)
