"""The command line as its users meet it: streams, colours, widths, exit codes, and the JSON contract."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvtool.cli.app import run
from kvtool.cli.commands.diff import token_bytes_shown
from kvtool.cli.commands.profile import ProfileCommand
from kvtool.profiler.profiler import Profiler
from kvtool.report.answer import answer_of
from kvtool.report.terminal.next_command import shell_lines
from kvtool.report.terminal.profile import ShownProfile, print_profile
from kvtool.results.report import Report
from kvtool.text.terminal.console import cell_width, make_console
from kvtool.text.tokens.tokenizer import Tokenizer

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "workloads").glob("*.yaml"))
MARKER = "Xyzzyplugh"
WORKLOAD = f"""\
version: 1
vars:
  now: {{datetime: 1m}}
  n: {{counter: 1}}
groups:
  - name: support
    requests: 12
    messages:
      - {{role: system, text: "Now: {{{{ now }}}}. {MARKER} You are the agent of a shop; be short, be kind, be right."}}
      - {{role: user, text: "Question {{{{ n }}}} about the {MARKER}?"}}
    gate: {{hit_rate: ">=80%"}}
  - name: tenant
    requests: 6
    tenant: acme
    segments:
      - {{id: rules, text: "Answer only from the document, and quote the line that you took it from. "}}
      - {{id: ask, text: "Question {{{{ n }}}}?"}}
  - name: chat
    sessions: {{count: 2, turns: 3, output_tokens: 20}}
    messages:
      - {{role: system, text: "You talk to people who plan a journey."}}
      - {{role: user, text: "And then {{{{ n }}}}?"}}
"""

RunKvtool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with `w.yaml`; colours and widths of the caller do not reach the test."""
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def clean_environment(**changes: str) -> dict[str, str]:
    """What a process needs, where its tokenizer cache is, and nothing of the caller's terminal."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "COLUMNS": "80", **changes}


@pytest.fixture
def kvtool(folder: Path) -> RunKvtool:
    """Runs the command line as a process of its own."""

    def start(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, **options}
        return subprocess.run(
            [sys.executable, "-m", "kvtool", *arguments],
            env=clean_environment(**(env or {})),
            cwd=folder,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=60,
            check=False,
            **options,
        )

    return start


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `kvtool` is the command."""
    script = f'kvtool() {{ "{sys.executable}" -m kvtool "$@"; }}\n{line}'
    return subprocess.run(
        ["bash", "-c", script],
        env=clean_environment(),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def widest(text: str) -> int:
    return max(cell_width(line) for line in text.splitlines())


# Help, versions and mistyped words


def test_bare_kvtool_prints_help(kvtool: RunKvtool) -> None:
    done = kvtool()
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: kvtool" in done.stdout
    assert "diff-prompts" in done.stdout


def test_version(kvtool: RunKvtool) -> None:
    done = kvtool("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"kvtool \d+\.\d+\.\d+\S*\n", done.stdout)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["profile", "--help"], ["diff-prompts", "-h"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    heavy = ["torch", "transformers", "tokenizers", "mistral_common", "numpy", "orjson"]
    if len(arguments) == 1:  # typer itself may import pydantic to check options
        heavy.append("pydantic")
    program = (
        f"import sys\nfrom kvtool.cli.app import run\nrun({arguments})\nprint([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean_environment(), capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["profil"], "did you mean `profile`?"),
        (["diff", "a.txt", "b.txt"], "did you mean `diff-prompts`?"),
        (["profile", "w.yaml", "--gpu", "h100"], "did you mean `--accelerator`, `--device` or `--gpu-memory`?"),
        (["size", "llama-3.1-8b", "--gpu", "h100"], "did you mean `--accelerator`?"),
        (["xyzzy"], "no such command: xyzzy"),
        (["profile", "w.yaml", "--capacty", "3"], "did you mean `--capacity`?"),
        (["profile", "w.yaml", "--frobnicate"], "no such option: --frobnicate"),
        (["profile"], "missing argument 'INPUT'"),
        (["profile", "w.yaml", "--block-size", "many"], "--block-size"),
        (["profile", "w.yaml", "--rules", "lru"], "'lru' is not one of 'vllm', 'sglang'"),
        (["profile", "w.yaml", "--capacity"], "--capacity"),
        (["profile", "w.yaml", "--width", "3"], "--width"),
        (["diff-prompts", "a.txt"], "diff-prompts needs two prompts"),
    ],
)
def test_usage_errors(arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert re.search(r"^  help: .*kvtool.* --help$", err, re.MULTILINE)
    assert "Traceback" not in err


def test_debug_shows_the_traceback_and_the_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "nothing.yaml", "--debug"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert "error: no such file `nothing.yaml`" in err


# The report


@pytest.fixture(scope="module")
def finished() -> Callable[[Path], Report]:
    """Profiles of the examples, each made once."""
    known: dict[Path, Report] = {}

    def profile_of(path: Path) -> Report:
        if path not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ProfileCommand, "_print", lambda _, report, *_rest: known.__setitem__(path, report))
                assert run(["profile", str(path), "--dry-run", "--quiet"]) == 0
        return known[path]

    return profile_of


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_fit_their_width_and_keep_their_numbers(
    path: Path, encoding: str, finished: Callable[[Path], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = finished(path)
    for module in ("profile", "render", "profile_blocks.sparkline"):
        monkeypatch.setattr(f"kvtool.report.terminal.{module}.ascii_only", lambda _: encoding == "ascii")
    command = ["profile", f"workloads/{path.name}", "--dry-run"]
    profile = profile.model_copy(update={"config": {**profile.config, "input": command[1]}})
    for width in (60, 80, 120):
        stream = StringIO()
        print_profile(
            make_console(file=stream, width=width, color="never"), profile, ShownProfile(command=command, details=True)
        )
        text = stream.getvalue()
        assert widest(text) <= width
        assert encoding != "ascii" or text.isascii()
        words = set(re.split(r"[\s();]+", text))
        numbers = [
            f"{count:,}" for count in (profile.totals.prompt_tokens, profile.totals.requests, *profile.fates.values())
        ]
        screen = "".join("".join(text.splitlines()[:24]).split())  # a long path may be broken anywhere
        assert all("".join(f"{label}{line}".split()) in screen for label, line in answer_of(profile).lines)
        assert {*numbers, *(finding.code for finding in profile.findings)} <= words
        assert f"Filled {profile.kv_cache.filled_blocks:,} block" in " ".join(text.split())
        shares = re.findall(r"^    [a-z' ,]+?  .*?([\d.]+)%(?:  [a-z ]+)?$", text, re.MULTILINE)
        shares = shares[: sum(count > 0 for count in profile.fates.values())]
        assert sum(round(float(share) * 10) for share in shares) == 1000


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_the_width_is_that_of_the_terminal(columns: str, kvtool: RunKvtool, bytes_json: str) -> None:
    done = kvtool("profile", "w.yaml", "--dry-run", "-t", bytes_json, env={"COLUMNS": columns})
    assert done.returncode == 1  # the gate of the workload
    assert int(columns) * 2 // 3 < widest(done.stdout) <= int(columns)


def test_long_names_and_paths_do_not_break_the_report(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "客户支持机器人" * 6
    deep = folder / ("a long folder name/" * 4)
    deep.mkdir(parents=True)
    text = WORKLOAD.replace("name: support", f"name: {name}").replace("name: tenant", f"name: {'y' * 80}")
    path = deep / "it's.yaml"
    path.write_text(text, encoding="utf-8")
    for width in (60, 80, 120):
        code = run(
            ["profile", str(path), "--dry-run", "-t", bytes_json, "--width", str(width), "--min-hit-rate", "0.5"]
        )
        assert code == 1
        assert widest(capsys.readouterr().out) <= width


@pytest.mark.parametrize("width", [30, 60, 120])
def test_the_next_command_can_be_copied(width: int) -> None:
    words = ["profile", "a long/it's/" + "deep/" * 30 + "客户.yaml", "--capacity", "320k tokens", "$HOME", "plain"]
    lines = shell_lines(["kvtool", *words], width, False)
    assert max(map(cell_width, lines)) <= width
    program = "kvtool() { printf '%s\\n' \"$@\"; }\n" + "\n".join(lines)
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.splitlines() == words


def test_the_next_command_asks_for_what_this_one_did(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = "--capacity 9000 --requests 6 --seed 4 --group support --no-config --offline"
    assert run(["profile", "w.yaml", "-q", "--dry-run", "--width", "999", "-t", bytes_json, *flags.split()]) == 1
    next_one = f"kvtool optimize w.yaml --tokenizer {bytes_json} {flags} --allow P2"
    assert next_one in [line.strip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("text", "piece", "shown"),
    [
        (" é", "ĠÃ©", " é"),
        ("\ufffd", "Ġ!~Ã", " !~\\xc3"),
        ("\ufffd", "ġĀ", "\\x7f\\x00"),
        ("", "<|end|>", "<|end|>"),
        ("\ufffd", "▁Ã", "▁Ã"),
    ],
)
def test_bytes_of_a_token_that_are_no_character_are_shown_as_escapes(text: str, piece: str, shown: str) -> None:
    tokenizer = SimpleNamespace(decode=lambda _: text, token_text=lambda _: piece)
    assert token_bytes_shown(cast("Tokenizer", tokenizer), 0) == shown


@pytest.mark.parametrize(
    ("env", "colored"),
    [
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"FORCE_COLOR": "0"}, False),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ({}, False),
    ],
)
def test_colour(env: dict[str, str], colored: bool, kvtool: RunKvtool, bytes_json: str) -> None:
    done = kvtool("profile", "w.yaml", "--dry-run", "-t", bytes_json, env=env)
    assert done.returncode == 1
    assert ("\x1b[" in done.stdout) is colored
    assert "\x1b]8" not in done.stdout
    plain = re.sub(r"\x1b\[[\d;]*m", "", done.stdout)
    assert "\x1b" not in plain
    assert widest(plain) <= 80


def test_the_flag_decides_on_colour_before_the_environment(
    folder: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run(["profile", "w.yaml", "--dry-run", "-t", bytes_json, "--color", "always"])
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    run(["profile", "w.yaml", "--dry-run", "-t", bytes_json, "--color", "never"])
    assert "\x1b" not in capsys.readouterr().out


def test_an_ascii_terminal_gets_ascii(kvtool: RunKvtool, folder: Path, bytes_json: str) -> None:
    (folder / "w.yaml").write_text(WORKLOAD.replace("You are", "Ünïcödé 🦊 you are"), encoding="utf-8")
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
    done = kvtool("profile", "w.yaml", "--dry-run", "-t", bytes_json, "--min-hit-rate", "0", "-g", "tenant", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    done = kvtool("profile", "w.yaml", "--dry-run", "-t", bytes_json, "--show-text", "snippet", env=env)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.isascii()
    assert "\\xdcn\\xefc" in done.stdout  # the line of a finding


# Gates


@pytest.mark.parametrize(("minimum", "code", "verdict"), [("1.0", 1, "FAIL 1 gate"), ("0.0", 0, "PASS 1 gate")])
def test_a_minimum_for_all_requests(
    minimum: str, code: int, verdict: str, folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["profile", "w.yaml", "-g", "chat", "--dry-run", "-t", bytes_json, "--min-hit-rate", minimum]
    assert run(arguments) == code
    assert verdict in capsys.readouterr().out
    assert run([*arguments, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == ("fail" if code else "pass")
    (gate,) = document["gates"]
    assert (gate["id"], gate["code"], gate["group"], gate["path"]) == ("w.yaml/hit_rate", "KV401", None, "w.yaml")
    assert gate["status"] == ("fail" if code else "pass")
    assert (gate["limit"], gate["actual"]) == (float(minimum), document["totals"]["hit_rate"])
    assert "--min-hit-rate" in gate["message"]


def test_a_gate_of_a_group(folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["profile", "w.yaml", "--dry-run", "-t", bytes_json]
    assert run(arguments) == 1
    out = capsys.readouterr().out
    assert re.search(r"^  support +12 .* FAIL ", out, re.MULTILINE)
    assert re.search(r"^FAIL 1 gate \(support [\d.]+% < 80\.0%\)$", out, re.MULTILINE)
    path = folder / "w.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace(">=80%", ">=1%"), encoding="utf-8")
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  support +12 .* ok ", out, re.MULTILINE)
    assert re.search(r"^PASS 1 gate$", out, re.MULTILINE)


# JSON


def test_json_keeps_its_contract(kvtool: RunKvtool, bytes_json: str) -> None:
    arguments = ("profile", "w.yaml", "--json", "--dry-run", "--per-request", "-t", bytes_json)
    first, second = (kvtool(*arguments, env={"PYTHONHASHSEED": seed}) for seed in ("1", "2"))
    assert first.stdout == second.stdout
    assert (first.returncode, first.stderr) == (1, "")
    assert MARKER not in first.stdout
    document = json.loads(first.stdout)
    assert first.stdout == json.dumps(document, indent=2, sort_keys=True) + "\n"
    assert document["schema"] == "kvtool.report/1"
    assert document["verdict"] == "fail"
    totals, groups = document["totals"], document["groups"]
    assert {
        "requests",
        "prompt_tokens",
        "hit_tokens",
        "hit_rate",
        "mean_request_hit_rate",
        "reachable_hit_rate",
        "evictions",
        "preemptions",
    } <= totals.keys()
    assert sum(document["fates"].values()) == totals["prompt_tokens"]
    assert [group["name"] for group in groups] == ["support", "tenant", "chat"]
    for group in groups:
        keys = {"name", "requests", "prompt_tokens", "hit_tokens", "hit_rate", "reachable_hit_rate"}
        assert keys <= group.keys()
        assert sum(group["fates"].values()) == group["prompt_tokens"]
        assert group["hit_rate"] == group["hit_tokens"] / group["prompt_tokens"] <= group["reachable_hit_rate"] <= 1
    rows = document["requests"]
    assert len(rows) == totals["requests"] == 24
    assert len({(row["group"], row["id"]) for row in rows}) == 24
    for key in ("prompt_tokens", "hit_tokens"):
        assert totals[key] == sum(group[key] for group in groups) == sum(row[key] for row in rows)
    mean = sum(row["hit_tokens"] / row["prompt_tokens"] for row in rows) / len(rows)
    assert totals["mean_request_hit_rate"] == pytest.approx(mean)
    assert document["ttft"]["measured"] is None
    for side in ("on", "off"):
        assert document["ttft"]["predicted"][side].keys() == {"p50", "p90", "p99"}
    finding = next(finding for finding in document["findings"] if finding["group"] == "support")
    assert (finding["path"], finding["line"], finding["severity"]) == ("w.yaml", 9, "error")
    assert {"code", "severity", "path", "line", "column", "message", "tokens_lost"} <= finding.keys()
    assert finding["rerun"]["group_after"] > finding["rerun"]["group_before"]


def test_without_per_request_there_are_no_rows(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["profile", "w.yaml", "--json", "--dry-run", "-t", bytes_json])
    assert "requests" not in json.loads(capsys.readouterr().out)


def test_a_limit_is_kept_however_requests_run(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for flags in ([], ["--concurrency", "4"], ["--concurrency", "4", "--capacity", "100"]):
        run(["profile", "w.yaml", "--json", "--dry-run", "-t", bytes_json, "-n", "7", "--per-request", *flags])
        assert len(json.loads(capsys.readouterr().out)["requests"]) == 7


def test_a_report_that_may_not_quote_does_not(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["profile", "w.yaml", "--dry-run", "-t", bytes_json])
    assert MARKER in capsys.readouterr().out
    run(["profile", "w.yaml", "--dry-run", "-t", bytes_json, "--show-text", "none"])
    out = capsys.readouterr().out
    assert "w.yaml:9:" in out
    assert MARKER not in out


# Streams


def test_a_closed_pipe_is_silent_and_keeps_the_exit_code(folder: Path, bytes_json: str) -> None:
    line = f"kvtool profile w.yaml --dry-run -t {bytes_json}"
    done = shell(folder, f"{line} | head -1; echo codes ${{PIPESTATUS[0]}}")
    assert done.stderr == ""
    first, codes = done.stdout.splitlines()
    assert first.startswith("kvtool ")
    assert codes == "codes 1"
    done = shell(folder, f"{line} -g chat --json --per-request | true; echo codes ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("codes 0\n", "")
    done = shell(folder, "kvtool --help | true; echo codes ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("codes 0\n", "")


def test_closed_and_full_streams(folder: Path, bytes_json: str) -> None:
    line = f"kvtool profile w.yaml -g chat --dry-run -t {bytes_json}"
    done = shell(folder, f"{line} >&-")
    assert (done.returncode, done.stderr) == (2, "error: standard output is closed\n")
    done = shell(folder, f"{line} 2>&- <&-")
    assert done.returncode == 0
    assert done.stdout.startswith("kvtool ")
    assert shell(folder, f"{line} >&- 2>&- <&-").returncode == 2
    done = shell(folder, "kvtool profile - --dry-run <&-")
    assert done.returncode == 2
    assert done.stderr.startswith("error: -: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "command", ["--help", "profile w.yaml --dry-run -t TOKENIZER --json", "diff-prompts w.yaml w.yaml"]
)
def test_a_full_disk(command: str, folder: Path, bytes_json: str) -> None:
    done = shell(folder, f"kvtool {command.replace('TOKENIZER', bytes_json)} >/dev/full")
    assert done.returncode == 2
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process are asked of Linux")
@pytest.mark.parametrize("kilobytes", [60_000, 120_000])
def test_too_little_memory_to_import_anything(kilobytes: int, folder: Path) -> None:
    """With the second of these numpy's import never comes back."""
    done = shell(folder, f"ulimit -v {kilobytes}; kvtool profile w.yaml --dry-run")
    told = f"error: the limit of memory (ulimit -v) is {kilobytes >> 10} MiB; kvtool needs 384 MiB\n"
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.usefixtures("folder")
def test_memory_that_ends_is_no_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def ends(_: object) -> int:
        raise MemoryError

    monkeypatch.setattr(ProfileCommand, "run", ends)
    assert run(["profile", "w.yaml"]) == 2
    assert capsys.readouterr().err == "error: there is not enough memory\n"


def test_standard_input(folder: Path, bytes_json: str) -> None:
    record = json.dumps({"prompt": "a prompt of the usual kind, long enough for two blocks"})
    line = f"printf '%s\\n' '{record}' '{record}' | kvtool profile - --dry-run -t {bytes_json} --json"
    done = shell(folder, line)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["totals"]["requests"] == 2
    assert document["totals"]["hit_tokens"] == 48


# The measurement


@pytest.mark.engine
def test_the_report_stands_before_anything_is_measured(
    folder: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["profile", "w.yaml", "-t", bytes_json, "-g", "tenant", "--no-advice", "-n", "3"]
    assert run([*arguments, "--dry-run"]) == 0
    accounted, more = capsys.readouterr().out.split("  --details")
    assert more.count("\n") == 1
    finished: list[Report] = []
    standing: list[str] = []
    run_engine = Profiler.measured

    def measured(self: Profiler, report: Report) -> Report:
        standing.append(capsys.readouterr().out)
        finished.append(run_engine(self, report))
        return finished[0]

    monkeypatch.setattr(Profiler, "measured", measured)
    assert run([*arguments, "--measure-budget", "60"]) == 0
    assert standing == [accounted.replace(" --dry-run", " --measure-budget 60")]
    told = " ".join(capsys.readouterr().out.split())
    assert told.endswith("p99")
    assert re.match(
        r"TTFT p50 [\d.,]+ ms with the cache, [\d.,]+ ms without; measured on this machine \(cpu, torch kernels\) with ",
        told,
    )
    assert "the first 3 of 3 requests" in told
    times = finished[0].ttft.measured
    assert times is not None
    assert (times.complete, times.requests) == (True, 3)
    for side in (times.on, times.off):
        assert side is not None
        assert 0 < side.p50 <= side.p90 <= side.p99


@pytest.mark.engine
def test_a_document_for_a_program_has_what_was_measured(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["profile", "w.yaml", "-t", bytes_json, "-g", "tenant", "--no-advice", "-n", "3", "-q"]
    assert run([*arguments, "--measure-budget", "60", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ttft"]["measured"]["requests"] == 3
    assert run([*arguments, "--measure-budget", "60", "-o", "r.json"]) == 0
    assert "measured on this machine" in capsys.readouterr().out
    assert json.loads((folder / "r.json").read_text())["ttft"]["measured"]["requests"] == 3


def test_an_interrupted_measurement_ends_the_report(
    folder: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvtool.profiler.profiler.measure", interrupted)
    assert run(["profile", "w.yaml", "-t", bytes_json, "-g", "tenant", "--no-advice", "-n", "3"]) == 130
    out = capsys.readouterr().out
    assert out.index("Hit rate") < out.index("PARTIAL: interrupted")


def test_a_demand_comes_with_the_configuration_that_holds_it(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(bytes_json, folder / "bytes.json")
    asked = [
        "-t",
        "bytes.json",
        "-g",
        "chat",
        "-b",
        "32",
        "--capacity",
        "400",
        "-n",
        "20",
        "-s",
        "3",
        "--concurrency",
        "2",
    ]
    assert run(["profile", "w.yaml", "--dry-run", *asked]) == 0
    assert "kvtool.toml" not in capsys.readouterr().out
    rate = 0.01
    assert run(["profile", "w.yaml", "--dry-run", *asked, "--min-hit-rate", str(rate)]) == 0
    lines = capsys.readouterr().out.partition("then kvtool check:\n")[2].removesuffix("PASS 1 gate\n")
    config = tomllib.loads(lines)
    assert config == {
        "workloads": ["w.yaml"],
        "requests": 20,
        "seed": 3,
        "engine": {"tokenizer": "bytes.json", "block_size": 32, "capacity": "400", "concurrency": 2},
        "gate": {"hit_rate": "1%"},
    }
    (folder / "kvtool.toml").write_text(lines, encoding="utf-8")
    assert run(["check", "-g", "chat"]) == 0
    assert "PASS 1 gate" in capsys.readouterr().out


def test_a_template_is_no_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = "You help.\nNow: {{ now }}\n"
    for name in ("p.j2", "p.md", "p.txt"):
        (folder / name).write_text(template, encoding="utf-8")
        for command in ("profile", "optimize"):
            assert run([command, name]) == 2
            out, err = capsys.readouterr()
            assert (out, "Traceback" in err) == ("", False)
            assert re.match(rf"error: {name}(:2)?: this is a template", err)
            assert f"kvtool lint {name}" in err
            assert "kvtool init" in err
    (folder / "sent.txt").write_text("You help. It is ten o'clock.\n", encoding="utf-8")
    assert run(["profile", "p.txt", "sent.txt", "--dry-run"]) == 0  # a prompt that quotes one
