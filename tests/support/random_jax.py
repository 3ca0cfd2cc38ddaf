"""Random jitted functions of odd shapes and types, with odd results: inputs, constants, twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.support.xla_varied import Varied

KINDS = ("float32", "float32", "bfloat16", "float16", "int32", "int8", "uint8", "bool", "complex64")


class _Maker:
    """Pieces of a function, traced one after another: `made` are the arrays so far."""

    def __init__(self, seed: int) -> None:
        # Drawn again at each trace, so that it is the same function.
        self.draw = np.random.default_rng([seed, 3])
        self.made: list[Any] = []
        self.names: list[str] = []

    def chance(self, share: float) -> bool:
        return bool(self.draw.random() < share)

    def number(self, most: int) -> int:
        return int(self.draw.integers(most))

    def pick(self, values: Sequence[Any]) -> Any:
        return values[self.number(len(values))]

    def alike(self, x: Any) -> Any:
        return self.pick([y for y in self.made if (y.shape, y.dtype) == (x.shape, x.dtype)])

    def axis(self, x: Any) -> int:
        return self.number(x.ndim)

    def step(self) -> None:
        x, name = self.pick(self.made), self.pick(list(PIECES))
        if found := PIECES[name](self, x):
            self.names.append(name)
            self.made += found


Piece = Callable[[_Maker, Any], "list[Any] | None"]


def _is_float(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def _elementwise(m: _Maker, x: Any) -> list[Any] | None:
    if _is_float(x):
        return [m.pick((jnp.sin, jnp.tanh, jnp.exp, jax.nn.relu, jnp.abs))(x)]
    return None if x.dtype == bool else [x + jnp.ones_like(x)]


def _pair(m: _Maker, x: Any) -> list[Any] | None:
    y = m.alike(x)
    return [x ^ y] if x.dtype == bool else [m.pick((jnp.add, jnp.multiply, jnp.subtract))(x, y)]


def _cast(m: _Maker, x: Any) -> list[Any] | None:
    if x.dtype == jnp.complex64:
        return [x.real]
    return [x.astype(m.pick(("float32", "bfloat16", "int8", "bool")))]


def _reduced(m: _Maker, x: Any) -> list[Any] | None:
    if not x.ndim or x.dtype == bool:
        return None
    return [m.pick((jnp.sum, jnp.max, jnp.mean if _is_float(x) else jnp.sum))(x, axis=m.axis(x))]


def _turned(_: _Maker, x: Any) -> list[Any] | None:
    return [x.T] if x.ndim > 1 else None


def _flat(_: _Maker, x: Any) -> list[Any] | None:
    return [x.reshape(-1)] if x.ndim > 1 else None


def _joined(m: _Maker, x: Any) -> list[Any] | None:
    return [jnp.concatenate([x, m.alike(x), x], axis=m.axis(x))] if x.ndim else None


def _part(m: _Maker, x: Any) -> list[Any] | None:
    if not x.ndim:
        return None
    size = max(1, x.shape[0] // 2)
    return [lax.dynamic_slice_in_dim(x, m.number(4), size, 0), x[::-1]]


def _update(m: _Maker, x: Any) -> list[Any] | None:
    if not x.ndim or x.shape[0] < 2:
        return None
    return [lax.dynamic_update_slice_in_dim(x, x[:1], m.number(x.shape[0]), 0)]


def _padded(m: _Maker, x: Any) -> list[Any] | None:
    return [jnp.pad(x, [(m.number(2), m.number(3))] * x.ndim)] if x.ndim else None


def _sorted(m: _Maker, x: Any) -> list[Any] | None:
    if not x.ndim or x.dtype in (bool, jnp.complex64):
        return None
    return list(lax.sort((x, m.alike(x)), dimension=m.axis(x)))


def _summed(m: _Maker, x: Any) -> list[Any] | None:
    return [jnp.cumsum(x, axis=m.axis(x))] if x.ndim and _is_float(x) else None


def _best(m: _Maker, x: Any) -> list[Any] | None:
    if not x.ndim or not _is_float(x):
        return None
    values, places = lax.top_k(x, min(2, x.shape[-1]))
    return [values, places] if m.chance(0.5) else [values]


def _product(_: _Maker, x: Any) -> list[Any] | None:
    return [x @ x.T] if x.ndim == 2 and x.dtype != bool else None


def _constant(m: _Maker, x: Any) -> list[Any] | None:
    values = np.arange(x.size).reshape(x.shape)
    return None if x.dtype == bool else [x + values.astype(x.dtype)]


def _chosen(m: _Maker, x: Any) -> list[Any] | None:
    branches = (lambda y: y + y, lambda y: y[::-1] if y.ndim else y * y)
    return None if x.dtype == bool else [lax.cond(jnp.real(x).sum() > 0, *branches, x)]


def _switched(m: _Maker, x: Any) -> list[Any] | None:
    if not _is_float(x):
        return None

    def wide(y: Any) -> Any:
        return jnp.concatenate([y, y, y]).sum() + y if y.ndim else y

    number = jnp.abs(x).sum().astype(jnp.int32) % 3
    return [lax.switch(number, [jnp.sin, wide, lambda y: y * 2], x)]


def _repeated(m: _Maker, x: Any) -> list[Any] | None:
    if not _is_float(x):
        return None
    y = m.alike(x)
    state = (0, x, y)
    found = lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.tanh(s[2]), s[1] + y), state
    )
    return [found[1], found[2]] if m.chance(0.5) else [found[1]]


def _scanned(m: _Maker, x: Any) -> list[Any] | None:
    if x.ndim < 2 or not _is_float(x):
        return None
    last, rows = lax.scan(lambda s, row: (s * 0.5 + row, jnp.sort(s)), x[0], x)
    return [last, rows]


def _mapped(_: _Maker, x: Any) -> list[Any] | None:
    return [lax.map(lambda row: row * row.sum(), x)] if x.ndim == 2 and _is_float(x) else None


def _scattered(m: _Maker, x: Any) -> list[Any] | None:
    if not x.ndim or x.dtype == bool:
        return None
    return [x.at[np.array([0, m.number(x.shape[0])])].add(x[:2] if x.shape[0] > 1 else x[0])]


def _gathered(m: _Maker, x: Any) -> list[Any] | None:
    return [x[np.array([m.number(x.shape[0]) for _ in range(3)])]] if x.ndim else None


def _random(m: _Maker, x: Any) -> list[Any] | None:
    return (
        [x + jax.random.normal(jax.random.key(m.number(9)), x.shape, x.dtype)]
        if _is_float(x)
        else None
    )


def _solved(_: _Maker, x: Any) -> list[Any] | None:
    if x.ndim != 2 or x.dtype != jnp.float32:
        return None
    return [*jnp.linalg.qr(x)]


def _fft(_: _Maker, x: Any) -> list[Any] | None:
    return [jnp.fft.fft(x)] if x.ndim and x.dtype in (jnp.float32, jnp.complex64) else None


def _barrier(m: _Maker, x: Any) -> list[Any] | None:
    return list(lax.optimization_barrier((x, m.pick(m.made))))


def _conv(m: _Maker, x: Any) -> list[Any] | None:
    if x.ndim != 2 or x.dtype != jnp.float32 or min(x.shape) < 3:
        return None
    image = x[None, None]
    return [lax.conv(image, image[:, :, :2, :3], (1, 2), "SAME")[0, 0]]


PIECES: dict[str, Piece] = {
    piece.__name__.strip("_"): piece
    for piece in (
        *(_elementwise, _pair, _cast, _reduced, _turned, _flat, _joined, _part, _update, _padded),
        *(_sorted, _summed, _best, _product, _constant, _chosen, _switched, _repeated, _scanned),
        *(_mapped, _scattered, _gathered, _random, _solved, _fft, _barrier, _conv),
    )
}


def odd(seed: int) -> Varied:
    """Return a random function, whose results are any arrays: inputs and constants among them."""
    draw = np.random.default_rng([seed, 4])
    arguments = []
    for _ in range(int(draw.integers(1, 5))):
        shape = tuple(int(x) for x in draw.integers(1, 40, int(draw.integers(0, 4))))
        values = draw.standard_normal(shape) * 3
        arguments.append(jnp.asarray(values, KINDS[int(draw.integers(len(KINDS)))]))
    names: list[str] = []

    def run(*given: Any) -> Any:
        maker = _Maker(seed)
        maker.made = list(given)
        for _ in range(4 + maker.number(12)):
            maker.step()
        names[:] = maker.names
        found = [maker.pick(maker.made) for _ in range(1 + maker.number(4))]
        if maker.chance(0.3):
            found.append(maker.made[-1])
        if maker.chance(0.1):
            found += [given[0], jnp.arange(7.0)]
        return {"results": found[:2], "rest": tuple(found[2:])}

    jax.eval_shape(run, *arguments)
    donated = tuple(i for i in range(len(arguments)) if draw.random() < 0.25)
    return Varied(run, tuple(arguments), donated, tuple(sorted(set(names))))
