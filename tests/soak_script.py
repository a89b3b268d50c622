"""A soak cell with a fault as a program of its own, for a report."""

from __future__ import annotations

from tests.soak_check import Case

PROGRAM = """

if __name__ == "__main__":
    import os

    {emit}
    from unspool import Checkpoint, Keep, Recompute, dynamic_rnn
    from unspool.engine.execute import plain
    from unspool.structure import flatten, map_structure

    LENGTHS = {lengths}
    WANTED = {wanted}  # which inputs, states and weights want a gradient
    USED = {used}  # which outputs and final states the loss is made of

    def engine(cell, inputs, state):
        return dynamic_rnn(cell, inputs, LENGTHS, state, DTYPE, {chunk}, memory={memory})

    def loop(cell, inputs, state):
        lengths = None if LENGTHS is None else torch.tensor(LENGTHS)
        inputs = map_structure(lambda leaf: leaf.transpose(0, 1), inputs)
        outputs, final = plain.run(cell, inputs, lengths, state, DTYPE)
        return map_structure(lambda leaf: leaf.transpose(0, 1), outputs), final

    def results(run):
        torch.manual_seed({seed})
        cell = {name}()
        inputs, state = data({batch}, {steps})
        leaves = [*flatten((inputs, state)), *cell.parameters()]
        sources = [leaf.requires_grad_(want) for leaf, want in zip(leaves, WANTED, strict=True)]
        torch.manual_seed(5)
        outputs, final = run(cell, inputs, state)
        found = flatten((outputs, final))
        generator = torch.Generator().manual_seed(11)
        used = [leaf.double() for leaf, use in zip(found, USED, strict=True) if use and leaf.is_floating_point()]
        loss = sum((leaf * torch.randn(leaf.shape, dtype=leaf.dtype, generator=generator)).sum() for leaf in used)
        sources = [leaf for leaf in leaves if leaf.requires_grad]
        return [*found, *torch.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True)]

    names = [f"result {{k}}" for k in range(len(USED))] + [f"gradient {{k}}" for k, want in enumerate(WANTED) if want]
    for name, found, expected in zip(names, results(engine), results(loop), strict=True):
        apart = (found.double() - expected.double()).abs().max().item()
        print(f"{{name:12}} {{list(found.shape)!s:15}} differs by {{apart:.3g}}")
"""


def script(case: Case) -> str:
    """Prints how far the engine's results and gradients are from the plain loop's, as the first fault has it."""
    memory, chunk, interpreted = case.fault
    return f'"""{case.outcome.faults[0]}\n"""\n\n{case.drawn}' + PROGRAM.format(
        emit='os.environ["UNSPOOL_EMIT"] = "interpreted"' if interpreted else 'os.environ.pop("UNSPOOL_EMIT", None)',
        lengths=case.lengths,
        wanted=case.wanted,
        used=case.used,
        chunk=chunk,
        memory=memory,
        seed=case.seed,
        name=case.drawn.name,
        batch=case.batch,
        steps=case.steps,
    )
