"""The report in a real browser: hover, tap, keys, filters, phone, dark, no network, no foreign script."""

import numpy as np
import pytest
from chromium import Chromium, find_chromium

import seqboost
from seqboost.reporting import write_report

PROGRAM = find_chromium()
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="no chromium: install it (Debian: apt-get install chromium)"),
    pytest.mark.xdist_group("browser"),
]
HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=2">'


def dataset(n=60):
    """Words whose labels are hard to tell now and then, some of them hostile."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(n):
        labels = np.repeat(rng.permutation(["rest", "walk", HOSTILE]), rng.integers(2, 30, size=3))
        noisy = np.where(rng.random(len(labels)) < 0.15, "rest", labels)
        X.append([{"word": str(word), "speed": float(rng.normal())} for word in noisy])
        y.append(labels)
    return X, y


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    X, y = dataset()
    model = seqboost.TreeCRF(window=0, order=0, max_iter=5, min_samples_leaf=5, random_state=0).fit(X, y)
    path = tmp_path_factory.mktemp("browser") / "report.html"
    write_report(model, X, y, path, title=f"Labels like {HOSTILE}")
    numbers = tmp_path_factory.mktemp("numbers") / "report.html"
    rows = [np.array([[row["speed"], len(row["word"])] for row in rows]) for rows in X]
    write_report(seqboost.TreeCRF(max_iter=5, random_state=0).fit(rows, y), rows, y, numbers)
    return path, numbers, model.predict(X), y


@pytest.fixture(scope="module")
def browser():
    with Chromium(PROGRAM) as browser:
        yield browser


def tip(browser):
    """What the box with a position's probabilities says; None if it is not to be seen."""
    return browser.run("document.querySelector('#tip').hidden ? null : document.querySelector('#tip').innerText")


def test_nothing_is_fetched_and_nothing_foreign_runs(browser, report):
    browser.open(report[0])
    browser.hover(".cell", 5)
    browser.click("#wrong-only")
    assert browser.run("typeof window.hacked") == "undefined"
    assert browser.run("document.images.length") == 0
    assert browser.requests() == [report[0].resolve().as_uri()]
    assert browser.complaints() == []
    assert HOSTILE in browser.run("document.querySelector('h1').textContent")


def test_even_injected_markup_could_not_run(browser, report):
    browser.open(report[0])
    browser.run(f"document.querySelector('#list').innerHTML = {'<img src=x onerror=window.hacked=3>'!r}")
    browser.run("new Promise(resolve => setTimeout(resolve, 50))")
    assert browser.run("typeof window.hacked") == "undefined"


def test_hover_tells_probabilities(browser, report):
    _, _, predicted, y = report
    browser.open(report[0])
    assert tip(browser) is None
    browser.hover(".cell", 3)
    said = tip(browser)
    assert "Sequence 0, position 3" in said
    assert predicted[0][3] in said
    assert "%" in said
    assert "speed = " in said
    assert ("✓ right" if predicted[0][3] == y[0][3] else "✗ wrong") in said
    browser.hover("h1")
    assert tip(browser) is None


def test_keyboard_reaches_every_position(browser, report):
    _, _, predicted, y = report
    browser.open(report[0])
    browser.run("document.querySelector('#order').focus()")
    browser.press("Tab")
    while not browser.run("document.activeElement.matches('.cell')"):  # past boxes that scroll
        browser.press("Tab")
    assert "position 0" in tip(browser)
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert "position 2" in tip(browser)
    browser.press("ArrowLeft")
    assert "position 1" in tip(browser)
    browser.press("End")
    assert f"position {len(y[0]) - 1}\n" in tip(browser)
    browser.press("Home")
    wrong = np.flatnonzero(predicted[0] != y[0])
    wrong = wrong[wrong > 0]
    browser.press("n")
    assert f"position {wrong[0] if len(wrong) else 0}\n" in tip(browser)
    browser.press("Escape")
    assert tip(browser) is None
    browser.press("Tab")  # one stop for each sequence
    assert "Sequence 1, position 0" in tip(browser)


def test_filter_order_and_pages(browser, report):
    _, _, predicted, y = report
    n_wrong = [int((p != t).sum()) for p, t in zip(predicted, y, strict=True)]
    browser.open(report[0])
    assert browser.run("document.querySelector('#shown').textContent") == "60 of 60 sequences"
    first = browser.run("document.querySelector('.sequence h3').textContent")
    browser.click("#next")
    assert browser.run("document.querySelector('.sequence h3').textContent") != first
    assert browser.run("document.querySelector('#page').textContent").startswith("Page 2 of ")
    browser.click("#previous")
    assert browser.run("document.querySelector('.sequence h3').textContent") == first
    browser.click("#wrong-only")
    assert browser.run("document.querySelector('#shown').textContent").startswith(
        f"{sum(n > 0 for n in n_wrong)} of 60"
    )
    browser.run("(e => { e.value = 'wrong'; e.dispatchEvent(new Event('change')); })(document.querySelector('#order'))")
    title = browser.run("document.querySelector('.sequence h3').textContent")
    assert title.startswith(f"Sequence {int(np.argmax(n_wrong))} ")
    assert f"{max(n_wrong)} wrong" in title
    n_marked = "document.querySelectorAll('.sequence')[0].querySelectorAll('.cell.wrong').length"
    assert browser.run(n_marked) == max(n_wrong)


def test_importance_can_be_chosen_and_charts_read(browser, report):
    browser.open(report[0])
    seen = "[...document.querySelectorAll('[data-view]')].filter(e => e.offsetHeight > 0).map(e => e.dataset.view)"
    assert browser.run(seen) == ["importance-0"]
    browser.run("(e => { e.value = 2; e.dispatchEvent(new Event('change')); })(document.querySelector('[data-views]'))")
    assert browser.run(seen) == ["importance-2"]
    browser.hover(".plot")
    assert browser.run("document.querySelector('.readout').textContent").startswith("Round ")
    browser.run("document.querySelector('.plot').focus()")
    browser.press("Home")
    assert browser.run("document.querySelector('.readout').textContent").startswith("Round 0: training ")


@pytest.mark.parametrize("page", [0, 1], ids=["words", "numbers"])
def test_phone_scrolls_in_one_direction_only(browser, report, page):
    browser.open(report[page], width=375, height=700, touch=True)
    outside = """[...document.querySelectorAll('body *')].filter(e => {
        const b = e.getBoundingClientRect();
        return b.width && (b.right > 376 || b.left < -1) && !e.closest('.scroll, svg, caption');
    }).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.run(outside) == []
    assert browser.run("innerWidth") == 375  # a page that is too wide is zoomed out
    assert browser.run("document.documentElement.scrollWidth") == 375
    browser.tap(".cell", 4)
    assert "position 4" in tip(browser)
    left, right, bottom = browser.run("(b => [b.left, b.right, b.bottom])(tip.getBoundingClientRect())")
    assert left >= 0
    assert right <= 375
    assert bottom <= 700


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(browser, report, dark):
    """The contrast of texts to what is behind them is 4.5 or more (WCAG 2.1, AA)."""
    browser.open(report[1], dark=dark)
    worst = browser.run("""(() => {
        const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return [...m.slice(0, 3), m[3] ?? 1]; };
        const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3]));
        const linear = x => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
        const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
        const back = e => parse(getComputedStyle(e).backgroundColor);
        const behind = e => e ? over(back(e), behind(e.parentElement)) : [255, 255, 255];
        const texts = 'h1, h2, h3, p, th, td:not(.none), dt, dd, a, .figure, .what, .value, .key, .chip';
        let worst = [99, ''];
        for (const e of document.querySelectorAll(texts)) {
            if (!e.offsetHeight || !e.textContent.trim()) continue;
            const ground = behind(e), x = light(over(parse(getComputedStyle(e).color), ground)), y = light(ground);
            const ratio = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
            if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 100)];
        }
        return worst;
    })()""")
    assert worst[0] >= 4.5, worst
    page = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, page[4:-1].split(","))) < 150) == dark
