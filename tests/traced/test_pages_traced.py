"""Pages of the docs whose snippets export a network."""

from pathlib import Path

import pytest

from tests.snippets import PAGES, is_traced, run_snippets

pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
TRACED = [page for page in PAGES if is_traced(page)]


@pytest.mark.parametrize("page", TRACED, ids=lambda page: page.name)
def test_snippets_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All python snippets of a page run one after the other, and print what the page shows."""
    run_snippets(page, tmp_path, monkeypatch, capsys)


def test_there_are_such_pages() -> None:
    """The test above runs over the tutorial that exports."""
    assert "large-images.md" in {page.name for page in TRACED}
