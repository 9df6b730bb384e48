"""One of two ranks: its step must move the weights as one process with the joined batch does."""

import torch

from scalednl.lab.config import RunSettings
from scalednl.lab.training.devices import make_fabric
from scalednl.lab.training.loop import Trainer
from scalednl.lab.training.setup import experiment_data, initial_model
from tests.lab.training.builders import small


def main() -> None:
    """Compare, and print on rank 0."""
    torch.set_num_threads(1)
    experiment = small(batch=31, lr=1e-3, schedule="steps", accumulate=2)
    data = experiment_data(experiment, None)
    fabric = make_fabric(RunSettings(device="cpu"))
    fabric.launch()
    assert fabric.world_size == 2
    together = Trainer(experiment, data, initial_model(experiment, 4), fabric)
    together.network.eval()
    seen = []
    for batch in together.batches.epoch(0):
        seen += batch.labels.tolist()
    gathered = fabric.all_gather(torch.bincount(torch.tensor(seen), minlength=4))
    assert isinstance(gathered, torch.Tensor)
    counts = gathered.sum(0)
    right = torch.bincount(torch.from_numpy(data.train.labels), minlength=4)
    assert torch.equal(counts.cpu(), right), (counts, right)

    batch = next(together.batches.epoch(0))
    assert batch.count == 31
    assert len(batch.labels) == (15, 16)[fabric.global_rank]
    together.train_step(batch)

    alone = initial_model(experiment, 4).eval()
    optimizer = torch.optim.SGD(alone.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    parts = [fabric.all_gather(_padded(tensor)) for tensor in (batch.images, batch.labels)]
    images, labels = (torch.cat([part[0][:15], part[1]]) for part in parts)
    torch.nn.functional.cross_entropy(alone(images), labels).backward()
    optimizer.step()
    start = initial_model(experiment, 4).state_dict()
    theirs = together.network.state_dict()
    for name, value in alone.named_parameters():
        moved, right = theirs[name] - start[name], value - start[name]
        assert (moved - right).norm() <= 1e-3 * right.norm() + 1e-9, name
    fabric.barrier()
    if fabric.global_rank == 0:
        print("ranks agree")


def _padded(part: torch.Tensor) -> torch.Tensor:
    """As long as the longer rank's, so that both can be gathered."""
    return torch.cat([part, part[:1]]) if len(part) == 15 else part


if __name__ == "__main__":
    main()
