"""Make report.png: the top of the report of a run like `drbqo demo`, in headless Chromium.

    python docs/figures/report.py

Needs Chromium and chromedriver (Debian: chromium, chromium-driver) and selenium.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import drbqo_ray as dr
from drbqo_ray.cli.demo import EVALUATIONS, OBJECTIVE, RADIUS, SLOTS
from drbqo_ray.objective import load_objective

FIGURE = Path(__file__).with_suffix(".png")
WIDTH = 1000
BOTTOM = "return document.querySelector('#ranking').getBoundingClientRect().bottom"


def main() -> None:
    """Run, report, photograph."""
    worker = load_objective(OBJECTIVE)
    with tempfile.TemporaryDirectory() as directory:
        result = dr.run(
            OBJECTIVE,
            worker.space,
            worker.n_folds,
            n_evaluations=EVALUATIONS,
            uncertainty=RADIUS,
            max_in_flight=SLOTS,
            storage=directory,
            name="svm-sonar",
        )
        photograph(result.report(Path(directory) / "report.html"))


def photograph(page: Path) -> None:
    """Write the top of the page as it looks in light mode."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        size = {"width": WIDTH, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(page.as_uri())
        size["height"] = round(driver.execute_script(BOTTOM)) + 24
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.save_screenshot(str(FIGURE))
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
