"""Run greedy as plain Python, in a process of its own.

This is used while its kernels are compiled. It is some hundred times slower than compiled code, but still
takes only a second or two for networks of a few hundred ops. So greedy's schedules are there long before any
compiled code.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections import deque

from checkmate.errors import CheckmateError
from checkmate.ipc.messages import Message
from checkmate.ipc.steps import unpack_ops
from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.machine.own_modules import beyond_ctrl_c, module_command
from checkmate.solvers.pathcut.in_process import feed_child
from checkmate.solvers.warm_up.messages import PLAIN_GREEDY_MESSAGES, FitBudget, Fitted


class PlainGreedy:
    """Run greedy for one graph, at one budget at a time.

    A newer budget replaces the one before.
    """

    def __init__(self, graph: Graph) -> None:
        self._found: deque[tuple[int, Steps]] = deque()
        self._ops = graph.n
        self._asked = self._answered = 0
        with beyond_ctrl_c():
            self._child = child = subprocess.Popen(
                module_command("checkmate.solvers.warm_up.plain_greedy_child"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                # numba's own switch; kernels stay Python functions
                env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
            )
        self._outbox = outbox = queue.SimpleQueue[Message | None]()
        threading.Thread(target=self._listen, daemon=True, name="plain greedy").start()
        threading.Thread(
            target=feed_child,
            args=(child, PLAIN_GREEDY_MESSAGES, graph, outbox),
            daemon=True,
            name="to plain greedy",
        ).start()

    def ask(self, budget_bytes: int) -> None:
        """Look for a schedule within the budget."""
        self._asked += 1
        self._outbox.put(FitBudget(self._asked, budget_bytes))

    @property
    def busy(self) -> bool:
        """Return whether it is still looking."""
        return self._answered < self._asked and self._child.poll() is None

    def take(self) -> list[tuple[int, Steps]]:
        """Return budgets and new schedules for them, not yet checked."""
        found: list[tuple[int, Steps]] = []
        while self._found:
            found.append(self._found.popleft())
        return found

    def close(self) -> None:
        """End the process."""
        self._outbox.put(None)
        self._child.kill()
        self._child.wait()

    def _listen(self) -> None:
        assert self._child.stdout is not None
        try:
            for message in PLAIN_GREEDY_MESSAGES.read_all(self._child.stdout):
                self._take_message(message)
        except (OSError, ValueError, CheckmateError):
            self._child.kill()  # else it would be waited for; the search is being compiled all the same

    def _take_message(self, message: Message) -> None:
        if not isinstance(message, Fitted):
            return
        if message.fits:
            self._found.append((message.budget_bytes, unpack_ops(message.steps, self._ops)))
        self._answered = max(self._answered, message.job)
