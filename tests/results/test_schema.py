"""JSON Schemas: what kvtool reads validates exactly where it loads, and what it writes has no key that its schema does not know."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from kvtool.cli.app import run
from kvtool.config.loading import load_config
from kvtool.diagnose import codes as known
from kvtool.errors import KvtoolError
from kvtool.results.schemas import SCHEMAS
from kvtool.text.files.yaml_document import parse_yaml
from kvtool.workload.yaml.fields import SEVERITIES
from kvtool.workload.yaml.validate import validate
from tests.files import write
from tests.results.documents import redumped

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "workloads").glob("*.yaml"))
Print = Callable[..., Any]


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Print:
    """Runs a command in an empty folder; gives the JSON document that it prints, which is what its model dumps."""
    monkeypatch.chdir(tmp_path)

    def start(*arguments: str) -> Any:
        capsys.readouterr()
        run([*arguments])
        said = capsys.readouterr()
        assert said.out, said.err
        if arguments[0] != "schema":
            assert redumped(said.out) == said.out
        return json.loads(said.out)

    return start


def closed(schema: Any) -> Any:
    """The schema with every object that names its keys closed to others."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema:
        changed.setdefault("additionalProperties", False)
    return changed


@lru_cache
def validator(name: str) -> Draft202012Validator:
    schema = closed(SCHEMAS[name].document())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def wrong(name: str, document: object) -> list[str]:
    """What is wrong with a document of kvtool's, unknown keys included."""
    found = validator(name).iter_errors(document)
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in found]


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one_and_says_what_fields_are(name: str, printed: Print) -> None:
    schema = printed("schema", name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == f"kvtool {name}"
    assert schema["description"]
    assert "$id" not in json.dumps(schema)
    if SCHEMAS[name].mode == "written" and name != "diff":
        assert schema["properties"]["schema"] == {"const": f"kvtool.{name}/1", "type": "string"} | (
            {"default": f"kvtool.{name}/1"} if "default" in schema["properties"]["schema"] else {}
        )
        assert "schema" in schema["required"]


def test_fields_that_people_write_are_all_described(printed: Print) -> None:
    for name in ("workload", "config"):
        schema = printed("schema", name)
        parts = [schema, *schema["$defs"].values()]
        silent = [
            key for part in parts for key, value in part.get("properties", {}).items() if "description" not in value
        ]
        assert silent == []


def test_a_name_that_is_none(printed: Print, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "worklod"]) == 2
    assert "did you mean `workload`" in capsys.readouterr().err
    assert set(printed("schema", "--json")) == set(SCHEMAS)
    assert run(["schema"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in SCHEMAS)


def test_examples_validate_as_workloads() -> None:
    for path in EXAMPLES:
        assert wrong("workload", yaml.safe_load(path.read_text(encoding="utf-8"))) == []


GROUP = "groups: [{name: a, text: hello}]"
WORKLOADS = [
    GROUP,
    "version: 1\n" + GROUP,
    "version: 2\n" + GROUP,
    "version: 1\nengine: {capacity: 20GiB, ttl: 5m, gpu_memory_utilization: 0.5}\n" + GROUP,
    "version: 1\nengine: {capacity: 20 lots}\n" + GROUP,
    "version: 1\nengine: {capacity: 320k tokens}\n" + GROUP,
    "version: 1\nengine: {ttl: soon}\n" + GROUP,
    "version: 1\nengine: {ttl: 1h30m}\n" + GROUP,
    "version: 1\nengine: {block_size: 0}\n" + GROUP,
    "version: 1\nengine: {block_size: '16'}\n" + GROUP,
    "version: 1\nengine: {gpu_memory: 24}\n" + GROUP,
    "version: 1\nengine: {enable_prefix_caching: 'yes'}\n" + GROUP,
    "version: 1\nengine: {routing: scenic}\n" + GROUP,
    "version: 1\nengine:\n" + GROUP,
    "version: 1\nseed: -1\n" + GROUP,
    "version: 1\nvars: {a: {uuid: 4}, b: {uuid: hex}, c: text, d: 3, e: {choice: [1, x]}, f: {range: [1, 2]}}\n"
    + GROUP,
    "version: 1\nvars: {a: {uuid: 5}}\n" + GROUP,
    "version: 1\nvars: {a: {range: [1]}}\n" + GROUP,
    "version: 1\nvars: {a: {choice: []}}\n" + GROUP,
    "version: 1\nvars: {a: {choice: [x, y], pick: {zipf: 1.1}}}\n" + GROUP,
    "version: 1\nvars: {a: {choice: [x, y], pick: {zipf: -1}}}\n" + GROUP,
    "version: 1\nvars: {a: {choice: [x, y], pick: often}}\n" + GROUP,
    "version: 1\ngroups: []",
    "version: 1\ngroups: [{name: ' a', text: x}]",
    "version: 1\ngroups: [{name: a, text: x, weigth: 1}]",
    "version: 1\ngroups: [{name: a, text: x, arrival: {process: poisson, rate: 8/s}}]",
    "version: 1\ngroups: [{name: a, text: x, arrival: {process: poisson, rate: often}}]",
    "version: 1\ngroups: [{name: a, text: x, gate: {hit_rate: '>=80%', reachable_gap: 5%, ttft_p90: 50ms}}]",
    "version: 1\ngroups: [{name: a, text: x, gate: {hit_rate: 0.8, level: 'off', findings: {KV101: warn, error: 'off'}}}]",
    "version: 1\ngroups: [{name: a, text: x, gate: {hit_rate: '<=80%'}}]",
    "version: 1\ngroups: [{name: a, text: x, gate: {reachable_gap: '>=80%'}}]",
    "version: 1\ngroups: [{name: a, text: x, gate: {hit_rate: 80}}]",
    "version: 1\ngroups: [{name: a, text: x, gate: {findings: {timestamp: warn}}}]",
    "version: 1\ngroups: [{name: a, text: x, gate: {findings: {KV101: maybe}}}]",
    "version: 1\ngroups: [{name: a, messages: [{role: system, text: x, stable: true}, {role: user, text: 12}]}]",
    "version: 1\ngroups: [{name: a, messages: [{role: robot, text: x}]}]",
    "version: 1\ngroups: [{name: a, messages: [{role: user, text: [x]}]}]",
    "version: 1\ntools: {file: t.json}\n" + GROUP,
    "version: 1\ntools: [{type: function}]\n" + GROUP,
    "version: 1\ntools: [function]\n" + GROUP,
]


def test_a_workload_validates_where_it_loads() -> None:
    for text in WORKLOADS:
        try:
            validate(parse_yaml(text, "w.yaml"), known)
            loads = True
        except KvtoolError:
            loads = False
        assert (wrong("workload", yaml.safe_load(text)) == []) is loads


CONFIGS = [
    "",
    'workloads = ["a.yaml"]\nseed = 1\nrequests = 5',
    '[gate]\nhit_rate = ">=80%"\nreachable_gap = "5 %"\nttft_p99 = "<=1.5s"\nfindings = {KV1 = "warn", info = "off"}',
    '[gate.groups."a b"]\nhit_rate = 0.5\nlevel = "warn"',
    '[check]\nbaseline = "b.json"\nmax_drop = "1%"\nrequire_baseline = true\nadvice = false',
    '[lint]\nselect = ["KV1"]\nerror_on = "warning"',
    '[engine]\ncapacity = "20GiB"\nblock_size = 32\nttl = 30',
    'workloads = "a.yaml"',
    "seed = -1",
    "seed = 1.5",
    "hit_rate = 1",
    "[gate]\nhit_rate = 80",
    '[gate]\nhit_rate = "80"',
    '[gate]\nttft_p50 = "0s"',
    '[gate]\nlevel = "fatal"',
    '[gate.groups]\na = "80%"',
    '[check]\nrequire_baseline = "yes"',
    '[lint]\nselect = ["error"]',
    "[engine]\nblock-size = 16",
]


def test_a_configuration_validates_where_it_loads(tmp_path: Path) -> None:
    for text in CONFIGS:
        path = write(str(tmp_path / "kvtool.toml"), text)
        try:
            load_config(path)
            loads = True
        except KvtoolError:
            loads = False
        found = wrong("config", tomllib.loads(text))
        # a JSON Schema cannot tell 80 of a text from 0.8, nor nothing from a time
        assert (found == []) is loads or '"80"' in text or '"0s"' in text


def test_the_schema_knows_how_findings_are_named() -> None:
    gate = {"gate": {"findings": dict.fromkeys([*known.codes(), "KV1", *SEVERITIES], "warn")}}
    assert wrong("config", gate) == []


WORKLOAD = """\
version: 1
engine: {capacity: 40 blocks}
vars: {now: {datetime: 1m}, n: {counter: 1}}
groups:
  - name: support
    requests: 12
    messages:
      - {role: system, text: "Now: {{ now }}. You are the agent of a shop; be short, be kind, be right, and be quick."}
      - {role: user, text: "Question {{ n }} about the shop?"}
    gate: {hit_rate: ">=80%"}
  - name: chat
    sessions: {count: 2, turns: 3, output_tokens: 20}
    messages:
      - {role: system, text: "You talk to people who plan a journey, and you know all trains of the country."}
      - {role: user, text: "And then {{ n }}?"}
"""


def test_reports_and_what_is_made_of_them(printed: Print, bytes_json: str) -> None:
    write("w.yaml", WORKLOAD)
    run_it = ("w.yaml", "-t", bytes_json)
    everything = (
        "--by",
        "line",
        "--boundaries",
        "--per-request",
        "--concurrency",
        "4",
        "--kv-cache-dtype",
        "fp8_e4m3",
        "--no-advice",
    )
    report = printed("profile", *run_it, "--dry-run", "--json", "-o", "a.json")
    assert wrong("report", report) == []
    assert report["findings"]
    assert wrong("report", printed("profile", *run_it, "--dry-run", "--json", *everything)) == []
    checked = printed("check", *run_it, "--json")
    assert wrong("check", checked) == []
    assert checked["verdict"]["outcome"] == "fail"
    run(["check", *run_it, "-q", "--update-baseline", "--baseline", "base.json"])
    assert wrong("baseline", json.loads(Path("base.json").read_text(encoding="utf-8"))) == []
    assert wrong("report", json.loads(Path("a.json").read_text(encoding="utf-8"))) == []
    assert wrong("compare", printed("compare", "a.json", "a.json", "--json")) == []


def test_lint_and_optimize(printed: Print, bytes_json: str) -> None:
    write("w.yaml", WORKLOAD)
    write("t.j2", "Now: {{ now }}. " + "Be short, be kind and be right. " * 20)
    write("build.py", "import time\nprint(f'It is {time.time()} and a long prompt follows ' + 'be kind ' * 60)\n")
    linted = printed("lint", "w.yaml", "t.j2", "-t", bytes_json, "--json")
    assert wrong("lint", linted) == []
    assert {one["evidence"] for one in linted["findings"]} == {"measured", "static"}
    probed = printed("lint", "--probe", "python build.py", "-t", bytes_json, "--json")
    assert wrong("lint", probed) == []
    assert probed["probe"]["leaks"]
    optimized = printed("optimize", "w.yaml", "-t", bytes_json, "--allow", "P2", "--breakpoints", "2", "--json")
    assert wrong("optimize", optimized) == []
    assert optimized["steps"]
    fixed = printed("lint", "w.yaml", "-t", bytes_json, "--fix", "--unsafe-fixes", "--undo", "undo.patch", "--json")
    assert wrong("lint", fixed) == []
    assert fixed["fixed"]["findings"]


def test_diff_explain_size_and_config(printed: Print, bytes_json: str) -> None:
    body = {"messages": [{"role": "system", "content": "x" * 40}, {"role": "user", "content": "hello"}]}
    for name, time in (("a", "10:15"), ("b", "10:16"), ("c", "10:17")):
        write(f"{name}.txt", f"It is {time}. " + "You are the agent of a shop. " * 4)
        body["messages"][0]["content"] = f"It is {time}. " + "x" * 60
        write(f"{name}.json", json.dumps(body))
    write("chat.jinja", "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}")
    common = ("-t", bytes_json, "--chat-template", "chat.jinja", "--json")
    for names in (("a.txt", "b.txt"), ("a.txt", "a.txt"), ("a.json", "b.json"), ("a.txt", "b.txt", "c.txt")):
        assert wrong("diff", printed("diff-prompts", *names, *common)) == []
        assert wrong("diff", printed("diff-prompts", *names, *common, "--tokens")) == []
    assert wrong("explain", printed("explain", "--json")) == []
    assert wrong("explain", printed("explain", "KV101", "--json")) == []
    assert wrong("size", printed("size", "llama-3.1-8b", "--json")) == []
    assert wrong("size", printed("size", "llama-3.1-70b", "--max-model-len", "8192", "--json")) == []
    write("kvtool.toml", '[gate]\nhit_rate = ">=1%"\n')
    assert wrong("settings", printed("config", "--json", "-b", "8")) == []
