"""A sequence model trained by many processes, on rows of different lengths, that survives the death of any of them.

    torchrun --nproc-per-node 2 --max-restarts 3 examples/train_distributed.py                   # CPUs, gloo
    torchrun --nproc-per-node 2 --max-restarts 3 examples/train_distributed.py --parallel fsdp   # shards of weights
    torchrun --nproc-per-node 8 --max-restarts 3 examples/train_distributed.py --device cuda     # GPUs, nccl

The task is to say which token came two steps before; rows are as long as a log-normal says. Every process takes batches
of about the same total length, so that none waits for another. Every few steps all that training depends on is saved:
weights, the optimiser, random numbers, the place in the data. If a process dies, `torchrun` starts all of them again,
and they go on from there. On a CPU they end with the same weights, bit for bit, as if nothing had happened.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

import unspool
from unspool.data import LengthBalancedBatchSampler

TOKENS, DELAY = 8, 2
KEEP = 2  # checkpoints; the one before the last is there if a disk fails while the last is read


@dataclass(frozen=True)
class Batch:
    """Rows side by side, in padding that nothing reads."""

    tokens: Tensor  # [batch, time]
    lengths: Tensor  # [batch]


class Rows(Dataset[Tensor]):
    """Rows of random tokens, each always the same, of lengths drawn from a log-normal."""

    def __init__(self, count: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        drawn = torch.empty(count).log_normal_(math.log(20), 0.8, generator=draw)
        self.lengths, self.seed = drawn.long().clamp(DELAY + 1, 400), seed

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.lengths)

    def __getitem__(self, row: int) -> Tensor:
        """The tokens of a row."""
        draw = torch.Generator().manual_seed(1_000_003 * self.seed + row)
        return torch.randint(TOKENS, (int(self.lengths[row]),), generator=draw)


def collate(rows: Sequence[Tensor]) -> Batch:
    """Rows as a batch."""
    return Batch(pad_sequence(list(rows), batch_first=True), torch.tensor([len(row) for row in rows]))


class Model(nn.Module):
    """Logits of the token to be remembered, at every step."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, units)
        # With its input size, since a cell must have its weights before it is wrapped.
        self.cell = unspool.DropoutWrapper(unspool.GRUCell(units, input_size=units), output_keep_prob=0.9)
        self.head = nn.Linear(units, TOKENS)

    def forward(self, batch: Batch) -> Tensor:
        """Logits `[batch, time, TOKENS]`."""
        outputs, _ = unspool.dynamic_rnn(
            self.cell, self.embedding(batch.tokens), sequence_length=batch.lengths, dtype=torch.float32
        )
        logits: Tensor = self.head(outputs)
        return logits.clone()  # not a view, since fully_shard hooks gradients of what comes out


def loss_of(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """The sum of the losses of all steps that have an answer, and how many these are."""
    logits = model(batch)[:, DELAY:]
    real = torch.arange(DELAY, batch.tokens.shape[1], device=logits.device) < batch.lengths.to(logits.device)[:, None]
    return F.cross_entropy(logits[real], batch.tokens[:, :-DELAY][real], reduction="sum"), real.sum()


# -- checkpoints ------------------------------------------------------------------------------------------------------


class Checkpoints:
    """All that training depends on, saved by all processes together: each writes what it has.

    A checkpoint is written under another name and renamed once it is complete, so that one that can be found can be
    read, whenever a process dies.
    """

    def __init__(self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        self._folder, self._model, self._optimizer, self._device = folder, model, optimizer, device
        if dist.get_rank() == 0:
            folder.mkdir(parents=True, exist_ok=True)
            for unfinished in folder.glob("*.part"):
                shutil.rmtree(unfinished)
        dist.barrier()

    def save(self, step: int) -> None:
        """Saves everything after so many steps."""
        part, whole = self._folder / f"{step:08}.part", self._folder / f"{step:08}"
        dcp.save(self._state(step), checkpoint_id=part)
        if dist.get_rank() == 0:
            part.rename(whole)
            for old in self._found()[:-KEEP]:
                shutil.rmtree(old)
        dist.barrier()

    def resume(self) -> int:
        """Loads the last checkpoint, if there is one: how many steps were done."""
        found = self._found()
        if not found:
            return 0
        state = self._state(int(found[-1].name))
        dcp.load(state, checkpoint_id=found[-1])
        if int(state["processes"]) != dist.get_world_size():
            raise SystemExit(f"{found[-1]} was saved by {int(state['processes'])} processes: start as many again")
        set_state_dict(
            self._model, self._optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        random = state["random"][str(dist.get_rank())]
        torch.set_rng_state(random["cpu"])
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(random["cuda"], self._device)
        return int(state["step"])

    def _state(self, step: int) -> dict[str, Any]:
        model, optimizer = get_state_dict(self._model, self._optimizer)
        random = {"cpu": torch.get_rng_state()}
        if self._device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self._device)
        return {
            "model": model,
            "optimizer": optimizer,
            "random": {str(dist.get_rank()): random},  # each process has numbers of its own
            "step": torch.tensor(step),
            "processes": torch.tensor(dist.get_world_size()),
        }

    def _found(self) -> list[Path]:
        return sorted(each for each in self._folder.iterdir() if each.name.isdigit())


# -- training ---------------------------------------------------------------------------------------------------------


def wrap(model: Model, parallel: str, device: torch.device) -> nn.Module:
    """The model in many processes: the same weights in each, or a shard of them."""
    if parallel == "ddp":
        return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    fully_shard(model.cell)  # gathered once for the whole loop, and freed after it
    return fully_shard(model)


def train(options: argparse.Namespace, device: torch.device) -> nn.Module:
    """Trains from the last checkpoint on, or from the beginning; returns the model."""
    rows = Rows(options.rows, options.seed)
    torch.manual_seed(options.seed)
    model = wrap(Model(options.units).to(device), options.parallel, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate)
    torch.manual_seed(options.seed + 1 + dist.get_rank())  # dropout is not the same in all processes
    checkpoints = Checkpoints(options.folder, model, optimizer, device)
    step = checkpoints.resume()
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} processes, {options.parallel}, from step {step}", flush=True)

    sampler = LengthBalancedBatchSampler(rows.lengths, options.batch_size, seed=options.seed)
    epoch_steps = len(sampler)
    while step < options.steps:
        sampler.set_epoch(step // epoch_steps, start=step % epoch_steps)
        # With a generator of its own: a loader draws a number when it starts, which a restart does more often.
        for batch in DataLoader(rows, batch_sampler=sampler, collate_fn=collate, generator=torch.Generator()):
            on_device = Batch(batch.tokens.to(device), batch.lengths)
            optimizer.zero_grad()
            loss, count = loss_of(model, on_device)
            total = torch.stack([loss.detach(), count])
            dist.all_reduce(total)
            (loss * dist.get_world_size() / total[1]).backward()  # gradients are averaged over processes
            optimizer.step()
            step += 1
            if dist.get_rank() == 0:
                print(f"step {step}: loss {(total[0] / total[1]).item():.4f}", flush=True)
            if step % options.every == 0 or step == options.steps:
                checkpoints.save(step)
            if step == options.steps:
                break
    return model


def export(model: nn.Module, path: Path) -> None:
    """Writes the weights as one file, as a single process would have them."""
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        torch.save(weights, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)
    dist.barrier()


def join(backend: str) -> None:
    """Lets the processes that were started together find each other.

    `torchrun` hands the same store to those that it starts again, in which the addresses of the dead are still listed.
    So each attempt has names of its own there.
    """
    store, rank, world = next(iter(dist.rendezvous("env://")))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    dist.init_process_group(backend, store=dist.PrefixStore(f"attempt {attempt}", store), rank=rank, world_size=world)


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains, in each of the processes that `torchrun` has started."""
    parser = argparse.ArgumentParser(description="Train a sequence model by many processes that may die.")
    parser.add_argument("--parallel", choices=["ddp", "fsdp"], default="ddp", help="whole weights, or shards of them")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--folder", type=Path, default=Path("demo-output/distributed"), help="of the checkpoints")
    parser.add_argument("--steps", type=int, default=300, help="to train for, those before a restart included")
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--rows", type=int, default=4000, help="of the data")
    parser.add_argument("--batch-size", type=int, default=32, help="rows of a process at a step")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--rate", type=float, default=5e-3, help="of learning")
    parser.add_argument("--seed", type=int, default=0, help="of the data, the weights and dropout")
    options = parser.parse_args(arguments)
    for name in ("steps", "every", "rows", "batch_size", "units"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, but is {getattr(options, name)}")
    if "RANK" not in os.environ:
        parser.error("start it by torchrun, such as: torchrun --nproc-per-node 2 examples/train_distributed.py")
    device = torch.device(options.device, int(os.environ["LOCAL_RANK"]) if options.device == "cuda" else None)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    join("nccl" if device.type == "cuda" else "gloo")
    try:
        model = train(options, device)
        export(model, options.folder / "weights.pt")
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
