# SPDX-License-Identifier: Apache-2.0
"""Functions with the names, arguments and results of vLLM's, over epiq: torch tensors on CPU or CUDA, traceable by
torch.compile. Codes and scales are those of the vLLM quantizer named, given the same y (doc/spec.md 8.4)."""

from __future__ import annotations

from typing import Optional

import torch

from .. import torch as _ops  # registers torch.ops.epiq

__all__ = ["fused_add_rms_norm_static_fp8_quant", "gemma_add_rms_norm_quant", "rms_norm_dynamic_per_token_quant",
           "rms_norm_static_fp8_quant", "scaled_fp4_quant", "scaled_fp8_quant", "silu_and_mul_nvfp4_quant",
           "silu_and_mul_quant"]

gemma_add_rms_norm_quant = _ops.gemma_add_rms_norm_quant


def _up(count, to: int):
    return (count + to - 1) // to * to


def silu_and_mul_quant(result: torch.Tensor, input: torch.Tensor, scale: torch.Tensor, chain: str = "vllm") -> None:
    """SwiGLU of input [..., 2d] (gate, then up) to FP8 result [..., d] with a static scale. chain "vllm" rounds twice,
    as silu_and_mul followed by scaled_fp8_quant does (and the kernel of this name in older releases); "direct" does not
    round y, as the kernel of this name in newer releases does not."""
    torch.ops.epiq.act_mul_out(input, format="e4m3", grain="tensor", scale=scale, chain=chain, codes_out=result)


def silu_and_mul_nvfp4_quant(result: torch.Tensor, result_block_scale: torch.Tensor, input: torch.Tensor,
                             input_global_scale: torch.Tensor) -> None:
    """SwiGLU of input [m, 2d] to NVFP4: result uint8 [m, d / 2], block scales in 128x4 tiles (float8_e4m3fn, or int32
    with four a word). y is rounded once. Padding rows stay unwritten; padding columns are zeroed."""
    torch.ops.epiq.act_mul_out(input, format="nvfp4", layout="tile128x4", pad_rows="keep", inv_scale=input_global_scale,
                               act_round="once", codes_out=result, scale_out=result_block_scale)


def rms_norm_static_fp8_quant(result: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor,
                              epsilon: float) -> None:
    """RMSNorm to FP8 with a static scale."""
    torch.ops.epiq.rms_norm_out(input, weight, epsilon, format="e4m3", grain="tensor", scale=scale, codes_out=result)


def fused_add_rms_norm_static_fp8_quant(result: torch.Tensor, input: torch.Tensor, residual: torch.Tensor,
                                        weight: torch.Tensor, scale: torch.Tensor, epsilon: float) -> None:
    """residual += input (in place), then RMSNorm to FP8 with a static scale: sum rounded, y rounded twice."""
    torch.ops.epiq.add_rms_norm_out(input, residual, weight, epsilon, format="e4m3", grain="tensor", scale=scale,
                                    codes_out=result)


def rms_norm_dynamic_per_token_quant(input: torch.Tensor, weight: torch.Tensor, epsilon: float,
                                     quant_dtype: torch.dtype,
                                     scale_ub: Optional[torch.Tensor] = None, residual: Optional[torch.Tensor] = None
                                     ) -> tuple[torch.Tensor, torch.Tensor]:
    """[residual += input (in place),] RMSNorm, one scale a row: (codes, scales [rows, 1]). quant_dtype: float8_e4m3fn
    or int8 (without scale_ub). The sum is not rounded before the norm; y is rounded twice."""
    words = {torch.float8_e4m3fn: "e4m3", torch.int8: "int8"}
    if quant_dtype not in words:
        raise ValueError(f"quant_dtype must be float8_e4m3fn or int8, and is {quant_dtype}")
    output = torch.empty(input.shape, dtype=quant_dtype, device=input.device)
    scales = torch.empty((input.numel() // input.shape[-1], 1), dtype=torch.float32, device=input.device)
    options = {"format": words[quant_dtype], "grain": "token", "scale_ub": scale_ub, "sum_round": "fp32",
               "norm_round": "twice", "codes_out": output, "scale_out": scales}
    if residual is None:
        torch.ops.epiq.rms_norm_out(input, weight, epsilon, **options)
    else:
        torch.ops.epiq.add_rms_norm_out(input, residual, weight, epsilon, **options)
    return output, scales


def scaled_fp8_quant(input: torch.Tensor, scale: Optional[torch.Tensor] = None, num_token_padding: Optional[int] = None,
                     scale_ub: Optional[torch.Tensor] = None, use_per_token_if_dynamic: bool = False,
                     output: Optional[torch.Tensor] = None, group_shape=None) -> tuple[torch.Tensor, torch.Tensor]:
    """input [m, n] to FP8: (output, scale). Static if `scale` (one float32) is given; else one scale a row, or one for
    the tensor (where vLLM's all-zero tensor has scale 0, this has 2^-126). Rows beyond m, if num_token_padding asks for
    more, are not written."""
    if input.dim() != 2:
        raise ValueError(f"input must be a matrix, and is {tuple(input.shape)}")
    if group_shape is not None or (scale is not None and scale.numel() != 1):
        raise ValueError("a static scale must be one float32 (group_shape None)")
    rows, cols = input.shape
    padded = max(num_token_padding, rows) if num_token_padding else rows
    if output is None:
        output = torch.empty((padded, cols), dtype=torch.float8_e4m3fn, device=input.device)
    elif num_token_padding is not None:
        raise ValueError("num_token_padding has no effect on a given output")
    codes = output if padded == rows else output[:rows]
    if scale is not None:
        torch.ops.epiq.quantize_out(input, format="e4m3", grain="tensor", scale=scale, codes_out=codes)
    elif use_per_token_if_dynamic:
        scale = torch.empty((padded, 1), dtype=torch.float32, device=input.device)
        torch.ops.epiq.quantize_out(input, format="e4m3", grain="token", scale_ub=scale_ub, codes_out=codes,
                                    scale_out=scale if padded == rows else scale[:rows])
    else:
        scale = torch.empty(1, dtype=torch.float32, device=input.device)
        torch.ops.epiq.quantize_out(input, format="e4m3", grain="tensor", codes_out=codes, scale_out=scale)
    return output, scale


def scaled_fp4_quant(input: torch.Tensor, input_global_scale: torch.Tensor, is_sf_swizzled_layout: bool = True,
                     backend: str = "none", padded_n: Optional[int] = None) -> tuple[torch.Tensor, torch.Tensor]:
    """input [..., n] to NVFP4: (uint8 [m, n / 2], float8_e4m3fn scales). Scales in 128x4 tiles (backend "trtllm" and at
    most 32 rows: 8x4 tiles), or row-major [m, n / 16]. padded_n: columns that the codes get."""
    x = input.reshape(-1, input.shape[-1])
    rows, cols = x.shape
    width = padded_n or cols
    if width % 16 != 0:
        raise ValueError(f"columns must be a multiple of 16, and are {width}")
    layout = "row"
    if is_sf_swizzled_layout:
        layout = "tile8x4" if backend.startswith("trtllm") and rows <= 32 else "tile128x4"
    shape = {"row": (rows, width // 16), "tile8x4": (_up(rows, 8), _up(width // 16, 4)),
             "tile128x4": (_up(rows, 128), _up(width // 16, 4))}[layout]
    output = torch.empty((rows, width // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty(shape, dtype=torch.float8_e4m3fn, device=x.device)
    torch.ops.epiq.quantize_out(x, format="nvfp4", layout=layout, inv_scale=input_global_scale,
                                padded_cols=padded_n or 0, codes_out=output, scale_out=scales)
    return output, scales
