"""Train one model on two worker processes, plainly and within a budget.

Run as a script in each process: ``python workers.py ANSWER.json TASK PORT PORT``. The workers talk over the
loopback interface only.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

BATCH, STEPS, BUDGET = 1024, 3, "45%"


def train(strategy: Any, budget: str | None) -> dict[str, Any]:
    """Train some steps in a loop of one's own; return losses, peaks and state."""
    import numpy as np
    import tensorflow as tf

    import checkmate
    from checkmate.memory.simulate import simulate
    from tests.tf.mirrored import OPTIONS, X, Y, build, plain_step

    model = build(strategy)
    found: dict[str, Any] = {}
    task = strategy.cluster_resolver.task_id
    if budget:
        step = checkmate.train_step(
            model, budget, example=(X[:BATCH], Y[:BATCH]), options=OPTIONS, quiet=True, cache=False
        )
        (plan,) = step._planner.plans
        found["plan"] = {
            "recomputations": plan.schedule.recomputations,
            "peak": plan.peak_bytes,
            "measured": plan.measured,
            "allowed": step._planner.allowed_bytes,
            "everything": simulate(plan.step.graph, plan.step.everything).peak_bytes,
        }

    @tf.function(autograph=False)
    def run(x: Any, y: Any) -> Any:
        one = plain_step(model) if budget is None else lambda x, y: step(x, y)[0]
        return strategy.reduce("SUM", strategy.run(one, args=(x, y)), axis=None)

    losses, peaks = [], []
    for number in range(STEPS):  # of each batch a worker takes its half
        part = slice(BATCH * (2 * number % 4 + task), BATCH * (2 * number % 4 + task + 1))
        x, y = tf.constant(X[part]), tf.constant(Y[part])
        tf.config.experimental.reset_memory_stats("CPU:0")
        losses.append(float(run(x, y)))
        peaks.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])
    state = [variable.numpy() for variable in (*model.variables, *model.optimizer.variables)]
    assert all(np.isfinite(value).all() for value in state)
    return {**found, "losses": losses, "peaks": peaks, "state": state}


def fit_error(strategy: Any) -> str:
    """Return the name of the error that Keras's own ``fit`` raises here."""
    from tests.tf.mirrored import X, Y, build

    try:
        build(strategy).fit(X[: 2 * BATCH], Y[: 2 * BATCH], batch_size=2 * BATCH, verbose=0)
    except ValueError as error:
        return "PerReplica" if "PerReplica" in str(error) else str(error)
    return ""


def main(answer: str, task: str, *ports: str) -> None:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": int(task)}})
    import numpy as np
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    plain, scheduled = train(strategy, None), train(strategy, BUDGET)
    pairs = zip(plain.pop("state"), scheduled.pop("state"), strict=True)
    found = {
        "same": all(np.array_equal(a, b) for a, b in pairs),
        "replicas": strategy.num_replicas_in_sync,
        "plain": plain,
        "scheduled": scheduled,
        "fit": fit_error(strategy),
    }
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
