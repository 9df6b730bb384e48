"""Other people's errors in one line."""

import pytest

from scalednl.errors import described, first_line


@pytest.mark.parametrize(
    ("error", "line", "words"),
    [
        (ValueError("one"), "one", "ValueError: one"),
        (ValueError("\n  one\ntwo"), "one", "ValueError: one"),
        (KeyError("one\ntwo"), r"'one\ntwo'", r"KeyError: 'one\ntwo'"),
        (RuntimeError(), "RuntimeError", "RuntimeError: no details"),
        (SystemExit(" \n "), "SystemExit", "SystemExit: no details"),
    ],
)
def test_an_error_is_one_line(error: BaseException, line: str, words: str) -> None:
    """The first line that has letters; the type where there is none."""
    assert (first_line(error), described(error)) == (line, words)
