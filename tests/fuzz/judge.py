"""Judge what a reader does with one input.

It may read it, or refuse it with a typed error of one sentence. All else is a break: another exception, a
sentence that is too long, too much time of the processor, too much memory.
"""

from __future__ import annotations

import argparse
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from checkmate.errors import CheckmateError
from tests.fuzz.mutate import mutated

LONGEST = 300  # characters of a sentence
MOST_CPU_S = 2.0
_STALLED_CPU_S = 20  # when a reader is stopped
_ROOM = 48 * 2**20  # of memory, beside ten times the file
Read = Callable[[bytes], object]


class StalledError(BaseException):
    """The reader used the processor for much too long."""


@dataclass
class Verdict:
    """Count what became of inputs. ``breaks``: what broke, by kind, with the first input of each."""

    tried: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    breaks: dict[str, bytes] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: str, data: bytes) -> None:
        """Count one outcome; what is neither ``read`` nor ``refused`` is a break."""
        self.tried += 1
        if outcome in ("read", "refused"):
            self.outcomes[outcome] += 1
            return
        self.outcomes["broken"] += 1
        self.times[outcome] += 1
        self.breaks.setdefault(outcome, data)


def judged(read: Read, data: bytes) -> str:
    """Return ``read``, ``refused``, or what broke."""
    before, started = _most_memory(), time.process_time()
    outcome = _outcome(read, data)
    used, grown = time.process_time() - started, _most_memory() - before
    if outcome in ("read", "refused"):
        if used > MOST_CPU_S:
            return f"took {used:.0f} s of the processor"
        if grown > 10 * len(data) + _ROOM:
            return f"took {grown // 2**20} MiB of memory"
    return outcome


def _outcome(read: Read, data: bytes) -> str:
    try:
        with _stopped():
            read(data)
    except (CheckmateError, argparse.ArgumentTypeError) as error:
        return _sentence(str(error))
    except StalledError:
        return "stalled"
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {last.filename.rpartition('/')[2]}, {last.name}"
    return "read"


def _sentence(text: str) -> str:
    if len(text) > LONGEST:
        return f"a sentence of more than {LONGEST} characters"
    return "refused" if text.strip() and len(text.splitlines()) == 1 else "no sentence, or more than one line"


@contextmanager
def _stopped() -> Iterator[None]:
    """Stop what uses the processor for too long. Loads of the machine do not count."""

    def stop(number: int, frame: object) -> None:
        raise StalledError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _STALLED_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def tried(read: Read, samples: list[bytes], count: int, seed: int) -> Verdict:
    """Judge ``count`` inputs that are made of the samples from ``seed``."""
    random, verdict = Random(seed), Verdict()
    for sample in samples:
        judged(read, sample)  # what is imported and compiled at first use does not count
    for _ in range(count):
        data = mutated(random, random.choice(samples))
        verdict.add(judged(read, data), data)
    return verdict
