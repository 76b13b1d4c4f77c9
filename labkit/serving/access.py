"""Who may use the server: pages of elsewhere may not, nor who lacks the key.

A page from anywhere can make its reader's browser send requests to this
machine. What gives it away is the Origin that the browser adds, or, when a
name was made to point here, the Host it asks for.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from labkit.errors import LabError
from labkit.serving.protocol import Refusal, shown

KEY_VARIABLE = "LABKIT_API_KEY"
"""Where a key comes from: a command line can be read by other users."""
OPEN_PATHS = frozenset({"/", "/health"})
"""What needs no key: a page without secrets, and a sign of life."""


@dataclass(frozen=True)
class Access:
    """The rules of one server.

    `key`, where there is one, is asked for as a bearer token. An address or
    localhost is always a good host, for only a name can be made to point to
    a machine of others; `names` are further good ones.
    """

    key: str | None = None
    names: Collection[str] = ()

    def __post_init__(self) -> None:
        key = self.key
        if key is not None and not (
            key.isascii() and key.isprintable() and key.strip() == key != ""
        ):
            raise LabError(
                "The key must be of printable ASCII characters, without a "
                "space at either end; choose another."
            )

    def check(
        self,
        path: str,
        host: str | None,
        origin: str | None,
        authorization: str | None,
    ) -> None:
        """Refuse a request by its path and headers, or let it pass."""
        if host is not None and not self._is_good_host(host):
            raise Refusal(
                403,
                "foreign_host",
                f"This server is not {shown(host)}; use its address.",
            )
        if origin is not None and not _same(origin, host):
            raise Refusal(
                403,
                "foreign_origin",
                "A page of another site may not use this server; open the "
                "server's own page.",
            )
        if path not in OPEN_PATHS and not self._has_key(authorization):
            raise Refusal(
                401,
                "wrong_key",
                "Send the server's key in the header Authorization: "
                "Bearer KEY.",
            )

    def _is_good_host(self, host: str) -> bool:
        name = _hostname(host)
        if name is None:
            return False
        if name == "localhost" or name in {n.lower() for n in self.names}:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _has_key(self, authorization: str | None) -> bool:
        if self.key is None:
            return True
        scheme, _, sent = (authorization or "").partition(" ")
        same = hmac.compare_digest(
            sent.strip().encode("utf-8", "replace"), self.key.encode("ascii")
        )
        return same and scheme.lower() == "bearer"


def host_name(text: str) -> str:
    """`text`, if it is a host's name and no more; LabError otherwise."""
    if not text or _hostname(text) != text.lower():
        raise LabError(
            f"{text!r} is not the name of a host; write it alone, such as "
            "lab.example, without http:// or a port."
        )
    return text


def _hostname(host: str) -> str | None:
    """The lower-case name in a Host header; None when it makes no sense."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    if parts.username is not None or parts.path or parts.query:
        return None
    return parts.hostname


def _same(origin: str, host: str | None) -> bool:
    scheme, separator, netloc = origin.partition("://")
    return (
        host is not None
        and separator != ""
        and scheme in {"http", "https"}
        and netloc.lower() == host.lower()
    )
