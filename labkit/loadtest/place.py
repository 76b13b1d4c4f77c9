"""Where a load test is made: a run is never continued on another machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from labkit import machine
from labkit.errors import LabError
from labkit.loadtest.evidence import Evidence

TELLING = ("cpu", "cores", "system", "architecture")
"""What of a machine is the same after it was started again."""


def here() -> dict[str, Any]:
    """This machine and its software, for environment.json."""
    return {
        "machine": asdict(machine.identify()),
        "software": machine.software(),
    }


def require_same(found: Evidence) -> None:
    """LabError when a run was begun on another machine or software."""
    now, then = here(), found.environment
    differs = [
        name
        for name in TELLING
        if then["machine"].get(name) != now["machine"][name]
    ]
    if then["software"] != now["software"]:
        differs.append("software")
    if differs:
        raise LabError(
            f"This run was begun elsewhere (another {', '.join(differs)}):"
            " figures of two machines do not belong in one report; start a"
            " new run in another folder."
        )
