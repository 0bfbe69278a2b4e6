"""Harm each message between a process and its child, one by one.

``python -m tests.faults.messages PROTOCOL`` counts the messages of a normal conversation, then has it again
for each message and each fault. It prints what was tried and what broke, as JSON. With ``--recorded FOLDER``
the answers of the device's process are recorded once and then played (``tests.faults.recorded``).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from unittest import mock

import psutil

from checkmate.errors import CheckmateError
from checkmate.processes.children import module_command
from checkmate.solvers.pathcut.in_process import PROVER_MESSAGES
from checkmate.workers.window_messages import WINDOW_MESSAGES
from tests.faults.conversations import PROTOCOLS
from tests.faults.protocols import Protocol
from tests.faults.relay import CLAIMS, DIRECTIONS, FAULTS, LIE, STEPS

_TABLES = (WINDOW_MESSAGES, PROVER_MESSAGES)
_NONE = "none"
_RECORDED, _RECORDING_S, _PLAYED_SILENT_S = "tests.faults.recorded", 600.0, 8.0
_LEFT_S = 5.0  # for the children of a conversation to end


@contextmanager
def relayed(
    protocol: Protocol, fault: str, direction: str, number: int, log: Path, instead: tuple[str, ...] = ()
) -> Iterator[None]:
    """Put the relay before the first child that the protocol starts, or before the module ``instead``."""
    begun = [0]

    def command(module: str, *arguments: str) -> list[str]:
        if module != protocol.module:
            return module_command(module, *arguments)
        begun[0] += 1
        child = instead or (module, *arguments)
        if begun[0] > 1:
            return module_command(*child)
        plan = (fault, direction, str(number), str(log))
        return module_command("tests.faults.relay", *plan, *child)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(import_module(protocol.starter), "module_command", command))
        if protocol.waits and fault != _NONE:
            silent_s = _PLAYED_SILENT_S if instead else protocol.silent_s  # a player answers at once
            module, _, name = protocol.waits.partition(":")
            stack.enter_context(mock.patch.object(import_module(module), name, silent_s))
        yield


def hit(
    protocol: Protocol,
    fault: str,
    direction: str,
    number: int,
    log: Path,
    patience: float,
    instead: tuple[str, ...] = (),
) -> str:
    before = set(psutil.Process().children(recursive=True))
    with relayed(protocol, fault, direction, number, log, instead):
        try:
            broken = protocol.talk(patience)
        except CheckmateError as error:
            broken = "" if str(error) and len(str(error)) < 300 else "its sentence is too long"
        except Exception as error:
            broken = f"untyped: {error!r}"
    _, left = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - before, timeout=_LEFT_S)
    for process in left:
        process.kill()
    return broken or ("a child is left" if left else "")


def counted(protocol: Protocol, patience: float, instead: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """The types of a normal conversation's messages, by direction."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "log"
        broken = hit(protocol, _NONE, "to", -1, log, patience, instead)
        assert not broken, broken
        lines = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
    return {way: [kind for told, kind in lines if told == way] for way in DIRECTIONS}


def hits(messages: dict[str, list[str]], most: int) -> Iterator[tuple[str, str, int]]:
    """Each fault of each message, of ``most`` messages in a direction."""
    for way, kinds in messages.items():
        share = max(1, -(-len(kinds) // most))
        for number in range(0, len(kinds), share):
            for fault in FAULTS:
                yield fault, way, number


def lies(messages: dict[str, list[str]], most: int) -> Iterator[tuple[str, str, int]]:
    """Yield each claim of each answer, of at most ``most`` answers of a kind."""
    kinds = {kind.__name__: kind for table in _TABLES for kind in table.classes}
    for name in dict.fromkeys(messages["from"]):
        claims = [entry.name for entry in fields(kinds[name]) if entry.name in (*CLAIMS, STEPS)]
        places = [number for number, kind in enumerate(messages["from"]) if kind == name]
        for number in places[:: max(1, -(-len(places) // most))]:
            yield from ((LIE + claim, "from", number) for claim in claims)


def tried(
    name: str, *, patience: float, most: int, lie: bool, folder: Path | None = None
) -> tuple[dict[str, int], list[str]]:
    """How often each fault was tried, and what broke. ``folder``: a recording that plays the child."""
    protocol, instead = PROTOCOLS[name], tuple[str, ...]()
    if folder is not None:
        if not folder.exists():
            folder.mkdir(parents=True)
            counted(protocol, _RECORDING_S, (_RECORDED, "record", str(folder)))
        instead = (_RECORDED, "play", str(folder))
    messages, count, broken = counted(protocol, patience, instead), Counter[str](), list[str]()
    for fault, way, number in (lies if lie else hits)(messages, most):
        count[fault] += 1
        with tempfile.TemporaryDirectory() as place:
            problem = hit(protocol, fault, way, number, Path(place) / "log", patience, instead)
        if problem:
            broken.append(f"{fault}, {way} the child, {number} ({messages[way][number]}): {problem}")
            print(broken[-1], file=sys.stderr, flush=True)
    return dict(count), broken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.messages", description=__doc__)
    parser.add_argument("protocol", choices=PROTOCOLS)
    parser.add_argument("--patience", type=float, default=30.0, help="seconds that count as for ever")
    parser.add_argument("--most", type=int, default=1000, help="messages of each direction")
    parser.add_argument("--lies", action="store_true", help="change what answers claim")
    parser.add_argument("--recorded", type=Path, help="a folder for the answers of the device's process")
    asked = parser.parse_args()
    count, broken = tried(
        asked.protocol, patience=asked.patience, most=asked.most, lie=asked.lies, folder=asked.recorded
    )
    print(json.dumps({"tried": count, "broken": broken}))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
