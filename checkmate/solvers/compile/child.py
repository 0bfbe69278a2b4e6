"""Compile kernels into the cache, as a process of its own.

``python -m checkmate.solvers.compile.child``

In: ``compile`` (name). Out: ``hello``, ``compiled`` (name; error: why it failed, else null). What a kernel
needs is loaded from the cache if this process, or another one, compiled it before.
"""

from __future__ import annotations

import sys

from checkmate.ipc.child import Inbox, begin
from checkmate.solvers.compile.parts import find_parts


def main() -> int:
    """Serve until the parent has ended."""
    channel, inbox = begin("compiler", nicer=0), Inbox()
    channel.listen(inbox.put)
    parts = find_parts()
    while True:
        name, error = str(inbox.tasks.get().header["name"]), None
        try:
            parts.compile(name)
        except Exception as failure:  # the edge of this process: the parent then compiles for itself
            error = f"{type(failure).__name__}: {failure}"
        channel.send({"type": "compiled", "name": name, "error": error})


if __name__ == "__main__":
    sys.exit(main())
