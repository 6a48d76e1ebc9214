"""Headless Chromium for tests of pages."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

needs_browser = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not (BROWSER and DRIVER), reason="chromium or chromedriver is missing"
)


def start() -> Any:
    """Start a browser without a window; the caller ends it with ``quit``."""
    assert BROWSER, "chromium is missing"
    assert DRIVER, "chromedriver is missing"
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.add_argument("--window-size=1280,800")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
