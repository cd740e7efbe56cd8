#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_jax.py: epiq.jax under jax.jit on the CPU, the bytes against the plain package.

Seen failing: with the outputs y and residual exchanged in jax.py, and with weight_bias not handed over.
"""

import unittest

import jax
import jax.numpy as jnp
import numpy as np
import numpy_oracle as oracle

import epiq
import epiq.jax


def raw(array):
    return np.asarray(array).view(np.uint8).ravel()


class Jax(unittest.TestCase):
    def same(self, found, wanted):
        for one, other in zip(found, wanted):
            if other is not None and not isinstance(other, memoryview):
                self.assertTrue(np.array_equal(raw(one), raw(other)))

    def setUp(self):
        self.x, self.r = oracle.inputs(1, 10, 128), oracle.inputs(2, 10, 128)
        self.w = np.random.default_rng(3).standard_normal(128).astype(self.x.dtype)

    def test_rms_norm_with_residual(self):
        options = {"format": "nvfp4", "layout": "tile128x4", "weight_bias": 1.0}
        norm = jax.jit(lambda x, r, w, gs: epiq.jax.rms_norm(x, w, 1e-6, residual=r, inv_scale=gs, y=True, **options))
        found = norm(self.x, jnp.asarray(self.r), self.w, jnp.array([4.0]))
        wanted = epiq.rms_norm(self.x, self.w, 1e-6, residual=self.r, residual_out=True, inv_scale=np.float32([4]),
                               y_out=True, **options)
        self.same(found, wanted)
        self.assertEqual((found.codes.dtype, found.scale.dtype), (jnp.uint8, jnp.float8_e4m3fn))
        donated = jax.jit(lambda x, r, w: epiq.jax.rms_norm(x, w, 1e-6, residual=r, format="e4m3"), donate_argnums=1)
        r = jnp.asarray(self.r)
        again = donated(self.x, r, self.w)
        self.assertTrue(r.is_deleted())
        self.assertTrue(np.array_equal(raw(again.residual), raw(wanted.residual)))

    def test_every_operation(self):
        self.same(epiq.jax.act_mul(self.x, format="mxfp8", y=True), epiq.act_mul(self.x, format="mxfp8", y_out=True))
        self.same(epiq.jax.act_mul(self.x, format="e4m3", alpha=1.702, limit=7.0, up_offset=1.0, order="interleaved"),
                  epiq.act_mul(self.x, format="e4m3", alpha=1.702, limit=7.0, up_offset=1.0, order="interleaved"))
        for options in ({"format": "e5m2"}, {"format": "e4m3", "grain": "group", "layout": "col_aligned", "group": 64},
                        {"format": "e4m3", "grain": "tensor"}, {"format": "int8"}, {"format": "mxfp4"}):
            found = jax.jit(lambda x: epiq.jax.quantize(x, **options))(self.x)
            self.same(found, epiq.quantize(self.x, **options))
        found = jax.jit(lambda x: epiq.jax.quantize(x, format="nvfp4", compute_inv_scale=True))(self.x)
        self.same(found, epiq.quantize(self.x, format="nvfp4", inv_scale_out=True))
        y = jax.jit(lambda q: epiq.jax.dequantize(q.codes, q.scale, inv_scale=q.inv_scale, format="nvfp4",
                                                  dtype=jnp.bfloat16))(found)
        self.assertTrue(np.array_equal(raw(y), raw(epiq.dequantize(np.asarray(found.codes), np.asarray(found.scale),
                                                                  inv_scale=np.asarray(found.inv_scale), format="nvfp4",
                                                                  dtype="bf16"))))

    def test_jax_arrays_as_inputs_of_the_plain_package(self):
        out, scale = np.empty((10, 128), np.uint8), np.empty(10, np.float32)
        epiq.quantize(jnp.asarray(self.x), format="e4m3", codes_out=out, scale_out=scale)
        self.assertTrue(np.array_equal(out, epiq.quantize(self.x, format="e4m3").codes))
        with self.assertRaisesRegex(TypeError, "epiq.jax"):
            epiq.quantize(jnp.asarray(self.x), format="e4m3")
        with self.assertRaisesRegex(ValueError, "read-only"):
            epiq.quantize(self.x, format="e4m3", codes_out=jnp.zeros((10, 128), jnp.uint8), scale_out=scale)

    def test_refusals(self):
        with self.assertRaisesRegex(epiq.Error, "inv_scale"):
            jax.jit(lambda x: epiq.jax.quantize(x, format="nvfp4"))(self.x)
        with self.assertRaisesRegex(TypeError, "int32"):
            epiq.jax.quantize(jnp.zeros((2, 64), jnp.int32), format="e4m3")


if __name__ == "__main__":
    unittest.main()
