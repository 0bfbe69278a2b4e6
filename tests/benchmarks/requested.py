"""Compare the bytes that are predicted with those that are traced.

``python -m tests.benchmarks.requested -o docs/results/machines/requested-bytes.json`` does it for some
plain steps with Eigen's kernels. The prediction is made before anything is measured.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from checkmate.bench.common.machine import this_machine
from checkmate.machine.libraries import versions
from tests.tf.trace.test_scratch import SMALL, peaks

STEPS = (
    ("small convolutional net", f"{SMALL}:convnet", 16),
    ("small convolutional net", f"{SMALL}:convnet", 1),
    ("net with two heads", f"{SMALL}:two_heads", 16),
    ("`zoo.two_io`", "zoo.two_io", 8),
    ("`zoo.vgg16`", "zoo.vgg16", 2),
)


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    output = parser.parse_args().output
    machine, rows = this_machine().to_json(), []
    for name, spec, batch in STEPS:
        predicted, traced = peaks(spec, batch)[0]
        rows.append({"name": name, "batch": batch, "predicted_bytes": predicted, "traced_bytes": traced})
        print(name, batch, predicted, traced, flush=True)
    made_with = versions(("tensorflow", "keras"))
    facts = {"format": "checkmate-requested", "version": 1, "machine": machine, "made_with": made_with}
    output.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
