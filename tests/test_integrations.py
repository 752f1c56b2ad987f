"""The GitHub Action and the pre-commit hooks: valid, safe against what their inputs hold, and run as they are written."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.files import write

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
SHARED = "You are the support agent of a shop. Be short, be kind, and never promise what the terms do not say. " * 3
WORKLOAD = f"""\
version: 1
groups:
  - name: support
    requests: 6
    gate: {{hit_rate: 50%}}
    segments: [{{text: "{SHARED}"}}]
"""


def run_step(name: str, folder: Path, **variables: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run the script of a step in bash, as a runner does; what it said, and the outputs that it set."""
    step = STEPS[name]
    output = folder / "github-output"
    output.write_text("", encoding="utf-8")
    environment = {key: variables.pop(key, "") for key in step["env"]}
    assert not variables, "variables that the step does not have"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "KVTOOL_"))},
            **environment,
            "PATH": f"{folder / 'stubs'}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(output),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = output.read_text(encoding="utf-8").splitlines()
    return done, dict(line.split("=", 1) for line in lines)


def stub(folder: Path, name: str, *answers: str) -> Path:
    """A program that notes its arguments, one call a line, and answers with one line for each call."""
    log = folder / f"{name}.log"
    text = "\n".join(
        [
            f"#!{sys.executable}",
            "import json, pathlib, sys",
            f"log = pathlib.Path({str(log)!r})",
            "calls = log.read_text().splitlines() if log.exists() else []",
            "log.write_text('\\n'.join([*calls, json.dumps(sys.argv[1:])]))",
            f"answers = {list(answers)!r}",
            "print(answers[len(calls)] if len(calls) < len(answers) else '')",
        ]
    )
    path = Path(write(str(folder / "stubs" / name), text))
    path.chmod(0o755)
    return log


@pytest.fixture
def folder(tmp_path: Path, bytes_json: str) -> Path:
    write(str(tmp_path / "w.yaml"), WORKLOAD)
    shutil.copy(bytes_json, tmp_path / "tokenizer.json")
    write(str(tmp_path / "kvtool.toml"), 'workloads = ["w.yaml"]\n[engine]\ntokenizer = "tokenizer.json"\n')
    return tmp_path


def test_the_action_is_valid() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions"]
    done = subprocess.run([*command, str(ROOT / "action.yml")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_input_is_put_into_a_script() -> None:
    for step in STEPS.values():
        assert "${{" not in step.get("run", ""), "a script that holds what somebody typed runs it"
        assert step.get("shell", "bash") == "bash"
    used = [step["uses"] for step in STEPS.values() if "uses" in step]
    assert used
    assert all(name.startswith(("actions/", "github/")) for name in used)


def test_what_others_publish_is_pinned() -> None:
    """To a full commit with its version beside it, the same everywhere; Dependabot does not look into the docs."""
    pins: dict[str, set[str]] = {}
    for path in (
        ROOT / "action.yml",
        *ROOT.glob(".github/workflows/*.yml"),
        *ROOT.glob("docs/ci/*.yml"),
        ROOT / "docs/ci.md",
    ):
        for used in re.findall(r"^[ -]*uses: *(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            name, _, pin = used.partition("@")
            if name != "your-org/kvtool" and not name.startswith("./"):
                assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin), f"{path.name}: {used}"
                pins.setdefault(name, set()).add(pin)
    assert {name for name, pinned in pins.items() if len(pinned) > 1} == set()
    assert len(pins) >= 4
    images = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert images
    assert all(re.fullmatch(r"[\w.:/-]+@sha256:[0-9a-f]{64}", image) for image in images)
    proposed = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert {each["package-ecosystem"] for each in proposed} == {"github-actions", "docker", "pip"}


def test_everything_that_is_declared_is_used() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name in ACTION["inputs"]:
        assert f"inputs.{name} " in text, name
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.check.outputs.{name} }}}}"


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck on this machine")
def test_the_scripts_pass_shellcheck(tmp_path: Path) -> None:
    for number, step in enumerate(STEPS.values()):
        if "run" in step:
            path = write(str(tmp_path / f"{number}.sh"), "#!/usr/bin/env bash\n" + step["run"])
            done = subprocess.run(["shellcheck", path], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stdout


def test_a_check_that_fails(folder: Path) -> None:
    write(str(folder / "w.yaml"), WORKLOAD.replace("50%", "99%"))
    done, outputs = run_step("Check the prompts", folder, KV_ARGS="--no-advice\n--seed\n3", KV_HTML="true")
    assert done.returncode == 1
    assert "::error " in done.stdout
    assert (outputs["verdict"], outputs["exit-code"]) == ("fail", "1")
    assert Path(outputs["html"]).read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    # The comment step finds its own comment by this line.
    marker = re.search(r'startswith\("(.*?)"\)', STEPS["Comment on the pull request"]["run"])
    assert marker is not None
    assert Path(outputs["markdown"]).read_text(encoding="utf-8").startswith(marker[1])


SHADOWED = ("json", "tokenize", "re", "contextlib", "pathlib", "typing", "pip", "kvtool", "jinja2", "sitecustomize")


@pytest.fixture
def shadows(folder: Path) -> Path:
    """The file that modules in the checked folder write when they are imported, each under a name that Python looks for."""
    marker = folder / "marker"
    for name in SHADOWED:
        write(str(folder / f"{name}.py"), f"open({str(marker)!r}, 'a').write('{name} ')\nraise SystemExit(9)\n")
    done = subprocess.run([sys.executable, "-c", "import json"], cwd=folder, capture_output=True, timeout=60)
    assert (done.returncode, marker.read_text(encoding="utf-8")) == (9, "json "), "they do run where they are found"
    marker.unlink()
    return marker


def test_a_check_that_passes_and_imports_nothing_of_what_it_checks(
    folder: Path, shadows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ".")  # as workflows set it for their own tests
    write(str(folder / "my prompts" / "w 1.yaml"), WORKLOAD)
    done, outputs = run_step("Check the prompts", folder, KV_INPUTS="w.yaml\n\nmy prompts/w 1.yaml\n")
    assert not shadows.exists(), shadows.read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert set(outputs) == set(ACTION["outputs"])
    assert (outputs["verdict"], outputs["exit-code"], outputs["html"]) == ("pass", "0", "")
    assert 0.7 < float(outputs["hit-rate"]) < 0.9
    document = json.loads(Path(outputs["json"]).read_text(encoding="utf-8"))
    assert document["schema"] == "kvtool.check/1"
    assert [report["config"]["input"] for report in document["reports"]] == ["my prompts/w 1.yaml", "w.yaml"]
    assert json.loads(Path(outputs["sarif"]).read_text(encoding="utf-8"))["version"] == "2.1.0"


def test_the_installation_of_the_action_imports_nothing_of_what_it_checks(
    folder: Path, shadows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ".")
    done, _ = run_step(
        "Install kvtool", folder, KV_PIP_ARGS="--help", KV_ACTION="/the/action"
    )  # pip, which installs nothing
    assert not shadows.exists(), shadows.read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr


def test_every_python_of_a_pipeline_is_isolated() -> None:
    for path in ["action.yml", "docs/ci/github.yml", "docs/ci/github-action.yml", "docs/ci/gitlab-ci.yml"]:
        text = (ROOT / path).read_text(encoding="utf-8")
        calls = re.findall(r"\bpython3? -.*", text)
        assert [call for call in calls if not call.startswith("python -I ")] == []
        assert calls or path == "docs/ci/github-action.yml"  # which has no script


def test_hostile_inputs_run_nothing(folder: Path) -> None:
    hostile = "$(touch pwned)\n`touch pwned`\n'; touch pwned; '\n--version\n-"
    done, outputs = run_step("Check the prompts", folder, KV_INPUTS=hostile)
    assert done.returncode == 2
    assert outputs == dict.fromkeys(ACTION["outputs"], "") | {"verdict": "error", "exit-code": "2"}
    assert "touch pwned" in done.stderr  # as the name of a file that is not there
    done, _ = run_step("Check the prompts", folder, KV_ARGS='"; touch pwned\n$(touch pwned)')
    assert done.returncode == 2
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize(
    ("version", "source"),
    [
        ("", "/the/action"),
        ("0.1.0", "kvtool==0.1.0"),
        ("git+https://example.org/kvtool", "git+https://example.org/kvtool"),
    ],
)
def test_what_is_installed(version: str, source: str, tmp_path: Path) -> None:
    log = stub(tmp_path, "python")
    done, _ = run_step(
        "Install kvtool", tmp_path, KV_VERSION=version, KV_ACTION="/the/action", KV_PIP_ARGS="--no-deps\n\n--pre"
    )
    assert done.returncode == 0, done.stderr
    install = [
        "-I",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--pre",
        "--",
        source,
    ]
    assert json.loads(log.read_text(encoding="utf-8")) == install


@pytest.mark.parametrize("found", ["", "77"])
def test_one_comment_that_is_kept_up_to_date(found: str, tmp_path: Path) -> None:
    log = stub(tmp_path, "gh", found)
    done, _ = run_step(
        "Comment on the pull request", tmp_path, KV_REPOSITORY="o/r", KV_NUMBER="5", KV_BODY="kvtool.md", GH_TOKEN="t"
    )
    assert done.returncode == 0, done.stderr
    look, send = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines())
    assert look[:3] == ["api", "--paginate", "repos/o/r/issues/5/comments"]
    where = "repos/o/r/issues/comments/77" if found else "repos/o/r/issues/5/comments"
    assert send == ["api", "--silent", "--method", "PATCH" if found else "POST", where, "-F", "body=@kvtool.md"]


def test_the_hooks_are_declared_as_pre_commit_wants_them() -> None:
    assert [hook["id"] for hook in HOOKS] == ["kvtool-lint", "kvtool-check"]
    known = {
        *("id", "name", "description", "entry", "args", "language", "types_or", "files", "exclude", "pass_filenames"),
        *("require_serial", "minimum_pre_commit_version"),
    }
    for hook in HOOKS:
        assert set(hook) <= known
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert hook["language"] == "python"
        re.compile(hook.get("files", ""))
        re.compile(hook.get("exclude", ""))


def test_documentation_is_no_prompt() -> None:
    for path, read in [
        ("prompts/support.md", True),
        ("support.md", True),
        ("documents/a.md", True),
        ("readme_prompt.j2", True),
        ("README.md", False),
        ("pkg/Readme.md", False),
        ("docs/prompts.md", False),
        ("a/doc/b.md", False),
        (".github/ISSUE_TEMPLATE/bug.md", False),
        ("CHANGELOG-2.0.md", False),
    ]:
        assert (re.search(HOOKS[0]["exclude"], path) is None) is read


def hook(name: str, folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """Run a hook as pre-commit does: its entry, split, with the names of the files that changed."""
    [found] = [each for each in HOOKS if each["id"] == name]
    command, *arguments = [*shlex.split(found["entry"]), *found.get("args", [])]
    passed = files if found.get("pass_filenames", True) else ()
    return subprocess.run(
        [str(BIN / command), *arguments, *passed], cwd=folder, capture_output=True, text=True, timeout=120
    )


def test_the_hooks_pass_and_import_nothing_of_what_they_check(
    folder: Path, shadows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents that begin alike are no traffic, and percent signs no template."""
    monkeypatch.setenv("PYTHONPATH", ".")
    write(str(folder / "good.j2"), SHARED + "\n{{ question }}\n")
    for name in ("one.md", "two.md"):
        write(str(folder / name), f"# {name}, {{name}} and $user\n" + SHARED + SHARED)
    write(str(folder / "latex.md"), "{% 100 %} of {{ braces\n" + SHARED)
    done = hook("kvtool-lint", folder, "good.j2", "json.py", "one.md", "two.md", "latex.md")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    done = hook("kvtool-check", folder, "w.yaml")
    assert done.returncode == 0, done.stderr
    monkeypatch.delenv("PYTHONPATH")
    script = subprocess.run([str(BIN / "kvtool"), "check"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert script.returncode == 0, script.stderr
    assert not shadows.exists(), shadows.read_text(encoding="utf-8")


def test_the_hooks_fail(folder: Path) -> None:
    for name in ("bad.j2", "prompt.md"):
        write(str(folder / name), "Now: {{ now }}\n" + SHARED + SHARED)
    write(str(folder / "one.md"), "# One\n" + SHARED + SHARED)
    done = hook("kvtool-lint", folder, "bad.j2", "one.md", "prompt.md")
    assert done.returncode == 1
    assert "bad.j2:1:6: KV101" in done.stdout
    assert "prompt.md:1:6: KV101" in done.stdout
    assert "one.md" not in done.stdout
    write(str(folder / "w.yaml"), WORKLOAD.replace("50%", "99%"))
    done = hook("kvtool-check", folder, "w.yaml")
    assert done.returncode == 1
    assert "FAIL" in done.stdout
