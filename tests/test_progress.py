"""Progress on stderr: when it shows, where, and that it stays off what is not a terminal."""

from __future__ import annotations

from io import StringIO

import pytest

from kvtool.progress import Progress
from kvtool.report.console import make_console


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Stands for the monotonic clock of the progress."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("kvtool.progress.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Clock(monkeypatch)


def work(progress: Progress, clock: Clock, seconds: float, requests: int = 640) -> None:
    with progress:
        progress.stage("accounting")
        for _ in range(requests):
            clock.now += seconds / requests
            progress.advance()


def test_a_file_gets_a_line_every_ten_seconds(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(Progress(make_console(stderr=True)), clock, 35)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("kvtool: accounting, ") and line.endswith(" s") for line in lines)


def test_a_short_run_and_a_quiet_one_say_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(Progress(make_console(stderr=True)), clock, 5)
    work(Progress(make_console(stderr=True), quiet=True), clock, 500)
    terminal = Terminal()
    work(Progress(make_console(file=terminal)), clock, 0.4)
    work(Progress(make_console(file=terminal), quiet=True), clock, 500)
    assert terminal.getvalue() == ""
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_gets_a_bar_that_goes_away(no_color: bool, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    work(Progress(make_console(file=terminal)), clock, 5)
    written = terminal.getvalue()
    assert "accounting" in written
    assert written.endswith("\x1b[2K")
    assert ("\x1b[3" in written) is not no_color


def test_colour_that_is_forced_makes_no_bar_in_a_file(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    file = StringIO()
    work(Progress(make_console(file=file)), clock, 5)
    assert file.getvalue() == ""


def test_a_dumb_terminal_gets_no_bar(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    work(Progress(make_console(file=terminal)), clock, 15)
    assert terminal.getvalue() == ""
    assert capsys.readouterr().err.startswith("kvtool: accounting, ")
