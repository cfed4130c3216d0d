"""The structures of the index room, one file each: the exact scan, trees, cells, and the graph."""
