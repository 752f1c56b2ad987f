"""Options of the verdict on running servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kvtool.config import bounds
from kvtool.config.option import Option, Panel


@dataclass(frozen=True, kw_only=True)
class WhyOptions:
    """The span that is watched, and what is known of a router."""

    PANEL: ClassVar = Panel.COMMON
    span: Annotated[
        str | None,
        Option("Time to watch: 60s, 5m.", "TIME", flag="--for", words="since the server's start", check=bounds.a_while),
    ] = None
    kv_events: Annotated[
        tuple[str, ...],
        Option(
            "Endpoint of KV events, one per server: tcp://HOST:PORT, ipc://PATH, or server to ask the server.",
            "ENDPOINT",
        ),
    ] = ()
    recorded: Annotated[
        tuple[str, ...],
        Option("Folder of a recorded session or of saved /metrics, instead of a server; repeatable.", "DIR"),
    ] = ()
    router_block_size: Annotated[
        int | None,
        Option("Tokens of a block in your router or offloading tier.", "N", check=bounds.at_least_one),
    ] = None
