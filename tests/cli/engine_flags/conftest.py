"""A folder with a workload of tokens and a tiny model, and `kvtool profile` in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from kvtool.cli.app import run
from kvtool.engine.model.checkpoint import SINGLE_FILE
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.parameter_shapes import parameter_shapes

Capture = pytest.CaptureFixture[str]
Shown = Callable[..., str]
Document = Callable[..., dict[str, Any]]
# Between two uses of a prefix there are six prompts of five blocks: 20 blocks reuse none, 38 all of them.
TOKENS = """\
version: 1
groups:
  - name: gen
    generate: {prefixes: 6, per_prefix: 4, prefix_tokens: 64, suffix_tokens: 16, output_tokens: 4}
"""
SMALL, LARGE = "40MiB", "400MiB"
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "dtype": "float32",
    "head_dim": 8,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "vocab_size": 300,
}
TINY_BLOCK_BYTES = 2 * 2 * 16 * 2 * 8 * 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "w.yaml").write_text(TOKENS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "PYTHONHASHSEED"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def shown(folder: Path, bytes_json: str, capsys: Capture) -> Shown:
    """Runs `kvtool profile w.yaml` with more flags; the report, with its lines joined to one."""

    def start(*flags: str, code: int = 0, name: str = "w.yaml") -> str:
        assert run(["profile", name, "--quiet", "-t", bytes_json, *flags]) == code
        out, err = capsys.readouterr()
        assert err == ""
        return " ".join(out.split())

    return start


@pytest.fixture
def document(folder: Path, bytes_json: str, capsys: Capture) -> Document:
    """The same, as JSON."""

    def start(*flags: str, code: int = 0, name: str = "w.yaml") -> dict[str, Any]:
        assert run(["profile", name, "--quiet", "--json", "-t", bytes_json, *flags]) == code
        out, err = capsys.readouterr()
        assert err == ""
        found: dict[str, Any] = json.loads(out)
        return found

    return start


def refused(arguments: list[str], capsys: Capture, code: int = 2) -> str:
    """What is said on stderr; nothing is on stdout."""
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert "a bug in kvtool" not in err
    return err


def put_config(folder: Path, **change: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | change))


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    shapes = parameter_shapes(ModelConfig.from_hf(folder))
    return {name: torch.randn(shape, generator=random) * 0.3 for name, shape in shapes.items()}


@pytest.fixture
def checkpoint(folder: Path) -> Path:
    """A folder with a tiny model, weights and all."""
    put_config(folder / "tiny")
    save_file(tensors(folder / "tiny"), folder / "tiny" / SINGLE_FILE)
    return folder / "tiny"


MEASURED = ("--model", "tiny", "--measure-budget", "60")


_SAMPLE = re.compile(r'([a-z_:]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\} ([-+.e\d]+|NaN|[+-]Inf)')


def samples(path: Path) -> dict[str, float]:
    """Values by name, with the labels that tell samples of one name apart; every line must be in the text format."""
    found: dict[str, float] = {}
    typed = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        if line.startswith("#"):
            assert re.match(r"# (HELP|TYPE) vllm:[a-z_]+ \S", line)
            continue
        parts = _SAMPLE.fullmatch(line)
        assert parts is not None, line
        name, labels, value = parts.groups()
        assert name in typed or re.sub("_(bucket|sum|count)$", "", name) in typed
        own = re.sub(r'(model_name|engine)="[^"]*",?', "", labels).rstrip(",")
        found[f"{name}{{{own}}}" if own else name] = float(value)
    return found
