"""A run without its text: the same hits, events and causes, and nothing to read."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("prometheus_client", reason="needs the extra `live`")
pytest.importorskip("msgspec", reason="needs the extra `live`")

from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.kv_events.event_batches import StoredBlocks, read_event_file
from kvtool.profiler.reconcile.blinded_run import BlindedRun
from kvtool.profiler.reconcile.event_trace import EventTrace
from kvtool.profiler.reconcile.observed import ObservedRun
from kvtool.profiler.reconcile.reconciling import options_of_server, reconcile
from kvtool.profiler.reconcile.recorded_prompts import asked_of
from kvtool.profiler.reconcile.twin import Ask
from kvtool.text.tokens.tokenizer import Tokenizers
from tests.profiler.made_sessions import BLOCK, MadeSession, made_session


def both(session: MadeSession, folder: Path) -> tuple[ObservedRun, ObservedRun]:
    """A run as it was, and without its text."""
    session.write(folder)
    whole = ObservedRun.recorded(str(folder))
    options = options_of_server(whole.facts, [str(folder)])
    asked = asked_of([each for each in whole.exchanges if each.answered], options, Tokenizers(offline=True))
    blinded = BlindedRun(BLOCK, (each.session_id or "" for each in whole.exchanges))
    exchanges = list(blinded.exchanges(whole.exchanges, asked.asks))
    batches = blinded.batches(read_event_file(folder / "kv_events.jsonl.gz"))
    return whole, replace(whole, exchanges=exchanges, trace=EventTrace.of(batches), textless=BLOCK)


@pytest.mark.parametrize("blocks", [200, 40])
def test_hits_and_events_are_those_of_the_text(blocks: int, tmp_path: Path) -> None:
    text, none = (
        reconcile(run, options_of_server(run.facts, ["x"]), Tokenizers(offline=True))
        for run in both(made_session(blocks=blocks), tmp_path / "kept")
    )
    assert (none.agree, none.disagree, none.exit_code) == (text.agree, text.disagree, 0)
    assert none.reported_cached_tokens == text.reported_cached_tokens > 0
    assert text.events is not None
    assert none.events is not None
    assert none.events.agree == none.events.recorded == none.events.predicted == text.events.agree >= 8
    assert (text.events.by, none.events.by) == ("hash", "content")


def test_causes_are_still_found(tmp_path: Path) -> None:
    session = made_session()
    session.rows[3]["response"]["prompt_token_ids"] = [1] * session.rows[3]["response"]["usage"]["prompt_tokens"]
    session.rows[7]["response"]["usage"]["prompt_tokens_details"] = None
    for run in both(session, tmp_path / "kept"):
        document = reconcile(run, options_of_server(run.facts, ["x"]), Tokenizers(offline=True))
        assert [(each.number, each.cause) for each in document.disagree] == [(7, "not reported")]
        assert "other tokens" in {each.cause for each in document.causes}


def test_tokens_are_shared_as_blocks_are_and_salts_part_them() -> None:
    chance = random.Random(5)
    blinded = BlindedRun(4, ())
    begun = [chance.randrange(9) for _ in range(40)]
    asks = {
        number: [Ask(number, np.array(ids, dtype=np.int32), (1, 2), salt)]
        for number, (ids, salt) in enumerate(
            itertools.product([begun[:cut] + [9] * (24 - cut) for cut in (0, 3, 4, 9, 20, 24)], (None, "a", "b"))
        )
    }
    found = {}
    for each in blinded.exchanges([Exchange(n, {}, status=200, response={}) for n in asks], asks):
        assert each.response is not None
        found[each.number] = [*each.body["prompt"], *each.response["choices"][0]["token_ids"]]
    for one, other in itertools.combinations(asks, 2):
        mine, theirs = asks[one][0], asks[other][0]
        shared = 0
        while shared < 24 and mine.salt == theirs.salt and (mine.prompt[shared] == theirs.prompt[shared]):
            shared += 1
        same = next((at for at, (a, b) in enumerate(zip(found[one], found[other], strict=True)) if a != b), 26)
        assert same == (26 if shared == 24 else shared // 4 * 4)


def test_names_hashes_and_salts_of_others_are_digests() -> None:
    ours, theirs = (
        StoredBlocks((7,), None, (1, 2), 2, lora_name="secret", extra_keys=(("secret",),), session_id=name)
        for name in ("kvtool-1", "secret")
    )
    blinded = BlindedRun(2, ["kvtool-1"])
    found = [blinded._event(event) for event in (ours, theirs)]
    assert "secret" not in repr(found)
    assert [each.session_id == "kvtool-1" for each in found if isinstance(each, StoredBlocks)] == [True, False]
    assert BlindedRun(2, [])._event(ours) != found[0]  # the key is drawn anew
