"""The compiler that Triton loads for the target ``tx8``: Triton's passes on TTIR, with the text as result."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend, GPUTarget

from tx8isa.tools.version import VERSION

BACKEND = "tx8"
"""The name of the target."""


@dataclass(frozen=True)
class Tx8Options:
    """The options that Triton expects of every target; options of warps and stages have no effect."""

    num_warps: int = 1
    warp_size: int = 1
    num_ctas: int = 1
    num_stages: int = 1
    debug: bool = False
    sanitize_overflow: bool = False
    arch: str = "tx81"
    supported_fp8_dtypes: tuple[str, ...] = ()
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[str, ...] = ()
    backend_name: str = BACKEND
    enable_fp_fusion: bool = False
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    instrumentation_mode: str = ""
    ir_override: object = None
    fpsan_homomorphic_casts: bool = False
    enable_iisan: bool = False
    cluster_dims: tuple[int, ...] = (1, 1, 1)

    def hash(self) -> str:
        """Return a digest of all options, for the cache of Triton."""
        return hashlib.sha256(str(self).encode()).hexdigest()


class Tx8Backend(BaseBackend):  # type: ignore[misc]
    """Stages of a compilation: Triton's passes, then the text."""

    binary_ext = "tx8"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Return True for the target of this back end."""
        return bool(target.backend == BACKEND)

    def parse_options(self, options: dict[str, Any]) -> Tx8Options:
        """Pick the options known here from the options of a launch."""
        known = Tx8Options.__dataclass_fields__
        return Tx8Options(**{name: value for name, value in options.items() if name in known})

    def pack_metadata(self, metadata: Any) -> tuple[()]:
        """Return no metadata: a launch needs only the text."""
        return ()

    def get_codegen_implementation(self, options: Tx8Options) -> dict[str, Any]:
        """Return the smallest block that a product of Triton may have: 1 x 1 x 1, so any."""
        return {"min_dot_size": lambda left, right: (1, 1, 1)}

    def get_module_map(self) -> dict[str, Any]:
        """Return no library of functions."""
        return {}

    def load_dialects(self, context: Any) -> None:
        """Load nothing: Triton's dialects suffice."""

    def hash(self) -> str:
        """Return a name of this version, for the cache of Triton."""
        return f"tx8-{VERSION}"

    def add_stages(self, stages: dict[str, Any], options: Tx8Options, language: Any = None) -> None:
        """Register the two stages: passes on TTIR, and its text."""
        stages["ttir"] = _simplified
        stages["tx8"] = _text


def _simplified(module: Any, metadata: dict[str, Any]) -> Any:
    manager = ir.pass_manager(module.context)
    passes.common.add_inliner(manager)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    passes.common.add_canonicalizer(manager)
    passes.ttir.add_combine(manager)
    passes.ttir.add_reorder_broadcast(manager)
    passes.common.add_cse(manager)
    passes.common.add_symbol_dce(manager)
    passes.ttir.add_loop_unroll(manager)
    manager.run(module, "make_ttir")
    return module


def _text(module: Any, metadata: dict[str, Any]) -> bytes:
    metadata["name"], metadata["shared"] = module.get_entry_func_name(), 0
    return str(module).encode()
