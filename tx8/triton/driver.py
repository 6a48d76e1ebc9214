"""The driver that Triton loads to launch kernels on the target ``tx8``, with arrays of NumPy.

Triton recognises pointers by a method ``data_ptr``, which arrays of NumPy do not have. So this driver wraps
the arrays among the arguments before Triton looks at their types.
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
from .measuring import SimulatedDevice, launch, simulated_times, take_do_bench
from .measuring import last_run as last_run  # docs/triton.md has it from here

if TYPE_CHECKING:
    from .kernel import TritonKernel

_DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
"""Types of NumPy that have another name in Triton."""

_MOST_THREADS = 1 << 20
"""The most threads of a program that a configuration may ask for; the chip has no threads."""


class WrappedArray:
    """An array of NumPy with the methods that Triton expects of a tensor."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.dtype = _DTYPES.get(array.dtype.name, array.dtype.name)

    def data_ptr(self) -> int:
        """Return the address of the first element in the memory of the host."""
        return int(self.array.ctypes.data)


def _wrapped(name: str, value: Any) -> Any:
    """Wrap an argument for Triton; TtirError for an array of a type that kernels do not support."""
    from compiler.frontend.triton.kernels.launch import DTYPES, not_computed  # here, as the kernels below
    from compiler.frontend.triton.operations import TtirError

    if isinstance(value, np.ndarray):
        kind = value.dtype.name
        if (kind.removeprefix("u") if value.dtype.kind == "u" else kind) not in DTYPES.values():
            raise TtirError(not_computed(name, kind))
        return WrappedArray(value)
    return value.item() if isinstance(value, np.generic) else value


def _take_arrays() -> None:
    """Make the functions by which Triton binds arguments for this target wrap arrays; done only once."""
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
    """The functions that Triton asks of a driver about kernels and the device."""

    def load_binary(self, name: str, text: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """Return module, function (the kernel), registers, spills, and more threads than any program has."""
        return None, _kernel(text.decode(), name), 0, 0, _MOST_THREADS

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return the scratchpad's bytes and the number of tiles."""
        return {"max_shared_mem": 3 << 20, "multiprocessor_count": 16}


class Tx8Launcher:
    """Launches one compiled kernel."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.names = source.fn.arg_names

    def __call__(self, across: int, down: int, deep: int, stream: int, function: Any, *rest: Any) -> None:
        """Run the kernel: ``rest`` ends with the arguments of the Python function, constants included."""
        values = dict(zip(self.names, rest[-len(self.names) :], strict=True))
        arguments = [values[name] for name in function.arguments]
        arrays = [value.array if isinstance(value, WrappedArray) else value for value in arguments]
        launch(function, (across, down, deep), arrays)


class Tx8Driver(DriverBase):  # type: ignore[misc]
    """The emulated chip as a device of Triton; active without another device, or by the user's choice."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = Tx8Utils()
        self.launcher_cls = Tx8Launcher
        _take_arrays()
        take_do_bench(_is_here)

    @staticmethod
    def is_active() -> bool:
        """Return True without a graphics processor, or if TRITON_DEFAULT_BACKEND says tx8."""
        from triton.backends import backends

        if os.environ.get("TRITON_DEFAULT_BACKEND") == BACKEND:
            return True
        others = [each.driver for name, each in backends.items() if name != BACKEND]
        return not any(driver.is_active() for driver in others)

    def get_current_target(self) -> GPUTarget:
        """Return the target that the back end compiles for."""
        return GPUTarget(BACKEND, "tx81", 1)

    def get_current_device(self) -> int:
        """Return the only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing, because there is one device."""

    def get_current_stream(self, device: int = 0) -> int:
        """Return the only stream: a launch is over when it returns."""
        return 0

    def get_device_interface(self) -> SimulatedDevice:
        """Return the interface of the device, whose events are in simulated time."""
        return SimulatedDevice()

    def get_empty_cache_for_benchmark(self) -> None:
        """Return no cache to clear between measured runs: each begins from the reset state."""

    def clear_cache(self, cache: None) -> None:
        """Do nothing, because no data of the previous run are left."""

    def get_active_torch_device(self) -> None:
        """Return None, because there is no device of PyTorch."""

    def map_python_to_cpp_type(self, kind: str) -> str:
        """Return the type unchanged, because no launcher in C is made."""
        return kind

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Return the function with which ``triton.autotune`` measures: simulated time."""
        return simulated_times


def _is_here() -> bool:
    """Return True if kernels are launched on the emulated chip."""
    from triton.runtime import driver  # here, for Triton loads this module before it

    return isinstance(driver.active, Tx8Driver)
