"""Triton's interpreter, made honest enough to test kernels with: right arithmetic, and a watch over what is read and written.

`corrected()` repairs what the interpreter gets wrong; tests in tests/kernels/gpu all run under it (conftest.py there).
`sanitize()` makes accesses outside of tensors and races between programs fail, and counts bytes. Works with Triton 3.6 to 3.9.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, InterpreterError, TensorHandle

# ---------------------------------------------------------------------------------------------------------------- arithmetic


class _Format(NamedTuple):
    """A float that numpy lacks: the interpreter has its bits in an unsigned integer."""

    dtype: torch.dtype
    triton: tl.dtype
    largest: float | None  # casts stop there, as the GPU's do; None: they go on to infinity


_FORMATS = {
    "bf16": _Format(torch.bfloat16, tl.bfloat16, None),
    "fp8e4nv": _Format(torch.float8_e4m3fn, tl.float8e4nv, 448.0),
    "fp8e5": _Format(torch.float8_e5m2, tl.float8e5, 57_344.0),
}


def _format(dtype: tl.dtype) -> _Format | None:
    return _FORMATS.get(dtype.scalar.name)  # by name: pointer types cannot be hashed


def _value(handle: TensorHandle) -> np.ndarray:
    """The numbers that a handle stands for: float32 for the formats that numpy lacks."""
    form = _format(handle.dtype)
    data: np.ndarray = handle.data
    if form is None:
        return data
    return torch.from_numpy(np.array(data, order="C")).view(form.dtype).float().numpy()


def _encoded(value: np.ndarray, form: _Format) -> TensorHandle:
    """float32 numbers to the nearest of the format (ties to even)."""
    x = torch.from_numpy(np.array(value, dtype=np.float32, order="C"))
    if form.largest is not None:
        x = x.clamp(-form.largest, form.largest)  # leaves NaN as it is
    bits = x.to(form.dtype).view(torch.uint16 if form.dtype.itemsize == 2 else torch.uint8).numpy()
    return TensorHandle(bits, form.triton)


def _wide(argument: Any) -> Any:
    if isinstance(argument, TensorHandle) and _format(argument.dtype):
        return TensorHandle(_value(argument), tl.float32)
    return argument


def _by_value(method: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    """A builder's method that computes with numbers where Triton's computes with their bits, and rounds once."""

    def corrected_method(self: InterpreterBuilder, *args: Any) -> TensorHandle:
        forms = (_format(x.dtype) for x in args if isinstance(x, TensorHandle))
        form = next((form for form in forms if form), None)
        result = method(self, *(_wide(x) for x in args))
        if form is None:
            return result
        return TensorHandle(result.data, tl.int1) if result.data.dtype == np.bool_ else _encoded(result.data, form)

    return corrected_method


def _cast(method: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    def cast(self: InterpreterBuilder, source: TensorHandle, to: tl.dtype, rounding: Any = None) -> TensorHandle:
        form = _format(to)
        if form is None:
            return method(self, _wide(source), to)
        if rounding not in (None, interpreter._ir.ROUNDING_MODE.RTNE):
            raise NotImplementedError(f"a cast to {to} that does not round to nearest")
        return _encoded(_value(source), form)

    return cast


def _tf32(handle: TensorHandle) -> TensorHandle:
    bits = np.ascontiguousarray(handle.data).view(np.uint32) & np.uint32(0xFFFFE000)
    return TensorHandle(bits.view(np.float32), tl.float32)


def _dot(method: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    """Products of numbers; float32 operands lose the bits that tensor cores ignore, unless the kernel asks for "ieee"."""

    def dot(
        self: InterpreterBuilder, a: TensorHandle, b: TensorHandle, d: TensorHandle, precision: Any, most: int
    ) -> Any:
        if precision == interpreter._ir.INPUT_PRECISION.TF32 and a.dtype.scalar == b.dtype.scalar == tl.float32:
            a, b = _tf32(a), _tf32(b)
        return method(self, _wide(a), _wide(b), d, precision, most)

    return dot


def _reduction(method: Callable[..., Any]) -> Callable[..., Any]:
    """Reductions and scans do not go through the builder: those that would add up bits are refused."""

    def apply(self: Any, inputs: Any) -> Any:
        for x in inputs if isinstance(inputs, tuple) else (inputs,):
            if _format(x.dtype):
                raise NotImplementedError(f"a reduction of {x.dtype}: make it .to(tl.float32) first")
        return method(self, inputs)

    return apply


def _patched_once(patch_language: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Triton replaces all of `tl` again for each call of a device function, 0.5 ms each: once per launch is enough."""
    both = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})  # tl's own functions see the language as `core`
    running = False

    def patch_language_once(_function: Any) -> Any:
        nonlocal running
        if running:
            return interpreter._LangPatchScope()
        scope = patch_language(both)
        # `range(n)` of a loaded n: numpy makes no int of an array of one any more.
        scope.set_attr(tl.tensor, "__index__", lambda self: int(self.handle.data.item()))
        restore, running = scope.restore, True

        def restored() -> None:
            nonlocal running
            running = False
            restore()

        scope.restore = restored
        return scope

    return patch_language_once


def _quiet(call: Callable[..., None]) -> Callable[..., None]:
    """Numbers overflow and become NaN in silence, as they do on a GPU."""

    def launch(self: GridExecutor, *args: Any, **kwargs: Any) -> None:
        with np.errstate(all="ignore"):
            call(self, *args, **kwargs)

    return launch


@contextlib.contextmanager
def corrected() -> Iterator[None]:
    """Within: bf16, e4m3 and e5m2 are computed and cast by value (to nearest even; 8 bits saturate), `tl.dot` of them as well;
    tf32 products lose tf32's bits; loops may end at a loaded number; float errors do not warn; device functions are cheap.
    """
    builder = InterpreterBuilder
    operations = ("binary_op", "unary_op", "create_clampf", "create_erf", "create_fma", "create_rsqrt")
    methods: dict[str, Callable[..., Any]] = {name: _by_value(getattr(builder, name)) for name in operations}
    methods["cast_impl"] = methods["create_fp_to_fp"] = _cast(builder.cast_impl)
    methods["create_dot"] = _dot(builder.create_dot)
    methods["get_bf16"] = lambda _, value: _encoded(np.array([value]), _FORMATS["bf16"])  # not there before 3.9
    with contextlib.ExitStack() as patches:
        for name, method in methods.items():
            patches.enter_context(patch.object(builder, name, method, create=True))
        reductions = interpreter.ReduceScanOpInterface
        patches.enter_context(patch.object(reductions, "apply", _reduction(reductions.apply)))
        patches.enter_context(patch.object(interpreter, "_patch_lang", _patched_once(interpreter._patch_lang)))
        patches.enter_context(patch.object(GridExecutor, "__call__", _quiet(GridExecutor.__call__)))
        yield


# ------------------------------------------------------------------------------------------------------------------ sanitizer


class KernelError(AssertionError):
    """A kernel read or wrote what it must not."""


@dataclass
class Traffic:
    """Bytes that launches loaded and stored, by the name of the kernel's parameter: each lane that a mask lets through counts,
    in every program."""

    loaded: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)

    @property
    def bytes_loaded(self) -> int:
        return self.loaded.total()

    @property
    def bytes_stored(self) -> int:
        return self.stored.total()


_TAG_SHIFT = np.uint64(
    48
)  # user addresses are shorter: the bits above carry the number of the tensor through all arithmetic
_ADDRESS = np.uint64((1 << 48) - 1)
_SEVERAL = -1


class _Shadow:
    """Who read and who wrote a storage, by the first byte of each access: 0 is nobody, programs count from 1."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.start = storage.data_ptr()
        self.writer = np.zeros(storage.nbytes(), dtype=np.int32)
        self.reader = np.zeros(storage.nbytes(), dtype=np.int32)


class _Argument:
    """A tensor that a kernel was given; only its own elements may be touched through it."""

    def __init__(self, name: str, tensor: torch.Tensor, shadow: _Shadow) -> None:
        self.name, self.shadow = name, shadow
        self.start, self.itemsize = tensor.data_ptr(), tensor.element_size()
        span = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        self.span = span if tensor.numel() else 0
        self._own: np.ndarray | None = None  # [span]: which of them are its elements; None: all
        if self.span != tensor.numel():
            self._own = np.zeros(span, dtype=np.bool_)
            np.lib.stride_tricks.as_strided(self._own, tensor.shape, tensor.stride())[...] = True

    def holds(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """Whether `size` bytes at each of these offsets (in bytes) are its own."""
        inside = (offsets >= 0) & (offsets <= self.span * self.itemsize - size)
        if self._own is not None:
            known = offsets[inside]
            inside[inside] = self._own[known // self.itemsize] & self._own[(known + size - 1) // self.itemsize]
        return inside


class _Watch:
    """The state of one `sanitize()`: the traffic of all its launches and the tensors of the one that runs."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self._arguments: list[_Argument] = []
        self._number: dict[int, int] = {}  # id of a tensor -> its number in the list
        self._shadows: dict[int, _Shadow] = {}

    def start(self, arguments: list[tuple[str, Any]]) -> None:
        self._arguments, self._number, self._shadows = [], {}, {}
        for name, argument in arguments:
            self._register(name, argument)

    def _register(self, name: str, argument: Any) -> None:
        if isinstance(argument, tuple):
            for index, member in enumerate(argument):
                self._register(f"{name}[{index}]", member)
        elif isinstance(argument, interpreter.TensorDescriptor):
            self._register(name, argument.base)
        elif hasattr(argument, "data_ptr"):
            tensor = interpreter._unwrap_tensor(argument)
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._shadows:
                self._shadows[storage.data_ptr()] = _Shadow(storage)
            self._number[id(argument)] = len(self._arguments)
            self._arguments.append(_Argument(name, tensor, self._shadows[storage.data_ptr()]))

    def tagged(self, argument: Any, converted: Any) -> Any:
        """The pointer to a tensor, with the tensor's number in it."""
        if id(argument) in self._number:
            converted.handle.data |= np.uint64(self._number[id(argument)] + 1) << _TAG_SHIFT
        return converted

    def access(self, builder: InterpreterBuilder, what: str, pointers: TensorHandle, mask: Any) -> TensorHandle:
        """Check and count one load, store or update (an atomic); returns the pointers as the machine has them."""
        allowed = np.broadcast_to(True if mask is None else np.asarray(mask.data), pointers.data.shape)
        tagged = pointers.data[allowed]
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        for tag in np.unique(tagged >> _TAG_SHIFT).tolist():
            if not 0 < tag <= len(self._arguments):
                raise KernelError(
                    f"program {builder.grid_idx} {what}s through a pointer into no tensor that it was given"
                )
            argument = self._arguments[tag - 1]
            addresses = (tagged[tagged >> _TAG_SHIFT == tag] & _ADDRESS).astype(np.int64)
            self._check_bounds(builder, what, argument, addresses - argument.start, size)
            if what != "store":
                self.traffic.loaded[argument.name] += addresses.size * size
            if what != "load":
                self.traffic.stored[argument.name] += addresses.size * size
            if what != "update":
                self._check_race(builder, what, argument, addresses)
        return TensorHandle(pointers.data & _ADDRESS, pointers.dtype)

    @staticmethod
    def _check_bounds(
        builder: InterpreterBuilder, what: str, argument: _Argument, offsets: np.ndarray, size: int
    ) -> None:
        outside = offsets[~argument.holds(offsets, size)]
        if outside.size:
            where = f"{argument.name}[{outside[0] / argument.itemsize:g}]"
            raise KernelError(
                f"out of bounds: program {builder.grid_idx} {what}s {where} (an offset in elements; {outside.size} of "
                f"{offsets.size} lanes), and the tensor's elements span {argument.span}"
            )

    def _check_race(self, builder: InterpreterBuilder, what: str, argument: _Argument, addresses: np.ndarray) -> None:
        grid, index = builder.grid_dim, builder.grid_idx
        program = 1 + int(np.ravel_multi_index(index, grid))
        at = addresses - argument.shadow.start
        writer, reader = argument.shadow.writer[at], argument.shadow.reader[at]
        others = [(writer, "stored")] if what == "load" else [(writer, "stored"), (reader, "loaded")]
        for who, did in others:
            clash = np.flatnonzero((who != 0) & (who != program))
            if clash.size:
                other = int(who[clash[0]])
                name = "several" if other == _SEVERAL else tuple(int(i) for i in np.unravel_index(other - 1, grid))
                element = (addresses[clash[0]] - argument.start) / argument.itemsize
                raise KernelError(
                    f"race: program {index} {what}s {argument.name}[{element:g}], which program {name} {did} in the same launch"
                )
        if what == "store":
            argument.shadow.writer[at] = program
        else:
            argument.shadow.reader[at] = np.where((reader == 0) | (reader == program), program, _SEVERAL)


@contextlib.contextmanager
def sanitize() -> Iterator[Traffic]:
    """Within, a launch raises KernelError when it touches what is not an element of the tensor whose pointer it uses (names the
    program, the parameter and the offset), or when two programs of it store to one element or one reads what another stores, in
    whichever order. Yields the bytes that went each way.

    Descriptors and block pointers are covered; atomics are kept in bounds and counted both ways, but race with nothing. A
    pointer must come from an argument. Lanes that one program stores to the same element are not compared.
    """
    watch = _Watch()
    builder = InterpreterBuilder
    arguments_of, converted = GridExecutor._init_args_hst, interpreter._implicit_cvt
    load, store, call = builder.create_masked_load, builder.create_masked_store, GridExecutor.__call__
    rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas

    def start(self: GridExecutor, args: Any, kwargs: Any) -> Any:
        args, kwargs = arguments_of(self, args, kwargs)
        watch.start([*zip(self.arg_names, args, strict=False), *kwargs.items()])
        return args, kwargs

    def launch(self: GridExecutor, *args: Any, **kwargs: Any) -> None:
        try:
            call(self, *args, **kwargs)
        except InterpreterError as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, KernelError):
                cause = cause.__cause__
            if cause is None:
                raise
            raise cause from None

    def watched_load(self: Any, pointers: TensorHandle, mask: Any, *rest: Any, **policy: Any) -> TensorHandle:
        return load(self, watch.access(self, "load", pointers, mask), mask, *rest, **policy)

    def watched_store(self: Any, pointers: TensorHandle, value: TensorHandle, mask: Any, *policy: Any) -> Any:
        return store(self, watch.access(self, "store", pointers, mask), value, mask, *policy)

    def watched_rmw(self: Any, op: Any, pointers: TensorHandle, value: Any, mask: Any, *rest: Any) -> TensorHandle:
        return rmw(self, op, watch.access(self, "update", pointers, mask), value, mask, *rest)

    def watched_cas(self: Any, pointers: TensorHandle, *rest: Any) -> TensorHandle:
        return cas(self, watch.access(self, "update", pointers, None), *rest)

    with (
        patch.multiple(GridExecutor, _init_args_hst=start, __call__=launch),
        patch.object(interpreter, "_implicit_cvt", lambda argument: watch.tagged(argument, converted(argument))),
        patch.multiple(
            builder,
            create_masked_load=watched_load,
            create_masked_store=watched_store,
            create_atomic_rmw=watched_rmw,
            create_atomic_cas=watched_cas,
        ),
    ):
        yield watch.traffic
