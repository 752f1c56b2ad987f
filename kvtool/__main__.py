"""`python -m kvtool` and the `kvtool` script: the edge where errors become messages and exit codes."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

from kvtool.text.terminal.address_room import room_refused
from kvtool.text.terminal.ended import EndedError, end_on_signals
from kvtool.text.terminal.streams import fill_closed_streams

_YOUNG = 10_000
"""Objects that are made before those of them that are left are looked through for cycles. Cycles are rare here, and with the few
hundred of Python's own start-up alone spends a fifth of its time on it."""
_COLLECTIONS = 20
"""Times that those are, before older ones are looked through, too."""


def collect_seldom() -> None:
    """Look for cycles as seldom as the command line does."""
    gc.set_threshold(_YOUNG, _COLLECTIONS, _COLLECTIONS)


def main() -> None:
    """Run the command line and leave with its exit code."""
    collect_seldom()
    try:
        if not fill_closed_streams():
            print("error: standard output is closed", file=sys.stderr)
            sys.exit(2)
        if (refused := room_refused()) is not None:
            print(f"error: {refused}", file=sys.stderr)
            sys.exit(2)
        end_on_signals()
        from kvtool.engine.blas_threads import start_with_one_thread

        start_with_one_thread()
        from kvtool.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("kvtool: interrupted", file=sys.stderr)
        code = 130
    except EndedError:
        with suppress(OSError):  # a terminal that was closed
            print("kvtool: ended from outside", file=sys.stderr)
        raise
    except OSError:  # of standard error: there is nobody left to tell
        code = 2
    except ModuleNotFoundError as error:
        if error.name != "kvtool.engine":
            raise
        print(
            "error: kvtool/engine is no symbolic link to ../engine, as git makes it without core.symlinks",
            file=sys.stderr,
        )
        print("  help: git clone -c core.symlinks=true, or install a wheel", file=sys.stderr)
        code = 2
    gc.freeze()  # all of it goes with the process: nobody needs to look through it for cycles on the way out
    sys.exit(code)


if __name__ == "__main__":
    main()
