"""Run tasks on a ray cluster, by ray's client.

A slot is as many of its cores as a task uses. Not tested: ray is no part of the tests.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from checkmate.errors import EngineUnavailableError


class RayPool:
    """Run tasks on the cluster whose head is at ``address`` (host:port).

    ray itself sends a lost worker's task again, twice at most.

    Raises:
        EngineUnavailableError: ray is not installed, or no head answers.
    """

    retries = 0

    def __init__(self, address: str, workers: int) -> None:
        try:
            self._ray: Any = importlib.import_module("ray")
        except ModuleNotFoundError:
            raise EngineUnavailableError(
                "the engine ray:// needs ray, which is not installed",
                hint="pip install 'checkmate-explorer[ray]', or leave --engine out",
            ) from None
        self._workers, self._running = workers, list[tuple[Any, Any]]()
        try:
            self._ray.init(address=f"ray://{address}")
        except (ConnectionError, OSError, RuntimeError) as error:
            raise EngineUnavailableError(
                f"no ray cluster answers at {address}", hint="start one with: ray start --head"
            ) from error

    def slots(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)) // self._workers)

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Any:
        self._running = [(ref, future) for ref, future in self._running if not future.done()]
        remote = self._ray.remote(num_cpus=self._workers, max_retries=2)(function)
        reference = remote.remote(argument)
        future = reference.future()
        self._running.append((reference, future))
        return future

    def is_loss(self, error: BaseException) -> bool:
        return isinstance(error, self._ray.exceptions.WorkerCrashedError)

    def require_open(self) -> None:
        if not self._ray.is_initialized():
            raise EngineUnavailableError(
                "the connection to the ray cluster was lost", hint="start the same command again"
            )

    def close(self, *, at_once: bool) -> None:
        for reference, _ in self._running if at_once else ():
            self._ray.cancel(reference, force=True)
        self._ray.shutdown()
