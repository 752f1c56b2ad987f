"""Every sentence that users read is plain English: see `tests.plain_english`."""

from __future__ import annotations

from tests.plain_english import ROOT, Sentence, faults, split


def test_no_sentence_needs_a_second_reading() -> None:
    assert list(faults()) == []


def test_the_scanner_finds_what_it_should() -> None:
    def found(text: str) -> list[str]:
        return [fault for sentence in split(ROOT / "x.py", 1, text) for fault in sentence.faults()]

    assert found("The clock stands behind it.") != []
    assert found("one " * 26) == ["26 words"]
    assert found("Move line 3 to the end of the message. `it stands behind` is quoted.") == []
    assert list(Sentence("x.py", 1, "The prefix expired before its reuse").faults()) == []
