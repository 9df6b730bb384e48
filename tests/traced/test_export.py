"""Exported networks: checked before they are kept, right at sizes they were not traced at."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scalednl
from scalednl.models import export as export_module
from tests.support import assert_close, called_scalednl, randomise

onnx = pytest.importorskip("onnx", reason="the extra 'export' is not installed")


def _network() -> nn.Module:
    config = scalednl.StackConfig(scalednl.BlockConfig(norm_init=1.0), count=1)
    return scalednl.create_model("preresnet8", 5, config)


@pytest.mark.parametrize(("suffix", "batch"), [(".onnx", 1), (".pt2", 1), (".pt2", 2)])
def test_a_network_with_open_sizes(suffix: str, batch: int, tmp_path: Path) -> None:
    """The report shows the fixed order and five agreeing sizes; the model is left as it was."""
    model = _network().train()
    path = tmp_path / f"net{suffix}"
    report = scalednl.export_model(model, path, torch.randn(batch, 3, 32, 32))
    assert path.is_file()
    assert report.checks[0].shape == (batch, 3, 32, 32)
    assert report.orders == {"stack.0": "gram"}
    assert len(report.checks) == 5
    assert len({check.shape for check in report.checks}) == 5
    assert all(check.error <= 1e-4 for check in report.checks)
    assert "stack.0: order gram" in str(report)
    assert model.training
    assert model.get_submodule("stack.0").order == "auto"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_the_order_is_fixed_at_the_examples_size(tmp_path: Path) -> None:
    """A small example fixes another order than a large one, and both are right everywhere."""
    block = randomise(scalednl.NonLocal2d(64))
    orders = {}
    for side in (4, 32):
        report = scalednl.export_model(block, tmp_path / "b.pt2", torch.randn(2, 64, side, side))
        orders[side] = report.orders[""]
    assert orders == {4: "associative", 32: "gram"}


class _Named(nn.Module):
    """A network that calls its block by the argument's name."""

    def __init__(self) -> None:
        super().__init__()
        self.block = randomise(scalednl.NonLocal2d(16))

    def forward(self, images: Tensor) -> Tensor:
        """The block's z."""
        return self.block(x=images)


def test_a_block_that_is_called_by_name(tmp_path: Path) -> None:
    """It is found and its order fixed, as if x had no name."""
    report = scalednl.export_model(_Named(), tmp_path / "n.pt2", torch.randn(2, 16, 32, 32))
    assert report.orders == {"block": "gram"}


class _Partly(nn.Module):
    """A network with a frozen norm, and a block that its forward pass never reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = scalednl.NonLocal2d(16), scalednl.NonLocal2d(16)

    def forward(self, x: Tensor) -> Tensor:
        """The used block's z."""
        return self.used(x)


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    """Modes of single modules and orders come back, after success and after failure."""
    model = _Partly().train()
    assert model.used.norm is not None
    model.used.norm.eval()
    modes = [module.training for module in model.modules()]
    report = scalednl.export_model(model, tmp_path / "net.pt2", torch.randn(2, 16, 16, 16))
    assert report.orders == {"used": "gram"}
    with pytest.raises(ValueError, match="got 3 channels"):
        scalednl.export_model(model, tmp_path / "net.pt2", torch.randn(2, 3, 16, 16))
    with pytest.raises(ValueError, match="nowhere is not a folder"):
        scalednl.export_model(model, tmp_path / "nowhere" / "net.pt2", torch.randn(2, 16, 8, 8))
    assert [module.training for module in model.modules()] == modes
    assert model.used.order == model.unused.order == "auto"


def test_a_wrong_file_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file answers otherwise than the network, nothing is kept and the size is named."""
    path = tmp_path / "net.pt2"
    path.write_bytes(b"an earlier good file")

    def wrong(model: nn.Module, file: Path, example: Tensor) -> export_module.Run:
        file.write_bytes(b"half-written")
        return lambda x: {"output": model(x) + (x.shape[-1] != example.shape[-1])}

    monkeypatch.setattr(export_module, "_torch_export", wrong)
    with pytest.raises(RuntimeError, match=r"differs from the network by .* it was not written"):
        scalednl.export_model(_network(), path, torch.randn(2, 3, 32, 32))
    assert path.read_bytes() == b"an earlier good file"
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt2"]


class _Segmentation(nn.Module):
    """A network that gives a dict, a tuple in it, and numbers of another kind."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, 8, 3, 2, 1), scalednl.NonLocal2d(8, norm_init=1.0)

    def forward(self, x: Tensor) -> dict[str, Tensor | tuple[Tensor, Tensor]]:
        """A map of the image's size, and what is known of it."""
        y = self.block(self.stem(x))
        z = nn.functional.interpolate(y, size=x.shape[-2:])
        return {"out": z, "aux": (y.mean((2, 3)), y.square())}


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_outputs_in_a_dict(suffix: str, tmp_path: Path) -> None:
    """Each is compared under its own name, and the file gives all of them."""
    model, path = _Segmentation(), tmp_path / f"net{suffix}"
    report = scalednl.export_model(model, path, torch.randn(1, 3, 32, 32))
    assert report.outputs == ("out", "aux_0", "aux_1")
    if suffix == ".pt2":
        x = torch.randn(3, 3, 20, 28)
        found = torch.export.load(path).module()(x)
        assert_close(found["aux"][1], model.eval()(x)["aux"][1], 1e-5)
    else:
        assert [value.name for value in onnx.load(path).graph.output] == [*report.outputs]
        assert "input: batch x 3 x height x width; gives out, aux_0, aux_1" in str(report)


def test_one_wrong_output_of_several_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is right in its first output alone is not written."""

    def wrong(model: nn.Module, file: Path, _: Tensor) -> export_module.Run:
        file.write_bytes(b"half-written")
        return lambda x: {
            name: value + (name == "aux_1")
            for name, value in export_module._named(model(x)).items()
        }

    monkeypatch.setattr(export_module, "_torch_export", wrong)
    with pytest.raises(RuntimeError, match="it was not written"):
        scalednl.export_model(_Segmentation(), tmp_path / "net.pt2", torch.randn(1, 3, 32, 32))
    assert not any(tmp_path.iterdir())


def _sizes(value: Any) -> list[str | int]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_names_and_opset_of_an_onnx_file(tmp_path: Path) -> None:
    """Input, output and open sizes have readable names; the opset is the one asked for or none."""
    path, x = tmp_path / "net.onnx", torch.randn(1, 3, 32, 32)
    scalednl.export_model(_network(), path, x, opset=19)
    graph = onnx.load(path).graph
    assert {value.name: _sizes(value) for value in (*graph.input, *graph.output)} == {
        "input": ["batch", 3, "height", "width"],
        "output": ["batch", 5],
    }
    assert [(o.domain, o.version) for o in onnx.load(path).opset_import] == [("", 19)]
    content = path.read_bytes()
    # Torch writes another opset without a word where it cannot write the one asked for.
    with pytest.raises(ValueError, match=r"with opset=7: use 18"):
        scalednl.export_model(_network(), path, x, opset=7)
    assert path.read_bytes() == content
    with pytest.raises(ValueError, match=r"opset=18 is for ONNX files, and net\.pt2 is not one"):
        scalednl.export_model(_network(), tmp_path / "net.pt2", x, opset=18)


def test_outputs_that_are_no_tensors(tmp_path: Path) -> None:
    """The sentence says what the model gives and what would work."""

    class _Named(nn.Module):
        def forward(self, x: Tensor) -> dict[str, object]:
            return {"scores": x, "name": "a text"}

    with pytest.raises(ValueError, match=r"the model gives a str as 'name': return a tensor"):
        scalednl.export_model(_Named(), tmp_path / "net.pt2", torch.randn(1, 3, 8, 8))


def test_bad_input(tmp_path: Path) -> None:
    """An unknown suffix and an example of the wrong rank are named."""
    with pytest.raises(ValueError, match=r"net\.tflite does not say a format"):
        scalednl.export_model(_network(), tmp_path / "net.tflite", torch.randn(2, 3, 32, 32))
    with pytest.raises(ValueError, match=r"not of shape \(3, 32, 32\)"):
        scalednl.export_model(_network(), tmp_path / "net.onnx", torch.randn(3, 32, 32))


def test_a_whole_network_compiles() -> None:
    """A network with a stack compiles without a graph break; scores and gradients are eager's."""
    torch._dynamo.reset()
    model = _network()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 3, 32, 32).to(memory_format=torch.channels_last)
    results = []
    for function, module in ((compiled, model), (eager, eager)):
        scores = function(x)
        gradients = torch.autograd.grad(scores.square().sum(), [*module.parameters()])
        results.append((scores, *gradients))
    for found, truth in zip(results[0], results[1], strict=True):
        assert_close(found, truth, 1e-3)


@pytest.mark.parametrize("attention", ["scaled", "softmax"])
def test_the_onnx_graph_of_a_scaled_block_has_no_map(attention: str, tmp_path: Path) -> None:
    """With sizes fixed, no tensor of the scaled graph is N x N; the softmax graph has one."""
    block = randomise(scalednl.NonLocal2d(16, attention=attention, heads=4)).eval()
    path = tmp_path / "block.onnx"
    torch.onnx.export(block, (torch.randn(1, 16, 9, 11),), path, dynamo=True, verbose=False)
    graph = onnx.shape_inference.infer_shapes(onnx.load(path)).graph
    shapes = [
        [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*graph.value_info, *graph.output)
    ]
    assert len(shapes) > 5
    assert any(shape[-2:] == [99, 99] for shape in shapes) == (attention == "softmax")


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`scalednl export` writes a file that computes what the network does."""
    weights, target = tmp_path / "net.safetensors", tmp_path / "net.pt2"
    model = scalednl.create_model("preresnet8", 5, scalednl.StackConfig(count=1))
    scalednl.save_model(model, weights)
    command = ["export", str(weights), str(target), "--size", "16"]
    run = called_scalednl(monkeypatch, capsys, *command)
    assert run.returncode == 0, run.stderr
    assert "stack.0: order gram" in run.stdout
    program = torch.export.load(target).module()
    x = torch.randn(3, 3, 20, 24)
    assert_close(program(x), model.eval()(x), 1e-4)
