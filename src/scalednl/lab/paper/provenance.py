"""Where each choice comes from: the paper's text, the authors' release, or this project.

`docs/paper.md` and the report print this list; nothing else may call a choice "the paper's" that
has no entry under `printed`. Imports no torch.
"""

from dataclasses import dataclass

NOTHING = "not mentioned"
"""Nothing is said about it"""


@dataclass(frozen=True)
class Choice:
    """One decision that a reproduction has to make."""

    topic: str
    printed: str
    """What the paper's text, tables or captions state"""
    release: str
    """What the authors' public code does"""
    ours: str


_BLOCK = (
    Choice(
        "output convolution",
        "not mentioned; the equations end at y",
        "a 1×1 convolution from the embedding back to C channels",
        "as in the release",
    ),
    Choice(
        "batch norm",
        NOTHING,
        "after the output convolution",
        "as in the release; `norm=False` drops it",
    ),
    Choice(
        "γ = 0",
        NOTHING,
        "the norm's weight and bias start at 0 with every initialisation",
        "as in the release; `norm_init=1.0` in the `-short` and `pairs` recipes",
    ),
    Choice("residual sum", NOTHING, "z = x + BN(out(y))", "as in the release"),
    Choice(
        "biases of the four convolutions",
        "not mentioned (“linear embedding layers”)",
        "none",
        "none; `bias=True` adds them",
    ),
    Choice(
        "embedding width",
        "C / heads per head",
        "C / heads by default, but C / 2 with 1 head; an option sets it",
        "C / heads at every head count; the memory printed for 1 head fits C, not C / 2",
    ),
    Choice(
        "softmax factor",
        "1/√C",
        "no factor",
        "1/√d, d the width of one head; `softmax_scale=1.0` is the release, "
        "`control_softmax_scale` compares them",
    ),
    Choice(
        "scaled factor",
        "1/√(HW·C)",
        "1/√(HW·d), d the width of one head",
        "as in the release (equal to the text for 1 head)",
    ),
    Choice(
        "magnitude and direction views",
        "norms and unit vectors of θ and φ; heads and zero vectors not mentioned",
        "per head, θ and φ only; a zero vector gives NaN",
        "per head, θ and φ only; the direction of a zero vector is 0",
    ),
    Choice(
        "which weights Table 2 initialises",
        "He, σ = 0.01 or σ = 0 for the embedding weights; which layers is not mentioned",
        "θ, φ, g and the output convolution",
        "as in the release",
    ),
    Choice(
        "fan of He's rule",
        NOTHING,
        "Kaiming normal, fan-out, for all convolutions and the classifier",
        "as in the release; the classifier's bias starts at 0",
    ),
    Choice(
        "position encoding",
        NOTHING,
        "a fixed 2-D sinusoid added once before the blocks, on by default; none without blocks",
        "as in the release; `position=False` drops it, `control_position` measures it",
    ),
    Choice(
        "place of the blocks",
        "“the second residual block”",
        "one stack directly before the last residual block of stage 2",
        "as in the release; after it in a stage of one block",
    ),
    Choice(
        "residual networks",
        "names and depths",
        "Bottleneck from depth 44 on, basic blocks below; bare 1×1 shortcuts; WRN without dropout",
        "as in the release",
    ),
)

_TRAINING = (
    Choice(
        "CIFAR augmentation",
        "“standard data augmentation”",
        "zero-padded 4 px random crop and horizontal flip",
        "as in the release",
    ),
    Choice(
        "normalisation of images",
        NOTHING,
        "fixed mean and deviation, the same for both CIFARs; ImageNet's for Tiny-ImageNet",
        "as in the release",
    ),
    Choice(
        "CIFAR schedule",
        "SGD, batch 128, momentum 0.9, rate 0.1 divided by 10 at 81 and 122 of 164 epochs",
        "options with other defaults; no command lines",
        "as printed; epochs counted from 0 (the release's rule), no Nesterov (its default)",
    ),
    Choice(
        "weight decay",
        "1e-4; which parameters is not mentioned",
        "5e-4 by default, on all parameters, batch norm included",
        "1e-4 on all parameters; the `-wd5e4` recipes have 5e-4 for WRN-28-10",
    ),
    Choice(
        "Tiny-ImageNet crops",
        "“56 pixels cropping”",
        "random resized crop to 56 and flip; test: centre crop of 56",
        "as in the release",
    ),
    Choice(
        "Tiny-ImageNet test images",
        "10,000 test images",
        "a folder called `val`",
        "the validation split, whose labels are public",
    ),
    Choice(
        "Tiny-ImageNet fine-tuning: batch, momentum, decay",
        "not mentioned; rate 0.01, divided at 40 of 60 epochs, is printed",
        "the defaults of any training: 128, 0.9, 5e-4; a new optimizer",
        "128, 0.9, 1e-4: those printed for pretraining; a new optimizer",
    ),
    Choice(
        "pretrained networks per seed",
        NOTHING,
        NOTHING,
        "one pretrained network per seed",
    ),
    Choice(
        "reported epoch",
        NOTHING,
        "logs the best test error of all epochs",
        "last epoch first, the best beside it",
    ),
    Choice(
        "seeds",
        "10 on CIFAR, 3 on Tiny-ImageNet; means only",
        "drawn at random unless given",
        "0 to n − 1, the same for every cell, so that runs pair; means with deviations",
    ),
)

_ARTEFACTS = (
    Choice(
        "heads in Tables 1 and 2",
        "not mentioned there (section 4: 4 heads)",
        NOTHING,
        "1: Table 1's base and Table 2's best columns equal Table 3's 1-head column; "
        "for Tiny-ImageNet by analogy",
    ),
    Choice(
        "initialisation of Table 1's views",
        NOTHING,
        "0.01 by default, for every attention",
        "the best one of the attention in Table 2: 0.01 for softmax, He for scaled",
    ),
    Choice(
        "initialisation with 2 and 4 heads",
        NOTHING,
        "0.01 by default, for every attention",
        "the best one of the attention in Table 2",
    ),
    Choice(
        "Figure 1: network, heads, block",
        "data sets and “randomly sampled images”",
        "first block, one random image and head, colour map `hot`, automatic range",
        "PreResNet56 and PreResNet50 with 4 heads; first block; colours as in the release",
    ),
    Choice("Figure 2: heads", NOTHING, NOTHING, "1"),
    Choice(
        "Figure 2: which embeddings shrink",
        "“embedding channel dimension”",
        "one option sets θ, φ and g together",
        "θ, φ and g together",
    ),
    Choice(
        "Figure 2: number of channels",
        "an axis without values in the text",
        NOTHING,
        "C, C/2, C/4, C/8",
    ),
    Choice(
        "Table 3: batch and data of the cost",
        "300 timed iterations; batch, data and GPU not mentioned",
        "batch 128 by default, random images",
        "`scalednl bench table3`: ratios to the network without blocks, on your machine",
    ),
)

CHOICES: tuple[Choice, ...] = (*_BLOCK, *_TRAINING, *_ARTEFACTS)


def as_markdown() -> str:
    """The table of `docs/paper.md`."""
    head = ["| choice | printed | from the authors' release | ours |", "|---|---|---|---|"]
    rows = [
        f"| {choice.topic} | {choice.printed} | {choice.release} | {choice.ours} |"
        for choice in CHOICES
    ]
    return "\n".join([*head, *rows])
