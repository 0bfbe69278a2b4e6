"""What may crash, in a process of its own: ``python -m checkmate.doctor.child_entry WHAT``.

WHAT is ``tensorflow``, or ``import NAME…``.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial

from checkmate.processes.own import end_with_parent
from checkmate.processes.stages import Teller


def main(what: str, *names: str) -> None:
    end_with_parent()
    tell = Teller()
    if what == "import":
        for name in names:
            tell.stage(name, partial(_version, name))
    else:
        from checkmate.backends.tf.environment import prepare_own_process
        from checkmate.backends.tf.probe import look

        prepare_own_process()
        look(tell.stage)
    tell.end()


def _version(module: str) -> str:
    return str(getattr(importlib.import_module(module), "__version__", ""))


if __name__ == "__main__":
    main(*sys.argv[1:])
