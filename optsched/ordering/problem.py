"""The ordering problem in its leanest form: what a kernel needs to count live bytes.

After the ops of a downset `D` (closed under predecessors) have ended, the live bytes are

    base + sum of net[v] over D - sum of size[b] over shared buffers b with all users in D

`net[v]` is what op `v` allocates less what it alone is the last user of; a *shared* buffer has at
least two users that may be its last. While `v` runs, `hill[v]` bytes more than before it are live;
in an in-place graph less the most bytes of all its `ways` whose shared buffers have no other users
left: see :mod:`optsched.ordering.inplace`. No state's live bytes depend on that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optsched.model.arrays import GraphArrays, IntArray, Rows, transpose
from optsched.ordering.inplace import Ways, graph_ways, pack_ways


class Net(NamedTuple):
    """Ops and shared buffers as flat arrays; rows are `index[ptr[i]:ptr[i + 1]]`.

    Parameters
    ----------
    pred_ptr, pred, succ_ptr, succ
        Op to ops before and after it.
    read_ptr, read
        Op to shared buffers.
    user_ptr, user
        Shared buffer to ops.
    hill, net
        Shape `(n,)`, bytes: rise while the op runs; change that it leaves behind.
    size
        Shape `(m,)`: bytes of the shared buffers, all positive.
    way_ptr, way, need_ptr, need
        The fields of :class:`Ways`.
    """

    pred_ptr: IntArray
    pred: IntArray
    succ_ptr: IntArray
    succ: IntArray
    read_ptr: IntArray
    read: IntArray
    user_ptr: IntArray
    user: IntArray
    hill: IntArray
    net: IntArray
    size: IntArray
    way_ptr: IntArray
    way: IntArray
    need_ptr: IntArray
    need: IntArray

    @property
    def ways(self) -> Ways:
        """The ways by themselves."""
        return Ways(self.way_ptr, self.way, self.need_ptr, self.need)


def make_net(
    pred: Rows, user: Rows, hill: IntArray, net: IntArray, size: IntArray, ways: Ways | None = None
) -> Net:
    """Make a net; the transposed rows are worked out here."""
    none = np.zeros(0, np.int64)
    ways = ways or Ways(np.zeros(len(hill) + 1, np.int64), none, np.zeros(1, np.int64), none)
    succ = transpose(pred, len(hill))
    read = transpose(user, len(hill))
    return Net(
        pred.ptr, pred.idx, succ.ptr, succ.idx, read.ptr, read.idx, user.ptr, user.idx, hill, net,
        size, *ways,
    )  # fmt: skip


def build_net(arrays: GraphArrays) -> Net:
    """Reduce a graph to what decides its peak; releases by single users are folded into `net`."""
    counts = np.diff(arrays.user.ptr)
    mortal = ~arrays.keep & (arrays.size > 0)
    single = mortal & (counts == 1)
    net = arrays.alloc - arrays.own
    np.subtract.at(net, arrays.user.idx[arrays.user.ptr[:-1][single]], arrays.size[single])
    shared = mortal & (counts > 1)
    ptr = np.zeros(int(shared.sum()) + 1, np.int64)
    np.cumsum(counts[shared], out=ptr[1:])
    user = Rows(ptr, arrays.user.idx[np.repeat(shared, counts)])
    number = np.cumsum(shared) - 1
    saved, ways = graph_ways(arrays, counts, number)
    packed = pack_ways([ways.get(v, ()) for v in range(arrays.op_count)]) if ways else None
    return make_net(arrays.pred, user, arrays.alloc - saved, net, arrays.size[shared], packed)
