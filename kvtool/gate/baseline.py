"""The baseline: what earlier hit rates were, in a file that is kept beside the prompts (`kvtool.baseline/1`).

It holds sums and no text, and of a workload everything that decides whether its figures can be compared with others.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field, StrictBool, StrictInt, StrictStr, ValidationError, model_validator

from kvtool.errors import KvtoolError, Place
from kvtool.results.document_base import Count, Document, Model, Ratio
from kvtool.text.files.json_file import place_in, unreadable_at
from kvtool.text.files.json_position import nearest_start
from kvtool.text.files.text_files import read_text

SCHEMA: Literal["kvtool.baseline/1"] = "kvtool.baseline/1"
ACCOUNTING = 1
"""To be raised when the same prompts under the same rules give other counts: no baseline of before can then be compared."""
_MOST_BYTES = 32 << 20
"""A bound for hostile input: an entry has some KiB."""
_RATE_DIGITS = 6
_MOST_DIGITS = 30
_HINT = "write a new one: kvtool check --update-baseline"

Tokens = Annotated[StrictInt, Field(ge=0)]
Value = StrictBool | StrictInt | float | StrictStr


class RecordedSums(Model):
    """Of a group or a workload. The rates repeat what the tokens say, for people; `findings` counts them by code.
    `reported_hit_rate` None: nothing is reported.

    `findings` None: nobody looked for them (`--no-advice`).
    """

    requests: Tokens
    prompt_tokens: Tokens
    hit_tokens: Tokens
    reachable_tokens: Tokens
    hit_rate: Ratio
    reachable_hit_rate: Ratio
    reported_hit_rate: Ratio | None = None
    findings: dict[str, Count] | None = None

    @classmethod
    def of(
        cls,
        *,
        requests: int,
        prompt_tokens: int,
        hit_tokens: int,
        reachable_tokens: int,
        findings: Mapping[str, int] | None,
        reported: Fraction | None = None,
        **more: Any,
    ) -> RecordedSums:
        """Return the entry with the rates that follow from the tokens."""
        return cls(
            requests=requests,
            prompt_tokens=prompt_tokens,
            hit_tokens=hit_tokens,
            reachable_tokens=reachable_tokens,
            hit_rate=_rate(hit_tokens, prompt_tokens),
            reachable_hit_rate=_rate(reachable_tokens, prompt_tokens),
            reported_hit_rate=None if reported is None else round(float(reported), _RATE_DIGITS),
            findings=None if findings is None else dict(findings),
            **more,
        )

    @property
    def known_hit_rate(self) -> float:
        """Return the reported hit rate, or the predicted one where nothing is reported."""
        return self.hit_rate if self.reported_hit_rate is None else self.reported_hit_rate

    @model_validator(mode="after")
    def _consistent(self) -> RecordedSums:
        """Refuse figures that people changed in one place only."""
        if max(self.hit_tokens, self.reachable_tokens) > self.prompt_tokens:
            raise ValueError("it has more hit tokens than prompt tokens")
        for rate, tokens in ((self.hit_rate, self.hit_tokens), (self.reachable_hit_rate, self.reachable_tokens)):
            if abs(rate - _rate(tokens, self.prompt_tokens)) > 10**-_RATE_DIGITS:
                raise ValueError(f"the rate {rate} does not match {tokens} of {self.prompt_tokens} tokens")
        return self


class WorkloadSums(RecordedSums):
    """`key` is what must be the same for figures to be comparable; what is not in it has its default."""

    key: dict[str, Value]
    groups: dict[str, RecordedSums]


class Baseline(Document):
    """`workloads` by their paths from the folder of the file, with `/`."""

    schema_: Literal["kvtool.baseline/1"] = Field(default=SCHEMA, alias="schema")
    workloads: dict[str, WorkloadSums]


def _rate(part: int, whole: int) -> float:
    return round(part / whole, _RATE_DIGITS) if whole else 0.0


def load_baseline(path: str) -> Baseline | None:
    """Return the baseline in a file; None where there is no file. KvtoolError where it is not one that this kvtool reads."""
    if not os.path.lexists(path):
        return None
    text = read_text(Path(path), shown=path, place=Place(path), limit=_MOST_BYTES)
    try:
        document = json.loads(text, parse_constant=_no_number, parse_int=_whole, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise KvtoolError(
            f"this baseline is damaged: not JSON ({error.msg})",
            hint=_HINT,
            place=Place(path, error.lineno, error.colno),
        ) from error
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        at = unreadable_at(text, most_digits=_MOST_DIGITS)
        place = place_in(text, path, at) if at else Place(path)
        raise KvtoolError(f"this baseline cannot be read: {reason}", hint=_HINT, place=place) from error
    _check_schema(document, path)
    try:
        return Baseline.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise KvtoolError(
            f"this baseline is damaged or was edited by hand: {where}: {reason}",
            hint=_HINT,
            place=place_in(text, path, nearest_start(text, first["loc"])),
        ) from error


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("a number has too many digits")
    return int(digits)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; refuse duplicate keys, which a merge of two versions by hand leaves."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"duplicate key `{twice[:80]}`")
    return found


def _check_schema(document: object, path: str) -> None:
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == SCHEMA:
        return
    place = Place(path)
    if not isinstance(schema, str):
        raise KvtoolError(f'this is not a baseline: it lacks `"schema": "{SCHEMA}"`', hint=_HINT, place=place)
    name, _, number = schema[:80].partition("/")
    if name == SCHEMA.partition("/")[0] and number.isdecimal():
        raise KvtoolError(
            f"this baseline has schema {name}/{number}, but this kvtool reads {SCHEMA}",
            hint="update kvtool to read it",
            place=place,
        )
    raise KvtoolError(f"this is a {schema[:80]}, not a baseline ({SCHEMA})", hint=_HINT, place=place)
