"""``checkmate`` and ``python -m checkmate``: where the command line starts."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line. Where a library is so broken that it cannot be imported, the doctor answers still."""
    try:
        from checkmate.cli import main as run
    except ImportError as error:
        from checkmate.cli_doctor import main_alone

        return main_alone(sys.argv[1:], error)
    return run()


if __name__ == "__main__":
    sys.exit(main())
