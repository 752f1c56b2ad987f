"""Checks and times the kernels and the engine on a GPU, within a time budget.

    python benchmarks/gpu.py [--budget SECONDS] [--only SECTION,...] [--out DIR] [--list] [--smoke]

Sections run in processes of their own: whatever one of them does to the device or to itself, the others go on, and what it had
found is kept. Checks of correctness run side by side; timed sections alone and one after the other, the more important ones first.
Results go to benchmarks/results/<device>-<date>.json, written anew whenever there are more, and to DIR as well; tables are printed
last. Exit code 1: a result is wrong, or a check could not be run. --smoke runs the same program on the CPU with tiny sizes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpu_tables import report

ROOT = Path(__file__).resolve().parents[1]
GRACE = 20.0  # seconds that a section may go on beyond its time before its process is ended
STARTUP = 120.0  # seconds in which a process must have begun its first section
POLL = 0.25
LOG = "log"
ENDED = ("ok", "failed", "error", "died", "late", "skipped")


@dataclass(frozen=True)
class Section:
    name: str
    what: str
    seconds: float
    """At most."""
    least: float = 5.0
    """With less, it is not begun."""

    @property
    def checks(self) -> bool:
        """Whether it is about correctness."""
        return self.name.startswith("check-")


SECTIONS = [
    Section("check-engine", "the whole engine against the CPU: families, KV types, graphs, reuse", 120),
    *(Section(f"check-decode-{x}", f"paged_decode and merge_states, {x}", 120) for x in ("bf16", "fp16", "fp32")),
    *(Section(f"check-prefill-{x}", f"paged_prefill, {x}", 120) for x in ("bf16", "fp16", "fp32")),
    Section("check-store", "store_kv and rotary_store_kv, all types", 120),
    Section("check-elementwise", "rms_norm, add_rms_norm, swiglu", 60),
    Section("ceilings", "bytes copied and bf16 FLOPs a second", 20),
    Section("decode", "flat and prefix-aware decode over batch, context and share, beside SDPA", 120, 20),
    Section("end-to-end", "Llama-3.1-8B's geometry: time to the first token, decode of 64 requests", 110, 40),
    Section("prefill", "causal prefill and extension, beside SDPA", 60, 10),
    Section("chunk-attention", "32 K/V heads, batch 32, shared prefixes of 1,024 to 4,096", 20),
    Section("writes", "store_kv, its fusion with the rotation, norms", 30),
    Section("transformers", "the same model through transformers' continuous batching", 80, 40),
    Section("flex", "flex_attention at a few points", 40, 20),
    Section("flashinfer", "FlashInfer at a few points, where it is installed", 60, 10),
]
"""In the order in which they run."""

SKIPPED_IN_SMOKE = ("transformers", "flex", "flashinfer")


@dataclass
class Worker:
    """A process that runs some sections, and another one for the rest if it ends before its time."""

    sections: list[Section]
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    left: int = 0
    """Sections that were not done when the process began."""

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Run:
    program = ROOT / "benchmarks" / "gpu_worker.py"

    def __init__(self, options: argparse.Namespace) -> None:
        self.smoke: bool = options.smoke
        self.began = time.time()
        self.until = self.began + options.budget
        self.out: Path | None = options.out
        self._folder = tempfile.TemporaryDirectory()
        self.work = Path(self._folder.name)
        self.date = datetime.now(UTC)
        self.found: dict[str, dict[str, Any]] = {}
        self._workers: list[Worker] = []
        self._written = ""

    def side_by_side(self, sections: Iterable[Section], processes: int) -> None:
        """Each section in a process of its own."""
        waiting = [Worker([section]) for section in sections]
        self._workers += waiting
        running: list[Worker] = []
        while waiting or running:
            while waiting and len(running) < processes:
                running.append(waiting.pop(0))
            running = [worker for worker in running if self._advance(worker)]
            self._write()
            time.sleep(POLL)

    def in_turn(self, sections: list[Section]) -> None:
        """All sections in one process, as long as it lasts."""
        worker = Worker(sections)
        self._workers.append(worker)
        while self._advance(worker):
            self._write()
            time.sleep(POLL)

    def _advance(self, worker: Worker) -> bool:
        """Look after a worker; False when its sections are all done."""
        self._collect(worker)
        left = [section for section in worker.sections if not self._ended(section)]
        if worker.process is None:
            if left and self.until - time.time() < min(section.least for section in left):
                for section in left:
                    self._end(section, "skipped", "no time")
            elif left and not self.no_device:
                worker.began, worker.left = time.time(), len(left)
                worker.process = self._start(left)
            return worker.process is not None
        code = worker.process.poll()
        if code is None:
            self._end_late(worker, left)
            return True
        worker.process = None
        self._collect(worker)
        left = [section for section in worker.sections if not self._ended(section)]
        if not left or self.no_device:
            return False
        # A process that lost the device ends between two sections; any other was in the middle of one, or never got to it.
        if left[0].name in self.found or len(left) == worker.left:
            self._end(left[0], "died", f"{self._log()}\nits process ended with code {code}")
        return True

    @property
    def no_device(self) -> bool:
        return self.machine().get("device", "") is None

    def machine(self) -> dict[str, Any]:
        """What the first process said about it."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.work / "machine.json").read_text(encoding="utf-8"))
            return found
        return {}

    def _start(self, sections: list[Section]) -> subprocess.Popen[bytes]:
        items = ",".join(f"{section.name}={section.seconds}={section.least}" for section in sections)
        command = [sys.executable, str(self.program), "--work", str(self.work)]
        command += ["--sections", items, "--until", str(self.until), *(["--smoke"] if self.smoke else [])]
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        if self.smoke:  # threads that wait by spinning are in each other's way on a busy machine
            environment["OMP_NUM_THREADS"] = "1"
        with (self.work / LOG).open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=ROOT)

    def _log(self) -> str:
        """The end of what processes printed."""
        with contextlib.suppress(OSError):
            return (self.work / LOG).read_text(encoding="utf-8", errors="replace")[-3000:]
        return ""

    def _end_late(self, worker: Worker, left: list[Section]) -> None:
        """End the process whose section has long been over its time; a kernel that hangs cannot be asked to stop."""
        for section in left[:1]:
            state = self.found.get(section.name)
            until = worker.began + STARTUP if state is None else float(state["until"])
            if time.time() > min(until, self.until) + GRACE:
                worker.end()
                self._end(section, "late", f"its process was ended {GRACE:.0f} s after its time")

    def _collect(self, worker: Worker) -> None:
        for section in worker.sections:
            if self._ended(section):
                continue
            with contextlib.suppress(OSError, ValueError):
                self.found[section.name] = json.loads((self.work / f"{section.name}.json").read_text(encoding="utf-8"))
                if self._ended(section):
                    self._tell(section)

    def _ended(self, section: Section) -> bool:
        return self.found.get(section.name, {}).get("status") in ENDED

    def _end(self, section: Section, status: str, why: str) -> None:
        """For one whose process cannot say so itself; what it has found so far stays."""
        state = self.found.setdefault(section.name, {"rows": [], "notes": [], "seconds": 0.0})
        state["status"] = status
        if status == "skipped":
            state["notes"].append(why)
        else:
            state["error"] = why
        self._tell(section)

    def _tell(self, section: Section) -> None:
        state = self.found[section.name]
        line = f"{time.time() - self.began:5.0f} s  {section.name}: {state['status']}"
        if state["status"] != "skipped":
            line += f", {len(state['rows'])} results in {state['seconds']:.0f} s"
        why = str(state.get("error", "")).strip().splitlines() or [str(note) for note in state["notes"]]
        print(line + (f"  ({why[-1][:100]})" if why else ""), flush=True)

    def result(self) -> dict[str, Any]:
        return {
            "machine": self.machine(),
            "date": self.date.isoformat(timespec="seconds"),
            "smoke": self.smoke,
            "seconds": round(time.time() - self.began, 1),
            "sections": {section.name: self.found[section.name] for section in SECTIONS if section.name in self.found},
        }

    def files(self, result: dict[str, Any]) -> list[Path]:
        """Where the result goes; results of a smoke run are nobody's to keep."""
        device = str(result["machine"].get("device") or "unknown").lower().replace(" ", "-")
        name = f"{device}-{self.date:%Y-%m-%d-%H%M}.json"
        folders = [] if self.smoke else [ROOT / "benchmarks" / "results"]
        return [folder / name for folder in (*folders, *([self.out] if self.out is not None else []))]

    def _write(self) -> None:
        result = self.result()
        text = json.dumps(result["sections"])
        if text == self._written or not result["machine"].get("device"):
            return
        self._written = text
        for file in self.files(result):
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".part")
            part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            part.replace(file)

    def finish(self) -> int:
        """Print the tables; the exit code."""
        self._written = ""
        self._write()
        result = self.result()
        if not result["machine"].get("device"):
            print(self._log(), file=sys.stderr)
            print("no GPU here: benchmarks/gpu.sh --smoke tries the program on the CPU", file=sys.stderr)
            return 2
        print("\n" + report(result))
        for file in self.files(result):
            print(f"written: {file}")
        checks = [state for name, state in result["sections"].items() if name.startswith("check-")]
        return int(any(state["status"] != "ok" for state in checks))

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._folder.cleanup()


def chosen(only: str | None) -> list[Section]:
    """Sections whose names begin with what is asked for."""
    wanted = [name for name in (only or "").split(",") if name]
    found = [section for section in SECTIONS if not wanted or any(section.name.startswith(name) for name in wanted)]
    unknown = [name for name in wanted if not any(section.name.startswith(name) for section in SECTIONS)]
    if unknown:
        sys.exit(f"no section begins with {', '.join(unknown)}; --list names them")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=540.0, metavar="SECONDS", help="of the whole run [540]")
    parser.add_argument("--only", metavar="SECTION,...", help="sections whose names begin so")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a second folder for the results")
    parser.add_argument("--list", action="store_true", help="name the sections and end")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU, kernels in Triton's interpreter")
    options = parser.parse_args()
    sections = chosen(options.only)
    if options.list:
        for section in sections:
            print(f"{section.name:18} at most {section.seconds:3.0f} s  {section.what}")
        return 0
    run = Run(options)
    try:
        if options.smoke:
            run.in_turn([section for section in sections if section.name not in SKIPPED_IN_SMOKE])
        else:
            checks = [section for section in sections if section.checks]
            run.side_by_side(checks, processes=max(1, min(9, (os.cpu_count() or 2) - 2)))
            run.in_turn([section for section in sections if not section.checks])
        return run.finish()
    finally:
        run.close()


if __name__ == "__main__":
    sys.exit(main())
