"""kvtool where the extra `engine` is not installed, or is broken: everything but real runs works, and those say what to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "triton", "transformers", "safetensors")
LIVE = ("httpx", "prometheus_client", "msgspec")
"""Of the extra `live`, which is not looked for here."""
BLOCKED = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
for name in [name for name in sys.modules if name.partition(".")[0] in {HEAVY}]:
    del sys.modules[name]
"""
NEED_TORCH = (
    "kvtool.engine.attention.attention_plan",
    "kvtool.engine.attention.cpu_",
    "kvtool.engine.attention.window_tile",
    "kvtool.engine.batch",
    "kvtool.engine.model.checkpoint",
    "kvtool.engine.model.decode",
    "kvtool.engine.model.device",
    "kvtool.engine.model.expert_mlp",
    "kvtool.engine.model.grouped_attention",
    "kvtool.engine.model.kv_store",
    "kvtool.engine.model.latent_attention",
    "kvtool.engine.model.layer_weights",
    "kvtool.engine.model.mlp",
    "kvtool.engine.model.model_runner",
    "kvtool.engine.model.parameters",
    "kvtool.engine.model.products",
    "kvtool.engine.model.random_weights",
    "kvtool.engine.model.rope",
    "kvtool.engine.model.routing",
    "kvtool.engine.model.weights",
    "kvtool.kernels.",
    "kvtool.measure.bench.",
    "kvtool.measure.decode",
    "kvtool.measure.device_memory",
    "kvtool.measure.local",
)
"""All that may import torch when it is imported; `kvtool.engine` is the only room of accounting in it, with its models."""


def python(code: str, folder: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own, with these folders where modules are looked for first."""
    path = os.pathsep.join(map(str, (*paths, ROOT)))
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def commands(
    folder: Path, lines: Sequence[Sequence[str]], *paths: Path, before: str = BLOCKED
) -> list[tuple[int, str]]:
    """Exit code and all that was printed of command lines that run one after the other in one process."""
    code = f"""{before}
import contextlib, io, json
from kvtool.cli.app import run
told = []
for line in {[list(line) for line in lines]!r}:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run(line)
    told.append((code, said.getvalue()))
print(json.dumps(told))
"""
    done = python(code, folder, *paths)
    assert done.returncode == 0, done.stderr
    return [(code, said) for code, said in json.loads(done.stdout.splitlines()[-1])]


@pytest.fixture
def folder(tmp_path: Path, bytes_json: str) -> Path:
    """A workload with a clock, a template, two prompts, and a model's folder without its weights."""
    lines = "".join(f"Rule {number}: answer politely and in one sentence.\n" for number in range(20))
    template = f"You help.\nNow: {{{{ now }}}}\n{lines}"
    (tmp_path / "system.md").write_text(template, encoding="utf-8")
    (tmp_path / "a.txt").write_text("Time: 1\n" + lines, encoding="utf-8")
    (tmp_path / "b.txt").write_text("Time: 2\n" + lines, encoding="utf-8")
    (tmp_path / "w.yaml").write_text(
        "version: 1\nname: w\nvars:\n  now: {datetime: 1m}\ngroups:\n- name: g\n  requests: 4\n  messages:\n"
        "  - {role: system, file: system.md}\n  - {role: user, text: Hello}\n",
        encoding="utf-8",
    )
    (tmp_path / "t.json").write_bytes(Path(bytes_json).read_bytes())
    return tmp_path


def test_only_models_and_measurements_import_torch(tmp_path: Path) -> None:
    """The scheduler, its cache and everything above them import without the extra; what does not is listed above."""
    code = f"""{BLOCKED}
import importlib, json, pathlib
root = pathlib.Path({str(ROOT)!r})
failed = []
for path in sorted((root / "kvtool").glob("**/*.py")) + sorted((root / "engine").glob("**/*.py")):
    parts = path.relative_to(root).with_suffix("").parts
    if parts[0] == "engine":
        parts = ("kvtool", *parts)
    if parts[-1] in ("__init__", "__main__"):
        continue
    try:
        importlib.import_module(".".join(parts))
    except ModuleNotFoundError as error:
        if error.name in {LIVE}:
            continue
        if error.name not in {HEAVY}:
            raise
        failed.append(".".join(parts))
print(json.dumps(failed))
"""
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    failed = json.loads(done.stdout.splitlines()[-1])
    assert "kvtool.measure.local" in failed
    assert [name for name in failed if not name.startswith(NEED_TORCH)] == []


def test_every_command_works_without(folder: Path) -> None:
    told = commands(
        folder,
        [
            ["profile", "w.yaml", "-t", "t.json"],
            ["profile", "w.yaml", "-t", "t.json", "--dry-run", "-o", "r.json", "-o", "r.html", "-o", "r.sarif"],
            ["report", "r.json"],
            ["compare", "r.json", "r.json"],
            ["check", "w.yaml", "-t", "t.json", "--min-hit-rate", "0.0"],
            ["optimize", "w.yaml", "-t", "t.json"],
            ["diff-prompts", "a.txt", "b.txt", "-t", "t.json"],
            ["lint", "b.txt"],
            ["size", "llama-3.1-8b"],
            ["explain", "KV101"],
            ["schema", "report"],
            ["config"],
            ["doctor"],
            ["init", "--print", "-t", "t.json"],
        ],
    )
    assert [code for code, _ in told] == [0] * len(told), told
    assert "not measured: pip install 'kvtool[engine]'" in told[0][1]
    assert "pip install 'kvtool[engine]'" not in "".join(said for _, said in told[1:12])
    assert "real runs" in told[12][1]
    report = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    assert report["ttft"]["measured"] is None


def test_what_is_asked_for_and_needs_it_says_so(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "vocab_size": 256,
                "max_position_embeddings": 4096,
                "rms_norm_eps": 1e-5,
            }
        ),
        encoding="utf-8",
    )
    profile = ["profile", "w.yaml", "-t", "t.json"]
    told = commands(
        folder,
        [
            ["bench"],
            [*profile, "--audit"],
            [*profile, "--measure-budget", "5"],
            [*profile, "--device", "cuda"],
            [*profile, "--model", "model"],
            [*profile, "--model", "model", "--dry-run"],
        ],
    )
    assert [code for code, _ in told] == [4, 4, 4, 4, 4, 0], told
    for _, said in told[:5]:
        assert "needs torch, which is not installed" in said
        assert "pip install 'kvtool[engine]'" in said


def test_the_python_api_without(folder: Path) -> None:
    code = f"""{BLOCKED}
import kvtool
report = kvtool.profile("w.yaml", tokenizer="t.json")
assert report.totals.requests == 4 and report.ttft.measured is None
try:
    kvtool.profile("w.yaml", tokenizer="t.json", measure_budget=1.0)
except kvtool.KvtoolError as error:
    print(error, error.hint)
"""
    done = python(code, folder)
    assert done.stdout == "a real run needs torch, which is not installed pip install 'kvtool[engine]'\n", done.stderr


@pytest.mark.parametrize(
    ("error", "line", "code", "what"),
    [
        ("ImportError('libtorch.so: no such file')", ["profile"], 0, "not measured: torch cannot be imported ("),
        ("OSError('bad ELF')", ["profile", "--audit"], 4, "needs torch, which cannot be imported ("),
        ("RuntimeError('?')", ["bench"], 4, "needs torch, which cannot be imported ("),
    ],
)
def test_a_broken_torch(error: str, line: list[str], code: int, what: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken" / "torch").mkdir(parents=True)
    (tmp_path / "broken" / "torch" / "__init__.py").write_text(f"raise {error}\n", encoding="utf-8")
    files = ["w.yaml", "-t", "t.json"] if line[0] == "profile" else []
    # A module that is left in a process may be of the next one's making, so each has its own.
    ((found, said),) = commands(folder, [[*line, *files]], tmp_path / "broken", before="")
    assert (found, what in said, "Traceback" in said) == (code, True, False)
    assert "pip install --force-reinstall 'kvtool[engine]'" in said
