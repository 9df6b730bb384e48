"""What `scalednl attention` draws, refuses, and where it writes."""

from pathlib import Path

import pytest
from PIL import Image

from scalednl.errors import UsageError
from scalednl.lab.attention.queries import cell_of
from scalednl.lab.attention.run import DrawOptions, choose, inspect_sources
from scalednl.lab.attention.scoring import observe
from scalednl.lab.attention.source import open_source
from tests.lab.attention.builders import made_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two scaled blocks of two heads."""
    return made_run(tmp_path_factory.mktemp("runs") / "run", blocks=2, heads=2)


def test_a_panel_is_what_was_asked_for(run: Path) -> None:
    """Blocks by number or name; without a head all of them, without pixels the default ones."""
    source = open_source(run, images=2)
    observed = observe(source)[0]
    named = choose(source, observed, DrawOptions("stack.1", 1, ((3, 4),)))
    assert (named.block, named.heads, named.queries) == (1, (1,), ((3, 4),))
    default = choose(source, observed, DrawOptions())
    assert (default.block, default.heads) == (0, (0, 1))
    assert len(default.queries) > 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (DrawOptions(2), "run: block 2 does not exist"),
        (DrawOptions(head=2), "run: head 2 does not exist: stack.0 has heads 0 to 1"),
        (DrawOptions(head=-1), "run: head -1 does not exist"),
        (DrawOptions(queries=((0, 0), (16, 0))), "--query 16,0 is outside"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_written(
    run: Path, options: DrawOptions, said: str, tmp_path: Path
) -> None:
    """The sentence names the network and what it has."""
    with pytest.raises(UsageError, match=said):
        inspect_sources([run], options, images=2, test_images=2, out=tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()


def test_equal_names_have_folders_of_their_own(run: Path, tmp_path: Path) -> None:
    """Records of two runs called alike do not replace each other; figures are beside them."""
    twin = made_run(tmp_path / "other" / "run", blocks=2, heads=2)
    options = DrawOptions(head=0, queries=((3, 4),))
    found = inspect_sources(
        [run, twin], options, images=2, test_images=2, out=tmp_path / "out", quiet=True
    )
    places = [path.relative_to(tmp_path / "out").as_posix() for path in found.paths]
    assert places[:2] == ["run/attention.json", "run-again/attention.json"]
    assert set(places[2:]) == {
        *("figure1.png", "figure1.svg", "overlays.png", "overlays.svg"),
    }
    assert all(path.is_file() for path in found.paths)
    assert [record.source for record in found.records] == ["run", "run"]


def test_queries_of_a_photo_are_pixels_of_its_file(run: Path, tmp_path: Path) -> None:
    """A photo of 640 x 512 is shown as 20 x 16; its last pixel is the last cell, and no more."""
    Image.new("RGB", (640, 512), "#804020").save(tmp_path / "photo.png")
    source = open_source(run, photos=[tmp_path / "photo.png"])
    observed = observe(source)[0]
    assert observed.picture.pixels.shape == (16, 20, 3)
    panel = choose(source, observed, DrawOptions(queries=((511, 639),)))
    size, cells = observed.picture.size, panel.seen.query_size
    assert cell_of(panel.queries[0], size, cells) == (cells[0] - 1, cells[1] - 1)
    with pytest.raises(UsageError, match=r"photo\.png has rows 0 to 511 and columns 0 to 639"):
        choose(source, observed, DrawOptions(queries=((512, 0),)))
    assert choose(source, observed, DrawOptions()).queries[0] == (256, 320)
