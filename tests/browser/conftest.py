"""Headless Chromium, driven by its own chromedriver; nothing is ever downloaded.

Without them these tests are skipped, and say so. DRBQO_REQUIRE_BROWSER=1 turns that into a failure.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-device-scale-factor=1",
)


def missing() -> str | None:
    """What is missing for a browser, None when nothing is."""
    if not any(shutil.which(name) for name in CHROMIUM):
        return "Chromium is not installed (Debian: apt-get install chromium chromium-driver)"
    if shutil.which("chromedriver") is None:
        return "chromedriver is not installed (Debian: apt-get install chromium-driver)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed (pip install -e '.[dev]')"
    return None


class Browser:
    """A page in Chromium, with everything it did on the network and in its console."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = next(path for name in CHROMIUM if (path := shutil.which(name)))
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(executable_path=shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)

    def open(self, url: str, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        """Show a page; logs of earlier pages are dropped."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.console()
        self.requests()
        self.driver.get(url)

    def resize(self, width: int, height: int) -> None:
        """Give the window a size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def scripts(self, on: bool) -> None:
        """Turn scripts of later pages on or off."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not on})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a function body in the page."""
        return self.driver.execute_script(script, *arguments)

    def console(self) -> list[str]:
        """What the console says since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses the page asked for since it was last asked, the browser's own left out."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if not url.startswith(("chrome:", "data:", "about:"))]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    reason = missing()
    if reason is not None:
        if os.environ.get("DRBQO_REQUIRE_BROWSER") == "1":
            pytest.fail(f"browser tests are required here, but {reason}")
        pytest.skip(f"BROWSER TESTS NOT RUN: {reason}")
    browser = Browser()
    yield browser
    browser.driver.quit()
