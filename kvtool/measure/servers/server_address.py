"""Address of a server and its key, which comes from the environment and goes into a header only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from kvtool.errors import KvtoolError

_KEY, _OPENAI_KEY = "KVTOOL_API_KEY", "OPENAI_API_KEY"
_OPENAI = "api.openai.com"
_ENDINGS = ("/metrics", "/v1")
_EXAMPLE = "write it like http://localhost:8000"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The root of a server, without what users put after it: `http://localhost:8000` of `http://localhost:8000/v1/`."""

    root: str

    def url(self, path: str) -> str:
        """Return the URL of a path that begins with a slash."""
        return f"{self.root}{path}"

    @property
    def host(self) -> str:
        """Return its name or number, without the port."""
        return urlsplit(self.root).hostname or ""

    @property
    def is_local(self) -> bool:
        """Return whether the server is on this machine."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    def same_origin(self, url: str) -> bool:
        """Return whether a URL is of this server: its host and port, or its host by https instead of http."""
        try:
            mine, other = urlsplit(self.root), urlsplit(url)
            ports = (other.port, mine.port)
        except ValueError:
            return False
        if mine.hostname != other.hostname:
            return False
        return (mine.scheme == other.scheme and ports[0] == ports[1]) or (mine.scheme, other.scheme) == (
            "http",
            "https",
        )

    def headers(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the headers with the key of KVTOOL_API_KEY, or of OPENAI_API_KEY where the server is its owner's; KvtoolError for
        what is no key."""
        name = _KEY
        key = environment.get(_KEY, "").strip()
        if not key and self.host == _OPENAI:
            name = _OPENAI_KEY
            key = environment.get(_OPENAI_KEY, "").strip()
        if not key:
            return {}
        if not key.isascii() or not key.isprintable():
            raise KvtoolError(f"{name} is not a valid API key: it contains characters that a header cannot contain")
        return {"Authorization": f"Bearer {key}"}


def is_url(text: str) -> bool:
    """Return whether an argument names a server rather than a file."""
    return text.lower().startswith(("http://", "https://"))


def server_address(url: str) -> ServerAddress:
    """Return the address of a URL as users write it; KvtoolError for what is none, and for one with a key or password in it."""
    if not is_url(url):
        raise KvtoolError("the URL of a server must begin with http:// or https://", hint=_EXAMPLE)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        (host or "").encode("idna")  # as it is looked up: each part of a name has 1 to 63 characters
    except ValueError as error:
        raise KvtoolError(f"not a URL of a server: {error}", hint=_EXAMPLE) from error
    if not host or any(character.isspace() or not character.isprintable() for character in url):
        raise KvtoolError("the URL of a server must name a host", hint=_EXAMPLE)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise KvtoolError(
            "the URL of a server must not contain a user, password or query: others can see the command line",
            hint=f"put the key into the variable {_KEY}",
        )
    path = parts.path.rstrip("/")
    for ending in _ENDINGS:
        path = path.removesuffix(ending).rstrip("/")
    return ServerAddress(f"{parts.scheme}://{parts.netloc}{path}")
