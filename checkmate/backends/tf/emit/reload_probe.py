"""``python reload_probe.py SAVED_MODEL BATCH.npz ANSWER.json [RUNS]``: run an exported step, and measure it.

Uses TensorFlow and the standard library only.
"""

from __future__ import annotations

import gc
import json
import os
import stat
import sys
import threading
import time
from collections.abc import Sequence

_SAME, _STEADY, _MOST, _SECONDS = 4, 8, 32, 15.0  # see settled


def settled(peaks: Sequence[int], seconds: float) -> bool:
    """Whether enough steps were run to know their peak.

    Small buffers that outlive a step, such as moving averages, come to lie between the free chunks, so a
    later step may need more. It is enough after 8 steps without a new peak, 32 in all, or 15 ``seconds``; or
    after 4 that all needed the very same bytes: such a step leaves memory as it found it.
    """
    if len(peaks) >= _SAME and len(set(peaks)) == 1:
        return True
    quiet = len(peaks) - 1 - peaks.index(max(peaks)) if peaks else 0
    return quiet >= _STEADY or len(peaks) >= _MOST or seconds > _SECONDS


def main(folder: str, batch_file: str, answer_file: str, runs: int = 3) -> None:
    gc.disable()  # or the import's 500,000 objects are looked at again and again
    import numpy as np
    import tensorflow as tf  # takes seconds, in which the parent may end

    gc.freeze()
    gc.enable()
    meter = "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"
    module = tf.saved_model.load(folder)  # held: the variables live with it
    with np.load(batch_file) as stored:
        batch = [tf.constant(stored[name]) for name in sorted(stored.files)]
    peaks: list[int] = []
    seconds: list[float] = []
    losses: list[float] = []

    def step() -> None:
        found = module.train_step(*batch)
        for value in found.values():
            if value.shape.rank == 0:
                value.numpy()  # waits for the device
        if "loss" in found:
            losses.append(float(found["loss"].numpy()))

    if meter == "GPU:0":
        # In the first step cuDNN tries its kernels out, with more scratch than any later step.
        step()
    started = time.perf_counter()
    while len(peaks) < runs or not settled(peaks, time.perf_counter() - started):
        tf.config.experimental.reset_memory_stats(meter)
        begun = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begun)
        peaks.append(int(tf.config.experimental.get_memory_info(meter)["peak"]))
    answer = {
        "peak_bytes": max(peaks),
        "peaks": peaks,
        "seconds": sorted(seconds)[len(seconds) // 2],
        "losses": losses,
        "imported_checkmate": any(name.split(".")[0] == "checkmate" for name in sys.modules),
    }
    with open(answer_file, "w", encoding="utf-8") as file:
        json.dump(answer, file)


def end_with_parent() -> None:
    """End this process when its piped standard input ends, as ``checkmate.processes.own`` does."""
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        return
    pipe, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()


def _end_with(pipe: int) -> None:
    while os.read(pipe, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 3)
    gc.freeze()  # at the end Python would look at all objects of TensorFlow once more
