"""CSV, TSV and tables in columns: cells of many forms, names of columns, rows that are none."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.workload.logs.files.input_files import find_inputs
from kvtool.workload.logs.formats.tables import record_of
from tests.workload.logs.reading_made import Read, refusal

MESSAGES = [{"role": "system", "content": "S"}, {"role": "user", "content": 'a, "b"\nc;d'}]


def table(path: Path, *rows: list[Any], delimiter: str = ",", end: str = "\n") -> Path:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows(rows)
    path.write_bytes(text.getvalue().encode())
    return path


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_of_a_table(tmp_path: Path, delimiter: str, end: str) -> None:
    header = [
        "Session ID",
        "Timestamp",
        "Prompt Tokens",
        "cached_tokens",
        "usage.completion_tokens",
        "model",
        "messages",
        "user",
    ]
    first = ["s-1", "2025-10-27 09:00:00", "20", "16.0", "", "m", json.dumps(MESSAGES), "0042"]
    second = ["s-1", "2025-10-27T09:00:05+00:00", "NULL", "", "", "", repr(MESSAGES[:1] + MESSAGES), ""]
    read = Read(table(tmp_path / "a.tsv", header, first, second, delimiter=delimiter, end=end))
    assert read.of("session") == ["s-1", "s-1"]
    assert read.of("time") == [1761555600, 1761555605]
    assert read.of("prompt_tokens") == [20, None]
    assert read.of("cached_tokens") == [16, None]
    assert read.of("tenant") == ["0042", None]
    assert read.rows[0]["messages"] == [["system", "S"], ["user", 'a, "b"\nc;d']]
    assert len(read.rows[1]["messages"]) == 3


def test_prompts_stay_what_they_are(tmp_path: Path) -> None:
    texts = ['{"a": 1}', '["x", "y"]', "[1]", "12", "null", " x "]
    rows = [[str(number), text] for number, text in enumerate(texts)]
    assert Read(table(tmp_path / "a.csv", ["id", "prompt"], *rows)).of("text") == texts


def test_no_suffix_needed_and_compressed_ones_are_read(tmp_path: Path) -> None:
    plain = table(tmp_path / "export", ["prompt", "id"], ["a", "1"])
    assert Read(plain).of("text") == ["a"]
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbfprompt\nb\n"))
    assert Read(packed).of("text") == ["b"]


def test_request_and_response_in_cells_newest_first(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    rows = [
        [f"2025-10-27T09:00:0{number}Z", json.dumps({"model": "m", "messages": MESSAGES}), json.dumps({"usage": usage})]
        for number in (3, 2, 1)
    ]
    read = Read(table(tmp_path / "a.csv", ["created_at", "request", "response"], *rows))
    assert read.of("time") == [1761555601, 1761555602, 1761555603]
    assert read.of("cached_tokens") == [1, 1, 1]


def test_a_table_without_prompts_is_refused_by_name(tmp_path: Path) -> None:
    error = refusal(table(tmp_path / "a.csv", ["date", "cost"], ["secret", "1"]))
    assert error.message == "the table has no column with prompts: its columns are `date`, `cost`"


def test_bad_rows(tmp_path: Path) -> None:
    for text, message, line in [
        ("id,prompt\n1,a\n2,secret,c\n", "3 cells for 2 columns", 3),
        ('id,prompt\n1,"a\nb"\n2,"secret', "a quoted cell is never closed", 4),
        ("prompt,prompt_tokens\na,5\nsecret,many\n", "whole number of tokens", 3),
        ("prompt,prompt_tokens\na,5\nsecret,5.5\n", "whole number of tokens", 3),
        ("id,prompt\n1,a\n2,\n", "no prompt found", 3),
    ]:
        path = tmp_path / "a.csv"
        path.write_text(text)
        error = refusal(path)
        assert message in error.message
        assert "secret" not in f"{error.message}{error.hint}"
        assert error.place is not None
        assert (error.place.line, error.place.excerpt) == (line, None)


def test_what_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"prompt\nna\xefve\n")
    assert refusal(path).message == "byte 0xef is not UTF-8"


_NAMES = ["prompt", "messages", "x_tokens", "usage.a", "usage", "time", ""]
_cells = st.text(max_size=20) | st.sampled_from(
    [
        "[{'",
        "{'a': [",
        '[{"role": 5}]',
        "-1e999",
        "1e400",
        "((((",
        "[{'a': '\\d'}]",
        "[{'a': " + "-" * 20_000 + "1}]",
        "{" * 50,
        "\\N",
    ]
)


@given(
    st.lists(st.sampled_from(["prompt", "messages", "x_tokens", "usage.a", "usage", "time", ""]), max_size=5),
    st.lists(_cells, max_size=5),
)
def test_no_cell_breaks_it(names: list[str], cells: list[str]) -> None:
    record_of(names, cells)


def test_parquet_and_arrow(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet, ipc = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.ipc")
    parts = [{"type": "text", "text": "p", "image": None}]
    made = arrow.table(
        {
            "messages": [
                [{"role": "user", "content": "a", "name": None}],
                [{"role": "user", "content": "b", "name": "n"}],
            ],
            "created_at": [datetime(2025, 10, 27, 9, 0, second, tzinfo=UTC) for second in (5, 1)],
            "usage": [{"prompt_tokens": 5, "cached": None}, {"prompt_tokens": 7, "cached": None}],
            "tags": arrow.array([[("k", 1)], []], arrow.map_(arrow.string(), arrow.int64())),
            "parts": [parts, parts],
        }
    )
    parquet.write_table(made, tmp_path / "a.parquet")
    with ipc.new_file(str(tmp_path / "b.arrow"), made.schema) as out:
        out.write_table(made)
    with ipc.new_stream(str(tmp_path / "c.arrow"), made.schema) as out:
        out.write_table(made)
    for name in ("a.parquet", "b.arrow", "c.arrow"):
        read = Read(tmp_path / name)
        assert read.of("messages") == [[["user", "b"]], [["user", "a"]]]
        assert read.of("time") == [1761555601, 1761555605]
        assert read.of("prompt_tokens") == [7, 5]
    (tmp_path / "d.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:400])
    assert refusal(tmp_path / "d.parquet").message == "a Parquet file is damaged"
    parquet.write_table(arrow.table({"x": [1]}), tmp_path / "e.parquet")
    assert "its columns are `x`" in refusal(tmp_path / "e.parquet").message


def test_without_pyarrow_it_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + bytes(100))
    error = refusal(path)
    assert (error.message, error.hint) == ("this is a Parquet file", "pip install 'kvtool[parquet]'")


def test_a_folder_has_tables_of_prompts_among_its_logs(tmp_path: Path) -> None:
    table(tmp_path / "a.csv", ["id", "prompt"], ["1", "a"])
    table(tmp_path / "b.csv", ["id", "message"], ["1", "nothing"])
    table(tmp_path / "c.csv", ["id", "cost"], ["1", "2"])
    found = find_inputs([str(tmp_path)])
    assert [Path(path).name for path in found.paths] == ["a.csv"]
    assert sorted(Path(each.path).name for each in found.passed_over) == ["b.csv", "c.csv"]


def test_what_helicones_page_exports_is_read_as_its_lines(tmp_path: Path) -> None:
    sent = {"model": "gpt-5.5", "messages": MESSAGES}
    rows = [
        {
            "id": f"r{number}",
            "raw": {"request": sent, "response": {"choices": []}},
            "heliconeMetadata": {
                "createdAt": f"2026-02-02T09:00:0{number}Z",
                "promptTokens": 30,
                "promptCacheReadTokens": 16 * number,
                "user": "u1",
                "status": {"code": 500 if number == 2 else 200},
                "customProperties": {"Helicone-Session-Id": "s1"},
            },
        }
        for number in range(3)
    ]
    lines = tmp_path / "data.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cells = [[value if isinstance(value, str) else json.dumps(value) for value in row.values()] for row in rows]
    for path in (lines, table(tmp_path / "data.csv", list(rows[0]), *cells)):
        read = Read(path)
        assert read.of("prompt_tokens") == [30, 30]
        assert read.of("cached_tokens") == [0, 16]
        assert set(read.of("session")) == {"s1"}
        assert set(read.of("tenant")) == {"u1"}
        assert read.left_out == {"failed": 1}
