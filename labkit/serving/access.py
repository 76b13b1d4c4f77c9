"""Who may use the server: pages of elsewhere may not, nor who lacks the key.

A page from anywhere can make its reader's browser send requests to this
machine. What gives it away is the Origin that the browser adds, or, when a
name was made to point here, the Host it asks for.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass

from labkit.errors import LabError
from labkit.serving.protocol import Refusal, shown

KEY_VARIABLE = "LABKIT_API_KEY"
"""Where a key comes from: a command line can be read by other users."""
OPEN_PATHS = frozenset({"/", "/health"})
"""What needs no key: a page without secrets, and a sign of life."""
DEFAULT_PORTS = {"http": 80, "https": 443}
"""A browser leaves these out, of Host and Origin alike."""
_AUTHORITY = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-f:]*:[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII | re.IGNORECASE,
)


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


def _authority(text: str) -> tuple[str, int | None] | None:
    """Lower-case name and port of a Host header; None when it is none.

    It has a name or an address and perhaps a port, and nothing else that a
    URL may have there (RFC 9110, section 7.2).
    """
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return None
    port = int(found["port"]) if found["port"] else None
    if port is not None and port > 65535:
        return None
    return (found["ipv6"] or found["name"]).lower(), port


def _hostname(host: str) -> str | None:
    """The lower-case name in a Host header; None when it makes no sense."""
    found = _authority(host)
    return found[0] if found else None


def _same(origin: str, host: str | None) -> bool:
    """Whether a page of `origin` came from the `host` that is asked."""
    scheme, _, place = origin.partition("://")
    default = DEFAULT_PORTS.get(scheme)
    ours, theirs = _authority(host or ""), _authority(place)
    if default is None or ours is None or theirs is None:
        return False
    return (ours[0], ours[1] or default) == (theirs[0], theirs[1] or default)
