"""Try random nested programs, and print what broke: ``python -m tests.nested FIRST COUNT``.

Programs are drawn from the seeds FIRST, FIRST + 1, …; what breaks is made as small as it goes. Programs that
are given as texts, such as ``scan1(cond0(dense2, act7))``, are tried instead. TF_ENABLE_ONEDNN_OPTS=0 chooses
kernels that give the same bits.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

from tests.nested.hold import LAYER, PLAIN, outcome, smallest
from tests.nested.programs import parsed, random_program


def main(*words: str) -> int:
    if not words[0].isdigit():
        for text in words:
            print(text, *(outcome(parsed(text), kind) for kind in (PLAIN, LAYER)), sep="\n  ", flush=True)
        return 0
    found: Counter[str] = Counter()
    for seed in range(int(words[0]), int(words[0]) + int(words[1])):
        program, kind = random_program(Random(seed)), (PLAIN, LAYER)[seed % 2]
        said = outcome(program, kind, seed)
        what, _, why = said.partition(": ")
        found[what] += 1
        if what == "broken":
            program = smallest(program, kind, seed)
        if why:
            print(f"{what}: seed {seed}, {kind}, {program}\n    {why}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(found.items())))
    return 1 if found["broken"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
