"""Releases of vLLM whose scheduler the engine follows, and the rules in which they differ."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.engine_error import EngineError


@dataclass(frozen=True, slots=True)
class VllmRelease:
    """The rules of a release that not all releases have; read in, and compared with, its own scheduler.

    - `spaces_prefills`: `prefill_schedule_interval` holds for an engine by itself, not only for ranks of data parallelism.
    - `goes_on`: where a request preempts itself by priority, or has to wait for a state, those after it are still scheduled.
    - `registers_once`: a state that is registered already counts as computed; otherwise no other request hits it in that step.
    - `hashes_ahead`: with drafts, a block's hash covers the tokens after it, so the last block of a hit is not dropped.
    - `knows_drafts`: layers of drafts are known as such; otherwise only those of MTP are, by being the last ones.
    - `registers_verified`: blocks of accepted drafts are registered at once; otherwise in the next step.
    - `keeps_below_junctions`: where prompts diverge, the block before is kept, too, for groups that drop one.
    """

    name: str
    spaces_prefills: bool = True
    goes_on: bool = True
    registers_once: bool = True
    hashes_ahead: bool = True
    knows_drafts: bool = True
    registers_verified: bool = True
    keeps_below_junctions: bool = True


RELEASES = {
    release.name: release
    for release in (
        VllmRelease(
            "0.32",
            spaces_prefills=False,
            goes_on=False,
            registers_once=False,
            hashes_ahead=False,
            knows_drafts=False,
            registers_verified=False,
            keeps_below_junctions=False,
        ),
        VllmRelease("0.33"),
    )
}
LATEST_RELEASE = "0.33"


def find_release(name: str) -> VllmRelease:
    """Return a release by its name; EngineError for one that was not compared."""
    if name not in RELEASES:
        raise EngineError(f"the rules of vLLM {name} are unknown", hint=f"known releases: {', '.join(RELEASES)}")
    return RELEASES[name]


def release_of(version: str) -> str | None:
    """Return the release of a server's version, `0.32` of `0.32.1`; None for one that was not compared."""
    name = ".".join(version.split(".")[:2])
    return name if name in RELEASES else None
