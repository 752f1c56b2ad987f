"""Values that vary from request to request, with the codes that their causes may be given."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

CLOCK, RANDOM, WHO, COUNT, WHERE = ("KV101",), ("KV102",), ("KV104",), ("KV105",), ("KV106",)
Make = Callable[[int], str]


@dataclass(frozen=True)
class Varying:
    """A value: its name in words and as a key, its codes, and how it reads in a request."""

    title: str
    key: str
    codes: tuple[str, ...]
    make: Make


def moment(seed: int, number: int) -> datetime:
    """A time in 2026; each request comes some hours after the one before it."""
    return datetime(2026, 1, 2, 7, 3, 11, tzinfo=UTC) + timedelta(days=seed % 290, seconds=9871 * number)


def drawn(seed: int, number: int, pool: int) -> random.Random:
    """A source of chance that is the same for requests which have the same of `pool` values."""
    return random.Random(f"{seed}/{random.Random(f'{seed}:{number}').randrange(pool)}")


def _name(chance: random.Random) -> str:
    return "".join(chance.choices(("ka", "lo", "mi", "ren", "tas", "ul", "vo", "dor", "si", "ben"), k=3))


def varying(chance: random.Random) -> Varying:
    """One of the values that any prompt may have."""
    seed = chance.randrange(10**6)
    pool = chance.choice((3, 7, 1000))
    made = (
        Varying("Current time", "asked_at", CLOCK, lambda at: moment(seed, at).strftime("%Y-%m-%dT%H:%M:%SZ")),
        Varying("Today", "today", CLOCK, lambda at: moment(seed, at * 9).strftime("%A, %B %d, %Y")),
        Varying("Local time", "clock", CLOCK, lambda at: moment(seed, at).strftime("%H:%M:%S")),
        Varying(
            "Conversation", "trace_id", RANDOM, lambda at: str(uuid.UUID(int=drawn(seed, at, 10**9).getrandbits(128)))
        ),
        Varying("Request", "request_id", RANDOM, lambda at: f"req_{drawn(seed, at, 10**9).getrandbits(64):016x}"),
        Varying("Account", "email", WHO, lambda at: f"{_name(drawn(seed, at, pool))}@example.com"),
        Varying("User", "user_id", WHO, lambda at: f"user_{drawn(seed, at, pool).randrange(10**6):06d}"),
        Varying("Attempt", "attempt", COUNT, lambda at: str(100 + seed % 700 + at)),
        Varying("Working directory", "cwd", WHERE, lambda at: f"/srv/{_name(drawn(seed, at, pool))}/checkout"),
    )
    return chance.choice(made)
