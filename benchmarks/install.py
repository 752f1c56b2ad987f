"""What an install of kvtool costs: seconds, megabytes, and what they are made of; then the first answers in that environment.

python benchmarks/install.py [EXTRA...]

Builds the wheel, and installs it into a fresh environment with pip, from wherever pip is told to take packages; with extras where
they are named. The environment counts as `du` counts it, with pip and the bytecode that it compiled. The first demo prepares the
built-in tokenizer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import machine, time_process

_ROOT = Path(__file__).resolve().parent.parent
_LARGEST = 12


def main() -> None:
    """Build, install, look and run."""
    extras = f"[{','.join(sys.argv[1:])}]" if len(sys.argv) > 1 else ""
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--outdir", folder, str(_ROOT)], check=True, capture_output=True
        )
        [wheel] = work.glob("*.whl")
        environment = work / "environment"
        python = str(environment / "bin" / "python")
        made = time_process([sys.executable, "-m", "venv", str(environment)], runs=1, warm_up=0)
        empty = _megabytes(environment)
        pip = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}{extras}"]
        installed = time_process(pip, runs=1, warm_up=0)
        whole = _megabytes(environment)
        print(f"wheel                    {wheel.stat().st_size / 1e6:8.1f} MB")
        print(f"environment, empty       {empty:8.1f} MB  {made.seconds:6.1f} s  {made.cpu:6.1f} s CPU")
        print(f"pip install kvtool{extras:7}{whole:8.1f} MB  {installed.seconds:6.1f} s  {installed.cpu:6.1f} s CPU")
        for name, size in _largest(environment):
            print(f"  {name:23}{size:8.1f} MB")
        kvtool = str(environment / "bin" / "kvtool")
        own = {"XDG_CACHE_HOME": str(work / "cache"), "PYTHONPATH": ""}
        for label in ("first", "second"):
            demo = time_process([kvtool, "demo", "--dry-run"], runs=1, warm_up=0, env=own)
            print(f"kvtool demo, {label:12}{demo.peak_mib:8.0f} MiB {demo.seconds:6.1f} s  {demo.cpu:6.1f} s CPU")


def _largest(environment: Path) -> list[tuple[str, float]]:
    """The packages that take most, and all others together."""
    [packages] = environment.glob("lib/python*/site-packages")
    sizes = {path.name: _megabytes(path) for path in packages.iterdir()}
    ranked = sorted(sizes.items(), key=lambda item: -item[1])
    return [*ranked[:_LARGEST], ("others", sum(size for _, size in ranked[_LARGEST:]))]


def _megabytes(path: Path) -> float:
    """What files take on the disk, in MB of 1024 x 1024 bytes, each counted once."""
    blocks: dict[int, int] = {}
    for folder, _, files in os.walk(path):
        for name in (folder, *(os.path.join(folder, file) for file in files)):  # noqa: PTH118 - of os.walk
            status = os.lstat(name)
            blocks[status.st_ino] = status.st_blocks
    if path.is_file():
        blocks[0] = path.stat().st_blocks
    return 512 * sum(blocks.values()) / (1 << 20)


if __name__ == "__main__":
    main()
