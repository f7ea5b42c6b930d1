"""The report as a text: what it says, what it leaves out, and that nothing in the data can become markup."""

import html.parser
import json
import os
import re

import numpy as np
import pytest
from cli_run import run
from damaged_files import good_table

import seqboost
from seqboost.evaluation import evaluate, label_sequences
from seqboost.exceptions import DataFileError, ParameterError
from seqboost.inspection import feature_importances
from seqboost.reporting import render_report, write_report
from seqboost.reporting.browser import LONGEST, MOST_POSITIONS, chosen_sequences
from seqboost.reporting.charts import ticks
from seqboost.reporting.markup import Markup, element, json_block

HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=2">'
X = ["banana", "tomato", "salad", "melon"] * 8
Y = ["".join("1" if letter in "aeiou" else "0" for letter in word) for word in X]
FAST = {"max_iter": 4, "min_samples_leaf": 2, "early_stopping": False, "random_state": 0}


class Reader(html.parser.HTMLParser):
    """Collects elements, attributes and the texts of scripts."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.scripts, self.text, self.inside = [], [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        (self.scripts if self.inside == "script" else self.text).append(data)

    def document(self, name):
        scripts = [attributes for tag, attributes in self.elements if tag == "script"]
        return json.loads(self.scripts[[attributes.get("id") for attributes in scripts].index(name)])


@pytest.fixture(scope="module")
def model():
    return seqboost.TreeCRF(window=1, **FAST).fit(X, Y)


@pytest.fixture(scope="module")
def page(model):
    return render_report(model, X, Y, title="Vowels")


def test_page_says_what_the_library_says(model, page):
    read = Reader(page)
    said = " ".join(read.text)
    score = evaluate(Y, model.predict(X))
    assert f"{100 * score.accuracy:.1f} %" in said
    assert f"{100 * score.sequence_accuracy:.1f} %" in said
    gains = feature_importances(model).by_column()
    name, value = gains.top(n=1)[0]
    assert name in said
    assert f"{100 * value / gains.values.sum():.1f} %" in said
    for words in (
        "32",
        "rounds were kept",
        "What follows what",
        "Commonest mistakes" if score.accuracy < 1 else "mistake",
    ):
        assert words in said
    chart = read.document("chart-score")
    np.testing.assert_allclose(chart["curves"]["training"], model.history_["train_score"], rtol=1e-4)


def test_sequences_of_the_page_are_those_of_the_library(model, page):
    document = Reader(page).document("sequences-data")
    assert document["labels"] == ["0", "1"]
    proba = model.predict_proba(X)
    for shown in document["sequences"]:
        s = shown["number"]
        assert "".join(shown["words"]) == X[s]
        assert "".join(document["labels"][k] for k in shown["truth"]) == Y[s]
        assert [document["labels"][k] for k in shown["predicted"]] == model.predict(X)[s].tolist()
        for t, pairs in enumerate(shown["proba"]):
            for label, thousandths in zip(pairs[::2], pairs[1::2], strict=True):
                assert thousandths == round(1000 * proba[s][t, label])


def test_page_needs_nothing_but_itself(page):
    read = Reader(page)
    for tag, attributes in read.elements:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        if "href" in attributes:
            assert attributes["href"].startswith("#") or attributes["href"] == "data:,"
    style = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    policy = next(a["content"] for t, a in read.elements if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    anchors = {attributes["href"][1:] for tag, attributes in read.elements if tag == "a"}
    assert anchors <= {attributes.get("id") for _, attributes in read.elements}


def test_tags_are_closed(page):
    stack = []

    class Checker(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag not in ("meta", "link", "br"):
                stack.append(tag)

        def handle_endtag(self, tag):
            assert stack.pop() == tag

    Checker().feed(page)
    assert stack == []


def test_same_data_same_page(model, page):
    assert render_report(model, X, Y, title="Vowels") == page


def test_hostile_labels_words_and_titles_stay_text():
    sequences = [[{HOSTILE: letter + HOSTILE, "n": 1.0} for letter in word] for word in X]
    labels = [[HOSTILE if label == "1" else "<b>0" for label in word] for word in Y]
    model = seqboost.TreeCRF(**FAST).fit(sequences, labels)
    page = render_report(model, sequences, labels, title=HOSTILE)
    read = Reader(page)
    known = {
        "head",
        "meta",
        "link",
        "title",
        "style",
        "html",
        "body",
        "header",
        "h1",
        "p",
        "nav",
        "a",
        "main",
        "section",
    }
    known |= {
        "h2",
        "h3",
        "div",
        "strong",
        "em",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "dl",
        "dt",
        "dd",
    }
    known |= {
        "ul",
        "li",
        "span",
        "figure",
        "figcaption",
        "svg",
        "line",
        "polyline",
        "output",
        "script",
        "code",
        "label",
    }
    known |= {"select", "option", "noscript", "footer"}
    assert {tag for tag, _ in read.elements} <= known  # neither <img> nor <b>
    kinds = [attributes.get("type") for tag, attributes in read.elements if tag == "script"]
    assert kinds.count(None) == 1  # our own
    assert "".join(read.text).count(HOSTILE) > 5
    document = read.document("sequences-data")
    assert set(document["labels"]) == {HOSTILE, "<b>0"}
    assert document["sequences"][0]["words"][0] == "b" + HOSTILE


def test_json_cannot_end_its_block():
    text = "</script><!--\u2028&"
    block = json_block("a", {"x": text})
    assert block.count("<") == 2
    assert json.loads(block[block.index(">") + 1 : block.rindex("<")]) == {"x": text}
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_block("a", float("nan"))


def test_markup_is_escaped_once():
    assert element("p", "<", Markup("<br>"), title='"<"') == '<p title="&quot;&lt;&quot;">&lt;<br></p>'
    assert element("td", hidden=True, id=None, data_x=0) == '<td hidden data-x="0"></td>'


def test_big_data_are_left_out_and_counted(model):
    many = render_report(model, X * 10, Y * 10, max_sequences=7)
    assert "7 of 320 sequences are on this page; 313 were left out." in many
    shown = Reader(many).document("sequences-data")["sequences"]
    assert [s["number"] for s in shown] == np.linspace(0, 319, 7).round().astype(int).tolist()
    long = render_report(model, ["ab" * LONGEST], ["10" * LONGEST])
    (sequence,) = Reader(long).document("sequences-data")["sequences"]
    assert sequence["length"] == 2 * LONGEST
    assert len(sequence["predicted"]) == LONGEST
    assert Reader(render_report(model, X, Y, max_sequences=0)).document("sequences-data")["sequences"] == []
    with pytest.raises(ParameterError, match="max_sequences=-1: expected a whole number of 0 or more"):
        render_report(model, X, Y, max_sequences=-1)


@pytest.mark.parametrize("length", [1, 30, LONGEST, 10 * LONGEST])
def test_choice_of_sequences_keeps_the_page_small(length):
    lengths = np.full(1000, length)
    chosen = chosen_sequences(lengths, 200)
    assert 0 < len(chosen) <= 200
    assert np.minimum(lengths[chosen], LONGEST).sum() <= MOST_POSITIONS
    assert len(set(chosen)) == len(chosen)


def test_data_without_labels(model):
    said = " ".join(Reader(render_report(model, X)).text)
    assert "there is no score" in said
    assert "Labels that the model gives" in said
    unobserved = " ".join(Reader(render_report(model, X, [[None] * len(word) for word in X])).text)
    assert "there is no score" in unobserved
    partly = render_report(model, X, [[None, *labels[1:]] for labels in Y])
    assert "32 positions have no label; they are not scored." in partly
    assert Reader(partly).document("sequences-data")["sequences"][0]["truth"][0] == -1


def test_labellers_that_lack_parts(model):
    class Plain:
        classes_ = model.classes_
        predict = staticmethod(model.predict)

    said = " ".join(Reader(render_report(Plain(), X, Y)).text)
    for sentence in (
        "gives no probabilities", "no log-likelihood", "not trained in rounds", "no trees whose splits",
        "no table of single transitions",
    ):  # fmt: skip
        assert sentence in said
    assert "Plain with 2 labels." in said


@pytest.mark.parametrize("has_start", [False, True])
def test_transitions_of_any_labeller(model, has_start):
    class Chain:
        classes_ = model.classes_
        predict = staticmethod(model.predict)
        transition_scores_ = np.log([[0.5, 0.5]] * has_start + [[0.25, 0.75], [1.0, 1e-300]])

        def predict_proba(self, X):
            raise ParameterError("no probabilities with such settings")

    Chain.transition_scores_[-1, 1] = -np.inf
    page = render_report(Chain(), X, Y)
    table = page[page.index("What follows what") :]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", table) == ["25", "75", "100", "–"]
    assert "1 transitions are forbidden." in page
    assert "nothing is said about how sure it is (no probabilities with such settings)." in page


@pytest.mark.parametrize(
    "settings",
    [
        {"order": 2},
        {"order": 0},
        {"potentials": "factored"},
        {"init": "linear"},
        {"trees": "shared"},
        {"transitions": "seen"},
    ],
    ids=str,
)
def test_every_kind_of_model_has_a_report(settings):
    model = seqboost.TreeCRF(**FAST, **settings).fit(X, Y)
    said = " ".join(Reader(render_report(model, X, Y)).text)
    assert "How good it is" in said
    assert ("no table of single transitions" in said) == (settings.get("order", 1) != 1)
    assert ("Strongest weights of the linear start" in said) == (settings.get("init") == "linear")


def test_many_labels_numbers_and_sparse_columns():
    rng = np.random.default_rng(0)
    labels = [rng.integers(60, size=40) for _ in range(20)]
    rows = [[{f"w{label}": True, "size": float(label) if label else None} for label in y] for y in labels]
    model = seqboost.TreeCRF(**FAST).fit(rows, labels)
    page = render_report(model, rows, labels)
    assert "The 25 commonest of 60 labels." in page
    assert "The 40 commonest of 60 labels." in page
    shown = Reader(page).document("sequences-data")
    assert "words" not in shown["sequences"][0]
    assert f"w{labels[0][0]}" in shown["sequences"][0]["values"][0]
    assert len(shown["sequences"][0]["proba"][0]) <= 10


def test_file_appears_whole_or_not_at_all(model, tmp_path, monkeypatch):
    write_report(model, X, Y, tmp_path / "r.html")
    before = (tmp_path / "r.html").read_bytes()
    assert before.startswith(b"<!doctype html>")

    def broken(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="no space"):
        write_report(model, X, Y, tmp_path / "r.html")
    assert os.listdir(tmp_path) == ["r.html"]
    assert (tmp_path / "r.html").read_bytes() == before
    with pytest.raises(DataFileError, match="there is no folder"):
        write_report(model, X, Y, tmp_path / "no" / "r.html")


def test_ticks_are_round():
    assert ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert ticks(-0.153, -0.097) == [-0.15, -0.14, -0.13, -0.12, -0.11, -0.1]
    assert ticks(3, 3) == [3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    lines = [",".join(row) for row in good_table(n_sequences=30, length=10)]
    (folder / "d.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    unlabelled = [line.rsplit(",", 1)[0] for line in lines]
    (folder / "u.csv").write_text("\n".join(unlabelled) + "\n", encoding="utf-8")
    train = ["train", folder / "d.csv", "--sequence", "id", "--label", "state", "--model", folder / "m.seqboost"]
    run(*train, "--max-iter", 4, "--set", "min_samples_leaf=2", "--plot", folder / "curve.png", "--quiet")
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    return folder


def test_command_writes_a_page(folder):
    done = run("report", folder / "m.seqboost", folder / "d.csv", "--output", folder / "r.html", "--json")
    result = json.loads(done.stdout)
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert result["bytes"] == len(page.encode())
    assert result["sequences"] == 30
    assert "<h1>m: how it labels d.csv</h1>" in page
    accuracy = json.loads(run("evaluate", folder / "m.seqboost", folder / "d.csv", "--json").stdout)["accuracy"]
    assert f"{100 * accuracy:.1f} %" in page


def test_command_without_labels_and_with_bad_places(folder):
    done = run(
        "report", folder / "m.seqboost", folder / "u.csv", "--output", folder / "u.html", "--title", "New <data>"
    )
    assert "open it in any browser" in done.stderr
    page = (folder / "u.html").read_text(encoding="utf-8")
    assert "<h1>New &lt;data&gt;</h1>" in page
    assert "there is no score" in page
    done = run("report", folder / "m.seqboost", folder / "d.csv", "--output", folder / "no" / "r.html", code=1)
    assert "name a file in a folder that exists" in done.stderr


def test_commands_write_plots(folder):
    pytest.importorskip("matplotlib")
    run("evaluate", folder / "m.seqboost", folder / "d.csv", "--plot", folder / "c.svg", "--json")
    assert "<svg" in (folder / "c.svg").read_text(encoding="utf-8")
    run("inspect", folder / "m.seqboost", "--plot", folder / "i.png", "--json")
    run("inspect", folder / "m.seqboost", folder / "d.csv", "--sequence", 3, "--plot", folder / "s.pdf", "--json")
    assert (folder / "i.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "s.pdf").read_bytes().startswith(b"%PDF")
    done = run("evaluate", folder / "m.seqboost", folder / "d.csv", "--plot", folder / "c.bmp", code=2)
    assert "expected a file name that ends in .png, .svg, .pdf" in done.stderr
    done = run("inspect", folder / "m.seqboost", "--plot", folder / "no" / "c.png", code=1)
    assert "there is no folder" in done.stderr


def test_plots_name_the_extra_before_any_work(folder, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    target = folder / "never.seqboost"
    train = ["train", folder / "d.csv", "--sequence", "id", "--label", "state", "--model", target]
    done = run(*train, "--plot", folder / "x.png", code=3)
    assert 'pip install "seqboost[plot]"' in done.stderr
    assert not target.exists()


def test_report_of_a_table_keeps_sequences_together(folder):
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(folder / "d.csv").sample(frac=1, random_state=0, ignore_index=True)
    model = seqboost.load(folder / "m.seqboost")
    found = label_sequences(model, frame, frame.state)
    page = Reader(render_report(model, frame, frame.state))
    shown = page.document("sequences-data")["sequences"]
    assert len(shown) == 30
    assert [len(s["truth"]) for s in shown] == [10] * 30
    assert shown[4]["predicted"] == [["go", "stop"].index(label) for label in found.predicted[4]]
