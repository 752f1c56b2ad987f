"""The documentation: what is generated is current, links lead somewhere, examples load, and workflow files are valid."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from docs import generate
from docs.generators import commands, keys, log_examples
from docs.generators.key_notes import CONFIGURATION, NOTES
from docs.generators.pages import Fence, PageError, fences, fill
from docs.generators.shell import Shell, one_tokenizer
from docs.generators.shell import commands as shell_commands
from kvtool.config.engine_rules import rules_of_flags
from kvtool.config.file_model import Config
from kvtool.diagnose import codes
from kvtool.text.files.yaml_document import load_yaml
from kvtool.workload.logs.files.file_kinds import file_kinds
from kvtool.workload.logs.formats.known_formats import record_formats
from kvtool.workload.yaml.schema import GroupSpec, Workload
from kvtool.workload.yaml.validate import validate
from tests.conftest import NIGHTLY

DOCS = generate.DOCS
ROOT = generate.ROOT
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
RECIPES = sorted((DOCS / "ci").glob("*"))
OWN_WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LINK = re.compile(r"(?<!\\)!?\[(?:[^\]\\]|\\.)*\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(DOCS))


def blocks(language: str) -> list[tuple[str, Fence]]:
    """The fenced blocks of a language in all pages, but for those that are a whole file of `docs/ci`."""
    recipes = {path.read_text(encoding="utf-8") for path in RECIPES}
    return [
        (f"{name_of(path)}:{fence.line + 1}", fence)
        for path in PAGES
        for fence in fences(path.read_text(encoding="utf-8"))
        if fence.language == language and fence.text not in recipes
    ]


@pytest.fixture(scope="module")
def quick() -> Iterator[None]:
    with one_tokenizer():
        yield


@pytest.mark.parametrize("path", generate.page_files(), ids=name_of)
def test_parts_of_pages_are_current(quick: None, path: Path) -> None:
    """Runs the shell blocks of the page: what they print, and the code they exit with, is what the page says."""
    assert generate.filled(path) == path.read_text(encoding="utf-8"), "run python -m docs.generate"


def test_whole_files_are_current(quick: None) -> None:
    for path, text in generate.whole_files().items():
        assert path.read_text(encoding="utf-8") == text, f"{name_of(path)}: run python -m docs.generate"
    assert not generate.stale()


def test_every_format_of_logs_has_an_example() -> None:
    names = {each.name for each in (*record_formats(), *file_kinds())}
    # Parquet and SQLite are no text, and what is refused by name is in a table of its own.
    assert names - set(log_examples.examples()) == {
        *("columns", "block-trace", "session-store", "unread"),
        *("opencode-stored", "opencode-inner"),  # a folder of files
    }


def test_every_command_has_a_page() -> None:
    assert not commands.missing_pages(DOCS / "commands")
    pages = {path.stem for path in (DOCS / "commands").glob("*.md")} - {"index"}
    assert pages == set(commands.names())


# Links


def slugs(page: str) -> set[str]:
    """The anchors that a code host gives to headings."""
    found: set[str] = set()
    for line in without_fences(page).split("\n"):
        if heading := re.fullmatch(r"#{1,6} (.+)", line):
            text = re.sub(r"[`\\]|\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            number = 1
            unique = slug
            while unique in found:
                unique, number = f"{slug}-{number}", number + 1
            found.add(unique)
    return found


def without_fences(page: str) -> str:
    lines = page.split("\n")
    for fence in fences(page):
        for number in range(fence.line, fence.line + fence.text.count("\n") + 2):
            lines[number] = ""
    return "\n".join(lines)


def test_links_lead_somewhere() -> None:
    for path in PAGES:
        page = without_fences(path.read_text(encoding="utf-8"))
        for target in LINK.findall(page):
            if re.match(r"[a-z]+:", target):
                assert target.startswith("https://")
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            assert there.is_file(), f"{name_of(path)}: {target}"
            assert there.is_relative_to(ROOT)
            if anchor:
                assert anchor in slugs(there.read_text(encoding="utf-8")), f"{name_of(path)}: {target}"


def test_every_page_is_listed() -> None:
    listed: set[Path] = set()
    for path in PAGES:
        for part in re.findall(r"<!-- pages.*?<!-- /pages -->", path.read_text(encoding="utf-8"), re.DOTALL):
            listed |= {
                (path.parent / target).resolve()
                for target in re.findall(r"^- \[[^\]]*\]\(([^)]*)\)", part, re.MULTILINE)
            }
    assert listed == set(PAGES) - {DOCS / "index.md"}


# Examples


def as_workload(text: str) -> str:
    """A whole workload around a fragment: the keys of a group, or those of the workload without its groups."""
    found = yaml.safe_load(text)
    if "version" in found:
        return text
    if (
        "groups" not in found
        and set(found) <= set(keys.keys_of(GroupSpec))
        and not set(found) <= set(keys.keys_of(Workload))
    ):
        inner = "".join(f"    {line}\n" for line in text.rstrip("\n").split("\n"))
        return f"version: 1\ngroups:\n  - name: example\n{inner}"
    return "version: 1\n" + text + ("" if "groups" in found else "groups: [{name: example, text: Hello}]\n")


def test_yaml_examples_are_workloads(tmp_path: Path) -> None:
    for _, fence in blocks("yaml"):
        path = tmp_path / "workload.yaml"
        path.write_text(as_workload(fence.text), encoding="utf-8")
        validate(load_yaml(str(path)), codes)


def test_toml_examples_are_configurations() -> None:
    for _, fence in blocks("toml"):
        found = tomllib.loads(fence.text)
        Config.model_validate(found.get("tool", {}).get("kvtool", found), context=codes)


def test_examples_of_workload_keys_are_accepted(tmp_path: Path) -> None:
    """Each key alone, in an object that has what else must be there."""
    for name in [name for name in NOTES if name not in CONFIGURATION]:
        for key, note in keys.notes_of(name).items():
            path = tmp_path / "workload.yaml"
            path.write_text(f"{key}: {note.example}\n", encoding="utf-8")
            problems = schema_problems(name, key, path)
            assert not problems, f"{name}.{key}: {problems}"


def schema_problems(name: str, key: str, path: Path) -> list[str]:
    """What the model says about the value of one key, whatever it misses."""
    from pydantic import ValidationError

    from kvtool.workload.yaml.validate import to_data

    root = load_yaml(str(path)).root
    try:
        keys.model_named(name).model_validate(to_data(root))
    except ValidationError as error:
        return [each["msg"] for each in error.errors() if each["loc"][0] == key]
    return []


def test_examples_of_configuration_keys_are_accepted() -> None:
    for name in CONFIGURATION:
        model, notes = keys.model_named(name), keys.notes_of(name)
        needed = {key: notes[key].example for key, field in model.model_fields.items() if field.is_required()}
        for key, note in notes.items():
            lines = [f"{each} = {example}" for each, example in {**needed, key: note.example}.items()]
            model.model_validate(tomllib.loads("\n".join(lines)))


def test_a_key_without_words_and_words_without_a_key_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = dict(NOTES["Arrival"])
    left = {**notes, "speed": notes["rate"]}
    del left["burst"]
    monkeypatch.setitem(keys.NOTES, "Arrival", left)  # type: ignore[arg-type]
    with pytest.raises(keys.KeysError, match=r"without words: \['burst'\]; words without a key: \['speed'\]"):
        keys.key_table("Arrival")


def test_every_model_of_a_workload_is_on_its_page() -> None:
    page = (DOCS / "workload.md").read_text(encoding="utf-8") + (DOCS / "configuration.md").read_text(encoding="utf-8")
    engines = {f"EngineOptions {rules}" for rules in ('""', *rules_of_flags().values())}
    for name in {*NOTES, *engines} - {"EngineOptions"}:
        assert f"<!-- begin keys {name} -->" in page or f"<!-- begin keys-toml {name} -->" in page, name


# Shell blocks and files


def test_every_command_of_the_quick_start_is_run() -> None:
    page = (DOCS / "quick-start.md").read_text(encoding="utf-8")
    lines = page.split("\n")
    for fence in fences(page):
        if fence.language == "sh":
            after = lines[fence.line + fence.text.count("\n") + 2 :]
            shown = len(after) > 1 and after[1].startswith("<!-- begin output")
            assert shown or (fence.mark or "").startswith(("<!-- run", "<!-- not run: ")), fence.text


def test_commands_of_all_pages_exist() -> None:
    """Every `kvtool …` line names a command of today, with options that it has."""
    known = {name: commands.reference(name) for name in commands.names()}
    for place, fence in blocks("sh"):
        for line in shell_commands(fence.text):
            words = line.split()
            if words[0] != "kvtool" or words[1].startswith("-"):
                continue
            assert words[1] in known, f"{place}: {line}"
            for option in re.findall(r"(?<= )--[a-z][a-z-]*", line):
                assert re.search(rf"(?<![\w-]){option}(?![\w-])", known[words[1]]), f"{place}: {option}"


def test_pages_do_not_name_this_machine() -> None:
    for path in [*PAGES, *RECIPES]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"kvtool-docs-|/tmp/|/home/|/root/", text), name_of(path)


def test_figures_of_accuracy_stand_in_the_results() -> None:
    """A figure of three digits or more, or with a sign."""
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8").replace("\u2212", "-")
    page = (DOCS / "accuracy.md").read_text(encoding="utf-8").replace("\u2212", "-")
    tables = "\n".join(line for line in page.split("\n") if line.startswith("|"))
    figures = set(re.findall(r"[+-]?\d[\d,]*\.\d+|\d{1,3}(?:,\d{3})+", tables + page))
    missing = [figure for figure in figures if figure not in results]
    assert len(figures) > 20
    assert not missing


def test_workflow_files_are_valid() -> None:
    github = [DOCS / "ci" / "github.yml", DOCS / "ci" / "github-action.yml", *OWN_WORKFLOWS]
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    known = {
        "vendor.github-workflows": github,
        "vendor.github-issue-forms": forms,
        "vendor.gitlab-ci": [DOCS / "ci" / "gitlab-ci.yml"],
    }
    for schema, paths in known.items():
        files = [str(path) for path in paths]
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_own_workflows_may_do_little_and_run_what_they_name() -> None:
    for path in OWN_WORKFLOWS:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}
        triggers = set(workflow[True])  # YAML reads the key `on` so
        assert triggers <= {"pull_request", "push", "schedule", "workflow_dispatch"}
        for job in workflow["jobs"].values():
            assert "permissions" not in job
            assert 0 < job["timeout-minutes"] <= 120
            for step in job["steps"]:
                used = step.get("uses", "")
                assert not used or re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", used)
                assert "secrets." not in str(step)
                if used.startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False


def test_the_own_workflow_runs_the_whole_check_on_each_python() -> None:
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]["run"]
    with (ROOT / "pyproject.toml").open("rb") as file:
        classifiers = tomllib.load(file)["project"]["classifiers"]
    named = [found[1] for line in classifiers if (found := re.search(r":: Python :: (3\.\d+)$", line))]
    assert job["strategy"]["matrix"]["python"] == named
    assert job["steps"][-1]["run"] == ".ci/run"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


# The generator itself


def test_a_block_that_exits_with_another_code_is_an_error(tmp_path: Path) -> None:
    page = "```sh\nkvtool explain KV9\n```\n\n<!-- begin output -->\n<!-- end -->\n"
    with Shell(tmp_path) as shell, pytest.raises(PageError, match=r"page:5: exit code 2, not 0"):
        fill(page, {}, shell, "page")


def test_an_output_without_a_command_is_an_error(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell, pytest.raises(PageError, match="page:2: no shell block stands before it"):
        fill("text\n<!-- begin output -->\n<!-- end -->", {}, shell, "page")


def test_output_is_cut_to_the_paragraph(tmp_path: Path) -> None:
    runner = SimpleNamespace(run=lambda _: (0, "a\n\nb\nc\n\nd\n"), write=None)
    page = "```sh\nx\n```\n<!-- begin output from=b -->\nold\n<!-- end -->"
    assert (
        fill(page, {}, runner, "page")
        == "```sh\nx\n```\n<!-- begin output from=b -->\n```text\nb\nc\n```\n<!-- end -->"
    )


def test_shell_blocks_run_in_a_folder_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text("hello", encoding="utf-8")
    with Shell(tmp_path) as shell:
        shell.write("new.txt", "text")
        assert shell.run("cat new.txt workloads/some.txt  # both\nls | wc -l") == (0, "texthello2\n")
        folder = shell.folder
    assert not folder.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["some.txt"]


@pytest.mark.skipif(sys.platform != "linux", reason="one place is enough to build the pages")
def test_the_pages_build_without_a_warning_and_ask_nothing_of_the_network(tmp_path: Path) -> None:
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module, reason="needs the extra `docs`")
    """By day pages are read and their links followed, which is what can warn; their HTML is written at night."""
    builder = "html" if NIGHTLY else "dummy"
    command = [sys.executable, "-m", "sphinx", "-b", builder, "-W", "-n", "--keep-going", "-q"]
    folders = ["-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "html")]
    done = subprocess.run([*command, *folders], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if not NIGHTLY:
        return
    built = sorted((tmp_path / "html").rglob("*.html"))
    assert len(built) > len(PAGES)
    for path in built:
        page = path.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|img|iframe|source)[^>]+src=\"(?:https?:)?//", page), path.name
        assert not re.search(r"<link[^>]+href=\"(?:https?:)?//", page), path.name
    for path in (tmp_path / "html" / "_static").rglob("*.css"):
        assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", path.read_text(encoding="utf-8")), path.name


# The workflow, as written


def steps(name: str) -> list[str]:
    """What a workflow of GitHub's runs, step by step."""
    found = yaml.safe_load((DOCS / "ci" / name).read_text(encoding="utf-8"))
    return [step["run"] for job in found["jobs"].values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize(("least", "code"), [("80%", 0), ("99%", 1)])
def test_the_gate_of_the_github_workflow_runs(quick: None, tmp_path: Path, least: str, code: int) -> None:
    """Its one command, with what a runner sets: the exit code, the annotations, the summary and the files that are kept."""
    install, gate = steps("github.yml")
    assert install.startswith("python -I -m pip install ")
    summary = tmp_path / "summary.md"
    with Shell(ROOT / "workloads", {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}) as shell:
        shell.write("kvtool.toml", f'workloads = ["workloads/few-shot.yaml"]\n[gate]\nhit_rate = "{least}"\n')
        found, said = shell.run(gate)
        written = {path.name for path in shell.folder.iterdir()}
    assert found == code
    assert (code == 1) == ("::error " in said)
    assert {"kvtool.md", "kvtool.sarif", "kvtool.html"} <= written
    assert ("PASS" if code == 0 else "FAIL") in summary.read_text(encoding="utf-8")


def test_the_job_of_gitlab_runs(quick: None) -> None:
    job = yaml.safe_load((DOCS / "ci" / "gitlab-ci.yml").read_text(encoding="utf-8"))["kvtool"]
    kept = {*job["artifacts"]["paths"], *job["artifacts"]["reports"].values()}
    with Shell(ROOT / "workloads", {"GITLAB_CI": "true"}) as shell:
        shell.write("kvtool.toml", 'workloads = ["workloads/few-shot.yaml"]\n[gate]\nhit_rate = "99%"\n')
        code, _ = shell.run("\n".join(job["script"]))
        written = {path.name for path in shell.folder.iterdir()}
    assert code == 1
    assert kept <= written
