"""Compile the kernels into the user's cache, as a process of its own.

In the parent, translating would hold Python's global lock, and LLVM could not be interrupted. The process
ends by itself, also after its parent, so that the next solve finds what this one did not wait for.
"""

from __future__ import annotations

import os
import sys

from checkmate.solvers.compile.cache import machine_code_file, write_whole
from checkmate.solvers.compile.machine_code import make
from checkmate.solvers.compile.translate import NUMBA


def main() -> int:
    """Compile; the parent loads what is in the cache."""
    os.environ.update(NUMBA)
    write_whole(machine_code_file(), make())
    return 0


if __name__ == "__main__":
    sys.exit(main())
