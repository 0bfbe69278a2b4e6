"""Look at libraries in a child process that may crash.

Started by ``checkmate doctor`` as ``python -m checkmate.doctor.child_entry WHAT``. WHAT is ``tensorflow``, or
``import NAME…``. Results go to standard output (see ``checkmate.processes.stages``).
"""

from __future__ import annotations

import importlib
import sys
from functools import partial

from checkmate.machine.garbage import hide_all
from checkmate.processes.own import end_with_parent
from checkmate.processes.stages import Teller


def main(arguments: list[str]) -> int:
    """Look at the libraries and tell the results."""
    end_with_parent()
    tell = Teller()
    what, *names = arguments
    if what == "tensorflow":
        from checkmate.backends.tf.environment import prepare_own_process

        prepare_own_process()
        from checkmate.backends.tf.probe import look

        look(tell.stage)
    elif what == "import":
        for name in names:
            tell.stage(name, partial(_version, name))
    else:
        raise ValueError(f"there is nothing to look at called {what!r}")
    tell.end()
    hide_all()
    return 0


def _version(module: str) -> str:
    return str(getattr(importlib.import_module(module), "__version__", ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
