"""Result files: what was saved is read again as it was; what is no result is told with its place."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.ledger.fates import FATES
from kvtool.errors import KvtoolError, ProblemsError
from kvtool.report.registry import FORMATS
from kvtool.report.terminal.any_result import check_report
from kvtool.report.terminal.profile import print_profile
from kvtool.report.write_options import WriteOptions
from kvtool.results import files
from kvtool.results.document_base import dump
from kvtool.results.files import load_result
from kvtool.results.finding import ExamplePair, Finding, Snippet
from kvtool.results.limit_text import limit_text, text_in
from kvtool.results.wrap import check_of
from kvtool.text.terminal.console import make_console
from tests.conftest import Command
from tests.files import write
from tests.made_results import finding as made_finding
from tests.made_results import report as made_report
from tests.made_results import result as made_result

WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}
groups:
  - name: support
    requests: 12
    segments:
      - {id: clock, text: "Now: {{ now }}\\n"}
      - {id: rules, text: "Answer in one sentence, and in the language of the customer, whatever it may be."}
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, bytes_json: str) -> dict[str, Any]:
    """The document of a profile."""
    from kvtool.cli.app import run

    folder = tmp_path_factory.mktemp("saved")
    write(str(folder / "w.yaml"), WORKLOAD)
    out = folder / "r.json"
    assert (
        run(["profile", str(folder / "w.yaml"), "--dry-run", "-q", "-t", bytes_json, "-o", str(out), "-o", "md"]) == 0
    )
    document: dict[str, Any] = json.loads(out.read_text())
    return document


@pytest.fixture
def document(saved: dict[str, Any]) -> dict[str, Any]:
    """A copy of it, to be spoiled."""
    copy: dict[str, Any] = json.loads(json.dumps(saved))
    return copy


@pytest.fixture
def save(tmp_path: Path) -> Callable[[object], str]:
    def write_it(value: object) -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return write(str(tmp_path / "r.json"), data)

    return write_it


Save = Callable[[object], str]


def complaint(path: str) -> str:
    """What is said of a file that is no result."""
    with pytest.raises(KvtoolError) as caught:
        load_result(path)
    errors = caught.value.errors if isinstance(caught.value, ProblemsError) else [caught.value]
    assert all(error.exit_code == 2 and error.place is not None for error in errors)
    return "\n".join(f"{error.place}: {error.message} ({error.hint})" for error in errors).replace(path, "r.json")


def test_a_small_file_that_unpacks_to_much_is_refused(save: Save) -> None:
    said = complaint(save(gzip.compress(b'{"a": [' + b"[]," * (10 << 20))))
    assert "unpacks to more than 200 times its size" in said
    assert "truncated" in complaint(save(gzip.compress(b'{"a": [' + b"[]," * (1 << 20))))


def test_a_profile_comes_back_as_it_was(saved: dict[str, Any], save: Save) -> None:
    result = load_result(save(saved))
    assert result.command == "profile"
    assert result.verdict.outcome == "none"
    assert json.loads(dump(result.reports[0])) == saved
    assert result.findings == result.reports[0].findings


def test_of_fates_with_as_many_tokens_the_first_on_the_ladder_is_told_first(saved: dict[str, Any], save: Save) -> None:
    (report,) = load_result(save(saved)).reports
    assert list(report.fates) == sorted(report.fates) != [fate for fate in FATES if fate in report.fates]
    equal = report.model_copy(update={"fates": dict.fromkeys(sorted(FATES), 7)})
    file = StringIO()
    print_profile(make_console(file=file, color="never", width=100), equal)
    told = re.findall(r"^    ([a-z' ,()-]+?)  .* 7 +[\d.]+%", file.getvalue(), re.MULTILINE)
    assert told == list(FATES.values())


def test_a_check_comes_back_as_it_was(saved: dict[str, Any], save: Save) -> None:
    profile = load_result(save(saved))
    check = profile.model_copy(update={"command": "check", "reports": [*profile.reports, *profile.reports]})
    text = FORMATS["json"].write(check, WriteOptions())
    assert json.loads(text)["schema"] == "kvtool.check/1"
    assert load_result(save(text.encode())) == check


def test_loose_findings_are_those_of_no_report() -> None:
    own, other = made_finding(line=3), made_finding(line=4)
    result = made_result("pass", "", made_report(findings=[own]), findings=[own, other])
    assert result.loose_findings() == [other]


def test_a_lint_run_comes_back_with_its_findings(in_folder: Command) -> None:
    write("w.yaml", WORKLOAD)
    write("t.j2", "Now: {{ now() }}\n" + "Answer in one sentence. " * 40)
    code, out, _ = in_folder("lint", "w.yaml", "t.j2", "--json")
    document = json.loads(out)
    result = load_result(write("lint.json", out))
    assert (code, result.command, result.inputs) == (1, "lint", ["t.j2", "w.yaml"])
    assert (result.verdict.outcome, result.verdict.exit_code) == ("fail", 1)
    assert [(found.code, found.line, found.in_source) for found in result.findings] == [
        (found["code"], found["line"], found["in_source"]) for found in document["findings"]
    ]
    proven = [found for found in result.findings if found.rerun is not None]
    assert proven
    assert proven[0].rerun is not None
    assert proven[0].rerun.group_alone is not None


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: b"\xef\xbb\xbf" + data])
def test_compressed_or_with_a_byte_order_mark(
    pack: Callable[[bytes], bytes], saved: dict[str, Any], save: Save
) -> None:
    assert load_result(save(pack(json.dumps(saved).encode()))).reports[0].workload.endswith("w.yaml")


def test_from_standard_input(saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"\xef\xbb\xbf" + json.dumps(saved).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert load_result("-").reports[0].totals.requests == 12
    monkeypatch.setattr(sys, "stdin", io.StringIO("{"))
    with pytest.raises(KvtoolError, match="truncated") as caught:
        load_result("-")
    assert str(caught.value.place) == "<stdin>"


def test_keys_of_a_newer_kvtool_are_passed_over(document: dict[str, Any], save: Save) -> None:
    document["moods"] = {"of": "the cache"}
    document["totals"]["joy"] = 1
    document["groups"][0]["weather"] = "fine"
    assert load_result(save(document)).reports[0].totals.requests == 12


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "r.json: the file is empty"),
        (b" \n", "r.json: the file is empty"),
        (b"\x00\x01\x02", "r.json: this is not JSON"),
        (b"version: 1\ngroups: []", "r.json: this is not JSON"),
        (b'{"schema": "kvtool.report/1", "totals": {"requ', "the file is truncated"),
        (b'{"a": 1,\n "b": NaN}', "r.json:2:7: NaN and Infinity are not JSON"),
        (b'{"a": -Infinity}', "NaN and Infinity are not JSON"),
        (b'{"a": 1,\n "b": }', "r.json:2:"),
        ("{'a': 'é'}".encode(), "r.json:1:2: not JSON"),
        (b'{"a":\n "\xff\xfe"}', "r.json:2:3: `r.json` is not UTF-8: byte 0xff"),
        (b'{"schema": "kvtool.report/1",\n "\xed\xa0\x80": 1}', "r.json:2:3: `r.json` is not UTF-8: byte 0xed"),
        (b"[1, 2]", "this is not a result of kvtool: it is a list"),
        (b'"text"', "it is a text"),
        (b'{"a": 1}', "this is not a result of kvtool: it has no `schema`"),
        (b'{"schema": 1}', "it has no `schema`"),
        (b'{"schema": "kvtool.report/2"}', "`kvtool.report/2`: written by a newer kvtool than "),
        (b'{"schema": "kvtool.check/10"}', "written by a newer kvtool"),
        (b'{"schema": "kvtool.report/x"}', "did you mean `kvtool.report/1`?"),
        (b'{"schema": "kvtool.bench/1"}', "this is a result of kvtool bench"),
        (b'{"schema": "kvtool.baseline/1"}', "this is a baseline"),
        (b'{"kind": "kvtool-calibration", "version": 1}', "this is a calibration"),
        (b'{"schema": "https://json.schemastore.org/sarif-2.1.0.json"}', "which is not the schema of a result"),
        (b"[" * 100_000, "r.json"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "r.json"),
        (gzip.compress(b'{"schema": "kvtool.report/1"}', mtime=0)[:-8], "the compressed file is damaged"),
    ],
)
def test_what_is_no_result(data: bytes, said: str, save: Save) -> None:
    told = complaint(save(data))
    assert said in told
    assert len(told) < 400


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("totals", "requests"), "many", "/totals/requests: it should be a valid integer"),
        (("totals", "requests"), -1, "/totals/requests: it should be greater than or equal to 0"),
        (("totals", "hit_rate"), 1.5, "/totals/hit_rate: it should be less than or equal to 1"),
        (("groups", 0, "name"), None, "/groups/0/name: it should be a valid string"),
        (("groups", 0, "fates"), {"a/b~c": -2}, "/groups/0/fates/a~1b~0c: it should be greater"),
        (("config", "seed"), [0], "/config/seed: it should be a text, a number, true, false or null"),
        (("findings",), {}, "/findings: it should be a valid list"),
        (("findings", 0, "severity"), "fatal", "/findings/0/severity: it should be 'error', 'warning' or 'info'"),
        (("ttft",), ..., "/ttft: it is missing"),
    ],
)
def test_wrong_values_are_told_with_a_pointer(
    path: tuple[str | int, ...], value: object, said: str, document: dict[str, Any], save: Save
) -> None:
    owner: Any = document
    for step in path[:-1]:
        owner = owner[step]
    if value is ...:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value
    told = complaint(save(document))
    assert re.match(rf"r\.json:1:\d+: {re.escape(said)}", told)
    assert "\n" not in told


def test_a_wrong_value_of_a_file_of_many_lines_has_its_own(document: dict[str, Any], save: Save) -> None:
    document["totals"]["requests"] = "many"
    text = json.dumps(document, indent=1)
    lines = text.splitlines()
    line = next(number for number, each in enumerate(lines, 1) if '"many"' in each)
    column = lines[line - 1].index('"many"') + 1
    assert complaint(save(text.encode())).startswith(f"r.json:{line}:{column}: /totals/requests: ")


def test_a_large_file_has_pointers_alone(document: dict[str, Any], save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    document["totals"]["requests"] = "many"
    monkeypatch.setattr(files, "_MOST_PLACED", 100)
    assert complaint(save(document)).startswith("r.json: /totals/requests: ")


def test_several_wrong_values_are_told_at_once(document: dict[str, Any], save: Save) -> None:
    document["totals"] = {}
    told = complaint(save(document)).splitlines()
    assert len(told) == 12
    assert re.fullmatch(r"r\.json:1:\d+: /totals/requests: it is missing \(None\)", told[0])


def test_a_wrong_finding_of_lint_has_its_number(save: Save) -> None:
    told = complaint(save({"schema": "kvtool.lint/1", "findings": [{"code": 1}]}))
    assert told.startswith("r.json:1:51: /findings/0/code: it should be a valid string")
    assert "/findings/0" in complaint(save({"schema": "kvtool.lint/1", "findings": None}))


def test_a_file_that_is_too_large(monkeypatch: pytest.MonkeyPatch, save: Save) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    path = save(gzip.compress(b" " * (1 << 21)))
    assert Path(path).stat().st_size < 1 << 20
    assert "it is larger than 1 MiB" in complaint(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "no such file" in complaint(str(tmp_path / "none.json"))
    assert "this is a directory" in complaint(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("kv_cache", "block_size"), 0, "/kv_cache/block_size"),
        (("config", "capacity_blocks"), "lots", "/config/capacity_blocks"),
        (("totals", "prompt_tokens"), 1, "/totals/prompt_tokens: it is 1, and its groups have"),
        (("fates", "hit"), 0, "/fates: they sum to"),
        (("groups", 0, "fates", "lunch"), 1, "unknown row `lunch`"),
        (("totals", "hit_rate"), 0.99, "/totals/hit_rate: it is 0.9900, and its tokens say"),
        (("groups", 0, "reachable_hit_rate"), 0.99, "/groups/0/reachable_hit_rate: it is 0.9900"),
        (("groups", 0, "alignment", "whole_blocks"), 99, "/groups/0/alignment: blocks and the rest are not"),
        (("groups", 0, "turns"), [{"turn": 10**12, "requests": 1, "prompt_tokens": 1, "hit_tokens": 0}], "turn"),
        (("boundaries", 0, "left_over"), [], "/boundaries/0/left_over: it is empty"),
        (("boundaries", 0, "left_over"), [{"tokens": 99, "requests": 1}], "99 tokens are more than a block"),
        (("causes", 0, "group"), "nobody", "there is no group `nobody`"),
        (("absent_fates",), ["blocked"], "/absent_fates: this set is not possible"),
    ],
)
def test_figures_that_contradict_each_other_are_not_shown(
    path: tuple[str | int, ...], value: object, said: str, document: dict[str, Any], save: Save
) -> None:
    owner: Any = document
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = value
    report = load_result(save(document)).reports[0]
    with pytest.raises(KvtoolError, match="the result contradicts itself") as caught:
        check_report(report)
    assert said in caught.value.message


def test_no_more_text_is_shown_than_was_asked_for(saved: dict[str, Any], save: Save) -> None:
    report = load_result(save(saved)).reports[0]
    snippet = Snippet(text="Now: {{ now }}, key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", start=5, stop=14)
    first: Finding = report.findings[0].model_copy(update={"snippet": snippet, "patch": "--- a\n+++ b\n"})
    result = check_of(report.model_copy(update={"findings": [first, *report.findings[1:]]}))
    assert text_in(result) == "full"
    assert limit_text(result, None) == limit_text(result, "full") == result
    shorter = limit_text(result, "snippet")
    assert text_in(shorter) == "snippet"
    for found in (shorter.findings[0], shorter.reports[0].findings[0]):
        assert found.patch is None
        assert found.snippet is not None
        assert "sk-proj" not in found.snippet.text
        assert found.snippet.text[found.snippet.start : found.snippet.stop] == "{{ now }}"
    assert text_in(limit_text(result, "none")) == "none"


def test_lines_of_a_pair_are_no_more_than_asked_for() -> None:
    line = Snippet(text="Id: 12, key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", start=4, stop=6)
    pair = ExamplePair(was="a:1", now="a:2", command="kvtool diff-prompts a:1 a:2", was_line=line, now_line=line)
    made = made_result("none", "", made_report(findings=[made_finding(example=pair)]))
    assert text_in(made) == "snippet"
    shorter = limit_text(made, "snippet")
    for found in (shorter.findings[0], shorter.reports[0].findings[0]):
        assert found.example is not None
        for one in (found.example.was_line, found.example.now_line):
            assert one is not None
            assert "sk-proj" not in one.text
            assert one.text[one.start : one.stop] == "12"
    bare = limit_text(made, "none")
    assert text_in(bare) == "none"
    for found in (bare.findings[0], bare.reports[0].findings[0]):
        assert found.example == pair.model_copy(update={"was_line": None, "now_line": None})
