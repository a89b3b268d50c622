"""`tf.contrib.learn.preprocessing`: documents as numbers of words."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from unspool.tf1.namespace import missing

__all__ = ["CategoricalVocabulary", "VocabularyProcessor", "tokenizer"]

_WORD = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+")


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each document.

    >>> list(tokenizer(["To be, or not to be!"]))
    [['To', 'be', 'or', 'not', 'to', 'be']]
    """
    return (_WORD.findall(each) for each in iterator)


class CategoricalVocabulary:
    """Numbers of words, in the order in which these came; 0 for what is unknown.

    Args:
        unknown_token: what stands for that.
        support_reverse: whether words can be found by their numbers.
    """

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown_token, self._support_reverse = unknown_token, support_reverse
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._reverse_mapping: list[Any] = [unknown_token]
        self._freq: dict[Any, int] = {}
        self._freeze = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """From now on new words are unknown; or, with False, no longer."""
        self._freeze = freeze

    def get(self, category: Any) -> int:
        """The number of a word, a new one unless the vocabulary is frozen."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._mapping[category] = len(self._mapping)
            self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Counts a word."""
        if self.get(category) > 0:
            self._freq[category] = self._freq.get(category, 0) + count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Forgets words that came `min_frequency` times or less, or `max_frequency` times or more; sorts the others."""
        known = sorted(self._freq.items(), key=lambda pair: (-pair[1], isinstance(pair[0], str), pair[0]))
        kept = [
            (word, count)
            for word, count in known
            if count > min_frequency and (max_frequency <= 0 or count < max_frequency)
        ]
        self._freq = dict(kept)
        self._reverse_mapping = [self._unknown_token, *self._freq]
        self._mapping = {word: number for number, word in enumerate(self._reverse_mapping)}

    def reverse(self, class_id: int) -> Any:
        """The word of a number; `ValueError` if there is no way back."""
        if not self._support_reverse:
            raise ValueError("This vocabulary wasn't initialized with support_reverse to support reverse() function.")
        return self._reverse_mapping[class_id]


class VocabularyProcessor:
    """Documents as rows of word numbers, cut or filled with zeros to one length.

    Args:
        max_document_length: how many words a row has.
        min_frequency: words must come more often than this to be known.
        vocabulary: a `CategoricalVocabulary`; a new one by default.
        tokenizer_fn: takes documents to their words; `tokenizer` by default.

    >>> processor = VocabularyProcessor(4)
    >>> np.array(list(processor.fit_transform(["to be or not", "to see"])))
    array([[1, 2, 3, 4],
           [1, 5, 0, 0]])
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Callable[..., Any] | None = None,
    ) -> None:
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learns the words of documents; the vocabulary is frozen then."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[np.ndarray[Any, Any]]:
        """Learns the words of documents, and gives their rows."""
        kept = list(raw_documents)
        return self.fit(kept).transform(kept)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[np.ndarray[Any, Any]]:
        """A row of numbers for each document."""
        for words in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            for place, word in enumerate(words):
                if place >= self.max_document_length:
                    break
                row[place] = self.vocabulary_.get(word)
            yield row

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """The words of rows, with blanks between them."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(each) for each in row)

    def save(self, filename: Any) -> None:
        """Writes the processor to a file."""
        with open(filename, "wb") as file:
            pickle.dump(self, file)

    @classmethod
    def restore(cls, filename: Any) -> VocabularyProcessor:
        """Reads a processor from a file that `save` wrote: only from one that is trusted, for it is Python's pickle."""
        with open(filename, "rb") as file:
            return pickle.load(file)


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.learn.preprocessing", name, globals())
