"""The page in a real browser, wide and narrow, by mouse and by keyboard, in light and dark.

Skipped where no Chromium is installed; REASONLOOP_CHROMIUM names one that is not on the PATH.
"""

import os
import shutil

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from pipeline_lib.systems.loop.report import write_report
from tests.unit.systems.loop.reporting.demo_report import HOSTILE, demo_input

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDTHS = {"desk": 1280, "phone": 390}

CONTRASTS = """() => {
  const channel = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parse = color => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = parse(getComputedStyle(element).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255];
  };
  const ratios = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const pair = [light(parse(getComputedStyle(element).color)), light(behind(element))].sort();
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    const name = element.tagName + "." + element.className;
    ratios[name] = Math.min(ratio, ratios[name] ?? 99);
  }
  return ratios;
}"""


@pytest.fixture(scope="module")
def browser():
    found = os.environ.get("REASONLOOP_CHROMIUM") or next(
        filter(None, map(shutil.which, COMMANDS)), None
    )
    if found is None:
        pytest.skip(
            "no Chromium: install one (apt-get install chromium) or set REASONLOOP_CHROMIUM"
        )
    with sync_playwright() as playwright:
        # Root has no sandbox of the browser's own; the page is ours and loads nothing.
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return write_report(demo_input(40, resamples=100), folder, revision={}).as_uri()


class Opened:
    """A page with everything that it asked for and complained about."""

    def __init__(self, browser: Browser, address: str, *, width: int, dark: bool = False) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page: Page = context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console",
            lambda line: (
                self.complaints.append(line.text) if line.type in {"error", "warning"} else None
            ),
        )
        self.page.goto(address)


@pytest.fixture(scope="module", params=WIDTHS.values(), ids=WIDTHS.keys())
def opened(request, browser, address):
    return Opened(browser, address, width=request.param)


def test_nothing_is_wider_than_the_window(opened):
    """No sideways scrolling of the page, with every problem of the browser section unfolded too."""
    page = opened.page
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    widths = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    page.evaluate("document.querySelectorAll('details').forEach((one, n) => one.open = n == 0)")
    assert widths[0] <= widths[1]


def test_captions_are_whole(opened):
    """The caption of a table that is wider than the window is wrapped within the window."""
    ends = opened.page.evaluate(
        "[...document.querySelectorAll('caption span')].map(one => one.getBoundingClientRect().right)"
    )
    assert len(ends) > 3
    assert max(ends) <= opened.page.viewport_size["width"]


def test_no_request_leaves_the_page(opened, address):
    """Scrolled to its end, the page has asked for itself and for pictures that it carries."""
    opened.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    opened.page.wait_for_load_state("networkidle")
    others = {url for url in opened.requests if not url.startswith("data:")}
    assert others == {address}
    assert opened.complaints == []


def test_what_a_model_wrote_runs_nothing(opened):
    """The hostile path is text on the page: no element of it exists, no dialog opens."""
    page = opened.page
    assert page.locator("script").count() == 0
    assert page.locator("img[src^='http']").count() == 0
    assert HOSTILE in page.locator("body").text_content()


def test_pictures_and_text_are_there(opened):
    """Every figure is drawn, the headline is visible, every section has its heading in view."""
    page = opened.page
    drawn = page.evaluate("[...document.images].map(one => one.complete && one.naturalWidth > 0)")
    assert drawn
    assert all(drawn)
    assert page.locator("h1").is_visible()
    for heading in page.locator("h2").all():
        assert heading.is_visible()
        assert heading.bounding_box()["width"] > 50


def test_problems_open_by_keyboard(opened):
    """Tab reaches the summary of a closed problem, Enter opens it and closes it again."""
    page = opened.page
    second = page.locator("details").nth(1)
    page.locator("details summary").first.focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    assert second.evaluate("one => one.contains(document.activeElement)")
    page.keyboard.press("Enter")
    assert second.locator("pre").first.is_visible()
    page.keyboard.press("Enter")
    assert not second.locator("pre").first.is_visible()


def test_paths_are_filtered_by_what_became_of_them(opened):
    """The choice 'discarded' shows only failed requests and verifications; 'all' shows every path."""
    page = opened.page
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.get_by_label("discarded", exact=True).check()
    assert page.locator(".path.discarded:visible").count() > 0
    assert page.locator(".path.correct:visible, .path.wrong:visible").count() == 0
    page.get_by_label("all", exact=True).check()
    assert page.locator(".path.correct:visible").count() > 0
    page.evaluate("document.querySelectorAll('details').forEach((one, n) => one.open = n == 0)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(browser, address, dark):
    """WCAG's contrast of 4.5 to 1 for every piece of text. Source: WCAG 2.2, 1.4.3."""
    page = Opened(browser, address, width=1280, dark=dark).page
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    faint = {name: ratio for name, ratio in page.evaluate(CONTRASTS).items() if ratio < 4.5}
    assert faint == {}
