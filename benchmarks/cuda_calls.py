"""Whole calls of `dynamic_rnn` by the CUDA loop emitter beside torch's own modules, which are cuDNN's.

    UNSPOOL_EMIT=cuda-loop python -m benchmarks.cuda_calls --cell lstm --dtype float16

One line for each shape: milliseconds of a forward pass and of training, both measured in turns in the same process;
`ratio` is torch's time divided by ours. `host` is what a call takes in Python before the device has done anything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.apart import measured_apart
from unspool import BasicRNNCell, GRUCell, LSTMCell, dynamic_rnn, explain

CELLS: dict[str, tuple[Any, Any]] = {
    "lstm": (LSTMCell, nn.LSTM),
    "gru": (GRUCell, nn.GRU),
    "rnn": (BasicRNNCell, nn.RNN),
}
SHAPES = [
    (16, 1024, 128),
    (1, 512, 512),
    (64, 256, 256),
    (256, 100, 256),
    (64, 256, 512),
    (16, 512, 768),
    (16, 512, 1024),
    (64, 256, 1024),
]
"""Rows, steps, units; inputs are as wide as states."""
SECONDS = 150.0
"""That one shape may take."""
ROUNDS = 15


def device_ms(run: Callable[[], Any]) -> float:
    """Milliseconds on the device's clock."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def host_us(run: Callable[[], Any]) -> float:
    """Microseconds until a call returns."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    took = time.perf_counter() - began
    torch.cuda.synchronize()
    return took * 1e6


def one_shape(name: str, rows: int, steps: int, units: int, dtype: torch.dtype, *, ragged: bool) -> dict[str, Any]:
    """What one shape takes."""
    make, module = CELLS[name]
    cell, own = make(units, input_size=units).to("cuda", dtype), module(units, units).to("cuda", dtype)
    inputs = torch.randn(steps, rows, units, device="cuda", dtype=dtype, requires_grad=True)
    lengths = torch.randint(1, steps + 1, (rows,), device="cuda") if ragged else None

    def ours() -> Any:
        return dynamic_rnn(cell, inputs, lengths, dtype=dtype, time_major=True)[0]

    def torchs() -> Any:
        if lengths is None:
            return own(inputs)[0]
        packed = nn.utils.rnn.pack_padded_sequence(inputs, lengths.cpu(), enforce_sorted=False)
        return own(packed)[0].data

    def forward(call: Callable[[], Any]) -> None:
        with torch.no_grad():
            call()

    def training(call: Callable[[], Any]) -> None:
        call().sum().backward()

    told = explain(cell, inputs, lengths, None, dtype, time_major=True)
    line: dict[str, Any] = {"cell": name, "rows": rows, "steps": steps, "units": units, "ragged": ragged}
    line |= {"dtype": str(dtype).removeprefix("torch."), "emitter": told.emitter}
    for what, run in (("forward", forward), ("training", training)):
        times: list[tuple[float, float]] = []
        for _ in range(ROUNDS + 3):
            times.append((device_ms(partial(run, ours)), device_ms(partial(run, torchs))))
        mine, theirs = (statistics.median(each) for each in zip(*times[3:], strict=True))
        host = statistics.median(host_us(partial(run, ours)) for _ in range(ROUNDS))
        line[what] = {"ours_ms": round(mine, 3), "torch_ms": round(theirs, 3), "ratio": round(theirs / mine, 2)}
        line[what] |= {"us_a_step": round(mine * 1e3 / steps, 2), "host_us": round(host)}
    return line


def main() -> None:
    """One shape here, or all of them, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", choices=CELLS, default="lstm")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="float16")
    parser.add_argument("--ragged", action="store_true", help="lengths uniform in 1..T, on the device")
    parser.add_argument("--shape", type=int, nargs=3, metavar=("ROWS", "STEPS", "UNITS"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.shape:
        print(json.dumps(one_shape(options.cell, *options.shape, getattr(torch, options.dtype), ragged=options.ragged)))
        return
    told = ["--cell", options.cell, "--dtype", options.dtype, *(["--ragged"] if options.ragged else [])]
    found: list[dict[str, Any]] = []
    for shape in SHAPES:
        for line in measured_apart("benchmarks.cuda_calls", [*told, "--shape", *map(str, shape)], SECONDS):
            found.append(line)
            print(json.dumps(line), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
