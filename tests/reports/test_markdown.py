"""The Markdown shows the same everywhere: parsed by a real parser, nothing of the job acts."""

import re
from html.parser import HTMLParser

import cases
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from accelprof.profiler.reports import markdown
from accelprof.profiler.reports.plain import clean

PARSER = MarkdownIt("commonmark", {"html": True, "linkify": True}).enable(
    ["table", "strikethrough", "linkify"]
)
ALLOWED = {"p", "strong", "h2", "table", "thead", "tbody", "tr", "th", "td", "code", "ul", "li"}


class Seen(HTMLParser):
    """Tags, and text by the tag it stands in."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.bold = 0
        self.code: list[str] = []
        self.outside: list[str] = []
        self._in_code = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self.bold += tag == "strong"
        if tag == "code":
            self._in_code = True
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "code":
            self._in_code = False

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.code[-1] += data
        else:
            self.outside.append(data)


def seen(text: str) -> Seen:
    found = Seen()
    found.feed(PARSER.render(text))
    return found


@pytest.mark.parametrize("case", cases.CASES)
def test_only_tables_lists_and_headings(case: str) -> None:
    text = markdown.render(cases.CASES[case]())
    found = seen(text)
    assert found.tags <= ALLOWED
    assert found.bold == 1  # the verdict, on the first line
    assert text.startswith("**")
    outside = "".join(found.outside)
    assert "@" not in outside
    assert "<" not in outside
    assert not re.search(r"#\w", outside)


@pytest.mark.parametrize("case", cases.CASES)
def test_tables_are_whole(case: str) -> None:
    tokens = PARSER.parse(markdown.render(cases.CASES[case]()))
    cells = 0
    for token in tokens:
        if token.type == "tr_open":
            cells = 0
        elif token.type in ("td_open", "th_open"):
            cells += 1
        elif token.type == "thead_close":
            columns = cells
        elif token.type == "tr_close" and cells:
            assert "columns" not in locals() or cells in (columns, cells)
    # A row of a table that was cut by a bar of the job would leave text after the table
    assert not [t for t in tokens if t.type == "inline" and t.content.startswith("|")]


def test_the_length_is_bearable() -> None:
    lines = markdown.render(cases.input_bound()).splitlines()
    assert len([line for line in lines if line]) <= 75


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=200))
def test_prose_comes_out_as_it_went_in(text: str) -> None:
    found = seen("begin " + markdown.prose(text) + " end")
    assert found.tags <= {"p", "code"}
    shown = "".join(PARSER_TEXT.handle(PARSER.render("begin " + markdown.prose(text) + " end")))
    assert shown.split() == ["begin", *clean(text).split(), "end"]


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=100))
def test_code_comes_out_as_it_went_in(text: str) -> None:
    found = seen(markdown.code(text))
    assert found.tags <= {"p", "code"}
    assert found.code[0].strip() == clean(text).strip()


class _Text(HTMLParser):
    def handle(self, html: str) -> list[str]:
        self.reset()
        self.parts: list[str] = []
        self.feed(html)
        return self.parts

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


PARSER_TEXT = _Text()
