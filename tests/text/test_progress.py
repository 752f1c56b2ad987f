"""Progress on stderr: when it shows, where, and that it stays off what is not a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.text.terminal.console import cell_width, make_console
from kvtool.text.terminal.progress import Progress, clock_time, progress_line
from kvtool.workload.logs.logs import LogOptions, LogSource
from tests.files import write


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Stands for the monotonic clock of the progress."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("kvtool.text.terminal.progress.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Clock(monkeypatch)


def work(
    progress: Progress,
    clock: Clock,
    seconds: float,
    requests: int = 640,
    total: int | None = None,
    share: Callable[[], float | None] | None = None,
) -> None:
    with progress:
        progress.stage("accounting", total, share)
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


def test_a_known_total_tells_rate_and_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(Progress(make_console(stderr=True)), clock, 21, requests=210, total=840)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "kvtool: accounting, 100 of 840 requests, 10/s, 1:14 left, 10 s"
    assert second == "kvtool: accounting, 200 of 840 requests, 10/s, 1:04 left, 20 s"


def test_a_stage_that_comes_again_is_numbered_and_its_bar_never_goes_backwards(clock: Clock) -> None:
    terminal = Terminal()
    progress = Progress(make_console(file=terminal))
    for name in ("trying fixes", "trying fixes", "pricing", "trying fixes"):
        progress.stage(name, total=20)
        for _ in range(20):
            clock.now += 0.2
            progress.advance()
    drawn = [line for line in terminal.getvalue().split("\x1b[2K") if line]
    bars = [line.count("█") for line in drawn if "trying fixes" in line and ("█" in line or "·" in line)]
    assert bars
    assert bars == sorted(bars)
    for run in ("trying fixes, run 2", "trying fixes, run 3"):
        assert any(run in line for line in drawn)
    assert all("█" not in line for line in drawn if "run " in line)


def test_a_stage_that_has_begun_is_shown_and_what_it_loads_is_not_timed(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(make_console(stderr=True)) as progress:
        clock.now += 12
        progress.stage("measuring", 120)
        progress.advance(0)
        assert capsys.readouterr().err == "kvtool: measuring, 0 of 120 requests, 12 s\n"
        clock.now += 50
        for _ in range(3):
            clock.now += 1
            progress.advance()
    assert capsys.readouterr().err == "kvtool: measuring, 1 of 120 requests, 63 s\n"


def test_a_stage_tells_what_it_has_found(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(make_console(stderr=True))
    progress.stage("accounting", 200)
    progress.tells(lambda: "57.8% \x1b[2Jhit")
    for _ in range(11):
        clock.now += 1
        progress.advance()
    assert (
        capsys.readouterr().err == "kvtool: accounting, 10 of 200 requests, 1.0/s, 3:10 left, 57.8% \\x1b[2Jhit, 10 s\n"
    )
    clock.now += 10
    progress.stage("trying fixes", 200)
    progress.advance()
    assert capsys.readouterr().err == "kvtool: trying fixes, 1 of 200 requests, 21 s\n"


def test_a_long_stage_tells_the_time_left_within_five_seconds(clock: Clock) -> None:
    terminal = Terminal()
    progress = Progress(make_console(file=terminal))
    progress.stage("accounting", share=lambda: clock.now / 100_000)
    for _ in range(45):
        clock.now += 0.1
        progress.advance()
    assert " left" in terminal.getvalue()


def test_a_log_is_measured_by_its_bytes(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(Progress(make_console(stderr=True)), clock, 11, requests=110, share=lambda: 0.25)
    assert capsys.readouterr().err == "kvtool: accounting, 100 requests, 10/s, 0:30 left, 10 s\n"
    work(Progress(make_console(stderr=True)), clock, 11, requests=110, share=lambda: None)
    assert capsys.readouterr().err == "kvtool: accounting, 100 requests, 10/s, 10 s\n"


def test_more_than_the_total_is_no_promise(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(Progress(make_console(stderr=True)), clock, 11, requests=110, total=50)
    assert capsys.readouterr().err == "kvtool: accounting, 100 requests, 10/s, 10 s\n"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("columns", [10, 20, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(
    columns: int, encoding: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Encoded(Terminal):
        @property
        def encoding(self) -> str:  # type: ignore[override]  # of what a terminal is, not of StringIO
            return encoding

    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Encoded()
    work(Progress(make_console(file=terminal)), clock, 30, requests=3_000, total=12_000)
    drawn = [re.sub(r"\x1b\[\d*m", "", line) for line in terminal.getvalue().split("\r\x1b[2K")]
    assert len(drawn) > 100
    assert all(cell_width(line) < columns for line in drawn)
    assert drawn[-1] == ""  # the line is gone at the end
    assert all(line.startswith("acco") for line in drawn[1:-1])
    if encoding == "ascii":
        assert all(line.isascii() for line in drawn)
    if columns == 80:
        assert re.fullmatch(r"accounting  \S{20}  2,9\d\d of 12,000 requests  100/s  1:31 left", drawn[-2])


def test_the_last_parts_go_first() -> None:
    parts = ["trying fixes", "7 of 9 requests", "3.1/s", "0:02 left"]
    assert progress_line(parts, "####", 60) == "trying fixes  ####  7 of 9 requests  3.1/s  0:02 left"
    assert progress_line(parts, "####", 42) == "trying fixes  ####  7 of 9 requests  3.1/s"
    assert progress_line(parts, "####", 30) == "trying fixes  7 of 9 requests"
    assert progress_line(parts, "####", 20) == "trying fixes"
    assert cell_width(progress_line(parts, "####", 8)) <= 8


def test_times_are_rounded_up() -> None:
    assert [clock_time(seconds) for seconds in (0.2, 40, 59.5, 724, 10_809)] == [
        "0:01",
        "0:40",
        "1:00",
        "12:04",
        "3:00:09",
    ]


def test_a_terminal_that_went_away_stops_nothing(clock: Clock) -> None:
    class Gone(Terminal):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    progress = Progress(make_console(file=Gone()))
    work(progress, clock, 5)
    assert progress.done == 640


def test_a_log_knows_how_far_it_is(tmp_path: Path) -> None:
    line = '{"prompt": "' + "x" * 400 + '"}\n'
    paths = [write(str(tmp_path / f"{name}.jsonl"), line * 6_000) for name in "ab"]
    source = LogSource(paths, LogOptions())
    seen = []
    for _ in source.conversations():
        share = source.share_read()
        assert share is not None
        seen.append(share)
    assert seen == sorted(seen)
    assert len(set(seen)) > 2  # it is read in steps
    assert seen[-1] == 1.0
    again = next(source.conversations()) and source.share_read()
    assert again is None  # the requests are kept, and no bytes are read
    again = next(source.calls()) and source.share_read()
    assert again is not None
    assert again < 0.5  # a new pass begins anew


def test_what_cannot_be_measured_has_no_share(tmp_path: Path) -> None:
    source = LogSource([str(tmp_path / "missing.jsonl")], LogOptions())
    with pytest.raises(KvtoolError):
        list(source.conversations())
    assert source.share_read() is None


def test_the_time_left_does_not_count_what_was_loaded_first(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(make_console(stderr=True))
    with progress:
        progress.stage("accounting", 1_000)
        clock.now += 30  # the tokenizer is loaded
        progress.advance()
        clock.now += 10
        progress.advance(100)
    assert capsys.readouterr().err.splitlines() == [
        "kvtool: accounting, 1 of 1,000 requests, 30 s",
        "kvtool: accounting, 101 of 1,000 requests, 10/s, 1:30 left, 40 s",
    ]


def test_the_time_left_is_told_when_it_can_be_known(clock: Clock) -> None:
    terminal = Terminal()
    progress = Progress(make_console(file=terminal))
    with progress:
        progress.stage("accounting", 1_000)
        for _ in range(70):
            clock.now += 0.1
            progress.advance()
    drawn = [re.sub(r"\x1b\[\d*m", "", line) for line in terminal.getvalue().split("\r\x1b[2K")]
    told = {int(match[1]): "left" in line for line in drawn if (match := re.search(r"(\d+) of 1,000", line))}
    assert told[20] is told[29] is False  # not 5 % yet, and not for long
    assert told[32] is told[70] is True


def test_a_budget_ends_a_stage(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(make_console(stderr=True))
    with progress:
        progress.stage("measuring", 120)
        progress.ends_by(clock.now + 20)
        for _ in range(6):
            clock.now += 3
            progress.advance()
        progress.stage("another", 120)
        for _ in range(4):
            clock.now += 3
            progress.advance()
    assert capsys.readouterr().err.splitlines() == [
        "kvtool: measuring, 4 of 120 requests, 0.3/s, 0:08 left, 12 s",
        "kvtool: another, 2 of 120 requests, 0.3/s, 5:54 left, 24 s",
    ]
