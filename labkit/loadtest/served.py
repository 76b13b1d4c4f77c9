"""Which server answers at an address, asked before anything is measured."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from labkit.errors import LabError
from labkit.loadtest.evidence import Evidence
from labkit.loadtest.targets import authorization
from labkit.loadtest.wire import Address

PATIENCE_S = 10.0
MAX_BYTES = 1024 * 1024
TELLING = ("model", "context", "vocabulary", "threads", "weights")


def key() -> str | None:
    """The key from the environment; LabError for one that cannot be sent."""
    from labkit.serving.access import KEY_VARIABLE, Access

    return Access(os.environ.get(KEY_VARIABLE) or None).key


def about(url: str, *, openai: bool) -> dict[str, Any]:
    """What a server tells of itself, for environment.json.

    LabError where nothing answers; an OpenAI server without /v1/models
    tells nothing.
    """
    return {"models": models(url)} if openai else health(url)


def health(url: str) -> dict[str, Any]:
    """What the course's server tells of itself."""
    try:
        told = _get(url, "/health")
        return {name: told[name] for name in TELLING if name in told}
    except (OSError, ValueError, TypeError) as error:
        raise LabError(
            f"No server of this course answers at {url} ({error}): start one"
            " with `python -m labkit serve`, or add --openai MODEL for one of"
            " another kind."
        ) from error


def models(url: str) -> list[str] | None:
    """The models of an OpenAI server, sorted; None if it does not say."""
    try:
        told = _get(url, "/v1/models")
        return sorted(str(each["id"]) for each in told["data"])
    except urllib.error.HTTPError as error:
        if error.code != 401:
            return None
        raise LabError(
            f"The server at {url} asks for a key: set LABKIT_API_KEY."
        ) from error
    except (ValueError, TypeError, LookupError):
        return None
    except OSError as error:
        raise LabError(
            f"No server answers at {url} ({error}): start it, or give its"
            " address."
        ) from error


def require_same(before: Evidence, url: str) -> None:
    """LabError when another server answers than the run was begun with."""
    target: Mapping[str, Any] = before.environment["target"]
    now = about(url, openai=target["protocol"] == "openai")
    for name, then in target["server"].items():
        if then is not None and now.get(name) != then:
            raise LabError(
                f"Another server answers at {url} (its {name}: {now.get(name)}"
                f", not {then}): start the one that the run was begun with,"
                " or begin another run in another folder."
            )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A key is sent to nobody but the server that was named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _get(url: str, path: str) -> dict[str, Any]:
    address = Address.of(url)
    host = f"[{address.host}]" if ":" in address.host else address.host
    base = f"{address.scheme}://{host}:{address.port}{address.prefix}"
    asked = urllib.request.Request(  # noqa: S310 - Address lets http in alone
        base + path, headers=dict(authorization(key()))
    )
    # No proxy: servers of this course are on this machine.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), _NoRedirects()
    )
    with opener.open(asked, timeout=PATIENCE_S) as got:
        return dict(json.loads(got.read(MAX_BYTES)))
