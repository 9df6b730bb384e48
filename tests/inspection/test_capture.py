"""Captured attention is the block's own, and capturing changes nothing."""

import copy
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.attentions import ATTENTIONS
from scalednl.blocks import NonLocalBlock
from scalednl.blocks.folding import add_projected
from scalednl.inspection import BlockAttention, capture_attention, factors
from scalednl.inspection.factors import Factors
from scalednl.inspection.scores import score_maps
from scalednl.lab.bench.peak import peak_of
from scalednl.ops.layout import rows_to_maps
from scalednl.ops.views import merge_heads
from scalednl.options import KEY_POOLS, VIEWS, orders_of
from tests.support import assert_close, randomise, reference_block

SPACES = {1: (9,), 2: (6, 5), 3: (3, 4, 5)}
BLOCKS = {1: scalednl.NonLocal1d, 2: scalednl.NonLocal2d, 3: scalednl.NonLocal3d}
CASES = [
    {"attention": attention, "view": view, "order": order, "key_pool": key_pool}
    for attention in ATTENTIONS
    for view in VIEWS
    for key_pool in (None, *KEY_POOLS)
    for order, reason in orders_of(attention, view, key_pool=key_pool).items()
    if not reason
]
SCALES: list[dict[str, Any]] = [
    {"attention": "softmax", "softmax_scale": scale} for scale in ("channels", "learned", 2.5)
]


def _block(dims: int = 2, **options: Any) -> NonLocalBlock:
    return randomise(BLOCKS[dims](8, heads=2, embed_channels=6, **options)).eval()


def _through(seen: BlockAttention, x: Tensor) -> Tensor:
    """The block's output by way of the captured maps: x + norm(out(A g))."""
    heads = range(seen.theta.shape[1])
    images = range(len(x))
    maps = torch.stack([torch.stack([seen.map(i, h) for h in heads]) for i in images])
    y = rows_to_maps(merge_heads(maps @ seen.g), x.shape[2:])
    return add_projected(x, y, seen.block.out, seen.block.norm)


@pytest.mark.parametrize("options", [*CASES, *SCALES, {"scale": False}, {"bias": True}], ids=str)
def test_the_captured_map_times_g_gives_the_output(options: dict[str, Any]) -> None:
    """x + norm(out(A g)) is the block's output and the reference's, and the output is untouched."""
    block = _block(**options)
    x = torch.randn(2, 8, *SPACES[2])
    alone = block(x)
    with capture_attention(block) as seen:
        watched = block(x)
    assert torch.equal(watched, alone)
    found = _through(seen[0], x)
    assert_close(found, watched, 1e-5)
    assert_close(found, reference_block(block, x), 1e-5)


@pytest.mark.parametrize("dims", [1, 3])
def test_other_dimensions(dims: int) -> None:
    """Sequences and video are captured likewise, pooled keys and all."""
    block = _block(dims, key_pool="before")
    x = torch.randn(2, 8, *SPACES[dims])
    with capture_attention(block) as seen:
        z = block(x)
    assert_close(_through(seen[0], x), z, 1e-5)
    assert seen[0].query_size == SPACES[dims]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("autocast", [True, False])
def test_capturing_changes_no_bit(training: bool, autocast: bool) -> None:
    """Order, output, gradients and running statistics are those of a network left alone."""
    config = scalednl.StackConfig(scalednl.BlockConfig(norm_init=1.0), count=2)
    model = scalednl.create_model("preresnet8", blocks=config).train(training)
    x = torch.randn(3, 3, 16, 16)
    state = {name: value.clone() for name, value in model.state_dict().items()}

    def run(watched: bool) -> tuple[Tensor, ...]:
        model.load_state_dict(state)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            if watched:
                with capture_attention(model) as seen:
                    z = model(x)
                assert [found.name for found in seen] == ["stack.0", "stack.1"]
            else:
                z = model(x)
        gradients = torch.autograd.grad(z.float().square().sum(), list(model.parameters()))
        return (z, *gradients, *(value.clone() for value in model.buffers()))

    for watched, alone in zip(run(True), run(False), strict=True):
        assert torch.equal(watched, alone)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_order_stays() -> None:
    """A watched block of many pixels is still multiplied in the gram order."""
    block = _block()
    x = torch.randn(1, 8, 32, 32)
    before = block.plan(x.shape).order
    with capture_attention(block) as seen:
        assert block.plan(x.shape).order == before == "gram"
        block(x=x)
    assert seen[0].theta.shape == (1, 2, 1024, 3)


def test_inserted_blocks_are_found() -> None:
    """Blocks are found wherever they are, by path or number, and the last call is kept."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
    scalednl.insert_nonlocal(model, at="1", count=2, block=scalednl.BlockConfig(heads=2))
    with capture_attention(model, ["1.nonlocal_.1"]) as seen:
        for size in (5, 7):
            model(torch.randn(1, 3, size, size))
    assert seen.names == ("1.nonlocal_.1",)
    assert seen["1.nonlocal_.1"].query_size == (7, 7)
    with capture_attention(model, [0]) as seen:
        model(torch.randn(1, 3, 5, 5))
    assert [found.name for found in seen] == ["1.nonlocal_.0"]


class NONLocalBlock2D(nn.Module):
    """A block as found in many repositories."""

    def __init__(self) -> None:
        super().__init__()
        self.theta, self.phi, self.g = (nn.Conv2d(8, 4, 1) for _ in range(3))
        self.W = nn.Conv2d(4, 8, 1)

    def map(self, x: Tensor) -> Tensor:
        """softmax(theta phi^T)."""
        return (self.theta(x).flatten(2).mT @ self.phi(x).flatten(2)).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        """x + W(A g)."""
        y = (self.map(x) @ self.g(x).flatten(2).mT).mT.unflatten(2, x.shape[2:])
        return x + self.W(y)


def test_a_converted_block_shows_the_map_that_it_had() -> None:
    """Somebody else's block, made ours, is captured with the attention it computed before."""
    foreign, x = NONLocalBlock2D().eval(), torch.randn(2, 8, 5, 4)
    truth = foreign.map(x)
    model, _ = scalednl.convert(nn.Sequential(foreign), attention="same")
    with capture_attention(model) as seen:
        model(x)
    assert_close(seen[0].map(1, 0), truth[1], 1e-6)


def test_rows_chunks_and_means_are_those_of_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows by number or place, chunks in order and column means agree with the whole map."""
    monkeypatch.setattr(factors, "CHUNK", 100)
    for attention in ATTENTIONS:
        block = _block(attention=attention, key_pool="after")
        with capture_attention(block) as seen:
            block(torch.randn(2, 8, 6, 5))
        whole = seen[0].map(1, 1)
        assert whole.shape == (30, 6)
        assert_close(seen[0].rows(1, 1, [7, (1, 2), (5, 4)]), whole[[7, 7, 29]], 1e-6)
        chunks = list(seen[0].chunks(1, 1))
        assert len(chunks) > 1
        assert_close(torch.cat(chunks), whole, 1e-6)
        assert_close(seen[0].column_mean(1, 1), whole.mean(0), 1e-6)


def test_half_precision_is_captured_in_float32() -> None:
    """A bfloat16 block gives float32 maps, near those of the float32 block."""
    block = _block(attention="softmax", init=0.1)
    x = torch.randn(1, 8, 6, 5)
    maps = []
    for dtype in (torch.float32, torch.bfloat16):
        with capture_attention(block.to(dtype)) as seen:
            block(x.to(dtype))
        maps.append(seen[0].map(0, 0))
    assert maps[1].dtype == torch.float32
    assert_close(maps[1], maps[0], 0.05)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda seen: seen[0].rows(0, 2, [0]), "head 2 does not exist: "),
        (lambda seen: seen[0].map(5, 0), "image 5 does not exist: "),
        (lambda seen: seen[3], r"block 3 does not exist: there are 0 \(\)"),
        (lambda seen: seen[0].rows(0, 0, [30]), "query 30 is outside"),
        (lambda seen: seen[0].rows(0, 0, [(6, 0)]), r"query \(6, 0\) is outside: .*6x5"),
    ],
)
def test_what_does_not_exist_is_named(ask: Any, said: str) -> None:
    """Images, heads, blocks and queries that do not exist, with those that do."""
    block = _block()
    with capture_attention(block) as seen:
        block(torch.randn(1, 8, 6, 5))
    with pytest.raises(ValueError, match=said):
        ask(seen)


def test_models_that_cannot_be_captured() -> None:
    """No block, a block not called, and a map too large are sentences."""
    with pytest.raises(ValueError, match=r"Conv2d has no non-local block: .*insert_nonlocal"):
        capture_attention(nn.Conv2d(3, 8, 3)).__enter__()
    with (
        capture_attention(_block()) as seen,
        pytest.raises(ValueError, match="has not been called"),
    ):
        seen[0].map(0, 0)
    large = Factors(torch.zeros(8192, 1), torch.zeros(4096, 1), torch.ones(()), False)
    with pytest.raises(ValueError, match=r"8,192 queries x 4,096 keys .*\(128 MiB\).* use rows"):
        large.complete()


def _rows_of_a_large_map() -> Any:
    """Rows and all chunks' sums of a 128x128 map, 268 million entries."""
    block = scalednl.NonLocal2d(32, attention="softmax", heads=4).eval()
    x = torch.randn(1, 32, 128, 128)

    def step() -> None:
        with torch.no_grad(), capture_attention(block) as seen:
            block(x)
            seen[0].rows(0, 3, range(0, 16384, 256))
            for number, _ in enumerate(seen[0].chunks(0, 3)):
                if number == 8:
                    break

    return step


def test_rows_of_a_large_map_need_little_memory() -> None:
    """Capturing and rows of a 128x128 map stay below 100 MB; the map would take 1 GB a head."""
    assert peak_of(_rows_of_a_large_map, runs=1).bytes < 100e6


def test_a_compiled_model_says_what_to_do_instead() -> None:
    """Compiled code passes hooks by, so it is refused with the way out, and one name is a name."""
    model = nn.Sequential(nn.Conv2d(3, 8, 1), scalednl.NonLocal2d(8))
    compiled: Any = torch.compile(model, backend="eager")
    refused = pytest.raises(ValueError, match="capture the model that was compiled")
    with refused, capture_attention(compiled):
        pass
    with torch.no_grad(), capture_attention(model, "1") as seen:
        model(torch.randn(1, 3, 4, 4))
    assert seen["1"].query_size == (4, 4)


@pytest.mark.parametrize("options", [{}, {"attention": "softmax"}, {"center": "keys+mean"}])
def test_the_attention_of_a_padded_image_is_its_own(options: dict[str, Any]) -> None:
    """Its map has zeros for keys that do not exist; alone, map and scores are the image's own."""
    block = randomise(scalednl.NonLocal2d(8, heads=2, **options)).double().eval()
    image = torch.randn(1, 8, 3, 4, dtype=torch.float64)
    x = torch.full((2, 8, 4, 5), torch.nan, dtype=torch.float64)
    mask = torch.zeros(2, 4, 5, dtype=torch.bool)
    x[0], mask[0] = torch.randn(8, 4, 5), True
    x[1, :, :3, :4], mask[1, :3, :4] = image[0], True
    with capture_attention(block) as padded:
        block(x, mask=mask)
    with capture_attention(block) as single:
        block(image)
    truth, found = single[0].map(0, 1), padded[0].map(1, 1)
    valid = mask[1].flatten()
    assert_close(found[valid][:, valid], truth, 1e-12)
    assert not found[:, ~valid].any()
    alone = padded[0].alone(1)
    assert_close(alone.map(0, 1), truth, 1e-12)
    assert_close(alone.attended(), single[0].attended(), 1e-12)
    ours, theirs = score_maps(alone.factors), score_maps(single[0].factors)
    for name, score in theirs.items():
        assert_close(ours[name], score, 1e-9, name)
    with pytest.raises(ValueError, match=r"different numbers of pixels: use alone\(image\)"):
        _ = padded[0].factors


@pytest.mark.parametrize("view", ["base", "magnitude", "direction"])
@pytest.mark.parametrize("center", [None, "keys", "keys+mean"])
def test_biased_keys_that_do_not_exist(center: Any, view: Any) -> None:
    """A bias of phi, which hidden keys have too, enters neither maps nor their means."""
    block = scalednl.NonLocal2d(8, heads=2, bias=True, center=center, view=view)
    block = randomise(block).double().eval()
    x, mask = torch.randn(2, 8, 4, 5).double(), torch.rand(2, 4, 5) > 0.4
    with capture_attention(block) as seen:
        block(x, mask=mask)
    truth = block.attention_map(x, mask=mask).detach()
    for image, valid in enumerate(mask.flatten(1)):
        found, a = seen[0].map(image, 1), truth[image, 1]
        assert_close(found[valid], a[valid], 1e-10)
        assert_close(seen[0].column_mean(image, 1), a[valid].mean(0), 1e-10)


@pytest.mark.parametrize(
    "options", [{}, {"attention": "softmax"}, {"center": "keys"}, {"center": "keys", "bias": True}]
)
def test_attention_to_other_keys_is_captured(options: dict[str, Any]) -> None:
    """The captured map is block.attention_map with the same keys and masks."""
    block = randomise(scalednl.NonLocal2d(8, heads=2, **options)).double().eval()
    x, keys = torch.randn(2, 8, 4, 5).double(), torch.randn(2, 8, 3, 3).double()
    key_mask = torch.rand(2, 3, 3) > 0.3
    with capture_attention(block) as seen:
        block(x, keys=keys, key_mask=key_mask)
    truth = block.attention_map(x, keys=keys, key_mask=key_mask)
    assert seen[0].key_size == (3, 3)
    assert_close(seen[0].map(1, 0), truth[1, 0].detach(), 1e-12)
    y = torch.einsum("bhij,bhjd->bhid", truth, seen[0].g)
    assert_close(seen[0].attended(), y.detach(), 1e-10)


@pytest.mark.parametrize("center", ["keys", "keys+mean"])
@pytest.mark.parametrize("view", ["base", "magnitude", "direction"])
def test_scores_of_centred_keys_are_those_of_the_map(center: str, view: str) -> None:
    """Rows, means and rank-one energy follow from the centred map."""
    block = randomise(scalednl.NonLocal2d(8, heads=2, center=center, view=view)).double().eval()  # type: ignore[arg-type]
    x = torch.randn(2, 8, 4, 5).double()
    with capture_attention(block) as seen:
        block(x)
    a = block.attention_map(x).detach()
    found = seen[0].factors
    assert_close(found.complete(), a, 1e-10)
    assert_close(found.row_mean(), a.mean(-1), 1e-10)
    assert_close(found.column_mean(), a.mean(-2), 1e-10)
    assert_close(a.sum(-1), torch.full_like(a[..., 0], float(center == "keys+mean")), 1e-10)
    energy = torch.linalg.svdvals(a).square()
    share = energy[..., 0] / energy.sum(-1)
    assert_close(score_maps(found)["rank_one_energy"], share, 1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"reference_pixels": "running"},
        {"attention": "softmax", "softmax_scale": "learned"},
    ],
)
def test_a_captured_map_stays_what_it_was(options: dict[str, Any]) -> None:
    """Training, or a call with other parameters, does not change what a block attended to."""
    block = randomise(scalednl.NonLocal2d(8, heads=2, **options)).double()
    block(torch.randn(1, 8, 4, 4).double())
    block.eval()
    x = torch.randn(1, 8, 6, 5).double()
    truth = block.attention_map(x).detach()
    with capture_attention(block) as seen:
        block(x)
    g = seen[0].g
    block.train()
    for value in (block.running_pixels, block.log_softmax_scale):
        if value is not None:
            value.data.add_(1)
    assert_close(seen[0].map(0, 1), truth[0, 1], 1e-12)
    assert_close(seen[0].attended(), truth @ g, 1e-10)
    assert_close(next(seen[0].parts()).alone(0).map(0, 1), truth[0, 1], 1e-12)
    state = {name: value.detach() for name, value in block.state_dict().items()}
    block.eval()
    with capture_attention(block) as other:
        torch.func.functional_call(block, {k: 2 * v for k, v in state.items()}, (x,))
    twice = copy.deepcopy(block)
    twice.load_state_dict({name: 2 * value for name, value in state.items()})
    assert_close(other[0].map(0, 1), twice.attention_map(x)[0, 1].detach(), 1e-12)


def test_threads_do_not_mix_their_batches() -> None:
    """Each capture has the calls of its own thread, though all run the same model."""
    model = nn.Sequential(scalednl.NonLocal2d(4), scalednl.NonLocal2d(4)).eval()
    first, second = torch.randn(1, 4, 3, 3), torch.randn(1, 4, 5, 5)
    sizes: list[tuple[tuple[int, ...], ...]] = []
    meet = threading.Barrier(2)

    def look(x: Tensor) -> None:
        with capture_attention(model) as seen:
            meet.wait()
            for _ in range(20):
                model(x)
            meet.wait()
            sizes.append(tuple(one.query_size for one in seen))

    threads = [threading.Thread(target=look, args=(x,)) for x in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sizes) == [((3, 3), (3, 3)), ((5, 5), (5, 5))]
