"""Which settings of the paper's tables and figures are inferred, and from what. No torch.

`paper/provenance.py` lists the same decisions with what the text and the release say.
"""

from scalednl.lab.paper.scales import TINY, PaperSetting

ONE_HEAD = (
    "One head is inferred: Table 1's base column and Table 2's best columns equal Table 3's 1-head "
    "column."
)
ONE_HEAD_TINY = "One head is inferred by analogy with the CIFAR rows; nothing printed confirms it."
VIEW = (
    "One head and the initialisation (0.01 for softmax, He for scaled) are inferred from the base "
    "column; neither is printed for this view."
)
INIT_ONE_HEAD = (
    "The initialisation (0.01 for softmax, He for scaled) is inferred: the number equals the "
    "attention's best column of Table 2."
)
INIT_HEADS = (
    "The initialisation (0.01 for softmax, He for scaled) is inferred; none is printed for more "
    "than one head."
)
INIT_TINY = (
    "The initialisation, and the batch size, momentum and weight decay of fine-tuning, are "
    "inferred; none is printed."
)
FIGURES = {
    "figure1_attention_maps": (
        "The network, 4 heads and the initialisation are inferred; the paper names the data sets "
        "only."
    ),
    "figure2_embedding_channels": (
        "One head, the initialisation and the numbers of channels are inferred; that theta, phi "
        "and g shrink together is from the authors' release."
    ),
}


def inferred_figure(artefact: str) -> str:
    """What is inferred about a figure as a whole; "" for a table."""
    return FIGURES.get(artefact, "")


def inferred_cell(artefact: str, setting: PaperSetting) -> str:
    """What is inferred about a printed cell; "" where the text settles the setting."""
    tiny = setting.data == TINY
    if artefact == "table1_importance":
        return VIEW if "view" in dict(setting.options) else ONE_HEAD
    if artefact == "table2_initialization":
        return ONE_HEAD_TINY if tiny else ONE_HEAD
    if artefact == "table3_heads" and setting.attention != "plain":
        return INIT_ONE_HEAD if setting.heads == 1 else INIT_HEADS
    if artefact == "table4_backbones":
        return INIT_TINY if tiny else INIT_HEADS
    return ""
