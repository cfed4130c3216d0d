"""Models made of models: `joint.py` (what is chosen and how it is rated), `blend.py` (two models of what is chosen).

Begin with the first. May import any model family, and no family imports this folder.
"""
