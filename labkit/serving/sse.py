"""Server-sent events, as bytes (HTML standard, section 9.2)."""

from __future__ import annotations

import json
from typing import Any

DONE = b"data: [DONE]\n\n"
"""How a stream of OpenAI's ends."""


def event(data: dict[str, Any], name: str | None = None) -> bytes:
    """One event whose data is one line of JSON in ASCII."""
    line = json.dumps(data, allow_nan=False)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {line}\n\n".encode("ascii")
