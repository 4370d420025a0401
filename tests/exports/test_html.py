"""The HTML report: as a file, by its text, and in a real browser where there is one."""

from __future__ import annotations

import html.parser
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.profiler.reports import html as page

sys.path.insert(0, str(Path(__file__).parent))
import recorded

HERE = Path(__file__).parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LIMIT = 600_000


def cases() -> dict[str, object]:
    path = HERE.parent / "reports" / "cases.py"
    spec = importlib.util.spec_from_file_location("report_cases", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.CASES)


CASES = cases()


class Page(html.parser.HTMLParser):
    """Tags with their attributes, ids, and whether every tag is closed."""

    VOID = ("meta", "link", "rect", "path", "br", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def values(self, name: str) -> list[str]:
        return [found[name] or "" for _, found in self.tags if name in found]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    recorded.record(home, gpu=True)
    out = home / "report.html"
    done = subprocess.run(
        [sys.executable, "-m", "accelprof", "report", "-o", str(out)],
        capture_output=True, text=True, check=False,
        env=os.environ | {"ACCELPROF_HOME": str(home)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, f"accelprof: wrote {out}\n")
    return out


def sound(text: str) -> Page:
    """Well formed, nothing from outside, nothing that the policy would block."""
    found = Page(text)
    assert not found.open
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    assert set(" ".join(found.values("aria-labelledby")).split()) <= set(ids)
    assert not found.values("style") and not found.values("src")
    assert not [name for _, given in found.tags for name in given if name.startswith("on")]
    assert [link for link in found.values("href") if not link.startswith("data:,")] == []
    assert "url(" not in text and "@import" not in text and "http" not in _outside_policy(text)
    assert len(text.encode()) <= LIMIT
    return found


def _outside_policy(text: str) -> str:
    return re.sub(r"http-equiv", "", text)


def test_the_file(written: Path) -> None:
    text = written.read_text()
    found = sound(text)
    titles = {given["data-chart"] for tag, given in found.tags if tag == "figure"}
    assert titles == {"shares", "steps", "roofline", "use", "memory", "power"}
    body = text[text.index("<main>") :]
    assert re.sub(r"<[^>]*>|\s+", " ", body).strip().startswith("Input-bound, medium confidence")


def test_every_drawing_is_named_and_described(written: Path) -> None:
    text = written.read_text()
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert "aria-label" in drawing
        assert 'class="bar"' in drawing or re.search(r"<title .*?</title><desc .*?</desc>", drawing)
    assert text.count("<figure") == text.count("<summary>As a table</summary>")


def test_text_of_the_job_stays_text(written: Path) -> None:
    text = written.read_text()
    assert "<img src=x" not in text
    assert "&lt;img src=x" in text
    marks = re.search(r'id="marks">(.*?)</script>', text, re.DOTALL)
    assert marks is not None
    assert "<" not in marks[1]
    assert any("<img src=x" in mark[2] for mark in json.loads(marks[1])["roofline"])


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_report_makes_a_sound_page(name: str) -> None:
    report = CASES[name]
    text = page.render(report() if callable(report) else report)  # type: ignore[arg-type]
    sound(text)
    assert "<h1>" in text


# The page's own checks: what it logged, asked for, and drew, written where --dump-dom shows it
PROBE = r"""
<script>
  const told = [];
  for (const level of ['error', 'warn']) {
    const old = console[level];
    console[level] = (...words) => { told.push(words.join(' ')); old(...words); };
  }
  addEventListener('error', event => told.push(String(event.message)));
  addEventListener('securitypolicyviolation', event =>
    told.push(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  addEventListener('load', () => {
    const plot = document.querySelector('.plot');
    plot.focus();
    plot.dispatchEvent(new KeyboardEvent('keydown', {key: 'End', bubbles: true}));
    // WCAG's contrast of every text with what lies behind it, in both themes
    const parts = text => (text.match(/[\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = element => {
      for (let at = element; at; at = at.parentElement) {
        const [r, g, b, a = 1] = parts(getComputedStyle(at).backgroundColor);
        if (a > 0) return [r, g, b];
      }
      return [255, 255, 255];
    };
    const faint = [];
    for (const theme of ['light', 'dark']) {
      document.documentElement.dataset.theme = theme;
      for (const element of document.querySelectorAll('main *, footer *')) {
        const own = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        if (!own || !element.getClientRects().length) continue;
        const style = getComputedStyle(element);
        const ink = element.ownerSVGElement ? style.fill : style.color;
        const [a, b] = [light(parts(ink)), light(behind(element))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) faint.push(`${theme} ${ratio.toFixed(2)} ${element.textContent}`);
      }
    }
    const wide = document.documentElement.scrollWidth <= innerWidth;
    document.body.setAttribute('data-told', JSON.stringify({
      told, wide, faint, said: plot.querySelector('.said').textContent,
      asked: performance.getEntriesByType('resource').map(entry => entry.name),
    }));
  });
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("width", [1280, 500])
def test_in_a_browser(written: Path, tmp_path: Path, width: int) -> None:
    """No error, no request, nothing too wide or too faint; keys read values out."""
    text = written.read_text()
    # The probe is a second script: the page under test keeps its policy for all but that one.
    probed = text.replace("script-src 'sha256", f"script-src {_hash(PROBE)} 'sha256")
    (tmp_path / "probed.html").write_text(probed.replace("<title>", PROBE.strip() + "<title>", 1))
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900",
         "--enable-logging=stderr", "--dump-dom", (tmp_path / "probed.html").as_uri()],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    shown = re.search(r'data-told="([^"]*)"', done.stdout)
    assert shown, done.stderr[-2000:]
    told = json.loads(html.unescape(shown[1]))
    assert told["told"] == [] and told["asked"] == []
    assert told["wide"]
    assert told["faint"] == []
    assert "input" in told["said"]
    assert "CONSOLE" not in done.stderr


def _hash(script: str) -> str:
    body = script.strip().removeprefix("<script>").removesuffix("</script>")
    return f"'{page._hash(body)}'"
