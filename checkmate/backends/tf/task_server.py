"""Do tasks in processes that have TensorFlow imported: ``python -m checkmate.backends.tf.task_server``.

Each line of its stdin asks for a process: the folder of its task, where its output goes, its environment and
its working folder. Two lines of stdout tell of it: the process, and in the end its exit code. TensorFlow's
runtime begins in the forked process only, so it is as fresh there as in one that imports TensorFlow itself.

With ``--once`` nothing is forked: this process becomes the one that is asked for. That is for machines with a
GPU, whose driver does not bear a fork for certain."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

from checkmate.backends.tf.environment import import_quickly
from checkmate.backends.tf.tasks import EXHAUSTED, TaskFiles
from checkmate.machine.fault_report import as_known
from checkmate.machine.garbage import hide_all
from checkmate.processes.own import die_with_parent, end_with_parent
from checkmate.progress import Progress

_IDLE_S = 300  # a solve or another measurement may come between two; a server holds about 250 MB meanwhile
Tasks = Mapping[str, Callable[..., Any]]


def main() -> int:
    asked, told = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(empty, stream)
    tasks = _imported_watched(asked)
    while (line := _line(asked)) is not None:
        if "--once" in sys.argv[1:]:
            _become(json.loads(line), tasks, asked, told)
        _serve(json.loads(line), tasks, asked, told)
    return 0


def _imported_watched(asked: int) -> Tasks:
    """Import what measures; end the process if stdin closes meanwhile. The watching thread ends before the
    return: a fork copies no threads."""
    done, tell = os.pipe()
    watching = threading.Thread(target=_end_without, args=(asked, done))
    watching.start()
    try:
        return imported()
    finally:
        os.close(tell)
        watching.join()
        os.close(done)


def imported() -> Tasks:
    """Import TensorFlow, but do not begin its runtime; return what can be done."""
    import_quickly()
    from checkmate.backends.tf.costs import fresh
    from checkmate.backends.tf.live import elsewhere
    from checkmate.backends.tf.measure import step

    hide_all()  # what was imported stays
    return {
        "compile": step.compile_task,
        "measure": step.measure,
        "compare": step.compare,
        "measure_saved": elsewhere.measure_saved,
        "costs": fresh.measure_costs,
    }


def _end_without(asked: int, done: int) -> None:
    """Wait until the other end of pipe ``asked`` or ``done`` closes. If it is ``asked``, end the process."""
    poll = select.poll()
    poll.register(asked, 0)  # with no events requested, poll reports only that the other end has closed
    poll.register(done, 0)
    if any(file == asked for file, _ in poll.poll()):
        os._exit(0)


def do(files: TaskFiles, tasks: Tasks) -> int:
    """Do one of ``tasks``, or any ``module:function``; of work that yields answers each replaces the one
    before."""
    task = json.loads(files.task.read_text(encoding="utf-8"))

    def write(answer: Mapping[str, Any]) -> None:
        files.answer.write_text(json.dumps(answer, default=str), encoding="utf-8")

    def report(progress: Progress) -> None:
        with files.progress.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(progress)) + "\n")

    name = task["do"]
    module, _, function = name.partition(":")
    work = getattr(import_module(module), function) if function else tasks[name]
    if "report" in signature(work).parameters:
        work = partial(work, report=report)
    try:
        found = work(task)
        for answer in found if isinstance(found, Iterator) else [found]:
            write({"ok": answer})
    except Exception as error:
        if EXHAUSTED.search(traceback.format_exc()):
            raise  # the parent recognizes it in the printed traceback
        known = as_known(error)
        facts = {
            "type": type(known).__name__,
            "message": str(known),
            "hint": known.hint,
            "details": known.details,
        }
        write({"error": facts})
    return 0


def _line(asked: int) -> bytes | None:
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([asked], [], [], _IDLE_S)[0]:
            return None
        read = os.read(asked, 2**16)
        if not read:
            return None
        line += read
    return line


def _serve(request: Mapping[str, Any], tasks: Tasks, asked: int, told: int) -> None:
    parent = os.getpid()
    process = os.fork()
    if process == 0:
        os.close(asked)
        os.close(told)
        _do_and_exit(request, tasks, parent)
    _tell(told, {"process": process})
    ended = os.pidfd_open(process)
    try:
        ready = select.select([asked, ended], [], [])[0]
        if ended not in ready:  # one process is asked for at a time, so this is the end of stdin
            os.kill(process, signal.SIGKILL)
    finally:
        os.close(ended)
    _tell(told, {"code": os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])})


def _become(request: Mapping[str, Any], tasks: Tasks, asked: int, told: int) -> NoReturn:
    _tell(told, {"process": os.getpid()})
    os.close(told)
    os.dup2(asked, 0)
    os.close(asked)
    end_with_parent()
    _do_and_exit(request, tasks)


def _tell(told: int, fact: Mapping[str, int]) -> None:
    with suppress(BrokenPipeError):  # nobody is there any longer, as the next read finds
        os.write(told, json.dumps(fact).encode("utf-8") + b"\n")


def _do_and_exit(request: Mapping[str, Any], tasks: Tasks, parent: int | None = None) -> NoReturn:
    """Do the task and exit; exit earlier if ``parent``, which forked this process, ends."""
    code = 1
    try:
        if parent is not None:
            die_with_parent()
            if os.getppid() != parent:
                os._exit(1)
        output = os.open(request["output"], os.O_WRONLY | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        tempfile.tempdir = None
        import numpy as np

        # Forked processes would all draw the same numbers. Python reseeds its own generator.
        np.random.seed()  # noqa: NPY002  # it is the one that user code draws from
        code = do(TaskFiles(Path(request["task"])), tasks)
    except BaseException:  # as Python does for a process: nothing may go on in the server's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
