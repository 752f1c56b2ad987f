"""Comments that ignore findings: where they are read, what they cover, which are unused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.lint.findings.ignore_comments import Ignore
from kvtool.lint.findings.ignored_findings import apply_ignores, ignore_findings, read_ignores
from kvtool.results.finding import Finding
from tests.conftest import some


def finding(path: str, line: int, code: str = "KV101", group: str = "one") -> Finding:
    return Finding.of(code, "warning", group, path, line, 1 if line else 0, "told", 1, "mend")


def is_ignored(one: Finding, ignore: Ignore) -> bool:
    return not apply_ignores([one], [ignore])[0]


def covered(ignores: list[Ignore]) -> list[tuple[int, int, int]]:
    """The line of each comment, and the lines that it covers."""
    return [(ignore.line, ignore.first, ignore.last) for ignore in ignores]


YAML = """\
version: 1
vars:
  now: {datetime: 1m}  # kvtool: ignore[KV105]
groups:
  - name: one  # kvtool: ignore[KV301, kv302] the cache is small on purpose
    messages:
      # kvtool: ignore[KV101] coarse

      # another comment
      - role: system
        text: |  # kvtool: ignore[KV102]
          Now {{ now }}
          # kvtool: ignore[KV104] this is prompt text
          {# kvtool: ignore[KV106] a template comment #}
          {{ cwd }}
      - {role: user, file: prompts/x.md}  # kvtool: ignore[KV113]
      - {role: user, text: "a # kvtool: ignore[KV114]"}
"""


def test_yaml_comments_and_what_they_cover(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "x.md").write_text("text", encoding="utf-8")
    path = str(tmp_path / "w.yaml")
    ignores = read_ignores(path, YAML)
    assert [(ignore.line, ignore.codes) for ignore in ignores] == [
        (3, ("KV105",)),
        (5, ("KV301", "KV302")),
        (7, ("KV101",)),
        (11, ("KV102",)),
        (14, ("KV106",)),
        (16, ("KV113",)),
    ]
    assert covered(ignores)[2:] == [(7, 10, 15), (11, 11, 15), (14, 15, 15), (16, 16, 16)]
    assert ignores[1].group == "one"
    assert ignores[5].files == (str(tmp_path / "prompts" / "x.md"),)


def test_a_group_s_name_ignores_what_has_no_line(tmp_path: Path) -> None:
    path = str(tmp_path / "w.yaml")
    (ignore,) = [one for one in read_ignores(path, YAML) if one.group]
    assert is_ignored(finding(path, 0, "KV301"), ignore)
    assert not is_ignored(finding(path, 0, "KV301", group="two"), ignore)
    assert not is_ignored(finding(path, 0, "KV303"), ignore)
    assert not is_ignored(finding("other.yaml", 0, "KV301"), ignore)


def test_the_line_that_names_a_file_ignores_in_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("a.md", "b.md"):
        (tmp_path / "docs" / name).write_text("text", encoding="utf-8")
    path = str(tmp_path / "w.yaml")
    text = "groups:\n  - name: g\n    segments:\n      - id: d  # kvtool: ignore[KV999]\n"
    text += "        glob: docs/*.md  # kvtool: ignore[KV101]\n"
    _, ignore = read_ignores(path, text)
    assert is_ignored(finding(str(tmp_path / "docs" / "b.md"), 7), ignore)
    assert not is_ignored(finding(str(tmp_path / "b.md"), 7), ignore)


@pytest.mark.parametrize("seed", some(range(20), 5))
def test_many_findings_and_comments(seed: int) -> None:
    """As if each comment was held against each finding."""
    chance = random.Random(seed)
    codes, files, groups = ["KV101", "KV102", "KV301"], ["a.md", "b.yaml", "./b.yaml"], ["one", "two"]
    findings = [
        finding(chance.choice(files), chance.choice([0, *range(1, 9)]), chance.choice(codes), chance.choice(groups))
        for _ in range(30)
    ]
    ignores = []
    for line in range(8):
        first = chance.randint(1, 8)
        named = tuple(dict.fromkeys(chance.choices(codes, k=2)))
        listed, group = chance.choice([(), ("a.md",)]), chance.choice([None, *groups])
        ignores.append(Ignore("b.yaml", line, 1, named, first, first + chance.randint(0, 3), listed, group))

    def holds(one: Ignore, other: Finding) -> bool:
        here = other.path != "a.md" and (
            one.first <= other.line <= one.last if other.line else one.group == other.group
        )
        return other.code in one.codes and (other.path in one.files or here)

    kept, unused = apply_ignores(findings, ignores)
    assert kept == [one for one in findings if not any(holds(ignore, one) for ignore in ignores)]
    assert {(one.line, code) for one in unused for code in one.codes} == {
        (ignore.line, code)
        for ignore in ignores
        for code in ignore.codes
        if not any(one.code == code and holds(ignore, one) for one in findings)
    }


PYTHON = '''\
import datetime  # kvtool: ignore[KV106]

# kvtool: ignore[KV101] once a day

def build(now):
    text = f"""
    # kvtool: ignore[KV102] this is text
    {now}
    """  # kvtool: ignore[KV104] few users
    return (
        text  # kvtool: ignore[KV105]
        + "a"
    )
# kvtool: ignore[KV107]
'''


def test_python_comments_cover_statements() -> None:
    ignores = read_ignores("build.py", PYTHON)
    assert [ignore.codes[0] for ignore in ignores] == ["KV106", "KV101", "KV104", "KV105", "KV107"]
    assert covered(ignores) == [(1, 1, 1), (3, 5, 5), (9, 6, 9), (11, 10, 13), (14, 14, 14)]


TEMPLATE = """\
{# kvtool: ignore[KV101] the day is enough #}

Today is {{ now }}.
User {{ user }} {# kvtool: ignore[KV104]
  of a small team #}
{#- kvtool: ignore[KV102] -#}
{# not for us #}
{{ uuid }}
"""


def test_template_comments() -> None:
    ignores = read_ignores("a.j2", TEMPLATE)
    assert covered(ignores) == [(1, 3, 3), (4, 4, 4), (6, 8, 8)]


def test_markdown_comments_only_where_they_are_the_only_way() -> None:
    (plain,) = read_ignores("a.md", "<!-- kvtool: ignore[KV121] as it is -->\nText\n")
    assert (plain.first, plain.problem) == (2, "")
    (rendered,) = read_ignores("a.md", "<!-- kvtool: ignore[KV121] -->\n{{ now }}\n")
    assert "{#" in rendered.problem
    assert read_ignores("a.txt", "<!-- kvtool: ignore[KV121] -->\nText\n") == []


def test_comments_that_ignore_nothing_say_why() -> None:
    for comment, problem in [
        ("kvtool: ignore", "names no codes"),
        ("kvtool: ignore because", "names no codes"),
        ("kvtool: ignore[]", "names no codes"),
        ("kvtool: ignore[KV101", "not closed"),
        ("kvtool: ignore[KV1O1]", "did you mean KV101?"),
        ("kvtool: ignore[101]", "did you mean KV101?"),
        ("kvtool:ignore[KV101]", ""),
        ("kvtool:  ignore[ KV101 ,KV102, ]", ""),
    ]:
        (ignore,) = read_ignores("a.py", f"x = 1  # {comment}\n")
        assert (problem in ignore.problem) if problem else ignore.problem == ""
        kept, unused = apply_ignores([finding("a.py", 1)], [ignore])
        told = ignore_findings([ignore], unused)
        if problem:
            assert len(kept) == 1
            assert [(one.code, one.severity, one.line, one.column) for one in told] == [("KV002", "error", 1, 10)]
            assert "kvtool: ignore[KV101] reason" in told[0].fix
        else:
            assert kept == []


def test_other_words_are_no_comment_of_ours() -> None:
    assert read_ignores("a.py", "x = 1  # kvtool: ignored[KV101]\ny = 2  # kvtool: hello\n") == []


def test_what_was_not_found_is_unused_and_what_was_not_looked_for_is_not() -> None:
    ignores = read_ignores("a.py", "x = 1  # kvtool: ignore[KV101, KV102, KV301]\n")
    kept, unused = apply_ignores([finding("a.py", 1), finding("a.py", 2)], ignores)
    assert [one.line for one in kept] == [2]
    assert [one.codes for one in unused] == [("KV102", "KV301")]
    _, unused = apply_ignores([finding("a.py", 1)], ignores, checked=lambda _, code: code != "KV301")
    assert [one.codes for one in unused] == [("KV102",)]
    (told,) = ignore_findings(ignores, unused)
    assert (told.code, told.severity) == ("KV001", "warning")
    assert "KV102" in told.message


def test_two_comments_for_one_finding_are_both_used() -> None:
    ignores = read_ignores("a.py", "# kvtool: ignore[KV101]\nx = 1  # kvtool: ignore[KV101]\n")
    assert apply_ignores([finding("a.py", 2)], ignores) == ([], [])


@pytest.mark.parametrize(
    ("path", "text"), [("w.yaml", "a: [  # kvtool: x"), ("a.py", "x = (  # kvtool: ignore[KV101]\n")]
)
def test_files_that_are_not_what_they_say(path: str, text: str) -> None:
    with pytest.raises(KvtoolError) as caught:
        read_ignores(path, text)
    assert caught.value.place is not None
    assert caught.value.place.path == path


def test_many_comments_in_a_row_are_all_about_what_follows_them() -> None:
    count = 20_000
    jinja = read_ignores("a.j2", "{# kvtool: ignore[KV101] #}\n" * count + "{{ now }}")
    yaml = read_ignores("a.yaml", "# kvtool: ignore[KV101]\n" * count + "a: b\n")
    for ignores in (jinja, yaml):
        assert [ignore.line for ignore in ignores] == list(range(1, count + 1))
        assert {ignore.first for ignore in ignores} == {count + 1}
    assert read_ignores("a.md", "<!-- kvtool: ignore[" * 50_000) == []
