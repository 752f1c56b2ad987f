"""What `kvtool lint` says about packages that were read by a person, against what the person found; with two other linters.

    python benchmarks/lint_packages.py PACKAGES [--judged FILE]... [--pcdlint PYTHON] [--promptcachelint PYTHON]

PACKAGES holds unpacked packages, a folder NAME-VERSION for each that a FILE names (see `judged.py`); nothing is downloaded,
and nothing in them is run. Each FILE is a set with tables of its own; without the option they are those of `data/`, and the
development of the linter had not looked at the packages of the set `eleventh` when they were
judged. Precision: right findings among all that were judged, where an arguable one is no right one; what nobody has judged is
counted apart. Recall: sites that a finding with a fitting code names. The other linters are run by the interpreter of their
own environments, and judged by the same truth (see `peer_source.py`). CPU seconds are of each tool's processes.
`--unjudged` and `--missed` list findings and sites, to judge and to look at.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judged import UNJUDGED, VERDICTS, Found, JudgedPackage, Tally, read_judged
from peer_source import pcdlint, promptcachelint, run_measured
from timing import machine

DATA = Path(__file__).parent / "data"
SETS = (DATA / "judged_packages.yaml", DATA / "eleventh_packages.yaml")
SEVERITIES = ("error", "warning", "info")


@dataclass
class Said:
    """What a tool said of each package, by its folder, and the CPU seconds that it took."""

    findings: dict[str, list[Found]] = field(default_factory=dict)
    cpu: float = 0.0

    def tally(self, packages: Iterable[JudgedPackage], *, code: str = "", severity: str = "") -> Tally:
        """Of these packages; of one code or severity only, and then of the sites that this code counts."""
        tally = Tally()
        for package in packages:
            findings = [
                found
                for found in self.findings[package.folder]
                if code in ("", found.code) and severity in ("", found.severity)
            ]
            tally.add(package, findings, () if code or severity else package.sites)
            for site in package.sites if code else ():
                if site.codes[0] == code:
                    tally.sites += 1
                    tally.found += any(site.found_by(found) for found in self.findings[package.folder])
        return tally


def kvtool(folder: Path) -> tuple[list[Found], float]:
    """The findings of `kvtool lint` in a package, and its CPU seconds. Exits where it says nothing of any file."""
    command = [sys.executable, "-m", "kvtool", "lint", str(folder), "--json", "--no-config", "--offline", "--quiet"]
    ran = run_measured(command)
    if not ran.output:  # a status of 2 alone says that there was a file that it could not read
        sys.exit(f"kvtool lint {folder.name} ended with {ran.status}")
    told = json.loads(ran.output)["findings"]
    return [
        Found(Path(one["path"]).relative_to(folder).as_posix(), one["line"] or 1, one["code"], one["severity"])
        for one in told
    ], ran.cpu


def kloc(folder: Path) -> float:
    """Thousands of lines of Python."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py")) / 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path, metavar="PACKAGES")
    parser.add_argument("--judged", type=Path, action="append", metavar="FILE", help="a set, once or more often")
    parser.add_argument("--pcdlint", metavar="PYTHON", help="the interpreter of an environment with pcdlint")
    parser.add_argument("--promptcachelint", metavar="PYTHON", help="the same with promptcachelint")
    parser.add_argument("--unjudged", action="store_true", help="list what nobody has judged, as rows of the file")
    parser.add_argument("--missed", action="store_true", help="list the sites that kvtool does not find")
    asked = parser.parse_args()
    sets = {path.stem: read_judged(path) for path in asked.judged or SETS}
    root = asked.packages.resolve()
    absent = [
        package.folder for packages in sets.values() for package in packages if not (root / package.folder).is_dir()
    ]
    if absent:
        parser.error(f"not below {asked.packages}: {', '.join(absent)}")
    tools = {"kvtool": kvtool}
    if asked.pcdlint:
        tools["pcdlint"] = lambda folder: pcdlint(asked.pcdlint, folder)
    if asked.promptcachelint:
        tools["promptcachelint"] = lambda folder: promptcachelint(asked.promptcachelint, folder)
    print(machine())
    for title, packages in sets.items():
        said = {name: Said() for name in tools}
        for package in packages:
            for name, tool in tools.items():  # in turns, so that what else the machine does meets all
                findings, cpu = tool(root / package.folder)
                said[name].findings[package.folder] = findings
                said[name].cpu += cpu
        lines = {package.folder: kloc(root / package.folder) for package in packages}
        print(f"\n{title}")
        report(packages, said, lines)
        if asked.unjudged:
            list_unjudged(packages, said)
        if asked.missed:
            list_missed(packages, said["kvtool"])


def report(packages: Sequence[JudgedPackage], said: dict[str, Said], lines: dict[str, float]) -> None:
    """The tables: tools, then kvtool by severity, by code and by package."""
    parts = {
        "all packages": list(packages),
        "held out": [package for package in packages if package.held_out],
        "the others": [package for package in packages if not package.held_out],
    }
    total = sum(lines.values())
    sites = sum(len(package.sites) for package in packages)
    print(
        f"\n{len(packages)} packages, {total:,.0f} kLOC of Python, {sites} sites; {len(parts['held out'])} packages held out\n"
    )
    _head("", "CPU s", "CPU s/kLOC")
    for name, one in said.items():
        for part, members in parts.items():
            if not members:
                continue
            cost = (f"{one.cpu:.1f}", f"{one.cpu / total:.4f}" if total else "-") if part == "all packages" else ()
            _row(f"{name}, {part}", one.tally(members), *cost)
    ours = said["kvtool"]
    print()
    _head("kvtool, by severity")
    for severity in SEVERITIES:
        _row(severity, ours.tally(packages, severity=severity))
    print()
    _head("kvtool, by code")
    told = {found.code for findings in ours.findings.values() for found in findings}
    for code in sorted(told | {site.codes[0] for package in packages for site in package.sites}):
        _row(code, ours.tally(packages, code=code))
    print()
    _head("kvtool, by package", "kLOC")
    for package in packages:
        mark = " (held out)" if package.held_out else ""
        _row(f"{package.name} {package.version}{mark}", ours.tally([package]), f"{lines[package.folder]:.1f}")


def _head(title: str, *more: str) -> None:
    names = ("told", *VERDICTS, UNJUDGED, "precision", "not wrong", "sites", "found", "recall", *more)
    print(f"{title:<42}" + "".join(f"{name:>11}" for name in names))


def _row(title: str, tally: Tally, *more: str) -> None:
    counts = (tally.told, *(tally.verdicts[verdict] for verdict in (*VERDICTS, UNJUDGED)))
    cells = [*map(str, counts), _share(tally.precision), _share(tally.not_wrong)]
    cells += [str(tally.sites), str(tally.found), _share(tally.recall)] if tally.sites else ["-"] * 3
    print(f"{title:<42}" + "".join(f"{cell:>11}" for cell in (*cells, *more)))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def list_unjudged(packages: Sequence[JudgedPackage], said: dict[str, Said]) -> None:
    """Rows to be judged, under the name of their package."""
    for package in packages:
        rows = {
            (found.file, found.line, found.code): name
            for name, one in said.items()
            for found in one.findings[package.folder]
            if package.verdict(found) == UNJUDGED
        }
        for (file, line, code), name in sorted(rows.items()):
            print(f"{package.name}: [{file}, {line}, {code}]  # {name}")


def list_missed(packages: Sequence[JudgedPackage], ours: Said) -> None:
    """Sites that no finding names."""
    for package in packages:
        for site in package.sites:
            if not any(site.found_by(found) for found in ours.findings[package.folder]):
                print(f"{package.name}: missed {site.file}:{site.first}-{site.last} {' '.join(site.codes)}")


if __name__ == "__main__":
    main()
