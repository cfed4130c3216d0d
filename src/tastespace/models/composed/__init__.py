"""Models made of models: `joint.py` (what is chosen and how it is rated). Begin there; may import any model family."""
