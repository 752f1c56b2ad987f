"""One fuzzing session: warm the process up, make what is mutated, run jobs of every kind, gather what is wrong."""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.commands import BYTES
from tests.fuzz.document_kinds import document_kinds
from tests.fuzz.forked import Ran, environment, run_jobs
from tests.fuzz.judge import faults, without_place
from tests.fuzz.kinds import Kind, all_kinds, in_turn
from tests.fuzz.planning_commands import MODEL
from tests.fuzz.planning_kinds import planning_kinds


@dataclass
class Tally:
    """What a session has seen."""

    runs: Counter[str] = field(default_factory=Counter)
    codes: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: list[tuple[float, str, int]] = field(default_factory=list)
    peak_bytes: int = 0
    wrong: list[tuple[Ran, list[str]]] = field(default_factory=list)
    unplaced: Counter[tuple[str, str]] = field(default_factory=Counter)
    """First lines of errors that name no line, without their figures."""

    def add(self, ran: Ran) -> list[str]:
        """Count it; the reasons why it is wrong."""
        self.runs[ran.job.kind] += 1
        self.codes[ran.job.kind, ran.code] += 1
        self.seconds += ran.seconds
        self.slowest = sorted([*self.slowest, (ran.seconds, ran.job.kind, ran.job.number)])[-5:]
        self.peak_bytes = max(self.peak_bytes, ran.peak_bytes)
        reasons = list(faults(ran))
        if reasons:
            self.wrong.append((ran, reasons))
        if (line := without_place(ran)) is not None:
            self.unplaced[ran.job.kind, line[:160]] += 1
        return reasons


def begin(tokenizer: str, samples: Path | None = None) -> tuple[list[Kind], dict[str, bytes]]:
    """Import what commands import, once; every kind with its right inputs, and the files that are always there.

    `tokenizer` is a tokenizer.json of one token for each byte; `samples` a folder of logs that are mutated, too.
    """
    os.environ.clear()
    os.environ.update(_given := environment())
    assert _given["KVTOOL_OFFLINE"] == "1"
    common = {BYTES: tokenizer.encode()}
    results = saved_results(tokenizer)
    kinds = all_kinds(results, _tokenizer_folder(tokenizer), _case())
    return [*kinds, *planning_kinds(results, samples), *document_kinds(results)], common


@cache
def saved_results(tokenizer: str) -> dict[str, bytes]:
    """Documents that commands write, from right inputs, by name: report, check, lint, baseline, patch …; made once."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return _results(tokenizer)


def _results(tokenizer: str) -> dict[str, bytes]:
    Path(BYTES).write_text(tokenizer, encoding="utf-8")
    Path("w.yaml").write_text(corpus.WORKLOADS[0], encoding="utf-8")
    Path("made").mkdir()
    Path("made/w.yaml").write_text(corpus.SMALL_WORKLOAD, encoding="utf-8")
    Path("l.jsonl").write_bytes(corpus.LOGS["openai"])
    Path("d.j2").write_text(corpus.PROMPTS[1], encoding="utf-8")
    Path("f.j2").write_text(corpus.FIXABLE, encoding="utf-8")
    Path("p.py").write_text(corpus.PYTHON[0], encoding="utf-8")
    common = ("-t", BYTES, "--offline", "-q")
    ran: dict[str, bytes] = {}
    for name, arguments in {
        "report": ("profile", "w.yaml", "--dry-run", "--per-request", "--boundaries", "-o", "report.json", *common),
        "log": ("profile", "l.jsonl", "--dry-run", "-o", "o.html", *common),
        "check": ("check", "w.yaml", "d.j2", "-o", "check.json", *common),
        "lint": ("lint", "w.yaml", "p.py", "-o", "lint.json", *common),
        "baseline": (
            "check",
            "made/w.yaml",
            "--no-advice",
            "--baseline",
            "made/baseline.json",
            "--update-baseline",
            *common,
        ),
        "shown": ("report", "report.json", "-o", "o.md"),
        "compared": ("compare", "report.json", "report.json", "-o", "o.txt"),
        "diff": ("diff-prompts", "d.j2", "made/w.yaml", "-t", BYTES, "--offline"),
        "patch": ("lint", "f.j2", "--fix", "--unsafe-fixes", "--undo", "patch.json", *common),
        "optimized": ("optimize", "w.yaml", "--unsafe-fixes", *common),
        "config": ("config", "w.yaml", "--json"),
        "plan": ("what-if", "l.jsonl", "--capacity", "2000", "-o", "plan.json", *common),
        **{
            f"plan-{axis}": ("what-if", "l.jsonl", "--sweep", axis, "-o", f"plan-{axis}.json", *rest, *MODEL, *common)
            for axis, rest in corpus.SWEEPS.items()
        },
        "events": ("profile", "made/w.yaml", "--dry-run", "--events", "events.json", *common),
        **({"blocks": ("trace", "l.jsonl", "-o", "t", *common)} if find_spec("pyarrow") else {}),
    }.items():
        _quietly(arguments)
        for path in (Path(f"{name}.json"), Path("made", f"{name}.json")):
            if path.exists():
                ran[name] = path.read_bytes()
    from tests.measure.test_calibration import calibration
    from tests.profiler.made_sessions import made_session, prompts

    ran["calibration"] = calibration().dump()
    if Path("t").exists():
        ran["blocks"] = Path("t/l.jsonl.parquet").read_bytes()
    for path in made_session(prompts(4)).write(Path("session")).iterdir():
        ran[f"session/{path.name}"] = path.read_bytes()
    assert {"report", "check", "lint", "baseline", "patch"} <= ran.keys()
    return ran


def _quietly(arguments: tuple[str, ...]) -> None:
    from kvtool.cli.app import run

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    assert code in (0, 1), (arguments, err.getvalue())


def _tokenizer_folder(tokenizer: str) -> dict[str, bytes]:
    spec = json.loads(tokenizer)
    spec["added_tokens"] = [
        {
            "id": 256 + n,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for n, text in enumerate(("<s>", "</s>", "<|im_start|>"))
    ]
    config = {
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "lstrip": False},
        "add_bos_token": True,
        "chat_template": corpus.CHAT_TEMPLATES[0],
        "model_max_length": 4096,
        "added_tokens_decoder": {"256": {"content": "<s>", "special": True}},
    }
    return {
        "tokenizer.json": json.dumps(spec, ensure_ascii=False).encode(),
        "tokenizer_config.json": json.dumps(config).encode(),
        "special_tokens_map.json": json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}}).encode(),
        "chat_template.jinja": corpus.CHAT_TEMPLATES[1].encode(),
    }


def _case() -> bytes:
    from tests.engine.test_replay import small_case

    return json.dumps(small_case()).encode()


def run_session(
    kinds: Iterable[Kind],
    common: dict[str, bytes],
    *,
    seed: int,
    most: int,
    more: Callable[[], bool] = lambda: True,
    told: Callable[[Ran, list[str]], None] = lambda *_: None,
) -> Tally:
    """Run up to `most` inputs, the kinds taking turns, while there is `more` time; every wrong one is `told`."""
    tally = Tally()
    made = islice(in_turn(list(kinds), seed, common), most)
    with suppress(KeyboardInterrupt):  # what was seen until then is told all the same
        while more() and (batch := list(islice(made, 240))):
            for ran in run_jobs(batch):
                if reasons := tally.add(ran):
                    told(ran, reasons)
    return tally


def cpu_seconds() -> float:
    """Of this process and its children that are over."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def until(budget: float) -> Callable[[], bool]:
    """Whether there is time left, by the clock."""
    end = time.monotonic() + budget
    return lambda: time.monotonic() < end
