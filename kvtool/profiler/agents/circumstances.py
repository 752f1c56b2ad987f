"""The circumstances that a probe of an agent changes, one in each run, in a visible list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvtool.config.command_line import flag
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv115 import TOOLS_CHANGED
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.codes.values.kv104 import KV104
from kvtool.diagnose.codes.values.kv106 import KV106
from kvtool.errors import KvtoolError

FOLDER = DifferenceKind("folder", "text that depends on the folder", KV106.code)
LOCALE = DifferenceKind("locale", "text that depends on the locale", KV104.code)
ZONE = DifferenceKind("time_zone", "text that depends on the time zone", KV104.code)
USER = DifferenceKind("user", "name of user or host", KV104.code)
CLOCK = DifferenceKind("clock", "text that depends on the clock", KV101.code)
GIT = DifferenceKind("git", "text that depends on the repository", KV106.code)
"""What a circumstance reaches, where the text itself does not say it; `kvtool lint --probe` has the same."""
_USER = "somebody"
_SLOW_START = 4.0
"""Seconds until a late MCP server answers at the latest, which is what an agent waits that waits for its tools."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """A stub of an MCP server with two tools. It answers once a turn has sent two requests, after `delay` seconds at the latest."""

    name: str
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Circumstance:
    """What one run changes. `group` is its name for the option; `when` says it in words, `kind` what it reaches.

    `folder` and `home` are relative to the folder of the probe. With `session` each turn is run, else only the first. `days` pass
    and `commits` are made before each turn. The steps of a run that is not `judged` do not decide the verdict: no cache lasts until
    tomorrow, and another version is not the one that is probed.
    """

    name: str
    when: str
    group: str = ""
    kind: DifferenceKind = OTHER
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = "repo"
    home: str = "home"
    days: int = 0
    commits: int = 0
    servers: tuple[McpServer, ...] = ()
    session: bool = False
    other: bool = False
    judged: bool = True

    @property
    def waits(self) -> bool:
        """Return whether a server is late."""
        return any(each.delay for each in self.servers)


BASE = Circumstance("base", "nothing changes", session=True)
AGAIN = Circumstance("again", "nothing changes in a second run", session=True)
RESUME = Circumstance("resume", "another command continues the session", session=True)
_LOCALE = "de_DE.UTF-8"
_SERVERS = tuple(McpServer(name) for name in ("harbor", "atlas", "compass"))
VARIED: tuple[Circumstance, ...] = (
    Circumstance("folder", "the repository is in another folder", kind=FOLDER, folder="elsewhere/project"),
    Circumstance(
        "home",
        "another user has another home",
        kind=USER,
        home=f"users/{_USER}",
        variables={"USER": _USER, "LOGNAME": _USER},
    ),
    Circumstance(
        "git", "the repository has another branch, and a commit more at each turn", kind=GIT, commits=1, session=True
    ),
    Circumstance(
        "locale", f"LANG={_LOCALE}", kind=LOCALE, variables={"LANG": _LOCALE, "LC_ALL": _LOCALE, "LANGUAGE": "de"}
    ),
    Circumstance("zone", "TZ=Asia/Tokyo", kind=ZONE, variables={"TZ": "Asia/Tokyo"}),
    Circumstance("mcp 1", "there is an MCP server", "mcp", TOOLS_CHANGED, servers=_SERVERS[:1]),
    Circumstance("mcp 3", "there are three MCP servers", "mcp", TOOLS_CHANGED, servers=_SERVERS),
    Circumstance(
        "mcp late",
        f"an MCP server is ready after two requests or {_SLOW_START:.0f} s",
        "mcp",
        TOOLS_CHANGED,
        servers=(McpServer("late", _SLOW_START),),
        session=True,
    ),
    Circumstance("tomorrow", "a day passes before each turn", kind=CLOCK, days=1, session=True, judged=False),
    Circumstance("version", "the other version runs", other=True, session=True, judged=False),
)
NAMES = (AGAIN.name, RESUME.name, *dict.fromkeys(each.group or each.name for each in VARIED))


def chosen(vary: str | None, *, fast: bool) -> Sequence[Circumstance]:
    """Return the circumstances to run after the two base runs. KvtoolError for a name that is none."""
    if fast:
        return ()
    if vary is None:
        return VARIED
    names = [name.strip() for name in vary.split(",") if name.strip()]
    for name in names:
        if name not in NAMES:
            raise KvtoolError(
                f"{flag('vary')}: there is no circumstance `{name}`", hint=f"choose of {', '.join(NAMES)}"
            )
    return [each for each in VARIED if (each.group or each.name) in names]
