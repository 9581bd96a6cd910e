"""Circles of a graph that is given as pairs of nodes."""


def circles(edges):
    """The largest groups of two or more nodes that all reach each other."""
    graph = {}
    for start, end in edges:
        graph.setdefault(start, set()).add(end)
        graph.setdefault(end, set())
    reach = {node: _reached(graph, node) for node in graph}
    groups = {frozenset(end for end in reach[node] if node in reach[end]) for node in graph}
    return sorted((group for group in groups if len(group) > 1), key=sorted)


def _reached(graph, node):
    found, pending = set(), [node]
    while pending:
        new = graph[pending.pop()] - found
        found |= new
        pending += new
    return found
