"""diff-prompts: the data, the change that was measured, and the report."""

from __future__ import annotations

import io
import json
import os
import random
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.cli.commands.diff import DiffCommand
from kvtool.config.option import made
from kvtool.diff.diff_texts import DiffTexts
from kvtool.diff.moved_units import moved_last
from kvtool.diff.prompts import PromptDiff, diff_prompts, reusable
from kvtool.diff.side_inputs import InputSide, read_prompt
from kvtool.diff.sides import Rendered, diff_sides
from kvtool.errors import KvtoolError
from kvtool.fixes.moves.movable_unit import Movable
from kvtool.report.terminal.prompt_diffs.diff import print_diff
from kvtool.report.terminal.prompt_diffs.ruler import cells
from kvtool.results.documents.parts import Blocks
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.console import cell_width, make_console
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Origin, Traced
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.conftest import some

PIECE = re.compile(r" ?[A-Za-z]+|\d|\n|[^A-Za-z\d\n]", re.DOTALL)


class Words:
    """A tokenizer with a token for each word, digit and other character, and one that begins every prompt."""

    name = "words"

    def __init__(self) -> None:
        self.ids = {"<s>": 0, "\n": 1}
        self.newline_mask = np.array([False, True])

    def encode(self, text: str, *, add_special_tokens: bool = True) -> Prompt:
        starts = [match.start() for match in PIECE.finditer(text)]
        found = [self.ids.setdefault(piece, len(self.ids)) for piece in PIECE.findall(text)]
        first = 1 if add_special_tokens else 0
        return Prompt(
            np.array([0] * first + found, dtype=np.int32),
            Traced(text),
            starts,
            [first + at for at in range(len(found))],
            lambda piece, _: np.array([(0, len(piece))], dtype=np.int64),
        )

    def token_text(self, token: int) -> str:
        return list(self.ids)[token]

    def decode(self, ids: object) -> str:
        return "".join(self.token_text(int(token)) for token in ids)


RULES = "".join(f"{n}. Answer in the language of the customer and keep names as they are.\n" for n in range(1, 21))
HEAD = "# Support agent\n\n"
TAIL = "Customer: where is my parcel?\n"


def prompt(middle: str, rules: str = RULES) -> str:
    return HEAD + middle + rules + TAIL


BEFORE = prompt("Now: 2026-11-20T10:15:01Z. You work for Acme.\n")
AFTER = prompt("Now: 2026-11-20T10:16:02Z. You work for Acme.\n")


def compare(a: str, b: str, block_size: int = 16) -> PromptDiff:
    words = Words()
    renderer = Renderer(lambda: words, lambda loaded: ChatTemplate.load(None, loaded))
    sides = [
        Rendered.of(InputSide(name, Turn("", text=Traced.of(text, Origin(name, text=text))), name), renderer)
        for name, text in (("a.txt", a), ("b.txt", b))
    ]
    return diff_sides(*sides, renderer, block_size)


def shown(diff: PromptDiff, width: int = 80) -> str:
    stream = io.StringIO()
    print_diff(make_console(file=stream, color="never", width=width), diff)
    return stream.getvalue()


def test_reuse_follows_the_rule() -> None:
    for common, length, blocks in [
        (37, 960, 2),
        (960, 960, 59),
        (961, 961, 60),
        (16, 16, 0),
        (16, 17, 1),
        (0, 0, 0),
        (15, 40, 0),
    ]:
        assert reusable(common, length, 16) == Blocks(tokens=blocks * 16, blocks=blocks)


def test_a_timestamp_is_found_named_and_moved():
    diff = compare(BEFORE, AFTER)
    words = Words()
    a, b = words.encode(BEFORE).ids, words.encode(AFTER).ids
    common = int((a != b).argmax())
    assert diff.common == common
    assert diff.reuse.blocks == common // 16
    assert diff.lost_tokens == len(b) - diff.reuse.tokens
    first = diff.first
    assert (first.token, first.block, first.offset) == (common, *divmod(common, 16))
    assert (first.kind.name, first.kind.code) == ("timestamp (ISO 8601)", "KV101")
    assert (first.a.path, first.a.line, first.a.column) == ("a.txt", 3, 6)
    assert BEFORE[first.a.start : first.a.end] == "2026-11-20T10:15:01Z"
    assert first.excerpt_a.text == "Now: 2026-11-20T10:15:01Z. You work for Acme."
    assert [first.excerpt_b.text[slice(*span)] for span in first.excerpt_b.spans] == ["6", "2"]
    # 5:01 against 6:02 is four tokens; everything else is the same text
    assert diff.lost_tokens - diff.same_tokens == first.tokens_b == 4
    (change,) = diff.changes
    stays, moves = "You work for Acme.", "Now: {}. "
    moved = [text.replace(line := moves.format(text.split("Now: ")[1][:20]), "") + line for text in (BEFORE, AFTER)]
    assert all(stays in text for text in moved)
    a, b = (words.encode(text).ids for text in moved)
    assert change.reuse == reusable(int((a != b).argmax()), len(b), 16)
    assert change.gained_blocks == change.reuse.blocks - diff.reuse.blocks > 10


def test_all_places_are_moved_where_one_is_not_enough():
    a, b = (prompt(f"Now: 10:{at}\n", RULES + f"\n\nDesk: {at}\n\n" + RULES.replace("1. ", "4. ")) for at in (15, 16))
    first, every = compare(a, b).changes
    assert (first.unit, first.places, every.places) == ("line", 1, 2)
    assert every.gained_blocks > first.gained_blocks > 0
    assert "Move both differing lines to the end" in shown(compare(a, b))


def test_of_a_long_line_the_sentence_is_moved():
    a, b = (text.replace("\n", " ") for text in (BEFORE, AFTER))
    (change,) = compare(a, b).changes
    assert change.unit == "sentence"
    assert change.gained_blocks > 10
    assert "Move the sentence in line 1 to the end" in shown(compare(a, b))


def test_of_a_long_line_without_sentences_the_words_are_moved():
    body = " word" * 400
    diff = compare("At 10:15" + body, "At 10:16" + body)
    assert [change.unit for change in diff.changes] == ["words"]
    assert diff.changes[0].gained_blocks > 10


def test_a_line_of_one_prompt_only():
    diff = compare(prompt(""), prompt("Request: 550e8400-e29b-41d4-a716-446655440000\n"))
    assert diff.first.excerpt_a.text is None
    assert diff.first.tokens_a == 0
    assert diff.first.kind.code == "KV107"
    assert "(no such line)" in shown(diff)
    assert diff.changes[0].gained_blocks > 10


def test_nothing_is_promised_where_nothing_is_gained():
    diff = compare(BEFORE, BEFORE.replace("parcel?\n", "invoice"))
    assert diff.at_end
    assert not diff.changes
    assert "moving it gains nothing" in shown(diff)
    unrelated = compare(BEFORE, "Translate this into French: the quick brown fox jumps over it.")
    assert unrelated.reuse.blocks == 0
    assert "moving it gains nothing" in shown(unrelated)


def test_identical_prompts():
    diff = compare(BEFORE, BEFORE)
    assert (diff.relation, diff.first, diff.changes) == ("identical", None, ())
    assert diff.reuse.blocks == (diff.length_b - 1) // 16
    text = shown(diff)
    assert "The prompts are identical." in text
    assert "X" not in text
    assert "Lost" not in text


def test_the_last_block_is_computed_again_even_where_it_is_full():
    diff = compare("a b c d e f g", "a b c d e f g", block_size=4)  # eight tokens with the first
    assert diff.reuse == Blocks(tokens=4, blocks=1)
    assert cells(diff) == ["==", "~~"]
    assert (
        "The last 4 tokens are always computed again, because the last token of a prompt needs its whole block."
        in shown(diff, 120)
    )


@pytest.mark.parametrize(
    ("a", "b", "relation", "said"),
    [
        (BEFORE, BEFORE[:301], "b_begins_a", "a.txt begins with all of b.txt"),
        (BEFORE[:301], BEFORE, "a_begins_b", "b.txt begins with all of a.txt"),
    ],
)
def test_one_prompt_begins_the_other(a, b, relation, said):
    diff = compare(a, b)
    assert (diff.relation, diff.first) == (relation, None)
    assert said in shown(diff)


def test_where_a_text_goes_on_the_last_token_may_change():
    diff = compare(BEFORE + "language o", BEFORE + "language of the customer")
    assert (diff.relation, diff.first.kind.code) == ("different", "KV122")
    assert diff.at_end
    assert "moving it gains nothing" in shown(diff)


def test_empty_prompts_without_a_first_token():
    words = Words()
    empty = words.encode("", add_special_tokens=False)
    for a, b in ((empty, words.encode("a b")), (words.encode("a b"), empty), (empty, empty)):
        assert "is empty" in shown(diff_prompts(a, b, 16))


@pytest.mark.parametrize("names", [("a.txt", "none.txt"), ("none.txt", "a.txt"), ("none.txt", "none.txt")])
def test_an_empty_prompt_shares_nothing(names, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(BEFORE)
    (tmp_path / "none.txt").write_bytes(b"")
    assert made(DiffCommand, prompts=names).run() == 0
    out = capsys.readouterr().out
    assert "Reusable    0 tokens, 0 of" in out
    assert "none.txt is empty." in out


@given(
    st.text(st.sampled_from("ab é日"), max_size=30),
    st.datetimes(),
    st.datetimes(),
    st.sampled_from(["%Y-%m-%d %H:%M:%S", "%H:%M", "%d.%m.%Y", "%Y/%m/%d", "%Y-%m-%dT%H:%M:%SZ"]),
)
def test_the_column_of_the_place_is_that_of_the_first_caret(before, one, other, form):
    texts = [f"Rules first.\n{before} {moment.strftime(form)} is now.\n" for moment in (one, other)]
    if texts[0] == texts[1]:
        return
    diff = compare(*texts)
    lines = shown(diff).splitlines()
    carets = next(line for line in lines if line.startswith("      | ") and "^" in line)
    line_a = next(line for line in lines if line.startswith("    a | "))
    width = carets.index("^")
    at = next(at for at in range(len(line_a)) if cell_width(line_a[:at]) >= width)
    assert diff.first.a.column == at - len("    a | ") + 1


def test_differences_that_nobody_sees_are_named() -> None:
    for change, name, escape in [
        (lambda text: text.replace("\n", "\r\n"), "line endings", r"# Support agent\r\n"),
        (lambda text: "\ufeff" + text, "byte order mark", r"\ufeff# Support agent"),
        (lambda text: text.replace("Acme.\n", "Acme. \n"), "spaces at line ends", r"Acme.\x20"),
        (lambda text: text.replace("You work", "You\u200b work"), "invisible characters", r"You\u200b work"),
        (lambda text: text.replace("You work", "You\u00a0work"), "kinds of space", r"You\xa0work"),
        (lambda text: text.replace("You work", "You  work"), "whitespace", "You"),
    ]:
        diff = compare(BEFORE, change(BEFORE))
        assert diff.cosmetic == (name,)
        assert (diff.first.kind.name, diff.first.kind.code) == (name, "KV121")
        assert diff.changes[0].reuse.blocks == (len(Words().encode(BEFORE)) - 1) // 16
        text = shown(diff)
        assert f"The only difference: {name}." in text
        assert escape in text


def test_unicode_forms_are_shown_as_escapes():
    diff = compare("Caf\u00e9 rules.\n" + BEFORE, "Cafe\u0301 rules.\n" + BEFORE)
    assert diff.cosmetic == ("Unicode form",)
    text = shown(diff)
    assert r"Caf\xe9 rules." in text
    assert r"Cafe\u0301 rules." in text
    assert r"C\u0430sh" in shown(compare("Cash\n" + BEFORE, "C\u0430sh\n" + BEFORE))  # a Cyrillic letter


def test_line_endings_and_more():
    first, both = compare(BEFORE, AFTER.replace("\n", "\r\n")).changes
    assert first.unit == both.unit == "normalize"
    assert both.reuse.blocks > first.reuse.blocks


def test_the_ruler_marks_halves_of_blocks():
    def tokens(*ids: int) -> Prompt:
        return Prompt(np.array(ids, dtype=np.int32))

    same = list(range(10, 30))
    diff = diff_prompts(tokens(1, 2, 3, 4, 5, 6, 7, *same), tokens(1, 2, 3, 4, 5, 6, 9, *same), 4)
    assert cells(diff) == ["==", "~X", "~~", "~~", "~~", "~~", "~~"]
    assert cells(diff_prompts(tokens(1, 2), tokens(1, 3), 1)) == ["==", "XX"]
    assert cells(diff_prompts(tokens(1, 2, 3), tokens(1, 8, 9, 7, 7), 4)) == ["X#", "# "]
    assert diff.first.a is None  # without text there is no place
    assert "block 1, offset 2" in shown(diff)


def test_the_ruler_is_elided_around_the_difference():
    a = "word " * 3000
    b = a[:7000] + "x" + a[7001:]
    for width in (60, 80, 120):
        ruler = next(line for line in shown(compare(a, b), width).splitlines() if "[" in line)
        assert "X" in ruler
        assert ruler.count("···") == 2
        assert ruler.startswith("        [==]")
        assert ruler.endswith("]")


HOSTILE = "Sys [/INST] [bold]x[/bold] \x1b[31mred\x1b[0m \x00 \u202e \ud800\n::error::file={n}\n"
PAIRS = {
    "timestamp": (BEFORE, AFTER),
    "one line": (BEFORE.replace("\n", " "), AFTER.replace("\n", " ")),
    "line endings": (BEFORE, AFTER.replace("\n", "\r\n")),
    "hostile": (HOSTILE.format(n=1) + BEFORE, HOSTILE.format(n=2) + BEFORE),
    "wide": ("会社の規則:東京支店の担当者は田中さんです。" * 9, "会社の規則:東京支店の担当者は鈴木さんです。" * 9),
    "emoji": ("👨‍👩‍👧 " * 80 + "a\n" + BEFORE, "👨‍👩‍👧 " * 80 + "b\n" + BEFORE),
    "inserted": (prompt(""), prompt("x" * 500 + "\n")),
    "identical": (BEFORE, BEFORE),
    "nothing": ("", "a"),
    "unrelated": ("a " * 500, "b " * 700),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_console(name, width):
    text = shown(compare(*PAIRS[name]), width)
    assert max(cell_width(line) for line in text.splitlines()) <= width
    assert not set(text) & {"\x1b", "\x00", "\u202e", "\r", "\ud800", "\u200d"}
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())


def test_any_width_is_survived() -> None:
    for name in PAIRS:
        diff = compare(*PAIRS[name])
        for width in (1, 3, 9, 20, 41):
            assert shown(diff, width)


def test_hostile_text_is_shown_as_it_is():
    text = shown(
        compare("[/INST] [bold]x[/bold] \x1b[31m 1\n" + BEFORE, "[/INST] [bold]x[/bold] \x1b[31m 2\n" + BEFORE)
    )
    assert r"a | [/INST] [bold]x[/bold] \x1b[31m 1" in text


def test_carets_stand_under_the_differing_cells():
    lines = shown(compare("東京の田中さん 1\n" + BEFORE, "東京の鈴木さん 1\n" + BEFORE)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("    b | "))
    before = cell_width(lines[at][: lines[at].index("鈴")])
    assert lines[at + 1][: before + 4] == "      | ".ljust(before) + "^^^^"


def test_a_long_line_is_windowed_around_the_difference():
    a = "x" * 900 + "1" + "y" * 900
    text = shown(compare(a + "\n" + BEFORE, a.replace("1", "2") + "\n" + BEFORE))
    line = next(line for line in text.splitlines() if line.startswith("    a | "))
    assert line[8] == line[-1] == "…"
    caret = next(line for line in text.splitlines() if "^" in line)
    assert line[caret.index("^")] == "1"


@given(st.text(alphabet="ab 1\n.", max_size=60), st.text(alphabet="ab 1\n.", max_size=60), st.integers(1, 7))
def test_sums_hold_for_any_two_texts(a, b, block_size):
    diff = compare(a, b, block_size)
    assert diff.reuse.tokens + diff.lost_tokens == diff.length_b
    assert diff.reuse.blocks + diff.lost_blocks == diff.blocks == len(cells(diff))
    assert 0 <= diff.same_tokens <= diff.lost_tokens
    drawn = "".join(cells(diff))
    assert drawn.count("X") == (0 if diff.first is None else 2 if block_size == 1 else 1)
    assert all(change.reuse.blocks - diff.reuse.blocks == change.gained_blocks for change in diff.changes)
    json.dumps(diff.to_json())
    assert max(cell_width(line) for line in shown(diff, 60).splitlines()) <= 60


@given(st.text(alphabet="ab\n", max_size=40), st.text(alphabet="ab\n", max_size=40))
def test_regions_and_chunks_rebuild_the_second_text(a, b):
    if a == b:
        return
    texts = DiffTexts(Traced(a), Traced(b))
    for parts in (texts.regions, [chunk for region in texts.regions for chunk in texts.chunks(region)]):
        built, at = "", 0
        for (start_a, stop_a), (start_b, stop_b) in parts:
            built += a[at:start_a] + b[start_b:stop_b]
            at = stop_a
        assert built + a[at:] == b


def test_units_that_move_stand_on_lines_of_their_own():
    def last(text: str, *ranges: tuple[int, int]) -> str:
        return moved_last(text, [Movable(*one, "statement") for one in ranges])

    assert last("a\nb\nc\n", (2, 3)) == "a\nc\nb\n"
    assert last("a\nb\nc", (0, 1)) == "b\nc\na"
    assert last("A. Now x. B.", (3, 9)) == "A. B.\nNow x."
    assert last("a\nb\nc\n", (0, 1), (2, 3)) == "c\na\nb\n"


# the command


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kvtool.text.tokens.tokenizer.load_tokenizer", lambda *_, **__: Words())

    def run(a: object, b: object, **options: object) -> tuple[int, str]:
        for name, content in (("a.txt", a), ("b.txt", b)):
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else str(content).encode())
        code = made(DiffCommand, prompts=("a.txt", "b.txt"), **{"color": "never", "width": 80, **options}).run()
        return code, capsys.readouterr().out

    return run


def test_the_report_as_a_whole(run):
    code, out = run(BEFORE, AFTER)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "kvtool diff-prompts a.txt b.txt · block 16 · words · 395 vs 395 tokens"
    assert lines[2] == "  Reusable    16 tokens, 1 of 25 blocks        first difference: token 24"
    assert lines[3] == "  Not reused  379 tokens, 24 blocks; 375 tokens repeat the first prompt"
    assert lines[9] == "  line 3, column 6  block 1, offset 8                       timestamp (ISO 8601)"
    assert lines[10:13] == [
        "    a | Now: 2026-11-20T10:15:01Z. You work for Acme.",
        "    b | Now: 2026-11-20T10:16:02Z. You work for Acme.",
        "      |      ^^^^^^^^^^^^^^^^^^^^   4 tokens differ",
    ]
    assert lines[14] == "  Move the sentence in line 3 to the end: 384 tokens, 24 blocks (+23)    KV101"
    assert lines[-1] == "  kvtool diff-prompts a.txt b.txt"


def test_an_ascii_terminal_gets_ascii(run, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    run("会社 1 " + BEFORE * 9, "会社 2 " + BEFORE * 9, tokens=True)
    sys.stdout.flush()
    out = raw.getvalue().decode("ascii")
    assert r"a | \u4f1a\u793e 1 # Support agent" in out
    assert " ... " in out
    assert max(map(len, out.splitlines())) <= 80


def test_exit_code_only_where_asked_for(run):
    assert run(BEFORE, AFTER)[0] == 0
    assert run(BEFORE, AFTER, exit_code=True)[0] == 1
    assert run(BEFORE, BEFORE, exit_code=True)[0] == 0


def test_json_is_stable_and_holds_no_text(run):
    _, out = run(BEFORE, AFTER, json=True)
    assert run(BEFORE, AFTER, json=True)[1] == out
    data = json.loads(out)
    assert data["schema"] == "kvtool.diff/1"
    assert data["reusable"] == {"blocks": 1, "tokens": 16}
    assert data["first_difference"]["a"] == {"path": "a.txt", "line": 3, "column": 6, "start": 22, "end": 42}
    assert data["changes"][0]["gained_blocks"] == 23
    assert "Acme" not in out
    assert len(json.loads(run(BEFORE, AFTER, json=True, tokens=True)[1])["tokens"]["a"]) == 395


def test_tokens_are_listed_side_by_side(run):
    _, out = run(BEFORE, AFTER, tokens=True)
    rows = [line.split() for line in out.splitlines()]
    at = int((Words().encode(BEFORE).ids != Words().encode(AFTER).ids).argmax())
    row = next(row for row in rows if row[:2] == [str(at), "X"])
    assert (row[3], row[5]) == ('"5"', '"6"')
    assert [row[:2] for row in rows].count([str(at + 3), "#"]) == 1
    assert not out.rstrip().endswith("b.txt")


def test_a_byte_order_mark_counts(run):
    _, out = run(BEFORE, b"\xef\xbb\xbf" + BEFORE.encode())
    assert "byte order mark" in out


def test_standard_input_is_one_side(run, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.txt").write_text(BEFORE)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(AFTER.encode())))
    assert made(DiffCommand, prompts=("a.txt", "-"), color="never", exit_code=True).run() == 1
    assert "kvtool diff-prompts a.txt - ·" in capsys.readouterr().out
    with pytest.raises(KvtoolError, match="only one"):
        made(DiffCommand, prompts=("-", "-")).run()


def test_a_pipe_can_be_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"\xef\xbb\xbfhello\n",))
    writer.start()
    text = read_prompt(str(path))
    writer.join()
    assert text == "\ufeffhello\n"
    assert text.at(1)[0].path == str(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\x00b", "binary"),
        (b"caf\xe9", "not UTF-8"),
        ("hé".encode("utf-16"), "UTF-16"),
        (None, "no such file"),
    ],
)
def test_what_cannot_be_read_is_said(content, message, tmp_path):
    path = tmp_path / "a.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KvtoolError, match=message):
        read_prompt(str(path))


def test_a_directory_and_a_bad_block_size(tmp_path):
    with pytest.raises(KvtoolError, match="directory"):
        read_prompt(str(tmp_path))
    with pytest.raises(KvtoolError, match="block size 0"):
        made(DiffCommand, prompts=("a", "b"), block_size=0).run()


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_every_line_that_differs_is_listed(in_folder: Callable[..., tuple[int, str, str]], seed: int) -> None:
    """Lines with a difference of no known kind come after the others."""
    chance = random.Random(seed)
    words = ["claim", "water", "fire", "letter", "garage", "tariff", "amount", "branch"]
    lines = [f"{' '.join(chance.choices(words, k=8))} {number}." for number in range(40)]
    others = list(lines)
    places = sorted(chance.sample(range(1, 39), 3))
    for place in places:
        others[place] = f"Finish with {' '.join(chance.choices(words, k=3))} please."
    others[0] += "  "
    Path("a.txt").write_text("\n".join(lines) + "\n")
    Path("b.txt").write_text("\n".join(others) + "\n")
    found = json.loads(in_folder("diff-prompts", "a.txt", "b.txt", "--json")[1])
    told = [each["told"] for each in found["differences"]]
    assert {f"line {place + 1}" for place in (0, *places)} <= set(told)
    _, out, _ = in_folder("diff-prompts", "a.txt", "b.txt")
    assert all(f"line {place + 1}" in out for place in places)


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_the_change_that_is_advised_is_that_of_both_prompts(
    in_folder: Callable[..., tuple[int, str, str]], seed: int
) -> None:
    """Made in both files, the move of the first difference lets as much be reused as the screen says."""
    chance = random.Random(seed)
    rules = [f"Rule {number}: {' '.join(chance.choices(('claim', 'fire', 'tariff'), k=9))}." for number in range(12)]
    place = chance.randrange(1, 6)
    for name, clock in (("a", "2026-01-05 09:00:01"), ("b", "2026-01-05 17:44:38")):
        Path(f"{name}.txt").write_text("\n".join([*rules[:place], f"Time: {clock}", *rules[place:]]) + "\n")
        Path(f"{name}2.txt").write_text("\n".join([*rules, f"Time: {clock}"]) + "\n")
    _, out, _ = in_folder("diff-prompts", "a.txt", "b.txt")
    assert "Next: make this change in both prompts, then compare again:" in " ".join(out.split())
    promised = json.loads(in_folder("diff-prompts", "a.txt", "b.txt", "--json")[1])
    assert promised["changes"][0]["gained_blocks"] > 0
    reached = json.loads(in_folder("diff-prompts", "a2.txt", "b2.txt", "--json")[1])
    assert reached["reusable"] == promised["changes"][0]["reusable"]
    one_sided = json.loads(in_folder("diff-prompts", "a.txt", "b2.txt", "--json")[1])
    assert one_sided["reusable"]["tokens"] < reached["reusable"]["tokens"]


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_tools_of_a_text_in_another_order_are_put_into_one(
    in_folder: Callable[..., tuple[int, str, str]], seed: int
) -> None:
    chance = random.Random(seed)
    tools = [f"- tool_{name}: finds {name} in the store of the shop\n" for name in ("ask", "buy", "cut", "dig", "eat")]
    for name in ("a", "b"):
        Path(f"{name}.txt").write_text(f"You may call these tools:\n\n{''.join(tools)}\nThink before each call.\n")
        tools = tools[::-1] if seed == 0 else chance.sample(tools, len(tools))
    _, out, _ = in_folder("diff-prompts", "a.txt", "b.txt")
    found = json.loads(in_folder("diff-prompts", "a.txt", "b.txt", "--json")[1])
    assert [each["what"] for each in found["changes"]] == ["one order of the tools"]
    assert found["changes"][0]["reusable"]["tokens"] >= (found["b"]["tokens"] - 1) // 16 * 16
    assert "One order of the tools: " in out
