"""The structures of the index room, one file each: the exact scan, trees, cells, and the graph.

Begin with `exact.py`; each is a subclass of `Index` in `index.py` above. May import that room's `index.py` and
`search.py`, the foundation, and one another's helpers.
"""
