"""What a person found in packages: the sites that a linter must find, and what each of its findings is worth.

A file of judgements names packages, versions, files and lines, never their text. For each package it holds

- `sites`: `[file, first line, last line, codes, how sure]`: a value that varies stands there before prompt text that requests
  share; a finding of one of the codes on one of the lines finds it. The first code is the one that counts it.
- `findings`: `[file, line, code, verdict, why]`: `right`, `arguable` or `wrong`. A finding that finds a site is right without a
  line here; a line here says otherwise.
- `held_out`: nobody who works on the linter was told anything about this package before the figures were taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

VERDICTS = ("right", "arguable", "wrong")
UNJUDGED = "unjudged"
SURE = ("sure", "likely")


@dataclass(frozen=True)
class Found:
    """What a tool said: a file below the package's folder, a line from 1, a code of kvtool's, a severity."""

    file: str
    line: int
    code: str
    severity: str = "error"


@dataclass(frozen=True)
class Site:
    """A place that costs hits; `codes` are the right names of it, the best one first."""

    file: str
    first: int
    last: int
    codes: tuple[str, ...]
    sure: bool

    def found_by(self, found: Found) -> bool:
        return found.file == self.file and self.first <= found.line <= self.last and found.code in self.codes


@dataclass(frozen=True)
class JudgedPackage:
    """One package of one version."""

    name: str
    version: str
    held_out: bool = False
    sites: tuple[Site, ...] = ()
    verdicts: dict[tuple[str, int, str], str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Its folder among the unpacked packages."""
        return f"{self.name}-{self.version}"

    def verdict(self, found: Found) -> str:
        """What a finding is worth; `unjudged` where nobody has looked at it."""
        judged = self.verdicts.get((found.file, found.line, found.code))
        if judged is not None:
            return judged
        return "right" if any(site.found_by(found) for site in self.sites) else UNJUDGED


@dataclass
class Tally:
    """Findings by verdict, and sites."""

    verdicts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    sites: int = 0
    found: int = 0

    @property
    def told(self) -> int:
        return sum(self.verdicts.values())

    @property
    def precision(self) -> float | None:
        """Right ones among those that were judged: an arguable finding is no right one."""
        judged = sum(self.verdicts[verdict] for verdict in VERDICTS)
        return self.verdicts["right"] / judged if judged else None

    @property
    def not_wrong(self) -> float | None:
        """Right and arguable ones among those that were judged."""
        judged = sum(self.verdicts[verdict] for verdict in VERDICTS)
        return 1 - self.verdicts["wrong"] / judged if judged else None

    @property
    def recall(self) -> float | None:
        return self.found / self.sites if self.sites else None

    def add(self, package: JudgedPackage, findings: Iterable[Found], sites: Iterable[Site]) -> None:
        """Count what was said of a package, and which of the sites that is."""
        findings = list(findings)
        for found in findings:
            self.verdicts[package.verdict(found)] += 1
        for site in sites:
            self.sites += 1
            self.found += any(site.found_by(found) for found in findings)


def read_judged(path: Path) -> list[JudgedPackage]:
    """The packages of a file of judgements. Raises ValueError with the place of what is wrong in it."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    packages = [_package(entry) for entry in document["packages"]]
    twice = len(packages) - len({package.folder for package in packages})
    if twice:
        raise ValueError(f"{path}: {twice} packages stand there twice")
    return packages


def _package(entry: dict[str, Any]) -> JudgedPackage:
    name = entry["name"]
    sites = []
    for file, first, last, codes, sure in entry.get("sites", ()):
        if not 1 <= first <= last or sure not in SURE:
            raise ValueError(f"{name}: site {file}:{first}-{last}, {sure}")
        sites.append(Site(file, first, last, tuple(codes.split()), sure == "sure"))
    verdicts = {}
    for file, line, code, verdict, *_why in entry.get("findings", ()):
        if verdict not in VERDICTS or (file, line, code) in verdicts:
            raise ValueError(f"{name}: finding {file}:{line} {code}: {verdict} is no verdict, or stands there twice")
        verdicts[file, line, code] = verdict
    return JudgedPackage(name, str(entry["version"]), bool(entry.get("held_out", False)), tuple(sites), verdicts)
