"""The server's page in Chromium, with a model whose pace the test sets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

from labkit.serving.access import Access
from labkit.serving.app import create_app
from labkit.serving.engine import SingleSlotEngine
from labkit.serving.interface import Load
from labkit.serving.protocol import GenerateRequest
from labkit.serving.server import BackgroundServer

TIMEOUT_S = 20
FIRST = ord("a")
PHONE: Any = {"width": 360, "height": 740}
pytestmark = pytest.mark.browser


class Paced:
    """Says the alphabet from the last byte on, one token for each turn."""

    name = "paced"
    context = 64
    vocabulary = 256
    end_ids: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self.turns = threading.Semaphore(0)

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def steps(
        self, request: GenerateRequest
    ) -> Generator[int | None, None, None]:
        for step in range(request.max_new_tokens):
            assert self.turns.acquire(timeout=TIMEOUT_S)
            yield FIRST + (request.prompt_ids[-1] + 1 + step - FIRST) % 26


@dataclass
class Served:
    backend: Paced
    engine: SingleSlotEngine
    page: Page
    problems: list[str]

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def wait_for(self, selector: str, text: str) -> None:
        """Wait until an element holds exactly this text."""
        self.page.wait_for_function(
            "([s, t]) => document.querySelector(s).textContent === t",
            arg=[selector, text],
        )


@pytest.fixture
def open_page(chromium_path: str) -> Iterator[Callable[..., Served]]:
    """Opens the page of a server of its own."""
    backend = Paced()
    engine = SingleSlotEngine(lambda: backend)
    engine.wait_until_ready(TIMEOUT_S)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path, args=["--no-sandbox"]
        )
        servers = []

        def visit(key: str | None = None) -> Served:
            app = create_app(engine, access=Access(key))
            servers.append(BackgroundServer(app).start())
            page = browser.new_page(viewport=PHONE)
            page.set_default_timeout(TIMEOUT_S * 1000)
            problems: list[str] = []
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda message: note(message, problems))
            page.goto(servers[-1].url)
            return Served(backend, engine, page, problems)

        yield visit
        backend.turns.release(1000)
        browser.close()
        for server in servers:
            server.stop()
    assert engine.close()


def note(message: ConsoleMessage, problems: list[str]) -> None:
    if message.type == "error":
        problems.append(message.text)


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_tokens_appear_one_by_one(open_page: Callable[..., Served]) -> None:
    served = open_page()
    page = served.page
    page.fill("#prompt", "a")
    page.fill("#count", "4")
    page.press("#count", "Control+Enter")
    served.wait_for("#status", "paced has started.")
    for shown in ("b", "bc", "bcd", "bcde"):
        served.backend.turns.release()
        served.wait_for("#answer", shown)
        assert served.text("#tokens") == str(len(shown))
        assert page.locator("line.token").count() == len(shown)
    served.wait_for("#status", "Done.")
    for name in ("#ttft", "#median", "#longest", "#all"):
        assert served.text(name).endswith(" ms")
    label = page.locator("#line").get_attribute("aria-label")
    assert label is not None
    assert label.startswith("Time line: 4 tokens in ")
    assert page.locator("#send").is_enabled()
    assert served.problems == []


def test_a_fast_answer_is_not_drawn_token_by_token(
    open_page: Callable[..., Served],
) -> None:
    """Or the page would measure its own drawing. All is there at the end."""
    served = open_page()
    page = served.page
    served.backend.context = 4096
    served.backend.turns.release(3000)
    page.evaluate(
        """() => {
          window.draws = 0;
          window.requestAnimationFrame = () => 0;
          new MutationObserver((all) => { window.draws += all.length; })
            .observe(document.querySelector("#line"),
              { attributeFilter: ["aria-label"] });
        }"""
    )
    for _ in range(2):  # the second is drawn on a line without the first
        page.fill("#prompt", "a")
        page.fill("#count", "1500")
        page.click("#send")
        expect(page.locator("#send")).to_be_enabled(timeout=TIMEOUT_S * 1000)
        assert served.text("#status") == "Done."
        shown = served.text("#answer")
        assert len(shown) == 1500
        assert shown.startswith("bcdef")
        assert page.locator("line.token").count() == 1500
        assert served.text("#tokens") == "1500"
    assert page.evaluate("window.draws") == 2
    assert served.problems == []


@pytest.mark.parametrize("by", ["button", "key"])
def test_cancel_frees_the_slot(
    open_page: Callable[..., Served], by: str
) -> None:
    served = open_page()
    page = served.page
    page.fill("#prompt", "a")
    page.fill("#count", "50")
    page.click("#send")
    served.backend.turns.release(2)
    served.wait_for("#answer", "bc")
    assert served.engine.load == Load(1, 0)
    if by == "key":
        page.keyboard.press("Escape")
    else:
        page.click("#cancel")
    served.wait_for("#status", "Cancelled.")
    time.sleep(0.1)  # the end of the connection arrives
    served.backend.turns.release()
    eventually(lambda: served.engine.load == Load(0, 0))
    assert served.text("#answer") == "bc"
    assert page.locator("#cancel").is_disabled()


def test_a_refusal_is_shown(open_page: Callable[..., Served]) -> None:
    served = open_page()
    served.page.fill("#prompt", "a" * 80)
    served.page.fill("#count", "1")
    served.page.click("#send")
    served.wait_for("#status", "Failed.")
    assert "the 64 there is room for" in served.text("#problem")


def test_a_key_is_asked_for(open_page: Callable[..., Served]) -> None:
    served = open_page("s3cret")
    page = served.page
    page.fill("#count", "1")
    assert page.locator("#key").is_hidden()
    page.click("#send")
    served.wait_for("#status", "Failed.")
    page.fill("#key", "s3cret")
    served.backend.turns.release()
    page.press("#key", "Enter")
    served.wait_for("#status", "Done.")


def test_it_fits_a_phone(open_page: Callable[..., Served]) -> None:
    page = open_page().page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.id")
    assert focused == "prompt"
