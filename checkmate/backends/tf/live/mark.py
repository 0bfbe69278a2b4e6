"""Watch the allocator's highest mark around the measuring of steps."""

from __future__ import annotations

from checkmate.backends.tf.devices import has_meter, peak_bytes, reset_peak


class Mark:
    """Hold the highest mark of an allocator as it was before steps were tried.

    A step that was tried may raise it over the budget. A later step over the budget would then not be seen,
    and the mark would tell the user of a step that does not train.
    """

    def __init__(self, meter: str) -> None:
        self._meter = meter
        self._before = peak_bytes(meter) if has_meter(meter) else None

    def start_anew_over(self, allowed: int) -> None:
        """Start the mark anew if it was raised since, over ``allowed`` bytes."""
        if self._before is not None and peak_bytes(self._meter) > max(self._before, allowed):
            reset_peak(self._meter)
