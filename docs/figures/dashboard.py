"""Make dashboard.png: six runs on the sonar data and a comparison, in headless Chromium.

    python docs/figures/dashboard.py

Needs Chromium and chromedriver (Debian: chromium, chromium-driver) and selenium.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import drbqo_ray as dr
from drbqo_ray.dashboard.server import Dashboard
from drbqo_ray.objective import load_objective
from drbqo_ray.storage.listing import list_runs

FIGURE = Path(__file__).resolve().with_suffix(".png")
OBJECTIVE = "workers.svm:sonar"
WIDTH = 1400
CHOOSE = """
    for (const box of document.querySelectorAll("#runs input:enabled")) box.click();
    document.getElementById("compare").click();
"""


def main() -> None:
    """Run, serve, photograph."""
    worker = load_objective(OBJECTIVE)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for method in ("foldwise", "random"):
            for seed in range(3):
                dr.run(
                    OBJECTIVE,
                    worker.space,
                    worker.n_folds,
                    n_evaluations=40,
                    method=method,
                    seed=seed,
                    storage="runs",
                    name=f"sonar-{method}-{seed}",
                    backend="local",
                )
        list_runs("runs")
        dashboard = Dashboard("runs")
        try:
            photograph(dashboard.url)
        finally:
            dashboard.close()


def photograph(url: str) -> None:
    """Save the whole page with all runs compared."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        driver.set_window_size(WIDTH, 1000)
        driver.get(url)
        wait_for(driver, "#runs tbody tr")
        driver.execute_script(CHOOSE)
        wait_for(driver, "#curves polyline")
        height = driver.execute_script("return document.documentElement.scrollHeight")
        size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.save_screenshot(str(FIGURE))
    finally:
        driver.quit()
    print(FIGURE)


def wait_for(driver: object, selector: str) -> None:
    """Wait until the page has such an element."""
    script = "return document.querySelectorAll(arguments[0]).length"
    for _ in range(300):
        if driver.execute_script(script, selector):  # type: ignore[attr-defined]
            return
        time.sleep(0.1)
    raise SystemExit(f"no {selector} on the page")


if __name__ == "__main__":
    main()
