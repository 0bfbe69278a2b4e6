"""Compile kernels with numba, once per machine.

The compiled code is cached. numba would write its cache beside the sources, which often cannot be written to
once installed, or where an environment variable says. Here the folder is the user's own (``compile.cache``).
numba reads the setting when a function is decorated, so it is changed for that moment only. Other users of
numba in this process are not affected.

Only the kernels of ``solvers.sequence``, ``solvers.chain`` and ``solvers.addresses`` use this. The functions
that need them import them lazily, because importing numba takes a third of a second. In the first two,
``kernel_types`` names the kernels that Python calls and the types of their arguments; ``compile.parts`` finds
the rest. Those of ``solvers.addresses`` are compiled when they are first called: no solve waits for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core.cpu import CPUTargetOptions

from checkmate.solvers.compile.cache import cache_folder

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile ``function`` on its first call and cache the code.

    It runs without Python's global lock.
    """
    return _compiled(function, "never")


def part(function: Function) -> Function:
    """Mark a kernel that only kernels call.

    Python must not call it: the process would end. numba compiles no wrapper for Python, which saves a
    quarter of the time.
    """
    return _compiled(function, "never", called_by_kernels_only=True)


def summing(function: Function) -> Function:
    """Mark a part that sums whole numbers.

    Such a sum is exact in any order, so several are added at a time.
    """
    return _compiled(function, "never", fastmath={"reassoc", "nnan", "nsz"}, called_by_kernels_only=True)


def inlined(function: Function) -> Function:
    """Mark a kernel that becomes part of its callers.

    With only one caller, this saves compiling one kernel.
    """
    return _compiled(function, "always")


def _compiled(
    function: Function,
    inline: str,
    fastmath: set[str] | bool = False,
    *,
    called_by_kernels_only: bool = False,
) -> Function:
    """Return ``function`` with numba's decorator."""
    # Kernels allocate nothing, and every array they are passed outlives the call, so references need no
    # counting. numba would count them with locked instructions at each access to a field, which took half of
    # the search's time. The option has no public name yet.
    uncounted = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}
    wrappers = {"no_cfunc_wrapper": True, "no_cpython_wrapper": called_by_kernels_only}
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        compiled: Function = numba.njit(
            cache=True,
            nogil=True,
            error_model="numpy",
            inline=inline,
            fastmath=fastmath,
            **wrappers,
            **uncounted,
        )(function)
    finally:
        numba.config.CACHE_DIR = before
    return compiled
