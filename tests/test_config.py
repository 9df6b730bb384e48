"""Options of blocks and networks: checked when made, and the same after a file."""

import json
from dataclasses import fields

import pytest

from scalednl.config import BlockConfig, ModelConfig, StackConfig


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig("preresnet8", 10),
        ModelConfig("preresnet8", 10, StackConfig(count=0), position=True),
        ModelConfig(
            "preresnet20",
            100,
            StackConfig(BlockConfig(bias=("phi", "theta"), center="keys"), count=2, stage=1),
        ),
        ModelConfig("preresnet20", 5, StackConfig(BlockConfig(reference_pixels="running"))),
        ModelConfig("wrn16_4", 5, dropout=0.3),
        ModelConfig("preresnet8", 5, StackConfig(BlockConfig(key_pool="after", key_pool_size=3))),
        ModelConfig(
            "preresnet8", 5, StackConfig(BlockConfig(key_pool="before", key_pool_size=(2, 3)))
        ),
    ],
)
def test_a_config_survives_a_file(config: ModelConfig) -> None:
    """Written as JSON and read again, it is equal; names of biased convolutions are in order."""
    assert ModelConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config


def test_older_files_have_the_stack_and_its_block_side_by_side() -> None:
    """Their options become those of the block, their number and stage those of the stack."""
    old = {"attention": "softmax", "heads": 2, "blocks": 1, "stage": 3, "bias": ["g"]}
    config = ModelConfig.from_dict({"name": "preresnet8", "num_classes": 4, "nonlocal_": old})
    block = BlockConfig(attention="softmax", heads=2, bias=("g",))
    assert config == ModelConfig("preresnet8", 4, StackConfig(block, count=1, stage=3))
    plain = ModelConfig.from_dict({"name": "preresnet8", "num_classes": 4, "nonlocal_": None})
    assert plain.blocks is None


def test_older_files_have_no_dropout() -> None:
    """Networks were made without it, and are read so; a share that cannot be is refused."""
    old = {"name": "wrn16_4", "num_classes": 4, "blocks": None, "position": None}
    assert ModelConfig.from_dict(old) == ModelConfig("wrn16_4", 4, dropout=0.0)
    with pytest.raises(ValueError, match=r"dropout=1\.5 must be a number from 0 to below 1"):
        ModelConfig.from_dict({**old, "dropout": 1.5})


def test_an_unknown_name_in_a_file_fails() -> None:
    """Nothing is dropped in silence."""
    with pytest.raises(TypeError, match="colour"):
        ModelConfig.from_dict(
            {"name": "preresnet8", "num_classes": 4, "blocks": {"block": {"colour": 3}}}
        )


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"center": "mean"}, "center='mean' is unknown: use 'keys' or 'keys\\+mean'"),
        ({"center": "keys", "attention": "softmax"}, "for attention without softmax"),
        ({"reference_pixels": 0}, "reference_pixels=0 must be a whole number of at least 1"),
        ({"reference_pixels": "walking"}, "reference_pixels='walking' is unknown"),
        ({"reference_pixels": 9, "attention": "mean"}, "replaces the 1/sqrt"),
        ({"reference_pixels": 9, "scale": False}, "with scale=False has no such factor"),
        ({"heads": 3, "embed_channels": 8}, "heads=3 does not divide embed_channels=8"),
        ({"order": "gram", "view": "direction"}, "order='gram' cannot be used"),
        ({"key_pool": "around"}, "key_pool='around' is unknown"),
        ({"key_pool": "after", "key_pool_size": -1}, "key_pool_size=-1 must be"),
        ({"key_pool_size": (2, 2)}, r"key_pool_size=\(2, 2\) has no effect with key_pool=None"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, object], said: str) -> None:
    """The sentence repeats what was passed."""
    with pytest.raises(ValueError, match=said):
        BlockConfig(**options)  # type: ignore[arg-type]


def test_every_option_is_described_once() -> None:
    """The docstring has a line for each field, in their order."""
    text = (BlockConfig.__doc__ or "").partition("Args:")[2]
    places = [text.index(f"        {field.name}: ") for field in fields(BlockConfig)]
    assert places == sorted(places)
