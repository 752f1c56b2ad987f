"""`kvtool check --tighten`: what it raises, what it leaves, and that nothing else of the file changes."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.config.loading import load_config
from kvtool.results.gate_words import gate_percent
from tests.conftest import Command
from tests.files import write

SAME = 'version: 1\ngroups:\n  - {name: g, text: "always the very same text of some length", requests: 4}\n'
HALF = (
    'version: 1\nvars: {n: {uuid: 4}}\ngroups:\n  - {name: g, text: "always the very same text of some length", requests: 4}\n'
    '  - {name: h, text: "{{ n }} another text", requests: 4}\n'
)
GATE = "# our gates\nworkloads = ['w.yaml']  # one\n\n[gate]\nhit_rate   =  '>=10%'   # raised by hand once\nfindings = {}\n"


@pytest.fixture
def tighten(in_folder: Command) -> Command:
    write("w.yaml", SAME)
    return lambda *arguments: in_folder("check", "-q", "--tighten", *arguments)


def rate(in_folder: Command, group: str | None = None) -> int:
    _, out, _ = in_folder("profile", "w.yaml", "--dry-run", "--json")
    report = json.loads(out)
    each = report["totals"] if group is None else next(one for one in report["groups"] if one["name"] == group)
    return int(100 * each["hit_rate"])


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_gate_is_never_above_the_rate_and_keeps_nine_tenths_of_it(part: int, more: int) -> None:
    share = Fraction(part, part + more)
    for rate in (share, float(share)):
        gate = Fraction(gate_percent(rate)) / 100
        assert gate <= share
        assert gate >= share * Fraction(9, 10) or share < Fraction(1, 100)
        assert gate > 0 or share < Fraction(1, 1000)
        assert gate.denominator <= 100 or share < Fraction(1, 10)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_only_the_rate_changes(end: str, mark: str, tighten: Command, in_folder: Command) -> None:
    before = (mark + GATE.replace("\n", end)).removesuffix(end)
    write("kvtool.toml", before)
    today = rate(in_folder)
    assert today > 50
    code, out, err = tighten()
    assert (code, err) == (0, "")
    after = Path("kvtool.toml").read_bytes().decode()
    assert after == before.replace(">=10%", f">={today}%")
    assert f"kvtool.toml:5:15: hit rate of all requests: 10.0% -> {today}.0%" in " ".join(out.split())
    assert "-hit_rate   =  '>=10%'   # raised by hand once" in out
    assert f"+hit_rate   =  '>={today}%'   # raised by hand once" in out
    code, out, _ = tighten()
    assert code == 0
    assert "kvtool.toml: no gate can be raised" in out
    assert Path("kvtool.toml").read_bytes().decode() == after
    assert in_folder("check", "-q")[0] == 0


@pytest.mark.parametrize(
    ("written", "raised"),
    [
        ("0.1", "{ratio}"),
        ('"10 %"', '"{} %"'),
        ('"0.10"', '"{ratio}"'),
        ("1e-1", '">={}%"'),
        ('"""10%"""', '"""{}%"""'),
    ],
)
def test_a_rate_is_written_as_it_was(written: str, raised: str, tighten: Command, in_folder: Command) -> None:
    write("kvtool.toml", f"workloads = ['w.yaml']\ngate = {{hit_rate = {written}, level = 'warn'}}\n")
    today = rate(in_folder)
    assert tighten()[0] == 0
    wanted = raised.format(today, ratio=today / 100)
    assert Path("kvtool.toml").read_text() == (
        f"workloads = ['w.yaml']\ngate = {{hit_rate = {wanted}, level = 'warn'}}\n"
    )


def test_groups_are_raised_each_to_its_own_rate_and_pyproject_too(tighten: Command, in_folder: Command) -> None:
    write("w.yaml", HALF)
    write(
        "pyproject.toml",
        "[tool.kvtool]\nworkloads = ['w.yaml']\n[tool.kvtool.gate]\nhit_rate = '1%'\n"
        "[tool.kvtool.gate.groups.g]\nhit_rate = '20%'\n[tool.kvtool.gate.groups.\"h\"]\nlevel = 'warn'\n",
    )
    assert tighten()[0] == 0
    gate = load_config("pyproject.toml").config.gate
    assert gate.hit_rate == rate(in_folder) / 100
    assert gate.groups["g"].hit_rate == rate(in_folder, "g") / 100
    assert gate.groups["h"].hit_rate is None


INIT = """\
workloads = [
  "w.yaml",  # hit rate 12.3% with made-up values
]
[gate]
# KV101 p.j2:2:15 (`now`) loses most: 20,110 tokens, 13.4% of all prompt tokens.
# KV101 of the other team stays
hit_rate = ">=0%"  # a workload reuses nothing today

[gate.groups.g]
hit_rate = "1%"

# No gate, since they reuse less than 1% today: h, later, never

[lint]
inputs = ["."]
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("table", ["", "tool.kvtool."])
def test_groups_without_a_limit_get_one_and_comments_of_init_tell_today(
    end: str, table: str, tighten: Command, in_folder: Command
) -> None:
    """The new tables are after the other gates; a group that reuses nothing has none, and other comments stay."""
    write("w.yaml", HALF + '  - {name: "the later one", text: "always the very same text", requests: 4}\n')
    head, name = (f"[{table[:-1]}]\n", "pyproject.toml") if table else ("", "kvtool.toml")
    write(name, (head + INIT.replace("\n[", f"\n[{table}")).replace("\n", end))
    code, out, err = tighten()
    assert (code, err) == (0, "")
    rates = {group: rate(in_folder, group) for group in ("g", "the later one")}
    text = Path(name).read_bytes().decode()
    assert text.count("\n") == text.count(end)
    lines = text.split(end)
    gate = load_config(name).config.gate
    assert {group: options.hit_rate for group, options in gate.groups.items()} == {
        group: each / 100 for group, each in rates.items()
    }
    at = lines.index(f'[{table}gate.groups."the later one"]')
    assert lines.index(f"[{table}gate.groups.g]") < at < lines.index(f"[{table}lint]")
    assert lines[at + 1] == f'hit_rate = ">={rates["the later one"]}%"'
    assert f"hit rate of the later one: {rates['the later one']}% (new)" in " ".join(out.split())
    assert "# No gate, since they reuse less than 0.1% today: h" in lines
    assert "# KV101 of the other team stays" in lines
    assert "20,110" not in text
    assert "nothing is reused" not in text
    total = json.loads(in_folder("profile", "w.yaml", "--dry-run", "--json")[1])["totals"]["hit_rate"]
    assert f'  "w.yaml",  # hit rate {100 * total:.1f}% with made-up values' in lines
    said = [line for line in out.splitlines() if line]
    at = said.index(f"Written: {name}")
    assert said[at + 1] == "Next: check against the new limits, here and in CI:"
    assert said[at + 2].startswith("  kvtool check ")
    assert "--tighten" not in " ".join(said[at:])
    places = re.findall(rf"{name}:(\d+):\d+: hit rate", out)
    assert all("hit_rate" in lines[int(line) - 1] for line in places)
    assert len(places) == 3


def test_no_group_gets_a_limit_where_none_has_one_or_where_no_table_can_be(tighten: Command) -> None:
    write("w.yaml", HALF)
    for gate in ("[gate]\nhit_rate = '1%'\n", "[gate]\nhit_rate = '1%'\ngroups = {x = {hit_rate = '1%'}}\n"):
        write("kvtool.toml", "workloads = ['w.yaml']\n" + gate.replace("x =", "h ="))
        tighten()
        assert "gate.groups.g" not in Path("kvtool.toml").read_text()


def test_a_check_far_above_its_limits_leads_to_tighter_ones(tighten: Command, in_folder: Command) -> None:
    write("kvtool.toml", GATE)
    said = in_folder("check")[1]
    assert "Next: raise the limits to today's rates:\n  kvtool check " in said
    assert said.endswith("--tighten\n")
    assert "--tighten" not in in_folder("check", "w.yaml")[1]  # which would refuse that
    tighten()
    assert "Next:" not in in_folder("check")[1]


def test_the_lowest_of_several_workloads_holds(tighten: Command, in_folder: Command) -> None:
    write("other.yaml", HALF)
    write("kvtool.toml", "workloads = ['w.yaml', 'other.yaml']\n[gate]\nhit_rate = '1%'\n")
    assert tighten()[0] == 0
    held = load_config("kvtool.toml").config.gate.hit_rate
    assert held is not None
    assert held < rate(in_folder) / 100
    assert in_folder("check", "-q")[0] == 0


def test_a_gate_that_fails_is_not_loosened_and_others_are_raised(tighten: Command, in_folder: Command) -> None:
    write("w.yaml", HALF)
    write(
        "kvtool.toml",
        "workloads = ['w.yaml']\n[gate]\nhit_rate = '99%'\n[gate.groups.g]\nhit_rate = '20%'\n",
    )
    code, out, _ = tighten()
    assert code == 1
    assert "FAIL" in out
    gate = load_config("kvtool.toml").config.gate
    assert gate.hit_rate == 0.99
    assert gate.groups["g"].hit_rate == rate(in_folder, "g") / 100


def test_a_rate_between_two_percents_is_never_lowered(tighten: Command, in_folder: Command) -> None:
    today = rate(in_folder)
    text = f"workloads = ['w.yaml']\n[gate]\nhit_rate = '{today}.01%'\n"
    write("kvtool.toml", text)
    tighten()
    assert Path("kvtool.toml").read_text() == text


def test_what_it_tells_stands_in_the_result(tighten: Command) -> None:
    write("kvtool.toml", GATE)
    code, out, _ = tighten("--json")
    assert code == 0
    assert any(note.startswith("kvtool.toml:5:15: hit rate") for note in json.loads(out)["verdict"]["notices"])


@pytest.mark.parametrize(
    ("config", "flags", "message"),
    [
        (None, (), "--tighten needs a kvtool.toml with gates, and there is none"),
        ("workloads = ['w.yaml']\n", (), "kvtool.toml demands no hit rate"),
        ("workloads = ['w.yaml']\n[gate]\nreachable_gap = '5%'\n", (), "kvtool.toml:2:2"),
        (GATE, ("w.yaml",), "omit INPUT"),
        (GATE, ("-g", "g"), "omit --group"),
        (GATE, ("-n", "2"), "omit --requests (KVTOOL_REQUESTS)"),
        (GATE, ("--min-hit-rate", "1%"), "omit --min-hit-rate"),
    ],
)
def test_what_cannot_be_tightened(config: str | None, flags: tuple[str, ...], message: str, tighten: Command) -> None:
    if config is not None:
        write("kvtool.toml", config)
    code, _, err = tighten(*flags)
    assert code == 2
    assert message in " ".join(err.split())
    assert config is None or Path("kvtool.toml").read_text() == config


def test_inputs_may_be_named_where_the_configuration_names_none(tighten: Command) -> None:
    write("kvtool.toml", "[gate]\nhit_rate = '1%'\n")
    assert tighten("w.yaml")[0] == 0
    assert load_config("kvtool.toml").config.gate.hit_rate != 0.01


def test_a_file_that_is_write_protected(tighten: Command) -> None:
    write("kvtool.toml", GATE)
    Path("kvtool.toml").chmod(0o444)
    code, _, err = tighten()
    assert code == 2
    assert "cannot write kvtool.toml: it is write-protected" in err
    assert Path("kvtool.toml").read_text() == GATE


def test_a_file_that_changed_meanwhile(tighten: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtool.gate import checking

    original = checking.verdict_of

    def changing(*arguments: object, **named: object) -> object:
        write("kvtool.toml", GATE + "# another hand\n")
        return original(*arguments, **named)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(checking, "verdict_of", changing)
    write("kvtool.toml", GATE)
    code, _, err = tighten()
    assert code == 2
    assert "`kvtool.toml` has changed since it was read" in err
    assert Path("kvtool.toml").read_text() == GATE + "# another hand\n"


def test_an_interrupted_check_raises_nothing(tighten: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtool.profiler.profiler import Profiler

    original = Profiler.run
    monkeypatch.setattr(Profiler, "run", lambda self: original(self).model_copy(update={"partial": True}))
    write("kvtool.toml", GATE)
    assert tighten()[0] == 130
    assert Path("kvtool.toml").read_text() == GATE


def test_reported_rates_are_today_s_rates(tighten: Command, in_folder: Command) -> None:
    """The provider read half of what its rules predict: limits and baseline are held against what it read."""

    def log(read: int) -> str:
        usage = {"prompt_tokens": 2000, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": read}}
        row = {
            "request": {"model": "gpt-4o", "messages": [{"role": "user", "content": "word " * 2000}]},
            "response": {"model": "gpt-4o", "choices": [], "usage": usage},
        }
        return "".join(json.dumps({**row, "timestamp": 1_780_000_000 + at}) + "\n" for at in range(4))

    write("a.jsonl", log(1000))
    write("kvtool.toml", "workloads = ['a.jsonl']\n[gate]\nhit_rate = '10%'\n")
    assert in_folder("check", "-q", "--update-baseline")[0] == 0
    assert tighten()[0] == 0
    assert "'50%'" in Path("kvtool.toml").read_text(encoding="utf-8")
    code, out, _ = in_folder("check", "-q")
    assert (code, "50.0% (+0.0)" in out) == (0, True)
    write("a.jsonl", log(900))
    write("kvtool.toml", "workloads = ['a.jsonl']\n")
    code, out, _ = in_folder("check", "-q")
    assert code == 1
    assert "hit rate 50.0% -> 45.0%" in " ".join(out.split())
