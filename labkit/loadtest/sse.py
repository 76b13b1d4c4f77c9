"""Server-sent events from bytes, through the parser of httpx2.

httpx2 follows the HTML standard, section 9.2, and bounds what it holds. It
is imported with this module, not while a stream runs: so is this module by
whoever makes a client. Two things are done before the parser. A line
may end in CR, and then the parser waits for the next bytes to see whether
LF follows; so line ends are made LF here, and an event is out when the
bytes that complete it are in. And a byte order mark is taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import httpx2

MAX_EVENT_BYTES = 1024 * 1024


class EventTooLarge(Exception):
    """An event has more than the bytes that are read."""


def events(
    chunks: Iterable[bytes], max_event_bytes: int = MAX_EVENT_BYTES
) -> Iterator[tuple[str, str]]:
    """Name and data of each event, as soon as its last chunk was read.

    Chunks are cut anywhere, within a character too. Comments, unknown fields
    and events without data are left out, as is an event that the end cuts.
    Bytes that are not UTF-8 become U+FFFD.
    """
    response = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream; charset=utf-8-sig"},
        content=_with_lf(chunks),
        request=httpx2.Request("POST", "http://localhost"),  # it wants one
    )
    try:
        for event in httpx2.EventSource(response, max_event_bytes):
            if event.data:
                yield event.event, event.data
    except httpx2.SSEError:
        raise EventTooLarge from None


def _with_lf(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same with LF at the end of each line that CR or CRLF ended."""
    after_cr = False
    for chunk in chunks:
        rest = chunk[1:] if after_cr and chunk[:1] == b"\n" else chunk
        after_cr = chunk.endswith(b"\r") if chunk else after_cr
        if rest:
            yield rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
