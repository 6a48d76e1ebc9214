"""What Triton loads to launch kernels on the target ``tx8``: arrays of NumPy in, arrays of NumPy out.

Triton takes for pointers what has a method ``data_ptr``, which arrays of NumPy do not have. So this
driver wraps the arrays among the arguments before Triton looks at their types.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

import numpy as np
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import jit

from .compiler import BACKEND, Tx8Backend
from .measuring import SimulatedDevice, note_launch, simulated_times, take_do_bench
from .measuring import last_run as last_run  # docs/triton.md has it from here

if TYPE_CHECKING:
    from .kernel import TritonKernel

_DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
"""Types of NumPy that Triton calls differently."""

_MOST_THREADS = 1 << 20
"""Threads of a program that a configuration may ask for; the chip has none."""


class WrappedArray:
    """An array of NumPy as Triton wants to see a tensor."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.dtype = _DTYPES.get(array.dtype.name, array.dtype.name)

    def data_ptr(self) -> int:
        """The address of the first element in the memory of the host."""
        return int(self.array.ctypes.data)


def _wrapped(name: str, value: Any) -> Any:
    """Returns an argument as Triton takes it; TtirError for an array whose type no kernel can have."""
    from compiler.frontend.triton.kernels.launch import DTYPES, not_computed  # here, as the kernels below
    from compiler.frontend.triton.operations import TtirError

    if isinstance(value, np.ndarray):
        kind = value.dtype.name
        if (kind.removeprefix("u") if value.dtype.kind == "u" else kind) not in DTYPES.values():
            raise TtirError(not_computed(name, kind))
        return WrappedArray(value)
    return value.item() if isinstance(value, np.generic) else value


def _take_arrays() -> None:
    """Let the functions by which Triton binds arguments for this target wrap the arrays among them, once."""
    plain = jit.create_function_from_signature
    if hasattr(plain, "__wrapped__"):
        return

    @wraps(plain)
    def create(signature: Any, parameters: Any, backend: Any) -> Callable[..., Any]:
        bind: Callable[..., Any] = plain(signature, parameters, backend)
        if not isinstance(backend, Tx8Backend):
            return bind

        def bind_arrays(*arguments: Any, **named: Any) -> Any:
            names = [parameter.name for parameter in parameters]
            wrapped = {name: _wrapped(name, value) for name, value in named.items()}
            return bind(*map(_wrapped, names, arguments), **wrapped)

        return bind_arrays

    jit.create_function_from_signature = create


@lru_cache(maxsize=256)
def _kernel(text: str, name: str) -> TritonKernel:
    from .kernel import triton_kernel  # here, for every import of Triton loads this module

    return triton_kernel(text, name)


class Tx8Utils:
    """What Triton asks of a driver about kernels and the device."""

    def load_binary(self, name: str, text: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """Module, function (the kernel), registers, spills and threads, of which any number is allowed."""
        return None, _kernel(text.decode(), name), 0, 0, _MOST_THREADS

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Scratchpad bytes and tiles."""
        return {"max_shared_mem": 3 << 20, "multiprocessor_count": 16}


class Tx8Launcher:
    """Launches one compiled kernel."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.names = source.fn.arg_names

    def __call__(self, across: int, down: int, deep: int, stream: int, function: Any, *rest: Any) -> None:
        """Run it: ``rest`` ends with the arguments of the function of Python, constants included."""
        values = dict(zip(self.names, rest[-len(self.names) :], strict=True))
        arguments = [values[name] for name in function.arguments]
        arrays = [value.array if isinstance(value, WrappedArray) else value for value in arguments]
        note_launch(function.launch((across, down, deep), *arrays))
        print(last_run().printed, end="")


class Tx8Driver(DriverBase):  # type: ignore[misc]
    """The emulated chip as a device of Triton; active where no other one is, or where the user chose it."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = Tx8Utils()
        self.launcher_cls = Tx8Launcher
        _take_arrays()
        take_do_bench(_is_here)

    @staticmethod
    def is_active() -> bool:
        """Whether no graphics processor is there, or TRITON_DEFAULT_BACKEND says tx8."""
        from triton.backends import backends

        if os.environ.get("TRITON_DEFAULT_BACKEND") == BACKEND:
            return True
        others = [each.driver for name, each in backends.items() if name != BACKEND]
        return not any(driver.is_active() for driver in others)

    def get_current_target(self) -> GPUTarget:
        """The target that the back end compiles for."""
        return GPUTarget(BACKEND, "tx81", 1)

    def get_current_device(self) -> int:
        """The only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: int = 0) -> int:
        """The only stream: a launch is over when it returns."""
        return 0

    def get_device_interface(self) -> SimulatedDevice:
        """Events in simulated time."""
        return SimulatedDevice()

    def get_empty_cache_for_benchmark(self) -> None:
        """What is cleared between runs that are measured: nothing, each begins from the reset state."""

    def clear_cache(self, cache: None) -> None:
        """Nothing is left of the run before."""

    def get_active_torch_device(self) -> None:
        """Not a device of PyTorch."""

    def map_python_to_cpp_type(self, kind: str) -> str:
        """Types stay as they are, for no launcher in C is made."""
        return kind

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """What ``triton.autotune`` measures with: simulated time."""
        return simulated_times


def _is_here() -> bool:
    """Whether kernels are launched on the emulated chip."""
    from triton.runtime import driver  # here, for Triton loads this module before it

    return isinstance(driver.active, Tx8Driver)
