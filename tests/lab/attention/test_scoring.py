"""A network run over its images."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scalednl.errors import CommandError
from scalednl.inspection import factors
from scalednl.inspection.capture import capture_attention
from scalednl.lab.attention import source as source_module
from scalednl.lab.attention.scoring import ablation_errors, observe, score_block, score_blocks
from scalednl.lab.attention.source import NetworkSource, open_source
from scalednl.lab.training.evaluate import evaluate_source
from tests.lab.attention.builders import made_run


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> NetworkSource:
    """One scaled block of two heads, and seven images."""
    path = made_run(tmp_path_factory.mktemp("runs") / "run", blocks=1, heads=2)
    return open_source(path, images=7)


def test_batches_do_not_change_scores(
    source: NetworkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every image and head has its score, in the order of the images."""
    (whole,) = score_blocks(source, source.model, source.name)
    monkeypatch.setattr(source_module, "BATCH", 3)
    few = open_source(source.path, images=7)
    (parts,) = score_blocks(few, few.model, few.name)
    assert whole.maps["key_share"].shape == (7, 2)
    for name, values in (*whole.maps.items(), *whole.branch.items()):
        assert torch.allclose({**parts.maps, **parts.branch}[name], values, atol=1e-5), name


def test_what_is_seen_is_what_the_network_predicts(source: NetworkSource) -> None:
    """The class of an observation is that of the network's scores."""
    with torch.no_grad():
        for seen in observe(source):
            classes = source.model(source.input_of(seen.picture))[0]
            assert seen.predicted == source.class_names[int(classes.argmax())]
            assert len(seen.blocks) == 1


def test_the_error_of_the_unchanged_network_is_its_test_error(source: NetworkSource) -> None:
    """Ablations include the network as it is."""
    errors = ablation_errors(source)
    assert errors["unchanged"] == evaluate_source(source.path, None, None, None).test_error_pct
    assert ablation_errors(replace(source, tested=None)) == {}


def test_large_maps_are_not_scored(source: NetworkSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither scores nor ablations, and no error."""
    monkeypatch.setattr(factors, "LARGEST_MAP", 10)
    with torch.no_grad(), capture_attention(source.model) as seen:
        source.model(source.input_of(source.pictures[0]))
    found = score_block(seen[0])
    assert (found.maps, found.branch) == ({}, {})
    assert ablation_errors(source) == {}


def test_a_network_of_nan_is_named(tmp_path: Path) -> None:
    """Both a picture's classes and the scores of its maps are looked at."""
    broken = open_source(made_run(tmp_path / "nan", blocks=1), images=2)
    torch.nn.init.constant_(broken.model.get_parameter("stem.weight"), torch.nan)
    for look in (observe, lambda one: score_blocks(one, one.model, one.name)):
        with pytest.raises(CommandError, match="nan computes numbers that are not finite"):
            look(broken)
