"""Free running: each step reads the embedding of the id that the step before came to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.decode.helpers.helper import Helper, RowHelper, check_logits
from unspool.decode.sampling import Sampling, Uniform
from unspool.decode.tokens import Embedding, as_token, as_tokens
from unspool.structure import Structure
from unspool.tracers import static_shape


class GreedyEmbeddingHelper(Helper):
    """Reads the embedding of the most likely id, until it is the end token.

    Args:
        embedding: a matrix with a row for each id, or a function from ids to inputs, such as `nn.Embedding`.
        start_tokens: the ids that the first step reads, `[batch]`. A start token that is the end token ends nothing.
        end_token: the id that ends a row.

    Raises:
        TypeError: if the tokens are no ints.
        ValueError: if `start_tokens` is no vector or `end_token` no scalar, or either is not in the vocabulary.

    >>> helper = GreedyEmbeddingHelper(torch.eye(4), start_tokens=[0, 0], end_token=3)
    >>> logits = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    >>> ids = helper.sample(0, logits, state=())
    >>> finished, inputs, _ = helper.next_inputs(0, logits, (), ids)
    >>> finished, inputs[0]
    (tensor([False,  True]), tensor([0., 1., 0., 0.]))
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self.embedding = Embedding(embedding)
        self.start_tokens, self.end_token = as_tokens(start_tokens, "start_tokens"), as_token(end_token, "end_token")
        self.embedding.check_ids(self.start_tokens, "start_tokens")
        self.embedding.check_id(self.end_token, "end_token")
        # A list of tokens is on the CPU, wherever the model is.
        self.start_tokens = self.start_tokens.to(self.embedding.device or self.start_tokens.device)

    @property
    def batch_size(self) -> int:
        """How many start tokens there are."""
        return static_shape(self.start_tokens)[0]

    def check_outputs(self, output_size: Structure) -> None:
        """Raises unless the outputs are logits, one of them the end token's, and all with an embedding."""
        logits = check_logits(output_size, type(self).__name__)
        if self.end_token is not None and self.end_token >= logits:
            raise ValueError(
                f"end_token is {self.end_token}, which is not in the vocabulary: there are {logits} logits"
            )
        self.embedding.check_logits(logits)

    def initialize(self) -> tuple[Tensor, Any]:
        """The embeddings of the start tokens; no row is finished."""
        return torch.zeros_like(self.start_tokens, dtype=torch.bool), self.embedding(self.start_tokens)

    def sample(self, time: int, outputs: Tensor, state: Structure) -> Tensor:
        """The id with the largest logit."""
        return outputs.argmax(-1).int()

    def next_inputs(
        self, time: int, outputs: Structure, state: Structure, sample_ids: Tensor
    ) -> tuple[Tensor, Any, Structure]:
        """The embeddings of the samples, or of the start tokens once all rows are finished."""
        finished = sample_ids == self.end_token
        ids = torch.where(finished.all(), self.start_tokens.to(sample_ids), sample_ids)
        return finished, self.embedding(ids), state

    def of_rows(self) -> RowHelper | None:
        """Not where a subclass may have another idea."""
        return EmbeddedRows(self) if type(self) in (GreedyEmbeddingHelper, SampleEmbeddingHelper) else None


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Reads the embedding of an id that is drawn from the softmax of the outputs, until it is the end token.

    Args:
        embedding, start_tokens, end_token: as in `GreedyEmbeddingHelper`.
        softmax_temperature: divides the logits: below 1 makes likely ids likelier, above 1 less so.
        seed: begins a stream of draws of the helper's own.
        top_k: only the `top_k` most likely ids are drawn.
        top_p: only the most likely ids that together have this probability are drawn, at least one; after `top_k`.
        generator: what draws; by default torch's own generator. Each step draws one number for each row.

    Raises:
        TypeError, ValueError: as in `GreedyEmbeddingHelper`, and if the temperature is not above 0, `top_k` below 1,
            `top_p` not in (0, 1], or both `seed` and `generator` are given.

    >>> generator = torch.Generator().manual_seed(0)
    >>> helper = SampleEmbeddingHelper(torch.eye(4), [0, 0], end_token=3, top_k=2, generator=generator)
    >>> helper.sample(0, torch.tensor([[9.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 9.0]]), state=())
    tensor([0, 3], dtype=torch.int32)
    """

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: int | None = None,
        *,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self.sampling = Sampling(softmax_temperature, top_k, top_p)
        self.uniform = Uniform(seed, generator)

    def sample(self, time: int, outputs: Tensor, state: Structure) -> Tensor:
        """An id drawn for each row."""
        return self.sampling(outputs, self.uniform)


class EmbeddedRows:
    """A helper of this file, for some rows of its batch.

    >>> rows = EmbeddedRows(GreedyEmbeddingHelper(torch.eye(4), [0, 0], end_token=3))
    >>> rows.takes_largest, rows.follow(torch.tensor([3]))[0]
    (True, tensor([True]))
    """

    def __init__(self, helper: GreedyEmbeddingHelper) -> None:
        self._helper = helper
        self.takes_largest = not isinstance(helper, SampleEmbeddingHelper)

    def sample(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """The largest, or a draw: a number is drawn for every row of the batch, whether it has ended or not."""
        helper = self._helper
        if not isinstance(helper, SampleEmbeddingHelper):
            return outputs.argmax(-1).int()
        return helper.sampling(outputs, lambda count, like: helper.uniform(helper.batch_size, like)[rows])

    def follow(self, sample_ids: Tensor) -> tuple[Tensor, Any]:
        """The end token ends a row; the embeddings of ids are read."""
        return sample_ids == self._helper.end_token, self._helper.embedding(sample_ids)

    def vocabulary(self) -> tuple[Any, Tensor, int]:
        """The embedding, and the helper's tokens."""
        helper = self._helper
        assert helper.end_token is not None
        return helper.embedding.as_module(), helper.start_tokens, helper.end_token
