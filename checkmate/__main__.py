from __future__ import annotations

import sys


def main() -> int:
    try:
        from checkmate.cli.main import main as run
    except ImportError as error:  # what any command is parsed and printed with
        sentence = f"a library cannot be imported: {error}"
        sys.stderr.write(f"checkmate: {sentence}\n  pip install --force-reinstall checkmate-explorer\n")
        return 2
    except KeyboardInterrupt:  # imports take a second
        sys.stderr.write("checkmate: interrupted; nothing was written\n")
        return 130
    from checkmate.machine.garbage import hide_all

    try:
        return run()
    finally:
        hide_all()


if __name__ == "__main__":
    sys.exit(main())
