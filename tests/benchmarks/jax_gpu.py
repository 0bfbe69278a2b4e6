"""Measure scheduled JAX steps on a GPU beside the usual ways.

``python -m tests.benchmarks jax_gpu -o FOLDER [--small] [--seconds 230]``

Those are the plain step, and ``jax.checkpoint`` with a policy. Each way of each network is a process of its
own, so that its peak is its own. All compile side by side; then one after another runs, alone on the device.
What is known is written at once, a line of ``rows.jsonl`` for each way, and what fails goes to
``errors.txt``; ``results.json`` is for ``docs/results/jax``. Plain steps compile first: they fill the cache
of tuned kernels that the others read. ``--small`` is for a CPU, and shows that all works.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from checkmate.formats.files import write_json
from checkmate.solvers.compile.compilation import compile_first

POLICIES = ("nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable")
ROUNDS = 10
_COMPILING = 0.64  # of all seconds, until what is not compiled is given up
_RUNNING = 40.0  # seconds, at most, for what one process measures
# The largest batches: what a plain step cannot hold, and what is asked of the scheduled one.
BEYOND = {"gpt": 288}
ROOM = "60GiB"
_MARK = "row "
_KEPT = {  # in the results, under which name
    "batch": "batch",
    "temporary": "temporary",
    "whole": "whole",
    "peak": "peak",
    "recomputations": "recomputations",
    "predicted": "predicted",
    "counted_ms": "counted_ms",
    "least_ms": "least_ms",
    "median_ms": "median_ms",
    "differs": "difference",
    "compilations": "compilations",
    "compile_s": "compile_seconds",
    "failed": "problem",
}


@dataclass(frozen=True)
class Task:
    """One way of one network.

    ``way``: ``plain``, a share like ``60 %``, or a policy of ``jax.checkpoint``.
    ``beyond``: with the largest batch. ``first``: it compiles before all others.
    """

    network: str
    way: str
    beyond: bool = False
    first: bool = False

    @property
    def name(self) -> str:
        return f"{self.network} {self.way}" + (" beyond" if self.beyond else "")


def tasks() -> list[Task]:
    """Return all tasks, what matters most first."""
    others = ("vit", "resnet")
    found = [Task(network, "plain", first=True) for network in ("gpt", *others)]
    found += [Task("gpt", "60 %"), Task("keras", "60 %"), Task("gpt", "45 %")]
    found += [Task(network, "60 %") for network in others]
    found += [Task("gpt", ROOM, beyond=True), Task("gpt", "75 %"), Task("gpt", "30 %")]
    found += [Task("gpt", policy) for policy in POLICIES]
    found += [Task("gpt", "plain", beyond=True)]
    found += [Task(network, "45 %") for network in others]
    found += [Task(network, policy) for network in others for policy in POLICIES]
    return found + [Task(network, share) for network in others for share in ("75 %", "30 %")]


@dataclass
class Child:
    """The process of a task."""

    task: Task
    process: subprocess.Popen[str]
    facts: dict[str, Any]
    started: float = field(default_factory=time.monotonic)
    compiled: bool = False
    over: bool = False


@dataclass
class Conductor:
    """Starts the tasks, lets them compile together and run one by one."""

    folder: Path
    scratch: Path
    small: bool
    seconds: float
    workers: int
    networks: tuple[str, ...]
    begun: float = field(default_factory=time.monotonic)
    said: queue.Queue[tuple[Child, dict[str, Any] | None]] = field(default_factory=queue.Queue)
    children: list[Child] = field(default_factory=list)

    def run(self) -> None:
        threading.Thread(target=compile_first, daemon=True).start()
        waiting = [task for task in tasks() if task.network in self.networks]
        first = [task for task in waiting if task.first]
        waiting = [task for task in waiting if not task.first]
        compiling = _COMPILING * self.seconds
        self._compile(first, compiling, until=0.25 * self.seconds)
        self._compile(waiting, compiling)
        for child in self.children:
            if not child.compiled and not child.over:
                self._end(child, "gave up: no time to compile")
        for task in waiting:
            self._write({**_named(task), "failed": "gave up: not started"})
        for child in sorted(self.children, key=lambda each: each.task.beyond):
            if not child.over:
                self._measure(child)
        text = table(self.folder)
        (self.folder / "table.txt").write_text(text, encoding="utf-8")
        write_json(self.folder / "results.json", results(self.folder))
        print(text)

    def _left(self) -> float:
        return self.begun + self.seconds - time.monotonic()

    def _compile(self, waiting: list[Task], compiling: float, until: float | None = None) -> None:
        """Start tasks as others get done; return once all are, or time is over."""
        end = self.begun + (compiling if until is None else min(until, compiling))
        while time.monotonic() < end:
            busy = sum(not child.compiled and not child.over for child in self.children)
            while waiting and busy < self.workers:
                self.children.append(self._start(waiting.pop(0)))
                busy += 1
            if not busy:
                return
            self._hear(end)

    def _start(self, task: Task) -> Child:
        command = [sys.executable, "-m", "tests.benchmarks.jax_gpu", "-o", str(self.folder)]
        command += ["--task", json.dumps(_named(task)), "--scratch", str(self.scratch)]
        command += ["--small"] if self.small else []
        environment = {
            **os.environ,
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "XLA_PYTHON_CLIENT_MEM_FRACTION": os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.95"),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "KERAS_BACKEND": "jax",
        }
        if not self.small:
            tuned = f"--xla_gpu_per_fusion_autotune_cache_dir={self.scratch}"
            environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {tuned}".strip()
        with (self.folder / "errors.txt").open("a", encoding="utf-8") as errors:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        child = Child(task, process, _named(task))
        threading.Thread(target=self._listen, args=(child,), daemon=True).start()
        return child

    def _listen(self, child: Child) -> None:
        for line in child.process.stdout or ():
            if line.startswith(_MARK):
                self.said.put((child, json.loads(line.removeprefix(_MARK))))
        self.said.put((child, None))

    def _hear(self, end: float) -> None:
        """Take one message, and write what it says."""
        try:
            child, facts = self.said.get(timeout=max(0.01, min(1.0, end - time.monotonic())))
        except queue.Empty:
            return
        if facts is None:
            if not child.over:
                self._end(child, None if "least_ms" in child.facts else "ended without a result")
            return
        child.facts |= facts
        child.compiled |= "compiled_s" in facts
        self._write(child.facts)
        child.over |= "failed" in facts

    def _measure(self, child: Child) -> None:
        if self._left() < 5:
            self._end(child, "gave up: no time to run")
            return
        assert child.process.stdin
        try:
            child.process.stdin.write("run\n")
            child.process.stdin.flush()
        except OSError:
            self._end(child, "ended before it ran")
            return
        end = time.monotonic() + min(_RUNNING, self._left() - 2)
        while not child.over and "least_ms" not in child.facts and time.monotonic() < end:
            self._hear(end)
        if not child.over:
            self._end(child, None if "least_ms" in child.facts else "gave up: ran too long")
        child.process.wait()

    def _end(self, child: Child, failed: str | None) -> None:
        child.over = True
        child.process.kill()
        if failed:
            child.facts["failed"] = failed
            self._write(child.facts)

    def _write(self, facts: dict[str, Any]) -> None:
        facts = {**facts, "at_s": round(time.monotonic() - self.begun, 1)}
        with (self.folder / "rows.jsonl").open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(facts) + "\n")


def _named(task: Task) -> dict[str, Any]:
    return {"network": task.network, "way": task.way, "beyond": task.beyond, "first": task.first}


_Rows: TypeAlias = dict[tuple[str, bool, str], dict[str, Any]]


def _last(folder: Path) -> _Rows:
    """Return the last line of each way; what failed first stays."""
    last: _Rows = {}
    for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        key = (row["network"], row["beyond"], row["way"])
        if "failed" not in last.get(key, {}):
            last[key] = row
    return last


def results(folder: Path) -> dict[str, Any]:
    """Return all rows, in the form of ``docs/results/jax``."""
    last = _last(folder)
    rows = []
    for task in tasks():
        row = last.get((task.network, task.beyond, task.way))
        if row is None:
            continue
        plain = last.get((task.network, False, "plain"), {}).get("least_ms")
        found = {"network": task.network, "way": task.way}
        found |= {"batch": BEYOND[task.network]} if task.beyond else {}
        found |= {new: row[old] for old, new in _KEPT.items() if row.get(old) is not None}
        if plain and "least_ms" in row and not task.beyond:
            found["measured"] = row["least_ms"] / plain - 1
        rows.append(found)
    some: dict[str, Any] = next((row for row in last.values() if "device" in row), {})
    device, driver = [*_driver().split(", "), ""][:2]
    return {"jax": some.get("jax"), "platform": "gpu", "device": device, "driver": driver, "rows": rows}


def table(folder: Path) -> str:
    """Return the last line of each way as a table."""
    last = _last(folder)
    titles = ("temp", "whole", "peak", "least", "median", "pred.", "meas.", "differs", "comp.")
    lines = [f"{'network and way':44} {'batch':>5}" + "".join(f" {title:>8}" for title in titles)]
    for (network, beyond, way), row in sorted(last.items()):
        plain = last.get((network, False, "plain"), {}).get("least_ms")
        took = row.get("least_ms")
        cells = [_number(row, name, 2**20, 0) for name in ("temporary", "whole", "peak")]
        cells += [_number(row, name, 1, 2) for name in ("least_ms", "median_ms")]
        cells += [_number(row, "predicted", 0.01, 1)]
        cells += [f"{100 * (took / plain - 1):+.1f}" if took and plain and not beyond else "–"]
        cells += [_number(row, "differs", 1, 6)]
        cells += [f"{row['compilations']}/{row['compile_s']:.0f}" if "compile_s" in row else "–"]
        name = f"{network} {way}{' (beyond)' if beyond else ''}"
        lines.append(
            f"{name:44} {row.get('batch', '–'):>5}"
            + "".join(f" {cell:>8}" for cell in cells)
            + f" {row.get('failed', '')[:60]}"
        )
    return "\n".join(lines) + "\n(MiB, ms, %; compilations/seconds)"


def _number(row: dict[str, Any], name: str, unit: float, digits: int) -> str:
    return f"{row[name] / unit:.{digits}f}" if row.get(name) is not None else "–"


# What follows runs in the process of one task.


def tell(**facts: Any) -> None:
    print(_MARK + json.dumps(facts), flush=True)


def note(text: str) -> None:
    sys.stderr.write(f"\n{text}\n")
    sys.stderr.flush()


def work(task: Task, folder: Path, scratch: Path, small: bool) -> None:
    """Compile, wait for the word to run, run, and tell what was found."""
    started = time.monotonic()
    parts = _keras_parts(task, small) if task.network == "keras" else _parts(task, folder, scratch, small)
    try:
        tell(**next(parts), compiled_s=round(time.monotonic() - started, 1))
        tell(**next(parts))
        sys.stdin.readline()
        for facts in parts:
            tell(**facts)
    except Exception as error:
        note(f"== {task.name}\n{traceback.format_exc()[-4000:]}")
        tell(failed=f"{type(error).__name__}: {str(error)[:300]}")


def _parts(task: Task, folder: Path, scratch: Path, small: bool) -> Iterator[dict[str, Any]]:
    """Give what was compiled, what is beside it, then what was measured."""
    import jax

    from tests.benchmarks.jax_gpu_networks import BATCHES, NETWORKS, SMALL

    def wrap(block: Any) -> Any:
        policy = getattr(jax.checkpoint_policies, task.way, None)
        return block if policy is None else jax.checkpoint(block, policy=policy)

    sizes = dict(SMALL[task.network]) if small else {"batch": BATCHES[task.network]}
    if task.beyond:
        sizes["batch"] = 4 * sizes["batch"] if small else BEYOND[task.network]
    network = NETWORKS[task.network](wrap, **sizes)
    device = jax.local_devices()[0]
    facts: dict[str, Any] = {"batch": sizes["batch"], "device": device.device_kind, "jax": jax.__version__}
    run, executable, compiled = _compiled(task, network, small)
    drawn = network.arguments()
    yield facts | compiled
    yield _beside(task, folder, network, executable)
    before = _peak(device)
    state, batch = jax.device_put(drawn)
    del drawn
    state, loss = run(state, batch)
    losses = [float(loss)]
    peak, moment = _peak(device), jax.device_get(state[1])
    yield {"peak": peak, "peak_before": before, "differs": _differs(task, scratch, moment)}
    took: list[float] = []
    while len(took) < ROUNDS and sum(took) < 4000:
        begun = time.perf_counter()
        state, loss = jax.block_until_ready(run(state, batch))
        took.append(1000 * (time.perf_counter() - begun))
        losses.append(float(loss))
    yield {"least_ms": min(took), "median_ms": statistics.median(took), "losses": losses[:4]}


def _beside(task: Task, folder: Path, network: Any, executable: Any) -> dict[str, Any]:
    """Keep the text of one step; compile plain ones without tuned kernels."""
    import jax

    from checkmate.backends.jax.compiled import memory_of

    try:
        if (task.network, task.way, task.beyond) == ("gpt", "60 %", False):
            with gzip.open(folder / "gpt-60.hlo.gz", "wt") as file:
                file.write(executable.as_text())
        if task.first and jax.default_backend() == "gpu":
            begun = time.monotonic()
            lowered = jax.jit(network.step, donate_argnums=0).lower(network.state, network.batch)
            held = memory_of(lowered.compile({"xla_gpu_autotune_level": 0}))
            return {"untuned": held.temporary, "untuned_s": time.monotonic() - begun}
    except Exception:
        note(f"== {task.name}, beside it\n{traceback.format_exc()[-4000:]}")
    return {}


def _compiled(task: Task, network: Any, small: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Return the step to call, its executable, and what is known of it."""
    import jax

    import checkmate.jax
    from checkmate.backends.jax.compiled import memory_of
    from checkmate.solvers.problem import SolveOptions

    shapes = (network.state, network.batch)
    if not task.way.endswith(("%", "iB")):
        begun = time.monotonic()
        lowered = jax.jit(network.step, donate_argnums=0).lower(*shapes)
        run = lowered.compile()
        took = time.monotonic() - begun
        held = memory_of(run)
        facts = {"temporary": held.temporary, "whole": held.whole, "compilations": 1, "compile_s": took}
        return run, run, facts
    budget = "75%" if small and task.beyond else task.way.replace(" ", "")
    found = checkmate.jax.rematerialize(
        network.step,
        budget,
        of="temporary",
        donate_argnums=0,
        example=shapes,
        options=SolveOptions(time_limit_s=4),
    )
    report = found.report
    facts = {"temporary": report.reached.temporary, "whole": report.reached.whole}
    facts |= {"plain": report.plain.temporary, "over": report.over_bytes, "status": str(report.status)}
    facts |= {"predicted": report.predicted_overhead, "recomputations": report.recomputations}
    facts |= {"ops": report.ops, "compilations": report.compilations, "sentence": report.sentence}
    facts |= {"compile_s": report.compile_seconds, "solve_s": report.solve_seconds}
    graph = found.plans[-1].graph
    facts |= {"counted_ms": None if graph is None else 1000 * graph.base_cost}
    return found, found.plans[-1].executable, facts


def _peak(device: Any) -> int | None:
    found = device.memory_stats()
    return None if not found else int(found["peak_bytes_in_use"])


def _differs(task: Task, scratch: Path, moment: Any) -> float | None:
    """Return by how much gradients differ from the plain, of their norm."""
    import jax
    import numpy as np

    leaves = jax.tree.leaves(moment)
    known = scratch / f"{task.network}.npz"
    if task.way == "plain" and not task.beyond:
        np.savez(known, *leaves)
    if task.beyond or not known.exists():
        return None
    with np.load(known) as plain:
        pairs = [(mine, plain[f"arr_{number}"]) for number, mine in enumerate(leaves)]
    apart = sum(float(np.sum(np.square(mine - its))) for mine, its in pairs)
    return float((apart / sum(float(np.sum(np.square(its))) for _, its in pairs)) ** 0.5)


def _keras_parts(task: Task, small: bool) -> Iterator[dict[str, Any]]:
    """Train a Keras model plainly and within its budget."""
    import jax
    import keras
    import numpy as np

    import checkmate

    device = jax.local_devices()[0]  # before Keras draws a seed: it imports TensorFlow, which hides the card
    if not small and device.platform != "gpu":
        raise RuntimeError(f"JAX sees no GPU, only {device.platform}")
    width, across, batch, depth = (16, 16, 16, 2) if small else (128, 64, 512, 6)
    made = np.random.default_rng(0)
    x = made.normal(size=(20 * batch, across, across, 3)).astype("float32")
    y = made.integers(0, 10, size=20 * batch)

    def build() -> Any:
        keras.utils.set_random_seed(1)
        inputs = keras.layers.Input((across, across, 3))
        h = keras.layers.Conv2D(width, 3, strides=2, padding="same")(inputs)
        for _ in range(depth):
            inner = keras.layers.Conv2D(width, 3, padding="same", activation="relu")(h)
            h = keras.layers.add([h, keras.layers.Conv2D(width, 3, padding="same")(inner)])
            h = keras.layers.Activation("gelu")(h)
        model = keras.Model(inputs, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(h)))
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    class Losses(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[float] = []
            self.at: list[float] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.found.append(float(logs["loss"]))
            self.at.append(time.perf_counter())

    scheduled = build()
    checkmate.rematerialize(scheduled, task.way.replace(" ", ""), example=(x[:batch], y[:batch]))
    import checkmate.jax

    report = checkmate.jax.report_of(scheduled)
    yield {
        "batch": batch,
        "temporary": report.reached.temporary,
        "plain": report.plain.temporary,
        "predicted": report.predicted_overhead,
        "compilations": report.compilations,
        "compile_s": report.compile_seconds,
        "sentence": report.sentence,
    }
    yield {}
    found = []
    for model in (scheduled, build()):
        losses = Losses()
        model.fit(x, y, batch_size=batch, epochs=1, shuffle=False, verbose=0, callbacks=[losses])
        gaps = [1000 * (b - a) for a, b in zip(losses.at[5:], losses.at[6:], strict=False)]
        found.append((losses.found, statistics.median(gaps), min(gaps), _peak(device)))
    (ours, median, least, peak), (plain, plain_median, plain_least, plain_peak) = found
    yield {
        "peak": peak,
        "plain_peak": plain_peak,
        "plain_median_ms": plain_median,
        "plain_least_ms": plain_least,
        "losses": ours,
        "plain_losses": plain,
        "differs": max(abs(a - b) for a, b in zip(ours, plain, strict=True)),
        "median_ms": median,
        "least_ms": least,
    }


def _driver() -> str:
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except OSError:
        return "no GPU"
    return found.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seconds", type=float, default=230)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--networks", nargs="+", default=["gpt", "vit", "resnet", "keras"])
    parser.add_argument("--task")
    parser.add_argument("--scratch", type=Path)
    chosen = parser.parse_args()
    if chosen.task:
        work(Task(**json.loads(chosen.task)), chosen.output, chosen.scratch, chosen.small)
        return
    chosen.output.mkdir(parents=True, exist_ok=True)
    print(_driver(), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        Conductor(
            folder=chosen.output,
            scratch=Path(scratch),
            small=chosen.small,
            seconds=chosen.seconds,
            workers=chosen.workers,
            networks=tuple(chosen.networks),
        ).run()


if __name__ == "__main__":
    main()
