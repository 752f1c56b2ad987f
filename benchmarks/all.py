"""Run every benchmark, and put what it printed into RESULTS.md, with its command, machine, date and commit.

    python benchmarks/all.py [NAME…] [--list] [--again] [--data DIR] [--vllm-python PATH] [--sglang-python PATH] …

One section of RESULTS.md belongs to each run: what stands between `<!-- run NAME -->` and `<!-- end -->` is written here, the words
around it by hand. A run is done again where the code that it measures has changed since the commit that its section names, so a
series that was cut off goes on where it stopped. DIR holds the public data sets (also: $KVTOOL_DATA), PATH is the interpreter of an
environment with vLLM, SGLang, AIPerf or LMCache (also: $VLLM_PYTHON and so on); what needs one that is not there is left as it
stands, with the date it has.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from timing import machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
PRODUCT = ("kvtool", "engine", "kernels", "pyproject.toml")
LINT = ("kvtool/lint",)
"""What only runs of the linter measure."""
PEERS = {"VLLM": "vLLM", "VLLM33": "vLLM 0.33", "SGLANG": "SGLang", "AIPERF": "AIPerf", "LMCACHE": "LMCache"}
"""Whose interpreters commands name, and what is installed there."""
LIMIT = 3_600
"""Seconds that a run may take."""


@dataclass(frozen=True)
class Run:
    """A benchmark: its arguments as a shell would take them, after `python`; `DATA` and `PEERS` stand for what is given."""

    name: str
    command: str
    code: tuple[str, ...] = PRODUCT
    """What it measures: it is done again where one of these has changed."""
    but: tuple[str, ...] = LINT
    """What of that it does not run."""
    last: int = 0
    """Lines at the end that are kept of what it prints; 0 keeps all."""

    @property
    def program(self) -> str:
        """The file that is run; empty for a module of the package."""
        first = shlex.split(self.command)[0]
        return first if first.endswith(".py") else ""

    def arguments(self, data: str, peers: dict[str, str]) -> list[str]:
        """The words of the command, patterns of files resolved. Raises LookupError for what is not there."""
        words: list[str] = []
        for word in shlex.split(self.command):
            if word in PEERS:
                if not peers.get(word):
                    raise LookupError(
                        f"it needs an environment with {PEERS[word]}: --{PEERS[word].lower()}-python PATH"
                    )
                word = peers[word]
            if not word.startswith("DATA"):
                words.append(word)
                continue
            files = sorted(glob(data + word.removeprefix("DATA")))  # noqa: PTH207 - with the folder as it was given
            if not data or not files:
                raise LookupError(f"there is no {word}: --data DIR")
            words += files
        return words


RUNS = (
    Run("install", "benchmarks/install.py", but=()),
    Run("startup", "benchmarks/startup.py"),
    Run("first_figure", "benchmarks/first_figure.py"),
    Run("reports", "benchmarks/reports.py"),
    Run("accounting", "benchmarks/accounting.py", ("engine",)),
    Run("vs_vllm", "benchmarks/vs_vllm.py --vllm-python VLLM", ("engine",)),
    Run("vs_vllm_groups", "benchmarks/vs_vllm_groups.py --vllm-python VLLM33 --outputs 1 16", ("engine",)),
    Run("vs_sglang", "benchmarks/vs_sglang.py --sglang-python SGLANG", ("engine",)),
    Run(
        "vs_planners",
        "benchmarks/vs_planners.py DATA/mooncake/conversation_trace.jsonl DATA/kv_cache_tester/kvct_subset.mooncake.jsonl.gz "
        "--aiperf-python AIPERF --lmcache-python LMCACHE --runs 1",
    ),
    Run("large_curve", "benchmarks/large_curve.py"),
    Run("fleet_jobs", "-m benchmarks.fleet_jobs --files 100 --mb 30 --runs 2"),
    Run("trace", "benchmarks/trace.py DATA/mooncake/conversation_trace.jsonl"),
    Run(
        "agent_logs", "benchmarks/agent_logs.py DATA/lmcache_agent/miniswe/*.jsonl DATA/lmcache_agent/taubench/*.jsonl"
    ),
    Run("random_text", "benchmarks/random_text.py"),
    Run("short_requests", "benchmarks/short_requests.py --requests 500"),
    Run("chat_log", "benchmarks/chat_log.py --requests 3000 --no-advice"),
    Run("replay", "-m kvtool.engine.replay DATA/../oracle/*/*.json", ("engine",), last=1),
    Run("advisor", "benchmarks/advisor.py --scenarios 300 --seed 90000"),
    Run("advisor_kinds", "benchmarks/advisor.py --scenarios 60 --seed 72000 --kind all"),
    Run("injections", "benchmarks/injections.py DATA --seed 701 702 703"),
    Run(
        "lint_packages",
        "benchmarks/lint_packages.py DATA/packages --judged benchmarks/data/judged_packages.yaml "
        "--pcdlint DATA/venv-pcdlint/bin/python "
        "--promptcachelint DATA/venv-promptcachelint/bin/python",
        (*PRODUCT, "benchmarks/data", "benchmarks/judged.py", "benchmarks/peer_source.py"),
        but=(),
    ),
    Run(
        "diagnosis",
        "benchmarks/diagnosis.py --tau DATA/tau_bench/gpt-4o-airline.json "
        "DATA/lmcache_agent/miniswe/*.jsonl DATA/lmcache_agent/taubench/*.jsonl",
    ),
    Run("diff_prompts", "benchmarks/diff_prompts.py"),
    Run("latency", "benchmarks/latency_validation.py DATA/llmservingsim_sharegpt", ("engine",)),
    Run("vs_transformers", "benchmarks/vs_transformers.py --vllm-python VLLM", ("engine", "kernels")),
    Run("sharing", "benchmarks/sharing.py --requests 8 32 64 --shares 0 50 95", ("engine", "kernels")),
    Run("planner", "benchmarks/planner.py", ("engine", "kernels")),
    Run("compile_gate", "tests/kernels/compile_gate.py", ("kernels",)),
    Run("logs", "-m benchmarks.logs --mb 12"),
    Run("price_rows", "-m benchmarks.price_rows --dry-run", last=2),
)


def main() -> int:
    """Run what was asked for; 1 where a run failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="which runs there are, and which of them are up to date")
    parser.add_argument("--again", action="store_true", help="also those whose code has not changed")
    parser.add_argument("--data", default=os.environ.get("KVTOOL_DATA", str(ROOT.parent / "shared" / "data")))
    for name in PEERS:
        variable = f"{name}_PYTHON"
        parser.add_argument(f"--{name.lower()}-python", default=os.environ.get(variable, ""), metavar="PATH", dest=name)
    asked = parser.parse_args()
    unknown = set(asked.names) - {run.name for run in RUNS}
    if unknown:
        parser.error(f"no such run: {', '.join(sorted(unknown))}")
    failed = 0
    for run in RUNS:
        if asked.names and run.name not in asked.names:
            continue
        current = is_current(run, RESULTS.read_text(encoding="utf-8"))
        if asked.list:
            print(f"{run.name:16} {'up to date' if current else 'to be run':10}  python {run.command}")
            continue
        if current and not asked.again:
            continue
        failed += not _run(run, asked.data, {name: getattr(asked, name) for name in PEERS})
    return 1 if failed else 0


def _run(run: Run, data: str, peers: dict[str, str]) -> bool:
    """Whether a run ended well, or could not begin; its section is written where it did."""
    try:
        words = run.arguments(data, peers)
    except LookupError as error:
        print(f"{run.name}: left as it stands; {error}", flush=True)
        return True
    print(f"{run.name}: python {run.command}", flush=True)
    commit = _git("rev-parse", "--short", "HEAD") + ("+" if _changed("HEAD", run) else "")
    try:
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        print(f"{run.name}: not done after {LIMIT} s", flush=True)
        return False
    if done.returncode:
        print(f"{run.name}: exit {done.returncode}\n{done.stderr[-2_000:]}", flush=True)
        return False
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    printed = _without_paths(done.stdout, data, peers)
    results = RESULTS.read_text(encoding="utf-8")
    RESULTS.write_text(with_section(results, run, printed, commit=commit, date=today), encoding="utf-8")
    print(printed, flush=True)
    return True


def with_section(results: str, run: Run, printed: str, *, commit: str, date: str) -> str:
    """RESULTS.md with what a run printed in its section. Raises ValueError where it has none."""
    found = _section(run.name).search(results)
    if found is None:
        raise ValueError(f"RESULTS.md has no section for the run {run.name}")
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    while lines and lines[0] in ("", machine()):
        del lines[0]
    lines = lines[-run.last :]  # all where `last` is 0
    head = f"`python {run.command}`, {date}, commit {commit}, {machine()}:"
    body = "\n".join([f"<!-- run {run.name} -->", head, "", "```text", *lines, "```", "<!-- end -->"])
    return results[: found.start()] + body + results[found.end() :]


def is_current(run: Run, results: str) -> bool:
    """Whether the section of a run is of code that has not changed since, and of the same command."""
    found = _section(run.name).search(results)
    if found is None:
        return False
    head = re.search(r"^`python (?P<command>.+)`, .*commit (?P<commit>[0-9a-f]+),", found[0], re.MULTILINE)
    return head is not None and head["command"] == run.command and not _changed(head["commit"], run)


def _section(name: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- run {re.escape(name)} -->.*?<!-- end -->", re.DOTALL)


def _changed(commit: str, run: Run) -> bool:
    """Whether the working tree differs from a commit in what a run measures or is; True for a commit that is not known."""
    paths = [*run.code, *([run.program] if run.program else []), *(f":(exclude){path}" for path in run.but)]
    return bool(
        subprocess.run(
            ["git", "diff", "--quiet", commit, "--", *paths], cwd=ROOT, capture_output=True, check=False
        ).returncode
    )


def _without_paths(printed: str, data: str, peers: dict[str, str]) -> str:
    """Machines' own paths are nobody's business."""
    found = ((path, name) for name, path in peers.items())
    for path, name in ((data, "DATA"), *found, (str(ROOT), "."), (str(Path.home()), "~")):
        printed = printed.replace(path, name) if path else printed
    return printed


def _git(*words: Sequence[str] | str) -> str:
    return subprocess.run(
        ["git", *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
