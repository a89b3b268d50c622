"""Drop-ins for torch's recurrent modules, by torch's names: the same but for what runs them.

Cells are torch's own: every loop of unspool takes them as they are.

>>> import torch, unspool
>>> unspool.nn.LSTM(3, 4)(torch.zeros(5, 2, 3))[0].shape
torch.Size([5, 2, 4])
"""

from torch.nn import GRUCell, LSTMCell, RNNCell

from unspool.nn.layers import GRU, LSTM, RNN

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]
