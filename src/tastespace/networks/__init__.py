"""Neural networks as plain functions of arrays: autoencoders, Boltzmann machines, deep belief networks.

Begin with `autoencoder.py` (PyTorch, the extra `deep`) or `rbm.py` (NumPy). What is learned is a frozen dataclass of
arrays that encodes with NumPy alone, so that answering needs no PyTorch. The rooms above are `models` and `content`;
this one imports `inference` and what is below it.
"""
