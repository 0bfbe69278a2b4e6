"""Hit each step of an operation that writes, by number: ``python -m tests.faults.hit OPERATION``.

Steps are opens for writing, renames, removals, fsyncs and the like, as Python's audit events tell them, and
bytes of a file, by the system's limit on the size of files. A fault is an error of the system, or the end of
the process. It prints what was tried and what broke, as JSON.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from checkmate.errors import CheckmateError
from tests.faults.operations import NEW, OLD, OPERATIONS, Operation

ERRORS = {"disk full": errno.ENOSPC, "read-only": errno.EROFS, "denied": errno.EACCES, "broken": errno.EIO}
KILLED = "killed"
_STEPS = (
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.chmod",
    "os.utime",
    "sqlite3.connect",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_DONE, _TYPED, _UNTYPED = 0, 3, 4
_MOST_SIZES = 48


def _watch(folder: Path, heard: Callable[[], None]) -> None:
    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING and str(folder) in str(path):
                heard()
        elif event in _STEPS and str(folder) in str(arguments[0]):
            heard()

    sync = os.fsync

    def fsync(descriptor: int) -> None:
        heard()
        sync(descriptor)

    os.fsync = fsync
    sys.addaudithook(hook)


def _steps(operation: Operation, folder: Path) -> int:
    """Return how many steps the operation takes, counted in a child process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        count = [0]
        _watch(folder, lambda: count.__setitem__(0, count[0] + 1))
        operation.do(folder, NEW)
        os.write(write, str(count[0]).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as told:
        return int(told.read())


def _hit(operation: Operation, folder: Path, arm: Callable[[], None]) -> int:
    """Do the operation in a child that ``arm`` prepares, and return how it ended."""
    child = os.fork()
    if not child:
        try:
            arm()
            operation.do(folder, NEW)
        except CheckmateError as error:
            os._exit(_TYPED if str(error) and len(str(error)) < 300 else _UNTYPED)
        except BaseException:
            with suppress(OSError):  # where this is told may be limited, too
                traceback.print_exc()
            os._exit(_UNTYPED)
        os._exit(_DONE)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _at_step(folder: Path, number: int, fault: str) -> Callable[[], None]:
    count = [0]

    def heard() -> None:
        count[0] += 1
        if count[0] != number:
            return
        if fault == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(ERRORS[fault], os.strerror(ERRORS[fault]))

    return lambda: _watch(folder, heard)


def _at_byte(size: int, fault: str) -> Callable[[], None]:
    def arm() -> None:
        how = signal.SIG_DFL if fault == KILLED else signal.SIG_IGN
        signal.signal(signal.SIGXFSZ, how)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return arm


def _judged(operation: Operation, folder: Path, before: str, code: int) -> str:
    if code not in (_DONE, _TYPED, -signal.SIGKILL, -signal.SIGXFSZ):
        return f"it ended with {code}"
    try:
        found = operation.read(folder)
        if found not in (before, NEW):
            return f"{found!r} is there, not {before!r} or {NEW!r}"
        if code == _DONE and found != NEW:
            return "it said that it was done, and was not"
        operation.do(folder, NEW)
        return "" if operation.read(folder) == NEW else "it cannot be done again"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


def hit_all(name: str) -> tuple[Counter[str], list[str]]:
    """How often each fault was tried, and what broke."""
    operation, tried, broken = OPERATIONS[name], Counter[str](), list[str]()
    root = Path(tempfile.mkdtemp(prefix="checkmate-faults-"))

    def fresh(before: str) -> Path:
        folder = Path(tempfile.mkdtemp(dir=root))
        if before:
            operation.do(folder, before)
        return folder

    for before in (OLD, ""):
        folder = fresh(before)
        steps = _steps(operation, folder)
        largest = max((file.stat().st_size for file in folder.rglob("*") if file.is_file()), default=0)
        sizes = sorted({largest * i // _MOST_SIZES for i in range(_MOST_SIZES)})
        hits = [(f"{fault} at a step", n, fault) for fault in (*ERRORS, KILLED) for n in range(1, steps + 1)]
        hits += [(f"{fault} while writing", n, fault) for fault in ("disk full", KILLED) for n in sizes]
        for kind, number, fault in hits:
            folder = fresh(before)
            arm = _at_step(folder, number, fault) if "step" in kind else _at_byte(number, fault)
            problem = _judged(operation, folder, before, _hit(operation, folder, arm))
            tried[kind] += 1
            if problem:
                broken.append(f"{kind} {number}, before: {before or 'nothing'}: {problem}")
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
    return tried, broken


if __name__ == "__main__":
    done, found = hit_all(sys.argv[1])
    print(json.dumps({"tried": done, "broken": found}))
