"""Tell how much memory a device has free for this process.

That is what the machine has free, or less where a limit applies to this process.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from checkmate.machine.gpus import gpu_in_use

_UNLIMITED = 1 << 60  # a control group without a limit reports about this, or more
_GROUPS = Path("/sys/fs/cgroup")


def free_bytes(kind: str, number: int = 0) -> int | None:
    """Return the bytes free for this process, or None if not known.

    ``kind`` is ``cpu`` or ``gpu``. On a CPU, the limits of the process (``ulimit -v`` and ``-d``) and of its
    control group (a container's) count too. On a GPU, nvidia-smi tells; ``number`` counts the GPUs that
    TensorFlow sees.
    """
    if kind == "cpu":
        import psutil

        return max(0, min(int(psutil.virtual_memory().available), *_within_limits()))
    found = gpu_in_use(number)
    return None if found is None else found.free_bytes


def _within_limits() -> Iterator[int]:
    """Yield what each limit leaves; at least one number."""
    yield _UNLIMITED
    if sys.platform == "win32":
        return
    import resource

    status = _text(Path("/proc/self/status"))
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        soft = resource.getrlimit(limit)[0]
        used = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
        if soft != resource.RLIM_INFINITY and used is not None:
            yield soft - int(used[1]) * 1024
    yield from group_limits(_text(Path("/proc/self/cgroup")), _GROUPS)


def group_limits(groups: str, root: Path) -> Iterator[int]:
    """Yield the bytes that each limited control group has left.

    ``groups``: text as in ``/proc/self/cgroup``. ``root``: where the control groups are mounted.

    Memory that holds file contents does not count as used: the system frees it on demand.
    """
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names == "memory":  # version 1
            top, files = (
                root / "memory",
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            )
        elif number == "0" and not names:
            top, files = root, ("memory.max", "memory.current", "inactive_file")
        else:
            continue
        folder = top / path.strip("/")
        # In a container the path may be the host's, and the container's own group is mounted at the top.
        for each in (
            folder,
            *(parent for parent in folder.parents if parent == top or top in parent.parents),
        ):
            limit, used = _text(each / files[0]).strip(), _text(each / files[1]).strip()
            cached = re.search(rf"^{files[2]} (\d+)$", _text(each / "memory.stat"), re.MULTILINE)
            if limit.isdigit() and used.isdigit() and int(limit) < _UNLIMITED:
                yield int(limit) - int(used) + (int(cached[1]) if cached else 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
