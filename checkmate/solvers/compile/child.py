"""``python -m checkmate.solvers.compile.child``: compile kernels into the cache.

In: ``compile`` (name). Out: ``hello``, ``compiled`` (name; error: why it could not be, else null). What a kernel
needs is loaded from the cache where it was compiled before, here or by another such process.
"""

from __future__ import annotations

import sys

from checkmate.ipc.child import Inbox, begin
from checkmate.solvers.compile.parts import find_parts


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("compiler", nicer=0), Inbox()
    channel.listen(inbox.put)
    parts = find_parts()
    while True:
        name, error = str(inbox.tasks.get().header["name"]), None
        try:
            parts.compile(name)
        except Exception as failure:  # the process's edge: the parent compiles for itself then
            error = f"{type(failure).__name__}: {failure}"
        channel.send({"type": "compiled", "name": name, "error": error})


if __name__ == "__main__":
    sys.exit(main())
