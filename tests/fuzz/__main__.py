"""Try readers in earnest, and print a table of what broke.

Run it with ``python -m tests.fuzz COUNT [READER …]``.

The first input of each break is kept in the folder ``--keep``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from tests.fuzz.judge import tried
from tests.fuzz.readers import READERS, opened


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(READERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    keep = None if asked.keep is None else asked.keep.absolute()
    broken = 0
    for name in asked.readers or READERS:
        with tempfile.TemporaryDirectory() as folder:
            read, samples = opened(name, Path(folder))
            verdict = tried(read, samples, asked.count, asked.seed)
            os.chdir("/")
        found = verdict.outcomes
        print(f"{name:15} {verdict.tried:7,} tried {found['read']:7,} read {found['refused']:7,} refused "
              f"{found['broken']:6,} broken", flush=True)  # fmt: skip
        for kind, data in verdict.breaks.items():
            broken += 1
            print(f"    {verdict.times[kind]:6,} × {kind}", flush=True)
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{name}-{hashlib.sha256(data).hexdigest()[:10]}".replace(" ", "-")).write_bytes(data)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
