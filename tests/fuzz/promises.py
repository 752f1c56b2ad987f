"""Whether a report's next command reaches the figure beside it: python -m tests.fuzz.promises --seed FIRST --count N.

Random workloads are profiled, the command that the report proposes is run as it is printed, and so on, until a profile of the
files that were written shows what they hit. What is broken is printed with its seed; the exit code is 1 where anything is.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import random
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import yaml

from kvtool.cli.app import run
from kvtool.profiler.profiler import Profiler
from kvtool.results.report import Report
from tests.files import write
from tests.tokenizers_made import byte_tokenizer_json

Run = Callable[[list[str]], tuple[int, str, str]]
"""Runs a command; its exit code, standard output and standard error."""

_FIXES = r"(?:the )?(?:\d+ )?fix(?:es)?(?:, \d+ shown)?(?: below)?(?: in \d+ groups|, in \d+ steps)?"
_NOW = re.compile(rf"Hit rate +(?P<now>\d+\.\d%)(?: now, (?P<fixed>\d+\.\d%) with {_FIXES})?")
_OPTIMIZED = re.compile(r"Optimized +(\d+\.\d%)")
_MOST_COMMANDS = 12
_WORDS = [
    "answer",
    "quote",
    "the",
    "handbook",
    "rule",
    "claim",
    "never",
    "promise",
    "cover",
    "short",
    "queue",
    "handler",
]
_VARIABLES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Now: {}", {"datetime": "61s"}),
    ("The session began on {} UTC.", {"datetime": "40s", "format": "%A, %d %B %Y at %H:%M:%S"}),
    ("Request {}", {"uuid": 4}),
    ("You are talking to {}, the handler.", {"choice": ["Mara Ilves", "Joe Tran", "Lea Brandt"]}),
    ("Step {}", {"counter": 1}),
    ("Account: {}", {"range": [1, 400]}),
)


class BrokenPromiseError(AssertionError):
    """A command did not reach the figure that was printed beside it."""


def next_command(out: str) -> list[str]:
    """The words of the command that a report proposes, as a shell would read them; none where there is none."""
    block = out[out.rindex("Next") :] if "Next" in out else ""
    lines: list[str] = []
    for line in block.splitlines()[1:]:
        if not lines and not line.startswith("  kvtool "):
            continue
        lines.append(line)
        if not line.endswith("\\"):
            break
    words = shlex.split("\n".join(lines).replace("\\\n", ""))
    return words[1:]


def check_promises(run: Run, command: list[str]) -> int:
    """Run what is proposed until nothing more is; how many commands edited files. BrokenPromiseError, with all that was said."""
    promised: str | None = None
    written: set[tuple[str, ...]] = set()
    said: list[str] = []
    for _ in range(_MOST_COMMANDS):
        code, out, err = run(command)
        said.append(f"$ kvtool {shlex.join(command)}\n{out}{err}")

        def expect(held: object, what: str) -> None:
            if not held:
                raise BrokenPromiseError(f"{what}\n\n" + "\n".join(said))

        expect(code == 0, "the command failed")
        following = next_command(out)
        if command[0] == "profile":
            rates = _NOW.search(out)
            expect(rates, "a profile shows no hit rate")
            assert rates is not None
            expect(promised in (None, rates["now"]), f"{promised} was promised, and {rates['now']} was reached")
            promised = rates["fixed"] if following[:1] == ["optimize"] else None
            if following[:1] != ["optimize"]:
                return len(written)
            expect(promised, "a command that edits has no figure beside it")
        else:
            rate = _OPTIMIZED.search(out)
            expect(
                rate is not None and rate[1] == promised,
                f"{promised} was promised, and {rate and rate[1]} is optimized",
            )
            if "--write" in command:
                expect(tuple(command) not in written, "the same command finds more to edit")
                written.add(tuple(command))
            expect(following, "nothing is proposed after edits")
        command = following
    raise BrokenPromiseError("no end of commands\n\n" + "\n".join(said))


def made_workload(draw: random.Random) -> str:
    """A workload of one or two groups in the current folder: templates with values that change, optional blocks, several files."""
    names = draw.sample(range(len(_VARIABLES)), draw.randint(1, 3))
    variables: dict[str, Any] = {f"v{name}": _VARIABLES[name][1] for name in names}
    variables |= {"n": {"counter": 1}, "vip": {"choice": ["yes", "no"], "weights": draw.choice(([1, 1], [9, 1]))}}
    files = [write(f"prompts/p{at}.j2", _template(draw, names)) for at in range(draw.randint(1, 2))]
    groups: list[dict[str, Any]] = []
    for at in range(draw.choice((1, 1, 2))):
        parts: list[dict[str, Any]] = [{"file": file} for file in draw.sample(files, draw.randint(1, len(files)))]
        if draw.random() < 0.3:
            parts.append({"text": _template(draw, names[:1])})
        parts.append({"text": draw.choice(("Question {{ n }}?", "{{ n }}: what is covered, and why?\n"))})
        if draw.random() < 0.7:
            content = {
                "messages": [{"role": "user" if number else "system", **part} for number, part in enumerate(parts)]
            }
        else:
            content = {"segments": [{"id": f"s{number}", **part} for number, part in enumerate(parts)]}
        groups.append({"name": f"g{at}", "requests": draw.choice((4, 12, 24)), **content})
    return write("w.yaml", yaml.safe_dump({"version": 1, "vars": variables, "groups": groups}, sort_keys=False))


def _template(draw: random.Random, names: list[int]) -> str:
    lines = [_line(draw) for _ in range(draw.randint(6, 20))]
    for name in names:
        text = _VARIABLES[name][0].format(f"{{{{ v{name} }}}}")
        lines.insert(draw.randint(0, len(lines)), text if draw.random() < 0.7 else f"{_line(draw)} {text}")
    if draw.random() < 0.5:
        other = draw.choice(("", "{% else %}\n" + _line(draw) + "\n"))
        block = (
            '{% if vip == "yes" %}\n'
            + "\n".join(_line(draw) for _ in range(draw.randint(1, 4)))
            + f"\n{other}{{% endif %}}"
        )
        lines.insert(draw.randint(0, len(lines)), block)
    if draw.random() < 0.3:
        lines.insert(draw.randint(0, len(lines)), "{# who owns this #}")
    return draw.choice(("\n", "\n", "\r\n")).join("\n".join(lines).split("\n")) + draw.choice(("\n", "", "\n\n"))


def _line(draw: random.Random) -> str:
    return " ".join(draw.choices(_WORDS, k=draw.randint(5, 12))).capitalize() + "."


def planted_workload(seed: int) -> str:
    """A scenario of `benchmarks/advisor.py` as a workload in the current folder: what is planted are variables and Jinja blocks."""
    root = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, root)
    try:
        planted = importlib.import_module("planted")
    finally:
        sys.path.remove(root)
    case = planted.scenario(seed)
    variables: dict[str, Any] = {"n": {"counter": 1}}
    lines: list[str] = []
    for at, part in enumerate(case.passages):
        if isinstance(part, str):
            lines.append(part)
            continue
        if isinstance(part, planted.PlantedSlot):
            values = [part.value(number, case.session_of(number)) for number in range(case.requests)]
            lines.append(f"{part.before}{{{{ v{at} }}}}{part.after}")
        else:
            values = [case.parts(number)[at] if len(case.parts(number)) > at else "" for number in range(case.requests)]
            lines.append(f"{{% if v{at} %}}\n{{{{ v{at} }}}}\n{{% endif %}}")
        variables[f"v{at}"] = {"choice": [value.rstrip("\n") for value in values], "pick": "cycle"}
    system = write("prompts/system.j2", "\n".join(lines) + "\n")
    messages = [{"role": "system", "file": system}, {"role": "user", "text": "Question {{ n }}?"}]
    group = {"name": "g", "requests": case.requests, "messages": messages}
    engine = {"block_size": case.block_size}
    return write(
        "w.yaml",
        yaml.safe_dump({"version": 1, "engine": engine, "vars": variables, "groups": [group]}, sort_keys=False),
    )


def workload_of(seed: int) -> str:
    """The workload of a seed: every third one is a planted scenario."""
    return planted_workload(seed) if seed % 3 == 0 else made_workload(random.Random(f"promises {seed}"))


def _run(words: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    return code, out.getvalue(), err.getvalue()


def main() -> int:
    """Parse, run, tell."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.promises", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--seed", type=int, default=0, help="the first one [0]")
    parser.add_argument("--count", type=int, default=20, help="how many workloads [20]")
    parser.add_argument("--keep", type=Path, help="write what was said of broken ones below this folder")
    asked = parser.parse_args()

    def unmeasured(_: Profiler, report: Report) -> Report:
        return report

    Profiler.measured = unmeasured  # type: ignore[method-assign] # real runs have no part in it
    broken = edited = 0
    for seed in range(asked.seed, asked.seed + asked.count):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            tokenizer = write("tokenizer.json", byte_tokenizer_json())
            try:
                edited += bool(check_promises(_run, ["profile", workload_of(seed), "-t", tokenizer]))
            except BrokenPromiseError as error:
                broken += 1
                print(f"seed {seed}: {str(error).partition(chr(10))[0]}", flush=True)
                if asked.keep is not None:
                    asked.keep.mkdir(parents=True, exist_ok=True)
                    (asked.keep / f"{seed}.txt").write_text(str(error), encoding="utf-8")
            os.chdir("/")
    print(f"{asked.count} workloads, {edited} of them edited, {broken} broken promises")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
