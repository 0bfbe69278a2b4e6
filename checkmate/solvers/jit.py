"""Compile kernels with numba, once per machine: the compiled code is cached in a folder of the user's.

numba would write its cache beside the sources (often not writable once installed) or where an environment variable says.
Here the folder is the user's own (``kernel_cache``). numba reads the setting when a function is decorated, so it is changed
for that moment only and other users of numba in this process are not affected.

Only the kernel modules (``sequence_state``, ``_live``, ``_edit``, ``_moves``, ``_greedy``, ``_anneal``, and ``chain_kernel``) use this; they are imported lazily,
by the functions that need them, because importing numba takes a third of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from checkmate.solvers.kernel_cache import cache_folder

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """``function`` compiled on its first call, cached, and running without Python's global lock."""
    return _compiled(function, "never")


def inlined(function: Function) -> Function:
    """A kernel that becomes part of its callers: one thing less to compile, where there is one caller only."""
    return _compiled(function, "always")


def _compiled(function: Function, inline: str) -> Function:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        compiled: Function = numba.njit(cache=True, nogil=True, error_model="numpy", inline=inline)(function)
    finally:
        numba.config.CACHE_DIR = before
    return compiled
