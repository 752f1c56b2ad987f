"""The circumstances that a probe changes one at a time, in a visible list: how, and what to do where one reaches the prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kvtool.diagnose.codes import varies
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.codes.values.kv102 import KV102
from kvtool.diagnose.codes.values.kv104 import KV104
from kvtool.diagnose.codes.values.kv105 import KV105
from kvtool.diagnose.codes.values.kv106 import KV106
from kvtool.lint.probe.probe_runner import Circumstances
from kvtool.profiler.agents.circumstances import CLOCK, FOLDER, LOCALE, USER, ZONE

Environment = Mapping[str, str]
_USER, _HOST = "somebody", "elsewhere"


@dataclass(frozen=True, slots=True)
class Variant:
    """One change, in words, and the circumstances with it; `home` asks for a home folder of its own."""

    when: str
    change: Callable[[Circumstances], Circumstances]
    home: bool = False


@dataclass(frozen=True, slots=True)
class Factor:
    """A circumstance. `what` names what it changes where a detector does not, `code` is the diagnosis then and `codes` those that
    a detector's name may keep; the mildest variant comes first."""

    key: str
    name: str
    what: str
    code: str
    codes: frozenset[str]
    variants: Callable[[Environment], list[Variant]]
    needs_python: bool = False
    is_order: bool = False


def circumstances(variant: Variant, base: Circumstances, home: str) -> Circumstances:
    """The circumstances of a run with one thing changed."""
    how = variant.change(base)
    return replace(how, variables={**how.variables, "HOME": home}) if variant.home else how


def _shifted(when: str, seconds: int) -> Variant:
    def change(how: Circumstances) -> Circumstances:
        return replace(how, shift=seconds, clock=None if how.clock is None else how.clock + seconds)

    return Variant(when, change)


def _clocks(_: Environment) -> list[Variant]:
    return [
        _shifted("a second later", 1),
        _shifted("an hour later", 3600),
        _shifted("a day later", 86_400),
        _shifted("400 days later", 400 * 86_400),
    ]


def _seeded(seed: int) -> Variant:
    return Variant(f"PYTHONHASHSEED={seed}", lambda how: replace(how, hash_seed=seed))


def _hash_seeds(_: Environment) -> list[Variant]:
    return [_seeded(seed) for seed in (1, 2, 3)]


def _with(when: str, variables: Mapping[str, str]) -> Variant:
    return Variant(when, lambda how: replace(how, variables={**how.variables, **variables}))


def _locales(env: Environment) -> list[Variant]:
    now = env.get("LC_ALL") or env.get("LANG") or ""
    other = "fr_FR.UTF-8" if now.startswith("de") else "de_DE.UTF-8"
    return [_with(f"LANG={other}", {"LANG": other, "LC_ALL": other, "LANGUAGE": other.partition(".")[0]})]


def _zones(env: Environment) -> list[Variant]:
    other = "America/New_York" if env.get("TZ") == "Asia/Tokyo" else "Asia/Tokyo"
    return [_with(f"TZ={other}", {"TZ": other})]


def _folders(_: Environment) -> list[Variant]:
    return [Variant("run from another folder", lambda how: replace(how, moved=True))]


def _users(env: Environment) -> list[Variant]:
    names = {"USER": _USER, "LOGNAME": _USER, "USERNAME": _USER, "HOSTNAME": _HOST, "HOST": _HOST}
    if home := env.get("HOME"):  # packages that the user installed stay where they are
        names["PYTHONUSERBASE"] = env.get("PYTHONUSERBASE") or f"{home}/.local"

    def change(how: Circumstances) -> Circumstances:
        return replace(how, user=_USER, host=_HOST, variables={**how.variables, **names})

    return [Variant("another user, home and host", change, home=True)]


def _listings(_: Environment) -> list[Variant]:
    return [
        Variant("by name", lambda how: replace(how, listing="sorted")),
        Variant("by name, backwards", lambda how: replace(how, listing="reversed")),
    ]


def _none(_: Environment) -> list[Variant]:
    return []


RANDOMNESS = Factor(
    "random", "unseeded randomness", "random text", KV102.code,
    frozenset({KV101.code, KV102.code, KV104.code, KV105.code, KV106.code}), _none, is_order=True,
)  # fmt: skip
FACTORS: tuple[Factor, ...] = (
    Factor("clock", "clock", CLOCK.name, CLOCK.code, frozenset({KV101.code}), _clocks, needs_python=True),
    Factor(
        "hash_seed", "hash seed", "text that depends on set order", KV201.code, frozenset({KV102.code}), _hash_seeds,
        needs_python=True, is_order=True,
    ),
    Factor("locale", "locale", LOCALE.name, LOCALE.code, frozenset({KV104.code}), _locales),
    Factor("time_zone", "time zone", ZONE.name, ZONE.code, frozenset({KV104.code}), _zones),
    Factor("folder", "working directory", FOLDER.name, FOLDER.code, frozenset({KV106.code}), _folders),
    Factor("user", "user and host", USER.name, USER.code, frozenset({KV104.code, KV106.code}), _users),
    Factor(
        "listing", "directory order", "text that depends on file order", KV201.code, frozenset(), _listings,
        needs_python=True, is_order=True,
    ),
)  # fmt: skip

_FIXES = {
    "hash_seed": "sort the set before you write it: `sorted(...)`",
    "locale": "format numbers and dates in one fixed locale, or move them after the shared text",
    "time_zone": "write times in one fixed zone such as UTC, after the shared text",
    "folder": "write paths relative to the project, or move them after the shared text",
    "user": "move what depends on user and host after the shared text",
    "listing": "sort the listing: `sorted(os.listdir(...))`, `sorted(path.glob(...))`",
}
_CLOCK_FIXES = {
    "a second later": "move it after the shared text, or write only the day",
    "an hour later": "move it after the shared text, or write only the day",
    "a day later": "move it after the shared text: here, every day starts with a cold cache",
    "400 days later": "move it after the shared text, or accept a cold cache at each of its rare changes",
}


def fix_of(factor: Factor, kind: DifferenceKind, when: str) -> str:
    """Return the fix for a circumstance that reaches the prompt."""
    if factor.key == "clock":
        return _CLOCK_FIXES.get(when, _CLOCK_FIXES["a second later"])
    if factor.key != RANDOMNESS.key:
        return _FIXES[factor.key]
    if varies(kind.code) == "order":
        return "keep one order: sort, or shuffle with a fixed seed"
    return "send it as metadata of the request, or move it after the shared text"
