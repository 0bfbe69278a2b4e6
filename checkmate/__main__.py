from __future__ import annotations

import sys


def main() -> int:
    """The doctor answers even where a library is so broken that it cannot be imported."""
    try:
        from checkmate.cli.main import main as run
    except ImportError as error:
        return _doctor_alone(error)
    except KeyboardInterrupt:  # imports take a second
        sys.stderr.write("checkmate: interrupted; nothing was written\n")
        return 130
    from checkmate.machine.garbage import hide_all

    try:
        return run()
    finally:
        hide_all()


def _doctor_alone(error: ImportError) -> int:
    try:
        from checkmate.cli.commands.doctor import main_alone
    except ImportError as other:  # what the doctor itself is printed with
        sentence = f"a library cannot be imported: {other}"
        sys.stderr.write(f"checkmate: {sentence}\n  pip install --force-reinstall checkmate-explorer\n")
        return 2
    return main_alone(sys.argv[1:], error)


if __name__ == "__main__":
    sys.exit(main())
