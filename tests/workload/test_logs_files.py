"""Files as they come: compressed, broken, binary, huge, piped; and passes over several of them."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kvtool.errors import KvtoolError
from kvtool.text.files import json_stream
from kvtool.text.files.compressed import open_bytes
from kvtool.text.files.json_stream import read_records
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.formats import tables
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.logs.placed_turns import default_group
from kvtool.workload.turn import Turn


def prompts(source: LogSource) -> list[Turn]:
    found: list[Turn] = []
    for conversation in source.conversations():
        turn = conversation.next_turn(None)
        assert turn is not None
        found.append(turn)
    return found


def texts(*paths: Path | str, **options: Any) -> list[str]:
    found = prompts(LogSource([str(path) for path in paths], LogOptions(**options)))
    return [str(turn.text) for turn in found]


def failure(path: Path | str, **options: Any) -> KvtoolError:
    with pytest.raises(KvtoolError) as caught:
        texts(path, **options)
    assert caught.value.place is not None
    assert caught.value.place.path == str(path)
    return caught.value


@pytest.fixture
def log(tmp_path: Path) -> Any:
    def write(data: str | bytes, name: str = "a.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return write


LINES = "".join(f'{{"prompt": "number {i}"}}\n' for i in range(5))
NUMBERS = [f"number {i}" for i in range(5)]


@pytest.mark.parametrize(
    "data",
    [
        LINES,
        LINES.rstrip("\n"),
        LINES.replace("\n", "\r\n"),
        "\ufeff" + LINES,
        "\n\n  \n" + LINES.replace("\n", "\n\n"),
        f"[{LINES.strip().replace(chr(10), ',')}]",
        json.dumps([json.loads(line) for line in LINES.splitlines()], indent=2),
        "\n".join(json.dumps(json.loads(line), indent=2) for line in LINES.splitlines()),
        f"[{LINES.splitlines()[0]}]\n[{','.join(LINES.splitlines()[1:])}]\n",
    ],
    ids=["lines", "no-newline", "crlf", "bom", "blank", "array", "pretty-array", "pretty-objects", "two-arrays"],
)
def test_layouts(log: Any, data: str) -> None:
    assert texts(log(data)) == NUMBERS


@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize(
    "data", [LINES, json.dumps([{"prompt": 'x"\\' * 9, "a": [[], {}]}] * 3), '{"a":\n{"b": "é}"}}\n{}']
)
def test_records_do_not_depend_on_how_the_file_is_cut_into_reads(
    log: Any, data: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(log(data))
    monkeypatch.setattr(json_stream, "_HEAD", 30)
    with open_bytes(path) as reader:
        whole = list(read_records(reader))
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    with open_bytes(path) as reader:
        assert list(read_records(reader)) == whole
    assert len(whole) > 1


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "no-suffix"])
@pytest.mark.parametrize("kind", ["gzip", "zstd", "zstd frames", "gzip members"])
def test_compressed_by_what_is_inside(log: Any, name: str, kind: str) -> None:
    compress = gzip.compress if "gzip" in kind else zstandard.compress
    half = len(LINES) // 5 * 2
    pieces = [LINES[:half], LINES[half:]] if "s" in kind.partition(" ")[2] else [LINES]
    path = log(b"".join(compress(piece.encode()) for piece in pieces), name)
    assert texts(path) == NUMBERS
    turn = prompts(LogSource([str(path)]))[3]
    assert turn.text is not None
    origin, offset = turn.text.at(7)
    assert origin is not None
    assert locate(origin, offset) == (4, 20)


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("damage", ["cut", "cut in the header", "flipped"])
def test_damaged_compressed_files(log: Any, compress: Any, damage: str) -> None:
    data = compress(os.urandom(3000).hex().encode())
    data = {"cut": data[:-40], "cut in the header": data[:7], "flipped": data[:60] + bytes(90) + data[150:]}[damage]
    assert "damaged" in failure(log(data)).message or "not JSON" in failure(log(data)).message
    if damage != "flipped":
        assert (
            failure(log(data)).message == "the compressed file is damaged: it ends in the middle of its compressed data"
        )


def test_what_is_no_text_file(log: Any, tmp_path: Path) -> None:
    assert failure(tmp_path).message == "this is a directory"
    assert failure(tmp_path / "nowhere" / "a.jsonl").message == "no such file"
    log(LINES, "right.jsonl")
    assert failure(tmp_path / "rigth.jsonl").hint == f"did you mean `{tmp_path / 'right.jsonl'}`?"
    assert "empty" in failure(log("")).message
    assert "empty" in failure(log(" \n\n")).message
    assert "UTF-16" in failure(log(LINES.encode("utf-16"))).message
    assert "UTF-16" in failure(log(LINES.encode("utf-16-le"))).message
    assert "binary" in failure(log(bytes(range(256)) * 9)).message
    assert "Parquet" in failure(log(b"PAR1" + bytes(50))).message
    assert "cannot open" in failure("a\0b.jsonl").message
    latin = failure(log('{"prompt": "ok"}\n{"prompt": "caf\xe9"}\n'.encode("latin-1")))
    assert latin.message == "not JSON (byte 0xe9 is not UTF-8); 1 line ok"
    assert str(latin.place).endswith(":2:16")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(log: Any) -> None:
    path = log(LINES)
    path.chmod(0)
    assert failure(path).message == "permission denied"


def test_a_bad_line_is_told_with_its_place_and_can_be_skipped(log: Any) -> None:
    path = log(LINES + '{"prompt": "never ends\n' + LINES)
    error = failure(path)
    assert error.message == "not JSON (unterminated string); 5 lines ok"
    assert error.hint == "--on-bad-line skip"
    assert error.place is not None
    assert (error.place.line, error.place.column, error.place.excerpt) == (6, 12, '{"prompt": "..........')
    source = LogSource([str(path)], LogOptions(on_bad_line="skip"))
    assert [str(turn.text) for turn in prompts(source)] == NUMBERS * 2
    assert source.skipped == 1
    assert len(prompts(source)) == 10
    assert source.skipped == 1, "counted anew in each pass"


@pytest.mark.parametrize(
    ("data", "message", "place"),
    [
        ('[{"prompt": "a"}, {"prompt": tru}]', "not JSON (expecting value); 1 record ok", "1:30"),
        (
            '[\n {"prompt": "a"}\n {"prompt": "b"}]',
            "not JSON (expected `,` or `]` after an array element); 1 record ok",
            "3:2",
        ),
        ('[{"prompt": "a"},\n]', "not JSON (expected a record, `{` or `[`); 1 record ok", "2:1"),
        ('[{"prompt": "a"}] tail', "not JSON (expected a record, `{` or `[`); 1 record ok", "1:19"),
        ('[{"prompt": "a"}, {"prompt": "b', "not JSON (unterminated string); 1 record ok", "1:30"),
        ('[{"prompt": "a"}', "not JSON (expected `,` or `]` after an array element); 1 record ok", "1:17"),
        ('{"prompt": "a"} x\n{"prompt": "b"}', "not JSON (extra data); 0 lines ok", "1:17"),
        ("INFO started\n" + LINES, "not JSON (expecting value); 0 lines ok", "1:1"),
        ('{"prompt":\n', "not JSON (expecting value); 0 lines ok", "1:11"),
        ('{"a":' * 5000, "not JSON (nested too deeply); 0 lines ok", "1:2501"),
        ('{"a": 1' + "0" * 5000 + "}", "not JSON", "1:7"),
    ],
)
def test_broken_json(log: Any, data: str, message: str, place: str) -> None:
    path = log(data, "a.json")
    error = failure(path)
    assert error.message.startswith(message)
    assert str(error.place) == f"{path}:{place}"


def test_a_file_of_nothing_but_bad_lines_is_an_error_even_when_they_are_skipped(log: Any) -> None:
    assert failure(log("a\nb\n"), on_bad_line="skip").message == "not JSON (expecting value); 0 lines ok"


def test_lone_surrogates_and_nan_go_through(log: Any) -> None:
    path = log('{"prompt": "a\\ud800b", "x": NaN}\n{"prompt": "\\ud83d\\ude00 \\u0000\\u001b[31m", "x": Infinity}\n')
    assert texts(path) == ["a\ufffdb", "\U0001f600 \0\x1b[31m"]
    text = prompts(LogSource([str(path)]))[0].text
    assert text is not None
    origin, offset = text.at(2)
    assert origin is not None
    assert locate(origin, offset) == (1, 20)


def test_a_line_of_50_megabytes(log: Any) -> None:
    path = log('{"prompt": "' + "long \\n" * 7_000_000 + '"}\n' + '{"prompt": "short"}\n')
    assert [len(text) for text in texts(path)] == [42_000_000, 5]


@pytest.mark.parametrize("data", ['{"prompt": "%s"}\n{"prompt": "b"}\n', '[{"prompt": "%s"}, {"prompt": "b"}]'])
def test_a_record_over_the_limit(log: Any, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_RECORD", 1 << 20)
    path = log(data % ("x" * (3 << 20)))
    assert "record of more than 1 MiB" in failure(path).message
    if data.startswith("{"):
        assert texts(path, on_bad_line="skip") == ["b"]


def test_a_compressed_flood_is_refused_without_filling_the_memory(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    monkeypatch.setattr(json_stream, "MAX_RECORD", 1 << 20)
    for compress in (gzip.compress, zstandard.compress):
        path = log(compress(b'{"prompt": "' + b" " * (100 << 20)))
        tracemalloc.start()
        assert "record of more than" in failure(path).message
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 80 << 20


@pytest.mark.parametrize("flood", ["[],", "{},", "1,", '"a",', '{"a":1},'])
@pytest.mark.parametrize(
    "form",
    ['{"prompt": "a", "x": [%s1]}', '[{"prompt": "a", "x": [%s1]}]', '{"prompt": "a,[", "response": "[%s1]"}'],
)
def test_a_record_of_too_many_values(log: Any, flood: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MOST_VALUES", 1000)
    many = flood * 1000
    path = log(form % (many.replace('"', '\\"') if "response" in form else many))
    if "response" in form:  # a text that is JSON stays a text
        assert texts(path) == ["a,["]
    else:
        assert "a record of more than 1,000 values" in failure(path).message
    assert texts(log(json.dumps({"prompt": many}))) == [many]


def test_a_row_over_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_RECORD", 100_000)
    for row in ("a" * 200_000, "a," * 10_000, '"\n",' * 10_000):
        path = tmp_path / "log.csv"
        path.write_text(f"id,prompt\n1,b\n{row}\n")
        error = failure(str(path))
        assert "a row of more than" in error.message
        assert error.place is not None
        assert (error.place.line or 0) >= 3


def test_excerpts_are_short(log: Any) -> None:
    place = failure(log('{"a": x, "prompt": "' + "y" * 100_000 + '"}')).place
    assert place is not None
    assert place.excerpt is not None
    assert len(place.excerpt) < 200
    far = failure(log('{"prompt": "' + "y" * 100_000 + '" x}')).place
    assert far is not None
    assert (far.column, far.excerpt) == (100_015, None)


def test_plain_text_is_one_prompt_to_the_character(log: Any) -> None:
    text = "You are [/INST] a \x1b[31m bot\r\n\n  é漢 \0 end\n"
    path = log("\ufeff" + text, "a.txt")
    (turn,) = prompts(LogSource([str(path)]))
    assert turn.text == text
    assert (turn.group, turn.id, turn.session) == ("prompts", str(path), None)
    origin, offset = turn.text.at(text.index("漢"))
    assert origin is not None
    assert locate(origin, offset) == (3, 4)
    assert failure(log("", "b.md")).message == "the file is empty"
    bad = failure(log(b"ok\n\xc3\xa9\xff", "c.md"))
    assert (bad.message, str(bad.place)[-4:]) == ("byte 0xff is not UTF-8", ":2:2")
    assert "binary" in failure(log(bytes(5000), "d.txt")).message
    assert texts(log("just text"), format="text") == ["just text"]


def test_several_files_are_read_in_order_and_again(log: Any) -> None:
    first = log('{"prompt": "a", "timestamp": 1760000010, "session_id": "s"}\n' * 2, "one.jsonl")
    second = log('{"prompt": "b", "timestamp": 1760000004, "session_id": "s"}\n', "two.jsonl.gz")
    empty = log("", "none.jsonl")
    plain = log("c", "three.md")
    source = LogSource([str(path) for path in (first, empty, second, plain)])
    for _ in range(2):
        found = prompts(source)
        assert [(str(turn.text), turn.group, turn.arrival, turn.index) for turn in found] == [
            ("a", "one", 6.0, 0),
            ("a", "one", 6.0, 1),
            ("b", "two", 0.0, 2),
            ("c", "prompts", None, 0),
        ]
        assert source.formats == {str(first): "prompt", str(second): "prompt", str(plain): "text"}
    renamed = LogSource([str(first)], group=lambda path: Path(path).suffix)
    assert {turn.group for turn in prompts(renamed)} == {".jsonl"}


def test_mixed_records_are_each_read_by_their_shape(log: Any) -> None:
    path = log('{"prompt": "a"}\n{"messages": [{"role": "user", "content": "b"}]}\n{"text": "c"}\n')
    source = LogSource([str(path)])
    assert [turn.messages is None for turn in prompts(source)] == [True, False, True]
    assert source.formats == {str(path): "prompt, chat"}


def test_records_on_one_line_have_names_of_their_own(log: Any) -> None:
    turns = prompts(LogSource([str(log('[{"prompt": "a"}, {"prompt": "b"},\n{"prompt": "c"}]'))]))
    assert [turn.id for turn in turns] == ["1:0", "1.2:0", "2:0"]


def test_the_limit_counts_requests(log: Any) -> None:
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": str(i)} for i in range(6)]
    path = log(json.dumps({"messages": messages}) + "\n" + LINES)
    for limit, expected in ((2, [2]), (4, [3, 1]), (99, [3, 1, 1, 1, 1, 1])):
        conversations = LogSource([str(path)], LogOptions(limit=limit)).conversations()
        counts = [sum(1 for _ in iter(partial(each.next_turn, None), None)) for each in conversations]
        assert counts == expected
    with pytest.raises(KvtoolError, match="at least 1"):
        LogSource([str(path)], LogOptions(limit=0))
    with pytest.raises(KvtoolError, match="at least 1"):
        LogSource([str(path)], LogOptions(trace_block_size=0))


def test_stdin_can_be_read_twice_and_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(LINES.encode()))))
    source = LogSource(["-"])
    assert [str(turn.text) for turn in prompts(source)] == NUMBERS
    assert [str(turn.text) for turn in prompts(source)] == NUMBERS
    turn = prompts(source)[1]
    assert (turn.group, turn.id) == ("stdin", "2:0")
    assert turn.text is not None
    origin, offset = turn.text.at(3)
    assert origin is not None
    assert (origin.path, locate(origin, offset)) == ("-", (2, 1))
    assert len(list(tmp_path.iterdir())) == 1
    del source
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(sys, "stdin", None)
    assert "closed" in failure("-").message


def test_a_pipe_is_read_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text(LINES))
    writer.start()
    source = LogSource([str(path)])
    assert [str(turn.text) for turn in prompts(source)] == NUMBERS
    assert [str(turn.text) for turn in prompts(source)] == NUMBERS
    writer.join()
    turn = prompts(source)[1]
    assert turn.text is not None
    origin, offset = turn.text.at(3)
    assert origin is not None
    assert locate(origin, offset) == (2, 1), "opened again it would wait for somebody to write"


def test_records_are_read_as_they_are_asked_for(log: Any) -> None:
    path = log(LINES + "broken\n")
    conversations: Iterator[Any] = LogSource([str(path)]).conversations()
    assert [next(conversations).next_turn(None).text for _ in range(5)] == NUMBERS
    with pytest.raises(KvtoolError, match="5 lines ok"):
        next(conversations)


def test_the_group_is_named_after_the_file() -> None:
    for path, group in [
        ("logs/a.jsonl", "a"),
        ("a.traj.json.gz", "a"),
        ("llama-3.1-8b.jsonl.zst", "llama-3.1-8b"),
        ("-", "stdin"),
        ("noext", "noext"),
        (".jsonl", ".jsonl"),
    ]:
        assert default_group(path) == group


def test_a_prompt_on_stdin_is_told_how_to_be_one(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Hello, how are you?\n")))
    with pytest.raises(KvtoolError, match="not JSON") as caught:
        list(LogSource(["-"]).conversations())
    assert caught.value.hint == "add --format text if it is a prompt"
