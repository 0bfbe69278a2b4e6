"""Stand between a process and its child, and harm one message.

Run it with ``python -m tests.faults.relay FAULT DIRECTION NUMBER LOG MODULE``, in place of ``python -m
MODULE``. What goes through is written down in LOG, one line for a message: its direction and its type.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from checkmate.processes.messages import encode_frame

FAULTS = ("killed", "lost", "twice", "late", "cut", "lengths", "header", "body")
LIE = "lie about "
DIRECTIONS = ("to", "from")  # to the child, from the child
ENDS = frozenset(
    {"ProofEnded", "SolveEnded", "Checked", "Placed", "LargestBatchFound", "CertificateWritten",
     "ProfiledGraph", "Exported", "JobFailed"}
)  # fmt: skip
# Claims of an answer, and a false value of each.
CLAIMS: dict[str, Callable[[Any], Any]] = {
    "bound": lambda bound: 10 * (bound or 1.0) + 1,
    "lower_bound": lambda bound: 10 * (bound or 1.0) + 1,
    "status": lambda status: "infeasible" if status == "optimal" else "optimal",
}
STEPS = "steps"  # the claim that a body is a schedule
_LATEST_S = 1.5  # after which a message that is late comes, whatever happens
_PREFIX = struct.Struct("<IIII")


@dataclass(frozen=True)
class Plan:
    """What to do to message ``number`` (from 0) of a direction."""

    fault: str
    direction: str
    number: int
    log: Path


def frames(stream: IO[bytes]) -> Iterator[bytes]:
    pending = b""
    while data := os.read(stream.fileno(), 2**16):
        pending += data
        while len(pending) >= _PREFIX.size:
            head, body, _, _ = _PREFIX.unpack_from(pending)
            end = _PREFIX.size + head + body
            if len(pending) < end:
                break
            yield pending[:end]
            pending = pending[end:]


def type_of(frame: bytes) -> str:
    head = _PREFIX.unpack_from(frame)[0]
    return str(json.loads(frame[_PREFIX.size : _PREFIX.size + head])["type"])


def damaged(frame: bytes, part: str) -> bytes:
    """A frame with changed lengths, a changed header or body."""
    head, body, *_ = _PREFIX.unpack_from(frame)
    part = "header" if part == "body" and not body else part
    begin = {"lengths": 0, "header": _PREFIX.size, "body": _PREFIX.size + head}[part]
    size = {"lengths": 2, "header": head, "body": body}[part]
    changed = bytearray(frame)
    for place in range(begin, begin + size, max(1, size // 5)):
        changed[place] ^= 0x15
    return bytes(changed)


def lying(frame: bytes, claim: str) -> bytes:
    head = _PREFIX.unpack_from(frame)[0]
    header = json.loads(frame[_PREFIX.size : _PREFIX.size + head])
    body = frame[_PREFIX.size + head :]
    if claim == STEPS:
        body = b"".join(reversed([body[place : place + 4] for place in range(0, len(body), 4)]))
    else:
        header[claim] = CLAIMS[claim](header[claim])
    return encode_frame(header, body)


class Relay:
    def __init__(self, plan: Plan, direction: str, child: subprocess.Popen[bytes]) -> None:
        self._plan, self._direction, self._child = plan, direction, child
        assert child.stdin is not None and child.stdout is not None
        to = direction == "to"
        self._source: IO[bytes] = sys.stdin.buffer if to else child.stdout
        self._sink: IO[bytes] = child.stdin if to else sys.stdout.buffer
        self._lock = threading.Lock()
        self._held: bytes | None = None
        self._ends = 0

    def run(self) -> None:
        with suppress(OSError):
            for number, frame in enumerate(frames(self._source)):
                with self._plan.log.open("a", encoding="utf-8") as log:
                    log.write(f"{self._direction} {type_of(frame)}\n")
                if self._direction == self._plan.direction and number == self._plan.number:
                    self._harm(frame)
                else:
                    self._pass(frame)
        self._release()
        with suppress(OSError):
            self._sink.close()

    def _write(self, frame: bytes) -> None:
        view = memoryview(frame)
        with self._lock, suppress(OSError):
            while view:
                view = view[os.write(self._sink.fileno(), view) :]

    def _pass(self, frame: bytes) -> None:
        """Pass a frame on; one that is held back comes after the next answer."""
        self._write(frame)
        if self._held is not None and (self._direction == "to" or type_of(frame) in ENDS):
            self._release()

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._write(held)

    def _harm(self, frame: bytes) -> None:
        match self._plan.fault:
            case "killed":
                self._write(frame)
                self._child.kill()
                self._child.wait()
                os.kill(os.getpid(), signal.SIGKILL)
            case "lost":
                pass
            case "twice":
                self._write(frame + frame)
            case "late":
                self._held = frame
                threading.Timer(_LATEST_S, self._release).start()
            case "cut":
                self._write(frame[: len(frame) // 2])
            case fault if fault.startswith(LIE):
                self._write(lying(frame, fault.removeprefix(LIE)))
            case part:
                self._write(damaged(frame, part))


def main() -> int:
    fault, direction, number, log, *command = sys.argv[1:]
    plan = Plan(fault, direction, int(number), Path(log))
    child = subprocess.Popen(
        [sys.executable, "-m", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    threads = [threading.Thread(target=Relay(plan, way, child).run, daemon=True) for way in DIRECTIONS]
    for thread in threads:
        thread.start()
    threads[1].join()
    child.kill()
    os._exit(child.wait() & 0xFF)


if __name__ == "__main__":
    sys.exit(main())
