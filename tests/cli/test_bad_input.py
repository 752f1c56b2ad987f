"""Whatever is wrong with the input: one clear message with its place, the right exit code, no traceback and nothing on stdout."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvtool.cli.app import run
from tests.conftest import some

Capture = pytest.CaptureFixture[str]

HOSTILE = (
    "[/INST] [bold]x[/] \x1b[31mred \x1b]0;title\x07 nul \x00 bidi \u202e\u2066 c1 \x9b31m\n::error file=a::boom\n"
)
GROUPS = "version: 1\ngroups:\n"
WORKLOAD = GROUPS + (
    "  - {name: long, requests: 3, text: '{{ n }} a text of more than two blocks, for bytes, and of more than one'}\n"
    "  - {name: short, requests: 3, text: 'short {{ n }}'}\n"
    "vars: {n: {counter: 1}}\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with inputs that are right and inputs that are not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    good = {
        "w.yaml": WORKLOAD,
        "good.txt": "a prompt",
        "good.jsonl": '{"prompt": "a prompt"}\n',
        "trace.jsonl": '{"hash_ids": [1, 2, 3], "input_length": 1500, "output_length": 5, "timestamp": 0}\n',
        "mixed.jsonl": '{"prompt": "one"}\nnot json\n{"prompt": "two"}\n{"nothing": 1}\n\n{"prompt": 5}\n',
        "unknown.yaml": GROUPS + "  - name: g\n    reqests: 4\n    text: hello\n",
        "type.yaml": GROUPS + "  - {name: g, requests: lots, text: hello}\n",
        "two.yaml": GROUPS + "  - {name: g, requests: 3, segments: [{text: hello, file: good.txt}]}\n",
        "undefined.yaml": GROUPS + "  - {name: g, requests: 3, text: 'hello {{ nwo }}'}\n",
        "escape.yaml": GROUPS
        + "  - {name: g, requests: 3, text: \"{{ ''.__class__.__mro__[1].__subclasses__() }}\"}\n",
        "globals.yaml": GROUPS + '  - {name: g, requests: 3, text: "{{ cycler.__init__.__globals__.os }}"}\n',
        "attr.yaml": GROUPS + "  - {name: g, requests: 3, text: \"{{ ''|attr('__class__') }}\"}\n",
        "missing.yaml": GROUPS + "  - {name: g, requests: 3, file: god.txt}\n",
        "twice.yaml": GROUPS + "  - {name: g, requests: 3, requests: 4, text: hello}\n",
        "several.yaml": GROUPS + "  - {name: g, reqests: 3, text: hello}\n  - {name: h, requests: lots, text: hello}\n",
        "bomb.yaml": "version: 1\na: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        "deep.yaml": "version: 1\na: " + "[" * 5000 + "]" * 5000 + "\n",
        "deep.jsonl": '{"prompt": ' + "[" * 100_000 + "\n",
    }
    for name, text in good.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    raw = {
        "empty.yaml": b"",
        "empty.jsonl": b"",
        "empty.txt": b"",
        "blank.txt": b" \n\n",
        "binary.yaml": b"\x7fELF\x00\x01\x02" * 99,
        "binary.jsonl": b"\x7fELF\x00\x01\x02" * 99,
        "binary.txt": b"\x7fELF\x00\x01\x02" * 99,
        "utf16.yaml": WORKLOAD.encode("utf-16"),
        "utf16.jsonl": b"\xff\xfe" + '{"prompt": "x"}\n'.encode("utf-16-le"),
        "utf16.txt": "a prompt".encode("utf-16"),
        "latin1.yaml": b"version: 1\nname: caf\xe9\n",
        "latin1.jsonl": b'{"prompt": "one"}\n{"prompt": "caf\xe9"}\n',
        "latin1.txt": b"one\ncaf\xe9\n",
        "cut.jsonl.gz": gzip.compress(b'{"prompt": "a prompt"}\n' * 99)[:-20],
    }
    for name, data in raw.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "folder").mkdir()
    return tmp_path


def refused(arguments: list[str], code: int, capsys: Capture) -> str:
    """What stderr says where nothing comes of a command line."""
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert "bug in kvtool" not in err
    assert not re.search(r"[^\n\x20-\x7e\u00a0-\U0010ffff]", err)
    return err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing.jsonl", "error: nothing.jsonl: no such file"),
        ("goood.jsonl", "did you mean `good.jsonl`?"),
        ("ww.yaml", "did you mean `w.yaml`?"),
        ("nowhere/w.yaml", "there is no folder `nowhere`"),
        ("folder", "error: folder: the folder contains no log and no prompt; it is empty"),
        ("folder.yaml", "error: `folder.yaml` is a directory"),
        ("empty.yaml", "error: `empty.yaml` is empty"),
        ("empty.jsonl", "error: empty.jsonl: the file is empty"),
        ("empty.txt", "error: empty.txt: the file is empty"),
        ("binary.yaml", "error: `binary.yaml` is a binary file"),
        ("binary.jsonl", "error: binary.jsonl: this is a binary file"),
        ("binary.txt", "error: binary.txt: this is a binary file"),
        ("utf16.yaml", "error: `utf16.yaml` is UTF-16"),
        ("utf16.jsonl", "error: utf16.jsonl: this is UTF-16"),
        ("utf16.txt", "error: utf16.txt: this is UTF-16"),
        ("latin1.yaml", "error: latin1.yaml:2:10: `latin1.yaml` is not UTF-8: byte 0xe9"),
        ("latin1.jsonl", "error: latin1.jsonl:2:16: not JSON (byte 0xe9 is not UTF-8); 1 line ok"),
        ("latin1.txt", "error: latin1.txt:2:4: byte 0xe9 is not UTF-8"),
        ("cut.jsonl.gz", "error: cut.jsonl.gz: the compressed file is damaged"),
        (
            "mixed.jsonl",
            "error: mixed.jsonl:2:1: not JSON (expecting value); 1 line ok\n     2 | not json\n       | ^\n",
        ),
        ("deep.jsonl", "error: deep.jsonl:1:"),
        ("unknown.yaml", "error: unknown.yaml:4:5: unknown key `reqests` in groups[0]\n     4 |     reqests: 4\n"),
        ("unknown.yaml", "\n  help: did you mean `requests`?"),
        ("type.yaml", "error: type.yaml:3:25: groups[0].requests: expected a whole number, got `lots`"),
        ("twice.yaml", "error: twice.yaml:3:28: "),
        ("two.yaml", "error: two.yaml:3:53: `text` and `file` in segments[0] exclude each other"),
        ("undefined.yaml", "error: undefined.yaml:3:44: template: undefined variable `nwo`"),
        ("escape.yaml", "error: escape.yaml:3:"),
        ("globals.yaml", "error: globals.yaml:3:"),
        ("attr.yaml", "error: attr.yaml:3:"),
        ("missing.yaml", "did you mean `good.txt`?"),
        ("bomb.yaml", "error: bomb.yaml:"),
        ("deep.yaml", "error: deep.yaml:2:"),
    ],
)
def test_a_bad_file(name: str, said: str, folder: Path, bytes_json: str, capsys: Capture) -> None:
    err = refused(["profile", name, "--dry-run", "-t", bytes_json], 2, capsys)
    assert said in err
    assert len(err) < 2000


def test_all_mistakes_are_told_at_once(folder: Path, capsys: Capture) -> None:
    err = refused(["profile", "several.yaml", "--dry-run"], 2, capsys)
    assert re.findall(r"^error: several\.yaml:(\d):", err, re.MULTILINE) == ["3", "4"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("goood.txt", "did you mean `good.txt`?"),
        ("folder", "the folder contains no log and no prompt; it is empty"),
        ("binary.txt", "`binary.txt` is a binary file"),
        ("utf16.txt", "`utf16.txt` is UTF-16"),
        ("latin1.txt", "latin1.txt:2:4: "),
    ],
)
@pytest.mark.parametrize("second", [False, True])
def test_a_bad_file_to_compare(name: str, said: str, second: bool, folder: Path, capsys: Capture) -> None:
    pair = ["good.txt", name] if second else [name, "good.txt"]
    assert said in refused(["diff-prompts", *pair], 2, capsys)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--capacity 0", "--capacity: a capacity must be a whole number above zero"),
        ("--capacity=-5", "--capacity: `-5` is not a capacity; write it like"),
        ("--capacity lots", "--capacity: `lots` is not a capacity; write it like"),
        ("--capacity nan", "--capacity: `nan` is not a capacity"),
        ("--capacity 1e999", "--capacity: `1e999` is not a capacity"),
        ("--capacity 5KiB", "is less than one block of 16 tokens"),
        ("--capacity 15tokens", "is less than one block of 16 tokens"),
        (
            "--capacity 99999999999999999999999",
            "--capacity: a cache of 99,999,999,999,999,991,611,392 blocks is more than",
        ),
        (
            "--capacity 9223372036854775808",
            "--capacity: a cache of 9,223,372,036,854,775,808 blocks is more than kvtool supports (10,000,000)",
        ),
        ("--gpu-memory 99999999999TiB", "is more than kvtool supports ("),
        ("--gpu-memory 99999999999TiB", "--gpu-memory: a cache of "),
        ("--gpu-memory x", "--gpu-memory: `x` is not a size"),
        ("--gpu-memory 1GiB", "no KV cache fits: 15.0 GiB of llama-3.1-8b's weights"),
        ("--num-gpu-blocks 1", "--num-gpu-blocks must be at least 2, not 1"),
        ("--num-gpu-blocks 99999999999", "--num-gpu-blocks: a cache of "),
        ("--num-gpu-blocks 9 --capacity 5", "--capacity and --num-gpu-blocks both say how large the cache is"),
        ("--gpu-memory 80GiB --capacity 5", "--capacity and --gpu-memory both say how large the cache is"),
        ("--gpu-memory 80GiB --gpu-memory-utilization nan", "--gpu-memory-utilization must be in (0, 1], not nan"),
        ("--gpu-memory 80GiB --gpu-memory-utilization 0", "--gpu-memory-utilization must be in (0, 1], not 0.0"),
        ("--gpu-memory-utilization 0.5", "--gpu-memory-utilization needs --gpu-memory"),
        ("--block-size 0", "--block-size must be at least 1, not 0"),
        ("--block-size -16", "--block-size must be at least 1, not -16"),
        ("--block-size 1.5", "--block-size"),
        ("--trace-block-size 0", "--trace-block-size must be at least 1, not 0"),
        ("--max-model-len 0", "--max-model-len must be at least 1, not 0"),
        ("--max-num-seqs 0", "--max-num-seqs must be at least 1, not 0"),
        ("--max-num-batched-tokens -1", "--max-num-batched-tokens must be at least 1, not -1"),
        ("--concurrency 0", "--concurrency must be at least 1, not 0"),
        ("--requests 0", "--requests must be at least 1, not 0"),
        ("--seed -1", "--seed must not be negative: -1"),
        ("--min-hit-rate 80", "--min-hit-rate is a ratio from 0 to 1, not 80.0"),
        ("--min-hit-rate -0.1", "--min-hit-rate is a ratio from 0 to 1, not -0.1"),
        ("--min-hit-rate nan", "--min-hit-rate is a ratio from 0 to 1, not nan"),
        ("--model llama", "error: unknown model `llama`; did you mean llama-"),
        ("--accelerator h10", "error: unknown accelerator `h10`\n  help: use one of a100"),
        ("--group nobody", "error: w.yaml has no group `nobody`\n  help: known here: long, short"),
        ("--tokenizer good.txt", "error: tokenizer `good.txt` is not a tokenizer.json"),
        ("--tokenizer folder", "error: tokenizer `folder`: no tokenizer.json in folder"),
        ("--tokenizer none.json", "error: tokenizer `none.json`: no such file or folder"),
        ("--max-model-len 4", "error: w.yaml: no request was profiled; request long/0 has "),
        ("--block-size 4 --capacity 1", "error: w.yaml: no request was profiled; request long/0 needs "),
        ("good.jsonl", "error: w.yaml is a workload file, which must be the only input"),
    ],
)
def test_bad_flags(flags: str, said: str, folder: Path, bytes_json: str, capsys: Capture) -> None:
    own = flags.split()
    given = [] if "--tokenizer" in own else ["-t", bytes_json]
    assert said in refused(["profile", "w.yaml", "--dry-run", *given, *own], 2, capsys)


@pytest.mark.parametrize(
    ("written", "files", "place"),
    [
        (
            "[engine]\ncapacity = 9223372036854775808\n",
            [],
            "kvtool.toml:2:12: a cache of 9,223,372,036,854,775,808 blocks",
        ),
        (
            '[engine]\ncapacity = "5KiB"\n',
            [],
            "kvtool.toml:2:12: a capacity of 5120 bytes is less than one block of 16 tokens",
        ),
        ("[engine]\nblock_size = 16\n", ["trace.jsonl"], "kvtool.toml:2:14: the trace has blocks of 512 tokens"),
    ],
)
def test_options_of_a_file_are_told_with_its_place(
    written: str, files: list[str], place: str, folder: Path, bytes_json: str, capsys: Capture
) -> None:
    Path("kvtool.toml").write_text(written)
    inputs = files or ["w.yaml"]
    assert place in refused(["profile", *inputs, "--dry-run", "-t", bytes_json], 2, capsys)


def test_a_capacity_of_a_workload_is_told_with_its_place(folder: Path, bytes_json: str, capsys: Capture) -> None:
    text = Path("w.yaml").read_text()
    line = text.count("\n") + 2
    Path("w.yaml").write_text(
        f"{text}\nengine: {{capacity: 9223372036854775808}}\n"
        if text[-1] != "\n"
        else f"{text}engine: {{capacity: 9223372036854775808}}\n"
    )
    err = refused(["profile", "w.yaml", "--dry-run", "-t", bytes_json], 2, capsys)
    assert f"w.yaml:{line - (text[-1] == chr(10))}:20: a cache of 9,223,372,036,854,775,808 blocks" in err


def test_records_that_a_run_cannot_take_are_told_with_their_line(
    folder: Path, bytes_json: str, capsys: Capture
) -> None:
    hashes = [{"chunk_hashes": ["aa"], "seq_len": size, "chunk_size": size} for size in (256, 16)]
    Path("mixed-trace.jsonl").write_text("".join(json.dumps(record) + "\n" for record in hashes))
    err = refused(["profile", "mixed-trace.jsonl", "--dry-run", "-t", bytes_json], 2, capsys)
    assert "mixed-trace.jsonl:2:1: a trace with blocks of 16 tokens in a run with blocks of 256" in err
    times = [{"prompt": "a", "timestamp": 1}, {"prompt": "a"}]
    Path("times.jsonl").write_text("".join(json.dumps(record) + "\n" for record in times))
    err = refused(["profile", "times.jsonl", "--dry-run", "-t", bytes_json, "--ttl", "5m"], 2, capsys)
    assert "times.jsonl:2:1: a time to live needs arrival times" in err
    err = refused(["profile", "w.yaml", "--dry-run", "-t", bytes_json, "--ttl", "5m"], 2, capsys)
    assert re.search(r"w\.yaml:\d+:\d+: a time to live needs arrival times", err)


def test_hashes_of_64_digits_name_blocks(folder: Path, bytes_json: str, capsys: Capture) -> None:
    """They differ in their first digits only: all of a hash counts."""
    names = [f"{block:02x}86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" for block in (1, 1, 2)]
    records = [
        {"chunk_hashes": [name, f"{number:064x}"], "seq_len": 512, "chunk_size": 256}
        for number, name in enumerate(names)
    ]
    Path("lookups.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run(["profile", "lookups.jsonl", "--dry-run", "-t", bytes_json, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["hit_tokens"] == 256


@pytest.mark.parametrize("budget", ["nan", "inf", "-1"])
def test_a_budget_is_a_time(budget: str, folder: Path, capsys: Capture) -> None:
    err = refused(["profile", "w.yaml", "--measure-budget", budget], 2, capsys)
    assert "--measure-budget is a number of seconds" in err


@pytest.mark.parametrize(
    "flag", ["--max-num-seqs", "--max-num-batched-tokens", "--max-model-len", "--seed", "-b", "-n"]
)
def test_huge_numbers_do_no_harm(flag: str, folder: Path, bytes_json: str, capsys: Capture) -> None:
    assert run(["profile", "w.yaml", "--dry-run", "-t", bytes_json, flag, "9" * 15, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["requests"] == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trace.jsonl", "-b", "16"], "the trace has blocks of 512 tokens, which do not fit --block-size 16"),
        (["trace.jsonl", "--trace-block-size", "256"], "trace.jsonl:1:41: `input_length` is 1500, which is 6 blocks"),
        (["good.jsonl", "--group", "x"], "the log has no request of group x"),
        (["good.jsonl", "--format", "nonsense"], "unknown log format `nonsense`"),
    ],
)
def test_flags_that_a_log_cannot_have(arguments: list[str], said: str, folder: Path, capsys: Capture) -> None:
    assert said in refused(["profile", *arguments, "--dry-run"], 2, capsys)


@pytest.mark.parametrize("command", [["profile", "w.yaml", "--dry-run"], ["diff-prompts", "good.txt", "good.txt"]])
def test_a_tokenizer_that_is_not_there(command: list[str], folder: Path, capsys: Capture) -> None:
    err = refused([*command, "-t", "nobody/no-such-tokenizer", "--offline"], 4, capsys)
    assert "`nobody/no-such-tokenizer` is not cached and --offline is set\n  help: pass -t ./tokenizer.json" in err


@pytest.mark.parametrize("flags", [["--max-model-len", "40"], ["--capacity", "2"]])
def test_prompts_that_are_too_long_are_counted_and_left_out(
    flags: list[str], folder: Path, bytes_json: str, capsys: Capture
) -> None:
    arguments = ["profile", "w.yaml", "--dry-run", "-t", bytes_json, *flags]
    assert run(arguments) == 0
    assert "3 requests refused and left out. First: request long/0" in " ".join(capsys.readouterr().out.split())
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["totals"]["refused_requests"] == 3
    assert document["totals"]["requests"] == 3
    assert [group["name"] for group in document["groups"]] == ["short"]


def test_bad_lines_are_skipped_and_counted_where_asked_for(folder: Path, bytes_json: str, capsys: Capture) -> None:
    arguments = ["profile", "mixed.jsonl", "--dry-run", "-t", bytes_json, "--on-bad-line", "skip"]
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert "\n  3 bad lines skipped.\n" in out
    assert err == ""
    assert run([*arguments, "--json"]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert (totals["skipped_lines"], totals["requests"]) == (3, 2)


@pytest.mark.engine
def test_bad_lines_are_counted_by_a_pass_that_reads_them_all(folder: Path, bytes_json: str, capsys: Capture) -> None:
    """The measurement ends before the bad line, and the workload file imports a log."""
    rows = [json.dumps({"prompt": f"{number} " + "a text that is long. " * 40}) for number in range(3)]
    (folder / "late.jsonl").write_text("\n".join([*rows, "not json"]) + "\n", encoding="utf-8")
    (folder / "imports.yaml").write_text(GROUPS + "  - {name: g, import: {jsonl: late.jsonl, on_bad_line: skip}}\n")
    (folder / "flagged.yaml").write_text(GROUPS + "  - {name: g, import: {jsonl: late.jsonl}}\n")
    late = ["profile", "late.jsonl", "--on-bad-line", "skip", "--measure-budget", "0.01"]
    flagged = ["profile", "flagged.yaml", "--dry-run", "--on-bad-line", "skip"]  # what the error proposes
    for arguments in (late, ["profile", "imports.yaml", "--dry-run"], flagged):
        assert run([*arguments, "-t", bytes_json, "--json"]) == 0
        totals = json.loads(capsys.readouterr().out)["totals"]
        assert (totals["skipped_lines"], totals["requests"]) == (1, 3)


def test_a_message_that_the_chat_template_refuses_is_left_out_too(
    folder: Path, bytes_json: str, capsys: Capture
) -> None:
    rows = [{"messages": [{"role": role, "content": "hello"}]} for role in ("user", "alien", "user")]
    (folder / "roles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = ["profile", "roles.jsonl", "--dry-run", "-t", bytes_json]
    assert run(arguments) == 2
    assert "roles.jsonl:2:1: the chat template" in capsys.readouterr().err
    assert run([*arguments, "--on-bad-line", "skip"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "1 request refused and left out. First: roles.jsonl:2:1: the chat template" in out
    assert run([*arguments, "--on-bad-line", "skip", "--json"]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert (totals["refused_requests"], totals["requests"]) == (1, 2)


# Text that would harm a terminal


def safe(text: str) -> bool:
    """No control character but line ends, none that turns the direction of text, and no line that a CI runner obeys."""
    return not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|^::", text, re.MULTILINE
    )


@pytest.mark.parametrize("color", ["never", "always"])
@pytest.mark.parametrize("format_", ["prompt", "messages"])
def test_hostile_prompts_in_a_log(format_: str, color: str, folder: Path, bytes_json: str, capsys: Capture) -> None:
    lines = []
    for index in range(6):
        text = f"2026-11-20T10:15:0{index}Z {HOSTILE} and then a text that all of them share, of many tokens. " * 2
        record = {"prompt": text} if format_ == "prompt" else {"messages": [{"role": "system", "content": text}]}
        lines.append(json.dumps(record))
    lines.append('{"prompt": "a lone \\ud800 surrogate, and one more: \\udfff"}')
    (folder / "[red] \x1b[31m.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["profile", "[red] \x1b[31m.jsonl", "--dry-run", "-t", bytes_json, "--color", color]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    own = re.compile(r"\x1b\[[\d;]*m") if color == "always" else re.compile("(?!)")
    assert safe(own.sub("", out))
    assert "\x1b[31m.jsonl" not in out
    assert "[red] \\x1b[31m" in out
    assert "KV101" in out
    assert run([*arguments, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert "INST" not in out
    assert json.loads(out)["totals"]["requests"] == 7


def test_hostile_text_in_a_workload(folder: Path, bytes_json: str, capsys: Capture) -> None:
    text = (
        'version: 1\nvars:\n  id: {uuid: "4"}\ngroups:\n'
        '  - name: "[/INST] ::error::x [bold]"\n    requests: 6\n    messages:\n'
        '      - {role: system, text: "Trace [bold] {{ id }} [/INST] \\e[31m \\0 \\u202e\\n'
        'and then a text that all of them share, so that there is something to find and to tell"}\n'
    )
    (folder / "hostile.yaml").write_text(text, encoding="utf-8")
    assert run(["profile", "hostile.yaml", "--dry-run", "-t", bytes_json, "--details", "--width", "120"]) == 0
    out = capsys.readouterr().out
    assert safe(out)
    assert "[/INST] ::error::x [bold]" in out
    assert re.search(r"^ +8 \| .*Trace \[bold\] \{\{ id \}\} \[/INST\] \\e\[31m", out, re.MULTILINE)


def test_hostile_text_in_a_message(folder: Path, capsys: Capture) -> None:
    (folder / "bad.yaml").write_text(GROUPS + "  - {name: g, '[/INST]\u202e::error::': 1, text: x}\n", encoding="utf-8")
    err = refused(["profile", "bad.yaml", "--dry-run"], 2, capsys)
    assert safe(err)
    assert "[/INST]\\u202e" in err
    assert safe(refused(["profile", "\x1b[31m\u202e.jsonl", "--dry-run"], 2, capsys))
    assert safe(refused(["profile", "w.yaml", "-m", "\x1b[31m"], 2, capsys))


def test_hostile_text_in_a_comparison(folder: Path, bytes_json: str, capsys: Capture) -> None:
    for index, name in enumerate(("a.txt", "b.txt")):
        text = f"shared\n{index} {HOSTILE}".replace("\x00", "") + "\nthe same text in both"
        (folder / name).write_text(text, encoding="utf-8")
    assert run(["diff-prompts", "a.txt", "b.txt", "-t", bytes_json, "--tokens"]) == 0
    assert safe(capsys.readouterr().out)


# Size


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file of which nothing can be read")
def test_a_file_that_cannot_be_read_is_named(folder: Path, capsys: Capture) -> None:
    err = refused(["profile", "/proc/self/mem", "--dry-run"], 2, capsys)
    assert err == "error: /proc/self/mem: cannot read: Input/output error\n"


@pytest.mark.parametrize("suffix", some([".jsonl", ".txt"], 1))
def test_a_line_of_20_megabytes(suffix: str, folder: Path) -> None:
    words = ("the quick brown fox jumps over a lazy dog while the others look " * 320_000)[:20_000_000]
    path = folder / f"big{suffix}"
    path.write_text(json.dumps({"prompt": words}) + "\n" if suffix == ".jsonl" else words, encoding="ascii")
    process = subprocess.Popen(
        [sys.executable, "-m", "kvtool", "profile", path.name, "--dry-run", "--json", "-q"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    path.unlink()
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out)["totals"]["prompt_tokens"] > 2_000_000
    assert usage.ru_maxrss < 2_000_000 * (1024 if sys.platform == "darwin" else 1)
    assert usage.ru_utime + usage.ru_stime < 40  # of its own: far too much work, not a speed; see benchmarks/


@pytest.mark.parametrize("suffix", some([".txt", ".jsonl"], 1))
def test_a_text_that_no_tokenizer_can_cut(suffix: str, folder: Path, capsys: Capture) -> None:
    words = "a" * 20_000_000
    path = folder / f"big{suffix}"
    path.write_text(json.dumps({"prompt": words}) + "\n" if suffix == ".jsonl" else words, encoding="ascii")
    err = refused(["profile", path.name, "--dry-run"], 2, capsys)
    assert "that tokenizer `tekken` cannot split" in err
