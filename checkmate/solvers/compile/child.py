"""Compile kernels into the cache, as a process of its own.

In: ``Compile``. Out: ``KernelDone``. What a kernel needs is loaded from the cache where it was compiled
before, here or by another such process.
"""

from __future__ import annotations

import sys

from checkmate.ipc.child import Inbox, begin
from checkmate.solvers.compile.messages import COMPILE_MESSAGES, Compile, KernelDone
from checkmate.solvers.compile.parts import find_parts


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("compiler", COMPILE_MESSAGES, nicer=0), Inbox()
    channel.listen(inbox.put)
    parts = find_parts()
    while True:
        message, error = inbox.tasks.get(), None
        if not isinstance(message, Compile):
            continue
        try:
            parts.compile(message.name)
        except Exception as failure:  # the process's edge: the parent compiles for itself then
            error = f"{type(failure).__name__}: {failure}"
        channel.send(KernelDone(message.name, error))


if __name__ == "__main__":
    sys.exit(main())
