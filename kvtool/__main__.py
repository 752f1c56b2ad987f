"""`python -m kvtool` and the `kvtool` script: the edge where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    code = _run()
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        _discard_stdout()
    sys.exit(code)


def _run() -> int:
    from kvtool.cli import run

    try:
        return run(sys.argv[1:])
    except KeyboardInterrupt:
        print("kvtool: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _discard_stdout()
        return 0


def _discard_stdout() -> None:
    """The reader went away; what is still buffered must not raise again at exit."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
    except (OSError, ValueError, AttributeError):
        sys.stdout = None


if __name__ == "__main__":
    main()
