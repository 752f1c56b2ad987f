"""Writes what all commands print for the examples and for sample logs, to compare two checkouts byte for byte.

    python -m tests.all_outputs FOLDER [NAME…]

Run it in the root of each checkout, then `diff -r FOLDER_BEFORE FOLDER_AFTER`. With names: only runs whose name contains one.
It needs no network and no torch; nothing that it prints depends on the clock or the machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.forked import Job, environment, run_jobs
from tests.fuzz.log_samples import json_samples

ROOT = Path(__file__).parent.parent
QUIET = ("--no-config", "--offline")
RUN = ("--dry-run", *QUIET)
FORMATS = ("json", "md", "html", "csv", "svg", "txt", "xml", "sarif")
COMMANDS: dict[str, tuple[str, ...]] = {
    "details": ("profile", "{}", *RUN, "--details", "--boundaries"),
    "narrow": ("profile", "{}", *RUN, "--plain", "--width", "60"),
    "wide": ("profile", "{}", *RUN, "--width", "200", "--by", "line", "--show-text", "full"),
    "capacity": ("profile", "{}", *RUN, "--capacity", "500", "--concurrency", "4"),
    "sglang": ("profile", "{}", *RUN, "--rules", "sglang"),
    "what-if": ("what-if", "{}", *QUIET),
    "compare-engines": ("compare-engines", "{}", *QUIET),
    "lint": ("lint", "{}", *QUIET, "--json"),
    "check": ("check", "{}", *QUIET, "--min-hit-rate", "0.5"),
    "optimize": ("optimize", "{}", "--allow", "P3", *QUIET),
    **{f"report.{form}": ("profile", "{}", *RUN, "--per-request", "-o", f"report.{form}") for form in FORMATS},
}
OF_LOGS = ("details", "narrow", "report.json", "report.html")


def jobs() -> Iterator[Job]:
    """All runs: every command with every workload, and a few with sample logs."""
    files = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in sorted((ROOT / "workloads").rglob("*"))
        if path.is_file()
    }
    for name in files:
        if name.endswith(".yaml"):
            yield from _runs(name, files, tuple(COMMANDS))
    for sample, data in json_samples().items():
        yield from _runs(f"{sample}.jsonl", {f"{sample}.jsonl": data}, OF_LOGS)
        yield Job(f"{sample}.logs", 0, ("logs", f"{sample}.jsonl", "--requests"), {f"{sample}.jsonl": data})


def _runs(source: str, files: dict[str, bytes], names: tuple[str, ...]) -> Iterator[Job]:
    for name in names:
        arguments = tuple(word.format(source) for word in COMMANDS[name])
        outputs = (name,) if name.startswith("report.") else ()
        yield Job(f"{source.replace('/', '_')}.{name}", 0, arguments, files, outputs=outputs)


def main(folder: Path, only: list[str]) -> int:
    """Run all jobs and write their outputs; returns how many ended with a signal or a bug."""
    folder.mkdir(parents=True)
    folder = folder.resolve()
    os.environ.update(environment(), TZ="UTC", COLUMNS="80", NO_COLOR="1", KVTOOL_JOBS="1")
    failed = 0
    for ran in run_jobs([job for job in jobs() if not only or any(name in job.kind for name in only)]):
        failed += ran.code not in (0, 1, 2, 4)
        text = f"exit {ran.code}\n{ran.out}\n--\n{ran.err}"
        (folder / f"{ran.job.kind}.txt").write_text(text, encoding="utf-8")
        for name, data in ran.written.items():
            (folder / f"{ran.job.kind}.{name}").write_bytes(data)
    print(f"{len(list(folder.iterdir()))} files in {folder.name}, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(Path(sys.argv[1]), sys.argv[2:])))
