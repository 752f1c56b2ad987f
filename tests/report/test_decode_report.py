"""What `kvtool profile` says of decode steps, in its report and its JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.text.terminal.console import cell_width

Capture = pytest.CaptureFixture[str]
TOKEN_BYTES = 131_072
"""Of Llama-3.1-8B in bf16."""

WORKLOAD = """\
version: 1
groups:
  - name: gen
    generate: {prefixes: 1, per_prefix: 12, prefix_tokens: 2048, suffix_tokens: 16, output_tokens: OUT}
"""


@pytest.fixture
def folder(tmp_path: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bytes.json").symlink_to(bytes_json)
    (tmp_path / "w.yaml").write_text(WORKLOAD.replace("OUT", "40"), encoding="utf-8")
    (tmp_path / "short.yaml").write_text(WORKLOAD.replace("OUT", "1"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def document(capsys: Capture, *flags: str, name: str = "w.yaml") -> dict[str, Any]:
    assert run(["profile", name, "--quiet", "--json", "--dry-run", "-t", "bytes.json", *flags]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_json_of_a_dry_run(folder: Path, capsys: Capture) -> None:
    found = document(capsys)
    assert found["config"]["decode_attention"] == "auto"
    assert found["config"]["decode_batch"] == 64
    assert found["config"]["device"] is None
    decode = found["decode"]
    assert (decode["batch"], decode["sampled"], decode["samples"], decode["sampled_of"]) == (12, "windows", 1, 1)
    assert decode["flat_bytes_per_step"] == 12 * 2065 * TOKEN_BYTES
    assert decode["prefix_aware_bytes_per_step"] == (2048 + 12 * 17) * TOKEN_BYTES
    assert (decode["decode_attention"], decode["chosen"], decode["prefix_aware_share"]) == ("auto", "prefix-aware", 1)
    assert decode["tpot"]["measured"] is None
    assert decode["tpot"]["predicted"]["prefix_aware"] < decode["tpot"]["predicted"]["flat"]
    assert document(capsys)["decode"] == decode
    assert document(capsys, "--decode-attention", "flat")["decode"]["chosen"] == "flat"
    assert document(capsys, "--decode-batch", "5")["decode"]["batch"] == 5
    assert document(capsys, "-n", "1")["decode"] is None


def test_a_run_with_steps_that_decode_tells_of_those(folder: Path, capsys: Capture) -> None:
    decode = document(capsys, "--concurrency", "3")["decode"]
    assert (decode["sampled"], decode["samples"]) == ("steps", 20)
    assert 1 < decode["batch"] <= 3
    decode = document(capsys, "--concurrency", "3", name="short.yaml")["decode"]
    assert (decode["sampled"], decode["batch"]) == ("windows", 3)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_report_has_both_figures(folder: Path, capsys: Capture, width: int) -> None:
    assert (
        run(["profile", "w.yaml", "--quiet", "--dry-run", "--details", "-t", "bytes.json", "--width", str(width)]) == 0
    )
    out = capsys.readouterr().out
    assert max(map(cell_width, out.splitlines())) <= width
    text = " ".join(out.split())
    flat, aware = f"{12 * 2065 * TOKEN_BYTES / 2**30:.1f} GiB", f"{(2048 + 12 * 17) * TOKEN_BYTES / 2**20:.1f} MiB"
    assert re.search(rf"KV read .*{flat}.*{aware}.*{12 * 2065 / (2048 + 12 * 17):.1f}x", text)
    assert "12 conversations that decode together" in text
    assert "--decode-attention auto is prefix-aware" in text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--decode-batch", "0"], "--decode-batch must be at least 1, not 0"),
        (["--decode-batch", "300"], "--decode-batch 300 is more than --max-num-seqs 256 allows"),
        (["--decode-batch", "9", "--concurrency", "8"], "more than --concurrency 8"),
        (["--device", "gpu"], "unknown device `gpu`"),
        (["--decode-attention", "tree"], "--decode-attention"),
    ],
)
def test_flags_that_cannot_be(folder: Path, capsys: Capture, flags: list[str], said: str) -> None:
    assert run(["profile", "w.yaml", "--dry-run", *flags]) == 2
    out, err = capsys.readouterr()
    assert (out, "Traceback" in err) == ("", False)
    assert said in err
