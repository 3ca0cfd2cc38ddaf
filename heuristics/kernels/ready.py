"""The set of ready ops as a search tree that finds the next op in logarithmic time.

The tree is a treap: a binary search tree by `size[op]`, balanced by random weights `weight[op]`.
Every node also stores the best op of its subtree, the one with the lowest `net`, then the lowest
`tie`. The best op among those with `size <= limit` is therefore found on a single path, for any
limit. It needs no scans and no separate queues per limit.

A tree is an int64 array of shape `(ops + 1, 4)`. A row holds the left child, right child, parent
and best op of the subtree. The last row stands for "no op"; its left child is the root. `net` and
`weight` also have one more entry, larger than all others.

Example: ops 0, 1 and 2 have sizes 4, 8 and 6 and net bytes 3, -2 and 0. Within a limit of 6, the
best op is 2; within a limit of 8, it is 1.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner

LEFT, RIGHT, UP, BEST = 0, 1, 2, 3

NEVER = 2**63 - 1
"""The `net` of "no op"."""


@inner
def make_tree(count: int) -> IntArray:
    """Return an empty tree for ops `0 .. count - 1`."""
    return np.full((count + 1, 4), count, np.int64)


@inner
def goes_first(a: int, b: int, net: IntArray, tie: IntArray) -> bool:
    """Return True if op `a` is better than op `b`."""
    return bool(net[a] < net[b] or (net[a] == net[b] and tie[a] < tie[b]))


@inner
def update_node(tree: IntArray, v: int, net: IntArray, tie: IntArray) -> None:
    """Update the best op of a subtree from those of its children."""
    # The node itself competes with the best of both subtrees.
    best = v
    for side in (LEFT, RIGHT):
        other = tree[tree[v, side], BEST]
        if goes_first(other, best, net, tie):
            best = other
    tree[v, BEST] = best


@inner
def update_path(tree: IntArray, v: int, net: IntArray, tie: IntArray) -> None:
    """Update the best ops of an op and all its ancestors after a change of its `net`."""
    nobody = len(tree) - 1
    while v != nobody:
        update_node(tree, v, net, tie)
        v = tree[v, UP]


@inner
def rotate_up(tree: IntArray, v: int) -> None:
    r"""Exchange an op and its parent; the order by size is kept.

    ::

            p            v
           / \          / \
          v   c   ->   a   p
         / \              / \
        a   b            b   c
    """
    parent = tree[v, UP]
    above = tree[parent, UP]
    side = LEFT if tree[parent, LEFT] == v else RIGHT
    inner = tree[v, 1 - side]
    tree[parent, side] = inner
    tree[inner, UP] = parent
    tree[v, 1 - side] = parent
    tree[parent, UP] = v
    tree[above, LEFT if tree[above, LEFT] == parent else RIGHT] = v
    tree[v, UP] = above


@inner
def insert(
    tree: IntArray, v: int, size: IntArray, net: IntArray, tie: IntArray, weight: IntArray
) -> None:
    """Add an op to the tree."""
    nobody = len(tree) - 1
    parent, side, at = nobody, LEFT, tree[nobody, LEFT]
    # Equal sizes go right, so that the tree has a definite shape.
    while at != nobody:
        parent = at
        side = LEFT if size[v] < size[at] else RIGHT
        at = tree[at, side]
    tree[parent, side] = v
    tree[v, LEFT] = tree[v, RIGHT] = nobody
    tree[v, UP] = parent
    # Rotations lift the new leaf until its weight is below that of its parent, as in a heap.
    while weight[v] > weight[parent]:
        rotate_up(tree, v)
        update_node(tree, parent, net, tie)
        parent = tree[v, UP]
    update_path(tree, v, net, tie)


@inner
def remove(tree: IntArray, v: int, net: IntArray, tie: IntArray, weight: IntArray) -> None:
    """Remove an op from the tree."""
    nobody = len(tree) - 1
    # Rotated down to a leaf, always below the heavier child, and then cut off.
    while True:
        left, right = tree[v, LEFT], tree[v, RIGHT]
        if left == nobody and right == nobody:
            break
        if right == nobody or (left != nobody and weight[left] > weight[right]):
            rotate_up(tree, left)
        else:
            rotate_up(tree, right)
    parent = tree[v, UP]
    tree[parent, LEFT if tree[parent, LEFT] == v else RIGHT] = nobody
    update_path(tree, parent, net, tie)


@inner
def least_size(tree: IntArray, size: IntArray) -> int:
    """Return the minimum size in a tree that is not empty."""
    nobody = len(tree) - 1
    at = tree[nobody, LEFT]
    while tree[at, LEFT] != nobody:
        at = tree[at, LEFT]
    return int(size[at])


@inner
def best_within(tree: IntArray, limit: int, size: IntArray, net: IntArray, tie: IntArray) -> int:
    """Return the best op with `size <= limit`, or the number of ops if none exists."""
    nobody = len(tree) - 1
    best, at = nobody, tree[nobody, LEFT]
    while at != nobody:
        if size[at] > limit:
            at = tree[at, LEFT]
            continue
        # This node and all of its left subtree are within the limit; continue to the right.
        for other in (tree[tree[at, LEFT], BEST], at):
            if goes_first(other, best, net, tie):
                best = other
        at = tree[at, RIGHT]
    return int(best)


@inner
def best_of_all(tree: IntArray) -> int:
    """Return the best op of the tree, or the number of ops if the tree is empty."""
    nobody = len(tree) - 1
    return int(tree[tree[nobody, LEFT], BEST])
