"""Misses by session, project, model and day: rows sum to the totals, and the costliest row is the first."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.accounting.misses import miss_sums
from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.prices.money_book import MoneyBook
from kvtool.accounting.prices.price_table import price_table
from kvtool.cli.app import run
from kvtool.results.choices import MissesBy
from kvtool.results.misses import CacheMisses
from tests.accounting.misses.test_miss_book import CAUSES, CLOCK, FRONT, HiddenSession, enter

KEYS: tuple[MissesBy, ...] = ("session", "project", "model", "day")
PRICES = price_table()


def log_of(seed: int, by: MissesBy, *, priced: bool) -> CacheMisses:
    """Return the misses of a random log of several sessions, projects, models and days."""
    source = random.Random(seed)
    book = MissBook(MoneyBook(PRICES) if priced else None, CLOCK, True, by)
    front, unreported = np.arange(FRONT, dtype=np.int32), 0
    for name in range(source.randint(1, 5)):
        session = HiddenSession(source, f"s{name}", source.random() < 0.5, front, source.random() * 300_000)
        session.call = replace(
            session.call,
            model=source.choice(["claude-opus-4-8", "claude-sonnet-4-6", "no-such-model"]),
            project=source.choice([None, "shop", "app"]),
            subagent=source.random() < 0.3,
        )
        for number in range(source.randint(1, 8)):
            turn, ids, _ = session.request(source.choice([None, None, *CAUSES]))
            if number and source.random() < 0.1:
                turn.call = replace(turn.call, usage=None)
                unreported += 1
            enter(book, turn, ids, f"{name}.{number}")
    misses = book.misses()
    assert misses is not None
    assert misses.unreported == unreported
    return misses


def amounts(values: list[str | None]) -> Decimal:
    return sum((Decimal(value) for value in values if value is not None), Decimal(0))


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 32), by=st.sampled_from(KEYS), priced=st.booleans())
def test_rows_sum_to_the_totals(seed: int, by: MissesBy, priced: bool) -> None:
    misses = log_of(seed, by, priced=priced)
    assert misses.rows is not None
    rows = misses.rows.rows
    for name in ("requests", "prompt_tokens", "promised", "read", "unreported"):
        assert sum(row.read if (value := getattr(row, name)) is None else value for row in rows) == getattr(
            misses, name
        )
    assert all((row.missed is None) == (row.unjudged == row.requests) for row in rows)
    assert all((row.hit_rate is None) == (row.requests == 0) for row in rows)
    for cause, total in misses.by_cause.items():
        parts = [row.by_cause[cause] for row in rows if cause in row.by_cause]
        assert sum(each.tokens for each in parts) == total.tokens
        assert sum(each.events for each in parts) == total.events
        assert amounts([each.cost for each in parts]) == amounts([total.cost])
    assert amounts([row.cost for row in rows]) == amounts([event.cost for event in misses.events])
    assert all((row.missed or 0) == sum(each.tokens for each in row.by_cause.values()) for row in rows)
    order = [(-amounts([row.cost]), -(row.missed or 0)) for row in rows]
    assert order == sorted(order)
    assert len({row.key for row in rows}) == len(rows)
    if not priced:
        assert {row.paid for row in rows} == {None}


def test_by_event_has_the_events_alone() -> None:
    misses = log_of(1, "event", priced=True)
    assert misses.rows is not None
    assert (misses.rows.by, misses.rows.rows) == ("event", [])


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(miss_sums, "MOST_ROWS", 2)
    seed = next(
        seed for seed in range(100) if len({event.session for event in log_of(seed, "event", priced=False).events}) > 3
    )
    misses = log_of(seed, "session", priced=True)
    assert misses.rows is not None
    assert len(misses.rows.rows) == 3
    assert miss_sums.OTHERS in {row.key for row in misses.rows.rows}


def transcript(folder: Path) -> Path:
    """Write a session of Claude Code with one expiry."""
    lines: list[dict[str, object]] = []
    parent = None
    for number, (minute, read, written) in enumerate(((0, 0, 40_000), (1, 40_000, 100), (20, 0, 40_200))):
        user, answer = f"u{number}", f"a{number}"
        shared = {"sessionId": "s1", "cwd": "/home/me/shop", "timestamp": f"2026-10-20T09:{minute:02}:00Z"}
        lines.append(
            {
                **shared,
                "type": "user",
                "uuid": user,
                "parentUuid": parent,
                "message": {"role": "user", "content": "Hi."},
            }
        )
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": 9,
        }
        message = {"role": "assistant", "id": answer, "model": "claude-opus-4-8", "content": "Yes.", "usage": usage}
        lines.append({**shared, "type": "assistant", "uuid": answer, "parentUuid": user, "message": message})
        parent = answer
    path = folder / "s1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("by", [*KEYS, "event"])
def test_a_profile_shows_misses_by_each_key(by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = transcript(tmp_path)
    page, comment = tmp_path / "page.html", tmp_path / "page.md"
    outputs = ["-o", str(page), "-o", str(comment)]
    assert run(["profile", str(path), "--by", by, "--no-advice", "--json", *outputs, "-q"]) == 0
    misses = json.loads(capsys.readouterr().out)["misses"]
    assert misses["rows"]["by"] == by
    shown = {"session": "s1", "project": "shop", "model": "claude-opus-4-8", "day": "2026-10-20", "event": "09:20:00"}
    if by != "event":
        (row,) = misses["rows"]["rows"]
        assert (row["key"], row["requests"], row["project"]) == (shown[by], 3, "shop" if by == "session" else None)
    for text in (page.read_text(), comment.read_text()):
        assert shown[by] in text
        assert "expired before reuse" in text


def test_a_log_without_usage_has_no_misses_to_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"prompt": "Hello there."}\n')
    assert run(["profile", str(path), "--by", "model", "--no-advice"]) == 2
    assert "a breakdown by model needs a log with reported usage" in capsys.readouterr().err
