"""The catalogue of codes and `kvtool explain`."""

from __future__ import annotations

import json
import re
from io import StringIO

import pytest

from kvtool.cli.app import run
from kvtool.diagnose.codes import TIERS, codes, entries, entry_of, find_entry, similar_code
from kvtool.errors import KvtoolError
from kvtool.report.terminal.explain import print_entry, print_list
from kvtool.text.terminal.console import cell_width, make_console

NUMBERS = (
    *(
        101, 102, 103, 104, 105, 106, 107, 111, 112, 113, 114, 115, 116, 121, 122, 123, 124, 131, 132, 133, 141, 142,
        143, 144,
    ),
    *(201, 202, 203, 204, *range(301, 308), *range(321, 328), *range(331, 336), *range(401, 412)),
)  # fmt: skip
DESIGNED = [f"KV{number}" for number in NUMBERS]


def test_every_designed_code_has_an_entry_in_order() -> None:
    assert list(codes()) == ["KV001", "KV002", *DESIGNED]


def test_an_entry_says_everything_in_ascii() -> None:
    for entry in entries():
        texts = [entry.name, entry.what, entry.why, entry.before, entry.after, entry.ignore]  # type: ignore[attr-defined]
        texts += [remedy.what for remedy in entry.remedies]  # type: ignore[attr-defined]
        for text in texts:
            assert text
            assert text == text.strip()
            assert text.isascii()
        assert entry.before != entry.after  # type: ignore[attr-defined]
        assert {remedy.tier for remedy in entry.remedies} <= {None, *TIERS}  # type: ignore[attr-defined]


def test_nothing_is_wider_than_the_width_and_no_word_is_lost() -> None:
    for width in [24, 40, 80, 120]:
        for entry in entries():
            stream = StringIO()
            print_entry(make_console(file=stream, color="never", width=width), entry)
            shown = stream.getvalue()
            assert max(map(cell_width, shown.splitlines())) <= width
            together = re.sub(r"\s+", "", shown)
            for text in (entry.name, entry.what, entry.why, entry.before, entry.after, entry.ignore):
                assert re.sub(r"\s+", "", text) in together


def test_the_list_names_every_code() -> None:
    stream = StringIO()
    print_list(make_console(file=stream, color="never", width=60), entries())
    assert re.findall(r"^(KV\d{3})  \S", stream.getvalue(), re.MULTILINE) == list(codes())


def test_codes_are_found_however_they_are_written() -> None:
    for written in ["KV101", "kv101", "101", " Kv101 "]:
        assert find_entry(written).code == "KV101"


def test_a_code_of_a_gate_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry_of("KV400") is None
    assert run(["explain", "KV402"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("KV402  hit rate fell below the baseline")
    assert "kvtool check --update-baseline" in shown
    assert "ignore[" not in shown  # a verdict is not ignored


def test_unknown_codes_lead_to_what_was_meant() -> None:
    for written, meant in [("KV1O1", "KV101"), ("KV106x", "KV106"), ("tool order", "KV111"), ("zzz", None), ("", None)]:
        assert similar_code(written) == meant
        with pytest.raises(KvtoolError) as caught:
            find_entry(written)
        assert (meant is not None and f"did you mean {meant}?" in (caught.value.hint or "")) or meant is None


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "kv112"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("KV112  JSON key order")
    assert "sort_keys=True" in shown
    assert "# kvtool: ignore[KV112] reason" in shown
    assert run(["explain"]) == 0
    everything = capsys.readouterr().out
    assert run(["explain", "--list"]) == 0
    assert capsys.readouterr().out == everything


def test_an_unknown_code_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "KV1O1"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "unknown code `KV1O1`" in said.err
    assert "did you mean KV101?" in said.err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "301", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "kvtool.explain/1"
    (entry,) = document["entries"]
    assert entry["code"] == "KV301"
    assert {fix["tier"] for fix in entry["fixes"]} == {"P0"}
    assert run(["explain", "--list", "--json"]) == 0
    assert [one["code"] for one in json.loads(capsys.readouterr().out)["entries"]] == list(codes())
