"""Run one benchmark: ``python -m tests.benchmarks SUBJECT …``; each says more with ``--help``."""

import runpy
import sys

SUBJECTS = {
    "fidelity": "predicted and measured peak, time and gradients of models at budgets",
    "jax": "schedules of plain JAX beside jax.checkpoint; --wide on a GPU",
    "jax_keras": "Keras on JAX beside keras.remat",
    "long_use": "what a window holds and how long it stalls over thousands of moves",
    "paper": "the Checkmate paper's largest batches and approximation ratios",
    "peers": "Keras's and TensorFlow's own ways to save memory beside ours",
    "solvers": "how near to the best the default solver comes, and how soon",
    "torch": "PyTorch's own ways to save memory beside ours",
    "training": "the programs of examples/, plain and scheduled",
    "xla": "steps that XLA compiles beside recompute_grad",
}


def main() -> int:
    """Run the subject that the first argument names with the others."""
    if len(sys.argv) < 2 or sys.argv[1] not in SUBJECTS:
        print("\n".join([__doc__, *(f"  {name:10} {words}" for name, words in SUBJECTS.items())]))
        return 2
    subject = sys.argv.pop(1)
    sys.argv[0] = f"python -m tests.benchmarks {subject}"
    runpy.run_module(f"tests.benchmarks.{subject}", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
