"""Configuration files: which one applies, what it says, and what is told where it is wrong."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.cli.app import run
from kvtool.config.find import find_config
from kvtool.config.loading import MAX_BYTES, ConfigFile, load_config, read_config
from kvtool.config.options.shown_options import Configured
from kvtool.errors import KvtoolError, ProblemsError
from kvtool.text.files.toml_places import MAX_DEPTH, TomlPlaces
from tests.files import write

GOOD = """\
# what our servers run
workloads = ["a.yaml", "logs/*.jsonl"]
seed = 3

[engine]
block_size = 32
capacity = "320k tokens"

[gate]
hit_rate = ">=80%"
reachable_gap = "<=5%"
ttft_p90 = "50ms"
findings = {KV1 = "warn", error = "error"}
groups.chat = {hit_rate = 0.5, level = "warn"}

[gate.groups."a b"]
hit_rate = "50%"

[check]
baseline = "base.json"
max_drop = "1%"

[lint]
ignore = ["KV301"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(text: str | bytes, name: str = "kvtool.toml") -> list[KvtoolError]:
    """What loading a file of this text complains about."""
    write(name, text)
    with pytest.raises(KvtoolError) as caught:
        load_config(name)
    error = caught.value
    return error.errors if isinstance(error, ProblemsError) else [error]


def place(file: ConfigFile, *path: str | int) -> str:
    return str(file.place(*path))


def test_values_and_their_places(here: Path) -> None:
    file = load_config(write("kvtool.toml", GOOD))
    config = file.config
    assert (config.seed, config.engine.block_size, config.check.max_drop) == (3, 32, 0.01)
    assert config.engine.capacity is not None
    assert (config.engine.capacity.number, config.engine.capacity.unit) == (320_000, "tokens")
    assert (config.gate.hit_rate, config.gate.reachable_gap, config.gate.ttft_p90) == (0.8, 0.05, 0.05)
    assert config.gate.findings == {"KV1": "warn", "error": "error"}
    assert config.gate.groups["a b"].hit_rate == config.gate.groups["chat"].hit_rate == 0.5
    assert config.lint.ignore == ["KV301"]
    assert place(file, "seed") == "kvtool.toml:3:8"
    assert place(file, "workloads", 1) == "kvtool.toml:2:24"
    assert place(file, "gate", "hit_rate") == "kvtool.toml:10:12"
    assert place(file, "gate", "findings", "error") == "kvtool.toml:13:35"
    assert place(file, "gate", "groups", "chat", "hit_rate") == "kvtool.toml:14:27"
    assert place(file, "gate", "groups", "a b", "hit_rate") == "kvtool.toml:17:12"
    assert place(file, "gate", "groups", "a b", "ttft_p50") == "kvtool.toml:16:14"  # the nearest thing there is


def test_pyproject_and_byte_order_mark_and_carriage_returns(here: Path) -> None:
    text = '\ufeff[project]\r\nname = "x"\r\n\r\n[tool.kvtool.gate]\r\nhit_rate = "80%"\r\n'
    file = load_config(write("pyproject.toml", text))
    assert file.config.gate.hit_rate == 0.8
    assert place(file, "gate", "hit_rate") == "pyproject.toml:5:12"
    (wrong,) = problems('[tool.kvtool]\r\nhit = "80%"\r\n', "pyproject.toml")
    assert str(wrong.place) == "pyproject.toml:2:1"
    (none,) = problems("[tool.other]\n", "pyproject.toml")
    assert "no table [tool.kvtool]" in none.message
    (scalar,) = problems("[tool]\nkvtool = 3\n", "pyproject.toml")
    assert "not a table" in scalar.message
    assert str(scalar.place) == "pyproject.toml:2:10"


def test_several_mistakes_at_once_each_with_its_place_and_hint(here: Path) -> None:
    text = """\
[engine]
block-size = 16
enable_prefix_caching = "yes"
[gate]
hit_rate = ">=180%"
reachable_gap = ">=5%"
ttft_p50 = "50 parsecs"
findings = {KV101 = "eror", KV9 = "warn"}
[gate.groups.x]
hit_rat = 0.5
[lint]
select = ["KV1", "timestmp"]
[check]
max_drop = -1
"""
    found = [(str(one.place).removeprefix("kvtool.toml:"), one.message, one.hint or "") for one in problems(text)]
    expected = [
        ("2:1", "unknown key `block-size` in engine", "`block_size`"),
        ("3:25", "expected true or false", "true"),
        ("5:12", "at most 100%", ""),
        ("6:17", "`>=5%` is not a limit", ""),
        ("7:12", "not a duration", ""),
        ("8:21", "got `eror`", "`error`"),
        ("8:29", "unknown code `KV9`", "KV409"),
        ("10:1", "unknown key `hit_rat` in gate.groups.x", "`hit_rate`"),
        ("12:18", "unknown code `timestmp`", ""),
        ("14:12", "`-1` is not a limit", ""),
    ]
    assert [at for at, _, _ in found] == [at for at, _, _ in expected]
    for (_, message, hint), (_, words, advice) in zip(found, expected, strict=True):
        assert words in message
        assert advice in hint
    assert all(one.place is not None and one.place.excerpt for one in problems(text))


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("hit_rate = >=80%", "1:12", "no value"),
        ("[gate\nhit_rate = 1", "1:6", "not valid TOML"),
        ("seed = 1\nseed = 2", "2:9", "given already"),
        ('workloads = ["a', "1:16", "never closed"),
        ("seed = 1 requests = 2", "1:10", "after the value"),
        ("seed 1", "1:6", "`=` is missing"),
        ("a = " + "[" * 5000, f"1:{4 + MAX_DEPTH + 1}", "deep"),
        ("a = " + "{b=" * 5000, "1:", "deep"),
        (".".join(["a"] * 50_000) + " = 1", "1:", "parts"),
        ("[" + ".".join(["a"] * 50_000) + "]", "1:", "parts"),
        ("seed = " + "1" * 5000, "1:8", "thousands of digits"),
        ("[gate]\nhit_rate = 1\nx = [1, { y = -" + "1" * 5000 + " }]", "3:15", "thousands of digits"),
        ("seed = " + "1" * 300, "1:8", "a long number"),
        ("seed = 1\x01", "1:9", ""),
        ("seed = 1\x00", "", "binary"),
        (b"seed = 1 # \xff", "1:12", "not UTF-8"),
        ("seed = 1".encode("utf-16"), "", "UTF-16"),
        ("seed = 1\n" * 1_200_000, "", "larger than 1 MiB"),
        ('"\\u001b[31m" = 1', "1:1", "unknown key"),
        ("x" * 100_000 + " = 1", "1:1", "unknown key"),
        ("[tool.kvtool]\nseed = 1", "1:2", "unknown key `tool`"),
        ("gate = 3", "1:8", "expected a mapping"),
        ("seed = 1979-05-27", "1:8", "whole number"),
        ("seed = nan", "1:8", "whole number"),
    ],
)
def test_hostile_files_are_told_of_in_a_sentence(here: Path, text: str | bytes, at: str, message: str) -> None:
    (problem, *_) = problems(text)
    assert str(problem.place).startswith(f"kvtool.toml:{at}" if at else "kvtool.toml")
    assert message in problem.message
    assert len(problem.message) < 300


def test_what_is_no_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "kvtool.toml").mkdir()
    assert run(["config"]) == 2
    assert "directory" in capsys.readouterr().err
    (here / "kvtool.toml").rmdir()
    (here / "kvtool.toml").symlink_to("nowhere")
    assert run(["config"]) == 2
    assert "no such file" in capsys.readouterr().err
    (here / "kvtool.toml").unlink()
    os.mkfifo(here / "kvtool.toml")
    assert run(["config"]) == 2
    assert "regular file" in capsys.readouterr().err
    assert run(["config", "-c", "kvtol.toml"]) == 2
    assert "did you mean `kvtool.toml`" in capsys.readouterr().err


def test_escape_sequences_do_not_reach_the_terminal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("kvtool.toml", '"\\u001b]0;x\\u0007" = 1\n[gate.groups."::error::x\\u202e"]\nhit_rat = 1\n')
    assert run(["config"]) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_the_nearest_file_up_to_the_git_root(tmp_path: Path) -> None:
    root, inner = tmp_path / "above" / "repo", tmp_path / "above" / "repo" / "a" / "b"
    inner.mkdir(parents=True)
    write(str(tmp_path / "above" / "kvtool.toml"), "seed = 1")
    assert find_config(str(inner)) is None  # no git root: only the folder itself
    (root / ".git").write_text("gitdir: elsewhere", encoding="utf-8")  # a worktree has a file there
    assert find_config(str(inner)) is None  # never above the root
    project = write(str(root / "pyproject.toml"), "[tool.kvtool]\nseed = 2")
    assert find_config(str(inner)) == project
    own = write(str(root / "kvtool.toml"), "seed = 3")
    assert find_config(str(inner)) == own  # goes first within a folder
    nearer = write(str(inner.parent / "pyproject.toml"), "[tool.kvtool]")
    assert find_config(str(inner)) == nearer
    write(nearer, "[project]\ndependencies = ['kvtool']")
    assert find_config(str(inner)) == own  # one without the table is passed over
    write(nearer, "[project\nname = 'kvtool'")
    assert find_config(str(inner)) == nearer  # what a broken one says is not known
    write(nearer, "[project\nname = 'x'")
    assert find_config(str(inner)) == own


def test_the_file_that_is_named_and_none(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("kvtool.toml", "seed = 1")
    write("other.toml", "seed = 2")
    found = read_config(Configured())
    assert found is not None
    assert (found.path, found.config.seed) == ("kvtool.toml", 1)
    named = read_config(Configured(config="other.toml"))
    assert named is not None
    assert named.config.seed == 2
    assert read_config(Configured(no_config=True)) is None
    with pytest.raises(KvtoolError, match="--no-config"):
        read_config(Configured(config="other.toml", no_config=True))
    monkeypatch.setenv("KVTOOL_CONFIG", "other.toml")
    assert read_config(Configured(config="other.toml", no_config=True)) is None  # the flag goes before the variable
    (here / "in").mkdir()
    (here / ".git").mkdir()
    monkeypatch.chdir(here / "in")
    above = read_config(Configured())
    assert above is not None
    assert above.path == "../kvtool.toml"


def test_an_empty_file_says_nothing(here: Path) -> None:
    for text in ("", "\n", "# nothing\n"):
        assert load_config(write("kvtool.toml", text)).config.model_fields_set == set()


def test_paths_count_from_the_folder_of_the_file(here: Path) -> None:
    text = """\
workloads = ["w.yaml", "logs/*.jsonl", "[x].yaml"]
[engine]
tokenizer = "tok.json"
model = "llama-3.1-8b"
chat_template = "chat.jinja"
[check]
baseline = "base.json"
"""
    file = load_config(write("conf/kvtool.toml", text))
    for name in ("w.yaml", "logs/b.jsonl", "logs/a.jsonl", "[x].yaml", "tok.json", "chat.jinja"):
        write(f"conf/{name}", "x")
    assert file.workloads == ["conf/w.yaml", "conf/logs/a.jsonl", "conf/logs/b.jsonl", "conf/[x].yaml"]
    engine = file.engine
    assert (engine.tokenizer, engine.chat_template) == ("conf/tok.json", "conf/chat.jinja")
    assert engine.model == "llama-3.1-8b"
    assert file.baseline == "conf/base.json"
    (here / "conf/chat.jinja").unlink()
    with pytest.raises(KvtoolError, match=r"no such file `conf/chat\.jinja`") as caught:
        _ = file.engine
    assert str(caught.value.place) == "conf/kvtool.toml:5:17"
    nothing = load_config(write("conf/kvtool.toml", 'workloads = ["no/*.yaml"]'))
    with pytest.raises(KvtoolError, match="no file matches") as caught:
        _ = nothing.workloads
    assert str(caught.value.place) == "conf/kvtool.toml:1:14"


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\x7f", exclude_categories=("Cc", "Cs")), max_size=6)
SCALARS = st.one_of(st.integers(-99, 99), st.booleans(), KEYS)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


def as_toml(data: dict[str, object], header: tuple[str, ...], draw: st.DrawFn) -> str:
    """The table as TOML: scalars first, then tables and arrays of tables under headers, or in one line, as it is drawn."""
    simple, below = "", ""
    for key, value in data.items():
        name = key if key.isascii() and key.isalnum() and draw(st.booleans()) else quoted(key, draw)
        path = (*header, name)
        tables = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
        if isinstance(value, dict) and value and draw(st.booleans()):
            below += f"[ {' . '.join(path)} ]  # ] = [\n{as_toml(value, path, draw)}"
        elif isinstance(value, list) and tables and draw(st.booleans()):
            below += "".join(f"[[{'.'.join(path)}]]\n{as_toml(item, path, draw)}" for item in value)
        else:
            simple += f"  {name} = {inline(value, draw)} # ' \"\n\n"
    return simple + below


def inline(value: object, draw: st.DrawFn) -> str:
    if isinstance(value, str):
        return quoted(value, draw, long=True)
    if isinstance(value, list):
        gap = draw(st.sampled_from(["", " ", "\n # ,]\n"]))
        return f"[{gap}{f',{gap}'.join(inline(item, draw) for item in value)}{gap}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{quoted(key, draw)} = {inline(item, draw)}' for key, item in value.items())} }}"
    return json.dumps(value)


def quoted(text: str, draw: st.DrawFn, *, long: bool = False) -> str:
    if long and draw(st.booleans()):
        return f'"""{json.dumps(text, ensure_ascii=False)[1:-1]}"""'
    return f"'{text}'" if "'" not in text and draw(st.booleans()) else json.dumps(text, ensure_ascii=False)


@given(st.data(), st.dictionaries(KEYS, VALUES, max_size=5))
def test_every_value_is_found_where_it_stands(data: st.DataObject, values: dict[str, object]) -> None:
    """Whatever the style it is written in, each value can be read from the place that the scan gives."""
    source = as_toml(values, (), data.draw)
    assert tomllib.loads(source) == values
    places = TomlPlaces(source, "x.toml")

    def walk(value: object, path: tuple[str | int, ...]) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, (*path, key))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                walk(item, (*path, number))
        else:
            start, stop = places.spots[path].value
            assert tomllib.loads(f"x = {source[start:stop]}")["x"] == value

    walk(values, ())


def test_a_large_file_is_refused_before_it_is_read(here: Path) -> None:
    with Path("kvtool.toml").open("wb") as file:
        file.truncate(MAX_BYTES * 4096)  # a hole: it takes no room
    with pytest.raises(KvtoolError, match="larger than"):
        load_config("kvtool.toml")
