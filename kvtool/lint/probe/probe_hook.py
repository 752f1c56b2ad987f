"""Runs inside every Python process of a probed command, as its `sitecustomize`: a clock that is where the probe wants it, the
order of folder listings, the name of user and host, and, where asked for, randomness that repeats.

What it does is said by a JSON object in the variable `KVTOOL_PROBE`. It must not break the process that it is in: what it cannot
change there it leaves alone. Nothing here imports kvtool, as the process may have another Python than kvtool's.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

VARIABLE = "KVTOOL_PROBE"
_STILL_CALLS = 10_000
"""Readings after which the clock goes on by a millisecond each, so that a loop that waits for it ends."""


class _Clock:
    """Wall time that is still, but for what the process sleeps."""

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds
        self._left = _STILL_CALLS

    def time_ns(self) -> int:
        if self._left:
            self._left -= 1
        else:
            self.nanoseconds += 1_000_000
        return self.nanoseconds

    def time(self) -> float:
        return self.time_ns() / 1_000_000_000  # whole numbers, so that it is rounded once


def _set_clock(nanoseconds: int) -> None:
    clock = _Clock(nanoseconds)
    real: Any = {name: getattr(time, name) for name in ("sleep", "localtime", "gmtime", "asctime", "strftime")}

    def sleep(duration: float) -> None:
        real["sleep"](duration)
        clock.nanoseconds += round(duration * 1e9)

    def localtime(moment: float | None = None) -> Any:
        return real["localtime"](clock.time() if moment is None else moment)

    def gmtime(moment: float | None = None) -> Any:
        return real["gmtime"](clock.time() if moment is None else moment)

    def asctime(moment: Any = None) -> str:
        return str(real["asctime"](localtime() if moment is None else moment))

    def strftime(form: str, moment: Any = None) -> str:
        return str(real["strftime"](form, localtime() if moment is None else moment))

    changed: Any = time
    changed.time, changed.time_ns, changed.sleep = clock.time, clock.time_ns, sleep
    changed.localtime, changed.gmtime, changed.asctime, changed.strftime = localtime, gmtime, asctime, strftime
    changed.ctime = lambda moment=None: asctime(localtime(moment))
    if hasattr(time, "clock_gettime"):
        read, read_ns, wall = time.clock_gettime, time.clock_gettime_ns, time.CLOCK_REALTIME
        changed.clock_gettime = lambda which: clock.time() if which == wall else read(which)
        changed.clock_gettime_ns = lambda which: clock.time_ns() if which == wall else read_ns(which)
    _set_datetime(clock)


def _set_datetime(clock: _Clock) -> None:
    """Put classes in the place of `date` and `datetime` that read the clock for `now` and `today`; what they make is real."""
    import copyreg
    import datetime as dt

    real_date, real_datetime, utc = dt.date, dt.datetime, dt.timezone.utc  # noqa: UP017 # before 3.11

    reals: dict[type, type] = {}

    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, reals[cls]) if cls in reals else type.__instancecheck__(cls, instance)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, reals[cls]) if cls in reals else type.__subclasscheck__(cls, other)

    def new_date(cls: Any, *args: Any, **named: Any) -> Any:
        return real_date(*args, **named) if cls is date else real_date.__new__(cls, *args, **named)

    def today(cls: Any) -> Any:
        return cls.fromtimestamp(clock.time())

    def new_datetime(cls: Any, *args: Any, **named: Any) -> Any:
        return real_datetime(*args, **named) if cls is moment else real_datetime.__new__(cls, *args, **named)

    def now(cls: Any, tz: Any = None) -> Any:
        return cls.fromtimestamp(clock.time(), tz)

    def utcnow(cls: Any) -> Any:
        return cls.fromtimestamp(clock.time(), utc).replace(tzinfo=None)

    kept: dict[str, Any] = {"__module__": "datetime", "__slots__": ()}
    date: Any = Meta("date", (real_date,), {**kept, "__new__": new_date, "today": classmethod(today)})
    methods = {"now": classmethod(now), "today": classmethod(now), "utcnow": classmethod(utcnow)}
    moment: Any = Meta("datetime", (real_datetime,), {**kept, **methods, "__new__": new_datetime})
    reals.update({date: real_date, moment: real_datetime})
    register: Any = copyreg.pickle  # else pickle would not find the real classes under their names
    register(real_date, lambda value: (date, value.__reduce__()[1]))
    register(real_datetime, lambda value: (moment, value.__reduce__()[1]))
    changed: Any = dt
    changed.date, changed.datetime = date, moment


class _Entries:
    """The result of `os.scandir` in another order."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _set_listing(order: str) -> None:
    """Listings of folders by name, or by name backwards; `glob`, `pathlib` and `os.walk` are made of these two functions."""
    listdir, scandir = os.listdir, os.scandir
    backwards = order == "reversed"

    def sorted_names(path: Any = ".") -> list[Any]:
        return sorted(listdir(path), reverse=backwards)

    def sorted_entries(path: Any = ".") -> _Entries:
        with scandir(path) as found:
            return _Entries(sorted(found, key=lambda entry: entry.name, reverse=backwards))

    changed: Any = os
    changed.listdir, changed.scandir = sorted_names, sorted_entries


def _set_randomness(seed: int) -> None:
    import random

    stream = random.Random(seed)  # noqa: S311 # it shall repeat
    seeded = random.Random.seed

    def urandom(size: int) -> bytes:
        return stream.getrandbits(8 * size).to_bytes(size, "big") if size else b""

    def seed_with(self: Any, a: Any = None, version: int = 2) -> None:
        seeded(self, stream.getrandbits(64) if a is None else a, version)

    changed: Any = random
    changed.Random.seed, changed._urandom = seed_with, urandom
    changed.seed = changed._inst.seed
    changed.seed(seed)
    operating_system: Any = os
    operating_system.urandom = urandom
    if hasattr(os, "getrandom"):
        operating_system.getrandom = lambda size, *_: urandom(size)


def _set_names(user: str, host: str) -> None:
    """User and host as the operating system says them; variables are set from outside."""
    changed: Any = os
    changed.getlogin = lambda: user
    if hasattr(os, "uname"):
        uname = os.uname
        changed.uname = lambda: os.uname_result((uname().sysname, host, *tuple(uname())[2:]))
    try:
        import _socket

        _socket.gethostname = lambda: host
    except ImportError:
        pass


def _hidden_customization() -> None:
    """Run the `sitecustomize` that is after this one on the path, as Python would have without us."""
    import importlib.util

    own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100,PTH120 # pathlib shall first be imported with our `os`
    for folder in sys.path:
        path = os.path.join(folder or ".", "sitecustomize.py")  # noqa: PTH118
        if os.path.abspath(folder or ".") == own or not os.path.isfile(path):  # noqa: PTH100,PTH113
            continue
        spec = importlib.util.spec_from_file_location("sitecustomize", path)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        return


def _install(settings: dict[str, Any]) -> None:
    with open(settings["mark"], "a", encoding="utf-8") as mark:  # noqa: PTH123
        mark.write("python\n")
    if settings.get("random") is not None:
        _set_randomness(settings["random"])
    if settings.get("listing"):
        _set_listing(settings["listing"])
    if settings.get("user"):
        _set_names(settings["user"], settings["host"])
    if settings.get("clock") is not None:
        _set_clock(settings["clock"])


if VARIABLE in os.environ and __name__ == "sitecustomize":
    try:
        _install(json.loads(os.environ[VARIABLE]))
    except Exception as problem:
        sys.stderr.write(f"kvtool: the probe could not prepare Python: {problem!r}\n")
    _hidden_customization()
