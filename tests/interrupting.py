"""Ctrl-C in the course of a run."""

from __future__ import annotations

import signal

import pytest

from kvtool.text.terminal.progress import Progress


def interrupt_at(monkeypatch: pytest.MonkeyPatch, request: int, stage: str | None = None) -> None:
    """Ctrl-C once, at the so manieth request of a stage, or of all; the test needs the fixture `interruptible`."""
    advance = Progress.advance
    seen = 0

    def advance_or_interrupt(self: Progress, number: int = 1) -> None:
        nonlocal seen
        advance(self, number)
        if stage is None or self._stage == stage:
            seen += number
            if seen == request:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "advance", advance_or_interrupt)
