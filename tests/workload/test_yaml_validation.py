"""Mistakes in a workload file: each is found, said in plain words, with its place; all at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError, ProblemsError
from kvtool.text.files.yaml_document import parse_yaml
from kvtool.text.quantities import (
    Capacity,
    parse_bytes,
    parse_capacity,
    parse_duration,
    parse_rate,
    parse_threshold,
)
from kvtool.workload.yaml.schema import Workload
from kvtool.workload.yaml.validate import validate
from kvtool.workload.yaml.yaml_source import load_yaml_workload

ONE_GROUP = "version: 1\ngroups:\n- name: a\n  text: hello\n"


def problems(source: str) -> list[KvtoolError]:
    """What is wrong with the shape of a workload."""
    with pytest.raises(KvtoolError) as caught:
        validate(parse_yaml(source, "w.yaml"))
    return caught.value.errors if isinstance(caught.value, ProblemsError) else [caught.value]


def load_problems(folder: Path, source: str) -> list[KvtoolError]:
    """What is wrong with a workload and the files it names."""
    path = folder / "w.yaml"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(KvtoolError) as caught:
        load_yaml_workload(str(path))
    return caught.value.errors if isinstance(caught.value, ProblemsError) else [caught.value]


def in_group(lines: str) -> str:
    return "version: 1\ngroups:\n- name: a\n" + "".join(f"  {line}\n" for line in lines.splitlines())


def test_an_unknown_key_has_its_place_and_a_suggestion() -> None:
    (error,) = problems(ONE_GROUP + "  requets: 4\n")
    assert (error.message, error.hint) == ("unknown key `requets` in groups[0]", "did you mean `requests`?")
    assert error.place is not None
    assert (str(error.place), error.place.excerpt, error.place.width) == ("w.yaml:5:3", "  requets: 4", 7)


def test_a_mistake_is_said_with_its_place() -> None:
    for source, place, message, hint in [
        ("groups: []\nversion: 1\n", "1:1", "groups: must not be empty", None),
        ("version: 1\n", "1:1", "`groups` is missing", None),
        (ONE_GROUP.replace("1", "2", 1), "1:10", "version: `2` is unknown", "version: 1"),
        (ONE_GROUP.replace("1", "'1'", 1), "1:10", "expected a whole number", "remove the quotes"),
        (ONE_GROUP + "<<: 1\n", "5:1", "unknown key `<<`", "merge keys"),
        (ONE_GROUP + "vars: [1]\n", "5:1", "vars: expected a mapping, got a list", None),
        (ONE_GROUP + "groups: 4\n", "5:1", "duplicate key `groups`", "line 2"),
        (ONE_GROUP + "- name: a\n  text: b\n", "5:9", "two groups are named `a`", "groups[0]"),
        (ONE_GROUP + "- just text\n", "5:3", "expected a mapping, got `just text`", None),
        (ONE_GROUP + "seed: -1\n", "5:7", "must be at least 0", None),
        (
            ONE_GROUP + "engine: {enable_prefix_caching: no}\n",
            "5:33",
            "expected true or false, got `no`",
            "`true` or `false`",
        ),
        (ONE_GROUP + "engine: {block_size: 0}\n", "5:22", "must be at least 1, got `0`", None),
        (ONE_GROUP + "engine: {capacity: 0}\n", "5:20", "whole number above zero", None),
        (ONE_GROUP + "engine: {capacity: 20 GoB}\n", "5:20", "is not a capacity", None),
        (ONE_GROUP + "engine: {gpu_memory_utilization: 1.5}\n", "5:34", "must be at most 1", None),
        (ONE_GROUP + "engine: {gpu_memory_utilization: .nan}\n", "5:34", "expected a number", None),
        (ONE_GROUP + "engine: {gpu_memory: 80}\n", "5:22", "is not a size", None),
        (in_group("text: a\nrequests: 0"), "5:13", "must be at least 1, got `0`", None),
        (in_group("text: a\nrequests: -3"), "5:13", "must be at least 1, got `-3`", None),
        (in_group("text: a\nrequests: many"), "5:13", "expected a whole number, got `many`", None),
        (in_group("text: a\nrequests: 1" + "0" * 5000), "5:13", "expected a whole number, got a long text", None),
        (in_group("text: [a]"), "4:3", "expected text, got a list", None),
        (in_group("text:"), "4:8", "expected text, got nothing", None),
        (in_group("requests: 4"), "3:3", "groups[0] has no prompts", "messages"),
        (in_group("text: a\nfile: b"), "5:3", "`text` and `file` in groups[0] exclude each other", None),
        (in_group("messages: []"), "4:3", "must not be empty", None),
        (
            in_group("messages: [{role: usr, text: a}]"),
            "4:21",
            "expected `system`, `developer`",
            "did you mean `user`?",
        ),
        (in_group("messages: [{role: user}]"), "4:14", "messages[0] has no text", "text, file, glob"),
        (
            in_group("messages: [{role: user, text: a, glob: b}]"),
            "4:36",
            "`text` and `glob` in messages[0] exclude",
            None,
        ),
        (
            in_group("messages: [{role: user, text: a, pick: cycle}]"),
            "4:36",
            "`pick` in messages[0] needs `glob`",
            None,
        ),
        (in_group("segments: [{id: s, text: a, file: b}]"), "4:31", "`text` and `file` in segments[0] exclude", None),
        (in_group("segments: [{text: a, stable: true, volatile: true}]"), "4:38", "both `stable` and `volatile`", None),
        (in_group("segments: [{id: s, text: a}, {id: s, text: a}]"), "4:37", "two segments have the id `s`", None),
        (in_group("text: a\njoin: x"), "5:3", "`join` has no effect with `text`", "segments"),
        (
            in_group("text: a\narrival: {process: posson, rate: 1/s}"),
            "5:22",
            "`uniform` or `burst`",
            "did you mean `poisson`?",
        ),
        (in_group("text: a\narrival: {process: uniform, rate: 8/x}"), "5:37", "is not a rate", None),
        (in_group("text: a\narrival: {process: uniform, rate: 0/s}"), "5:37", "must be above zero", None),
        (in_group("text: a\narrival: {process: uniform, rate: 1, start: soon}"), "5:47", "is not a duration", None),
        (in_group("text: a\narrival: {process: burst, rate: 1}"), "5:3", "needs `burst`", None),
        (in_group("text: a\narrival: {rate: 1}"), "5:3", "`process` is missing in groups[0].arrival", None),
        (in_group("sessions: {count: 1, turns: 1}"), "4:3", "`sessions` in groups[0] needs `messages`", None),
        (
            in_group("messages: [{role: system, text: a}]\nsessions: {count: 1, turns: 1}"),
            "4:21",
            "must be the user's",
            None,
        ),
        (
            in_group("messages: [{role: user, text: a}]\nsessions: {count: 1, turns: 0}"),
            "5:31",
            "must be at least 1",
            None,
        ),
        (
            in_group("generate: {prefixes: 1, per_prefix: 1, prefix_tokens: 1}"),
            "4:3",
            "`suffix_tokens` is missing",
            None,
        ),
        (
            in_group("generate: {prefixes: 1, per_prefix: 1, prefix_tokens: -1, suffix_tokens: 1}"),
            "4:57",
            "at least 0",
            None,
        ),
        (
            in_group("generate: {prefixes: 1, per_prefix: 1, prefix_tokens: 0, suffix_tokens: 0}"),
            "4:3",
            "prompts would be empty",
            None,
        ),
        (in_group("import: {}"), "4:3", "`import` names no files", "jsonl"),
        (in_group("import: {jsonl: a, txt: b}"), "4:22", "exclude each other", None),
        (
            in_group("import: {jsonl: a}\nrequests: 3"),
            "5:3",
            "`requests` has no effect with `import`",
            "use `limit`",
        ),
        (in_group("text: a\ngate: {hit_rate: 80}"), "5:20", "at most 100%", None),
        (in_group("text: a\ngate: {hit_rate: good}"), "5:20", "is not a threshold", None),
        (in_group("text: a\nvars: {x: {uuid: 5}}"), "5:20", "expected `4` or `hex`", None),
        (in_group("text: a\nvars: {x: {}}"), "5:10", "variable `x` has no values", "datetime"),
        (in_group("text: a\nvars: {x: {uuid: 4, counter: 1}}"), "5:23", "`uuid` and `counter` of variable `x`", None),
        (in_group("text: a\nvars: {x: {uuid: 4, step: 1}}"), "5:23", "`step` of variable `x` goes with counter", None),
        (in_group("text: a\nvars: {x: {choice: []}}"), "5:14", "must not be empty", None),
        (in_group("text: a\nvars: {x: {choice: [a], weights: [1, 2]}}"), "5:27", "1 choices but 2 weights", None),
        (in_group("text: a\nvars: {x: {choice: [a], weights: [-1]}}"), "5:37", "at least 0", None),
        (in_group("text: a\nvars: {x: {range: [1]}}"), "5:14", "needs 2 entries", None),
        (in_group("text: a\nvars: {x: {choice: [a], pick: zip}}"), "5:33", "expected `cycle`, `random`", None),
        (in_group("text: a\nvars: {x: {choice: [a], pick: {zipf: 0}}}"), "5:27", "above 0", None),
        (in_group("text: a\nvars: {x: {datetime: 1 fortnight}}"), "5:24", "is not a duration", None),
        (
            ONE_GROUP + "engine: {num_gpu_blocks: 9, gpu_memory: 80GiB}\n",
            "5:29",
            "both set the size of the cache",
            "remove one",
        ),
        (ONE_GROUP + "engine: {num_gpu_blocks: 1}\n", "5:26", "2", None),
        (
            ONE_GROUP + "engine: {capacity: 9, gpu_memory: 80GiB}\n",
            "5:23",
            "both set the size of the cache",
            "remove one",
        ),
        (in_group("text: a\nvars: {my-var: 1}"), "5:10", "cannot be a variable name", None),
        (
            in_group("text: a\nvars: {x: {uuid: 4, per: turn}}"),
            "5:28",
            "expected `request`, `session` or `workload`",
            None,
        ),
        (
            in_group("messages: [{role: user, text: a}]\ntools: [f]"),
            "5:3",
            "tools[0]: expected a function schema",
            None,
        ),
        ('version: 1\ngroups: [{name: "a\\e", text: b}]\n', "2:17", "control characters", None),
        (ONE_GROUP + 'seed: "\\uD800"\n', "5:7", "seed: expected a whole number, got `\\ud800`", None),
    ]:
        found = problems(source)
        assert [str(error.place) for error in found] == [f"w.yaml:{place}"], [error.message for error in found]
        assert message in found[0].message
        assert "pydantic" not in found[0].message
        assert hint is None or hint in str(found[0].hint)


def test_all_problems_are_said_at_once_in_the_order_of_the_file_and_at_most_twenty() -> None:
    found = problems("version: 2\nbogus: 1\nbogus: 2\ngroups:\n- {name: a, text: b, requests: x}\n- {name: a}\n")
    assert [str(error.place) for error in found] == [
        f"w.yaml:{place}" for place in ("1:10", "2:1", "3:1", "5:32", "6:3", "6:10")
    ]
    assert len(problems(ONE_GROUP + "".join(f"  bad{n}: 1\n" for n in range(50)))) == 20


def test_the_schema_is_strict_and_frozen() -> None:
    workload = validate(parse_yaml(ONE_GROUP + "engine: {capacity: 320k tokens, concurrency: 4}\n", "w"))
    assert workload.engine.capacity == Capacity(320_000, "tokens")
    assert (workload.engine.gpu_memory, workload.engine.concurrency) == (None, 4)
    with pytest.raises(ValueError, match="frozen"):
        workload.seed = 3  # type: ignore[misc]
    assert Workload.model_json_schema()["additionalProperties"] is False


def test_scalars_as_text_are_what_was_written() -> None:
    workload = validate(
        parse_yaml(in_group("text: 1.10\nvars: {t: 12:30:45, n: no, c: {choice: [1.0, 0x10, true]}}"), "w")
    )
    group = workload.groups[0]
    assert group.text == "1.10"
    assert (group.vars["t"].text, group.vars["n"].text, group.vars["c"].choice) == (
        "12:30:45",
        "no",
        ["1.0", "0x10", "true"],
    )


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for data, message in [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"version: 1\nname: caf\xe9\n", "is not UTF-8: byte 0xe9"),
        ("version: 1\n".encode("utf-16"), "is UTF-16"),
        ("version: 1\n".encode("utf-16-be"), "is a binary file"),
        (b"\x7fELF\x00\x01", "is a binary file"),
    ]:
        path = tmp_path / "w.yaml"
        path.write_bytes(data)
        with pytest.raises(KvtoolError, match=message) as caught:
            load_yaml_workload(str(path))
        assert caught.value.place is not None
        if b"\xe9" in data:
            assert str(caught.value.place) == f"{path}:2:10"


def test_missing_files_and_directories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "work.yaml").write_text(ONE_GROUP)
    with pytest.raises(KvtoolError, match="no such file") as caught:
        load_yaml_workload(str(tmp_path / "wrok.yaml"))
    assert "work.yaml" in str(caught.value.hint)
    with pytest.raises(KvtoolError, match="is a directory"):
        load_yaml_workload(str(tmp_path))


def test_what_the_workload_names_is_checked_before_any_prompt(tmp_path: Path) -> None:
    (tmp_path / "latin.md").write_bytes(b"ol\xe9\n")
    (tmp_path / "empty.md").write_bytes(b"")
    (tmp_path / "bin.md").write_bytes(b"a\0b")
    (tmp_path / "bad.jsonl").write_text('{"q": "fine"}\n{"q": \n')
    (tmp_path / "tools.json").write_text('[{"a": 1},\n oops]')
    found = load_problems(
        tmp_path,
        """version: 1
vars:
  now: {datetime: 1m, format: never}
  at: {datetime: 1m, start: yesterday}
  none: {file: none.txt}
  bad: {file: bad.jsonl, key: q}
  zero: {choice: [a], weights: [0]}
  back: {range: [5, 1]}
  later: {uuid: 4}
tools: {file: tools.json}
groups:
- name: a
  messages:
  - {role: user, file: latin.md}
  - {role: user, file: empty.md}
  - {role: user, file: bin.md}
  - {role: user, file: .}
  - {role: user, glob: "*.nothing"}
  - {role: user, text: "say {{ latre }}"}
  - role: user
    text: |
      first line
      then {{ unheard_of }} here
  - {role: user, text: "{{ ''.__class__.__mro__ }}"}
  - {role: user, text: "{% if %}"}
  tenant: "{{ now }}"
""",
    )
    here = str(tmp_path)
    said = [(str(error.place).removeprefix(here + "/"), error.message.replace(here + "/", "")) for error in found]
    assert said[:13] == [
        ("bad.jsonl:2:7", "not JSON"),
        ("latin.md:1:3", "`latin.md` is not UTF-8: byte 0xe9"),
        ("tools.json:2:2", "not JSON: Expecting value"),
        ("w.yaml:3:31", "`never` is not a date format"),
        ("w.yaml:4:29", "`yesterday` is not a date and time"),
        ("w.yaml:5:16", "no such file `none.txt`"),
        ("w.yaml:7:23", "the weights are all zero"),
        ("w.yaml:8:10", "the range ends at 1, before its start 5"),
        ("w.yaml:15:24", "`empty.md` is empty"),
        ("w.yaml:16:24", "`bin.md` is a binary file, not text"),
        ("w.yaml:17:24", f"`{here}` is a directory, not a file"),
        ("w.yaml:18:24", "no file matches `*.nothing`"),
        ("w.yaml:19:32", "template: undefined variable `latre`"),
    ]
    by_line = {error.place.line: error for error in found if error.place and error.place.path.endswith("w.yaml")}
    assert by_line[19].hint == "did you mean `later`?"
    undefined = by_line[23]
    assert undefined.place is not None
    assert (undefined.place.column, undefined.place.width) == (15, 10)
    assert undefined.place.excerpt == "      then {{ unheard_of }} here"
    assert "unsafe" in by_line[24].message
    assert "raw: true" in str(by_line[25].hint)
    assert len(found) == 16


def test_templates_cannot_escape_or_run_forever(tmp_path: Path) -> None:
    for source in [
        "{{ ''.__class__ }}",
        "{{ x.__init__.__globals__ }}",
        "{{ ''['__class__'] }}",
        "{{ ''|attr('__class__') }}",
        "{% for i in range(10**9) %}x{% endfor %}",
        "{{ 'x' * 10**12 }}",
    ]:
        (error,) = load_problems(tmp_path, in_group(f'text: "{source}"\nvars: {{x: y}}'))
        assert error.place is not None
        assert (error.place.line, error.place.excerpt) == (4, f'  text: "{source}"')


def test_a_clock_that_leaves_the_calendar_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(in_group("text: '{{ t }}'\nrequests: 3\nvars: {t: {datetime: 52w, start: '9998-06-01T00:00:00Z'}}"))
    source = load_yaml_workload(str(path))
    first, second, third = source.conversations()
    assert first.next_turn(None) is not None
    assert second.next_turn(None) is not None
    with pytest.raises(KvtoolError, match="exceeds the calendar at request 2"):
        third.next_turn(None)


values = st.recursive(
    st.one_of(
        st.integers(-3, 3).map(str),
        st.sampled_from(["x", "''", "~", "1.5", "true", "8/s", "{{ x }}", "'{{ x }}'", "20GiB"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(
            st.sampled_from(sorted({"name", "text", "file", "role", "zipf", "count", "uuid", "process", "x"})),
            inner,
            max_size=3,
        ).map(lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"),
    ),
    max_leaves=6,
)
KEYS = [
    "requests",
    "tenant",
    "arrival",
    "messages",
    "segments",
    "text",
    "generate",
    "import",
    "tools",
    "sessions",
    "vars",
    "gate",
    "pick",
]


@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=4))
def test_any_group_is_valid_or_one_kvtool_error(group: dict[str, str]) -> None:
    source = "version: 1\ngroups:\n- name: a\n" + "".join(f"  {key}: {value}\n" for key, value in group.items())
    errors: list[KvtoolError] = []
    try:
        validate(parse_yaml(source, "w.yaml"))
    except ProblemsError as several:
        errors = several.errors
    except KvtoolError as error:
        errors = [error]
    assert all(error.place is not None and error.place.excerpt for error in errors)


def test_durations() -> None:
    for text, seconds in [
        ("90s", 90),
        ("1m", 60),
        ("250ms", 0.25),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2.5", 2.5),
        ("1d", 86400),
        ("2 min", 120),
    ]:
        assert parse_duration(text) == seconds


def test_rates_sizes_capacities_and_thresholds() -> None:
    assert (parse_rate("8/s"), parse_rate("120/min"), parse_rate("3"), parse_rate("36/h")) == (8, 2, 3, 0.01)
    assert (parse_bytes("20GiB"), parse_bytes("1.5 GB"), parse_bytes("4kib")) == (20 * 2**30, 1_500_000_000, 4096)
    assert parse_capacity("20000") == parse_capacity("20k blocks") == Capacity(20_000, "blocks")
    assert (parse_capacity("320k tokens"), parse_capacity("1 GiB")) == (
        Capacity(320_000, "tokens"),
        Capacity(2**30, "bytes"),
    )
    assert parse_threshold("80%") == parse_threshold(">=0.8") == parse_threshold(">= 80 %") == 0.8
    with pytest.raises(ValueError, match="is not a threshold"):
        parse_threshold("<80%")


def test_bad_amounts_are_value_errors() -> None:
    for text in ["", "-1s", "1x", "s", "1m!", "1" * 1000]:
        for parse in (parse_duration, parse_rate, parse_bytes, parse_capacity, parse_threshold):
            with pytest.raises(ValueError, match=r"."):
                parse(text)


@pytest.mark.parametrize("form", ["none", "{} of {}"])
def test_a_counter_in_a_text_has_one_place(tmp_path: Path, form: str) -> None:
    text = f"version: 1\nvars:\n  n: {{counter: 1, format: '{form}'}}\ngroups:\n- {{name: a, requests: 1, text: '{{{{ n }}}}'}}\n"
    (error,) = load_problems(tmp_path, text)
    assert str(error.place).endswith(":3:27")
    assert error.message == f"`{form}` has no single place for the number"
