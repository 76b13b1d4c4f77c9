"""Controls that show what a formula gives, for other models than one's own.

A reader without a kernel sees a table of the same figures.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit import kv_cache, tables
from labkit.known_models import KnownModel, find

WEIGHTS = "bfloat16"
"""The format in which the weights of these models are usually given."""
CONVERSATIONS = tuple(2**power for power in range(9))
SHORTEST = 128
TYPICAL = 4096
COLUMNS = (
    "model",
    "heads shared",
    "layers",
    "query heads",
    "KV heads",
    "head size",
    f"a token, {WEIGHTS}",
    f"{TYPICAL:,} tokens",
    f"weights, {WEIGHTS}",
)


@dataclass(frozen=True)
class Choice:
    """What the controls are set to."""

    model: KnownModel
    length: int
    conversations: int
    dtype: str

    @property
    def per_token(self) -> int:
        """Cache bytes of one token."""
        return kv_cache.bytes_per_token(self.model, self.dtype)

    @property
    def cache_bytes(self) -> int:
        """Cache bytes of all conversations."""
        return self.per_token * self.length * self.conversations


def show(models: Sequence[KnownModel], memory_bytes: int) -> None:
    """Display the controls, and a table where there is no kernel."""
    from IPython.display import display

    made = form(models, memory_bytes)._repr_mimebundle_()
    data = dict(made[0] if isinstance(made, tuple) else made)
    data["text/plain"] = as_text(models)
    data["text/html"] = as_html(models)
    display(data, raw=True)


def form(models: Sequence[KnownModel], memory_bytes: int) -> Any:
    """Model, length, conversations and format, with what they amount to.

    `memory_bytes` is this machine's, to compare with.
    """
    import ipywidgets

    wide = {"style": {"description_width": "8em"}, "layout": {"width": "32em"}}
    names = [model.name for model in models]
    model = ipywidgets.Dropdown(options=names, description="model", **wide)
    length = ipywidgets.SelectionSlider(
        options=lengths(models[0]), description="tokens in use", **wide
    )
    conversations = ipywidgets.SelectionSlider(
        options=CONVERSATIONS, description="conversations", **wide
    )
    dtype = ipywidgets.Dropdown(
        options=list(kv_cache.BITS),
        value=WEIGHTS,
        description="cache in",
        **wide,
    )
    said = ipywidgets.HTML()

    def update(_: object = None) -> None:
        chosen = find(models, model.value)
        known = lengths(chosen)
        if length.options != known:
            kept = max((n for n in known if n <= length.value), default=0)
            with length.hold_trait_notifications():
                length.options, length.value = known, kept or known[0]
        choice = Choice(chosen, length.value, conversations.value, dtype.value)
        said.value = result(choice, memory_bytes)

    controls = (model, length, conversations, dtype)
    for control in controls:
        control.observe(update, "value")
    update()
    return ipywidgets.VBox([*controls, said])


def lengths(model: KnownModel) -> tuple[int, ...]:
    """Powers of two from 128 on that fit, and the whole context."""
    powers = [SHORTEST]
    while 2 * powers[-1] < model.context:
        powers.append(2 * powers[-1])
    return (*powers, model.context)


def result(choice: Choice, memory_bytes: int) -> str:
    """What a choice amounts to, as a table and two bars."""
    model, used = choice.model, choice.cache_bytes
    weights = model.parameters * kv_cache.BITS[WEIGHTS] // 8
    one = choice.per_token * choice.length
    left = memory_bytes - weights
    rows = [
        ("formula", _formula(choice)),
        ("a token", f"{choice.per_token:,} bytes"),
        ("a conversation", size(one)),
        (f"{choice.conversations} of them", size(used)),
        ("weights", f"{size(weights)} in {WEIGHTS}"),
        ("this machine's memory", size(memory_bytes)),
        (
            "conversations beside the weights",
            f"{left // one:,}" if left > 0 else "none: the weights do not fit",
        ),
    ]
    head = (model.name, kv_cache.kind(model))
    parts = [("weights", weights, "#f89c20"), ("cache", used, "#5790fc")]
    bars = "".join(_bar(*part, memory_bytes) for part in parts)
    return tables.as_html([head, *rows]) + bars


def size(count: float) -> str:
    """Bytes in the largest binary unit of which there is one at least."""
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        units.pop(0)
    digits = 0 if units[0] == "bytes" else 1
    return f"{count:,.{digits}f} {units[0]}"


def as_text(models: Sequence[KnownModel]) -> str:
    """Every model's figures, for a reader without a kernel."""
    return tables.as_text(_rows(models))


def as_html(models: Sequence[KnownModel]) -> str:
    """The same as a table of a page."""
    return tables.as_html(_rows(models))


def _rows(models: Sequence[KnownModel]) -> list[tuple[str, ...]]:
    return [COLUMNS, *map(_row, models)]


def _row(model: KnownModel) -> tuple[str, ...]:
    choice = Choice(model, TYPICAL, 1, WEIGHTS)
    counts = model.layers, model.query_heads, model.kv_heads, model.head_size
    held = size(choice.cache_bytes)
    return (
        model.name,
        kv_cache.kind(model),
        *map(str, counts),
        size(choice.per_token),
        held if model.context >= TYPICAL else f"context {model.context:,}",
        size(model.parameters * kv_cache.BITS[WEIGHTS] // 8),
    )


def _formula(choice: Choice) -> str:
    model, bits = choice.model, kv_cache.BITS[choice.dtype]
    return (
        f"2 x {model.layers} layers x {model.kv_heads} KV heads x"
        f" {model.head_size} values x {bits / 8:g} bytes"
    )


def _bar(name: str, part: int, color: str, whole: int) -> str:
    """A part of this machine's memory as a bar with its figure beside it."""
    share = part / whole
    width = 30 * min(1.0, share)
    beyond = ", more than there is" if share > 1 else ""
    text = html.escape(f"{name}: {share:.1%} of this machine{beyond}")
    bar = (
        "display:inline-block;height:1em;vertical-align:middle;"
        f"background:{color};width:{width:.2f}em;margin-right:0.5em"
    )
    return f'<div><span style="{bar}"></span>{text}</div>'
