/* rcp.h: rcp~, the reciprocal approximation rcp.approx.ftz.f32, bit for bit in integers (doc/spec.md 1.6).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The nvfp4 quantizers of vLLM and FlashInfer are made of this instruction, so it is part of what epiq defines. The
 * model is quadratic interpolation in fixed point over 128 intervals, with a squarer that truncates each row of its
 * partial products. Included after a lane header. */
#ifndef EPIQ_RCP_H
#define EPIQ_RCP_H

#include <stdint.h>

/* Of each interval the value, 26 bits; and the first derivative, 16 bits and an implied sign, below the second, 10. */
/* clang-format off */
#ifndef AR_TABLE
#define AR_TABLE static const
#endif
AR_TABLE uint32_t ar_rcp_value[128] = {
    0x3fffffe, 0x3f80fe0, 0x3f03f04, 0x3e88cb3, 0x3e0f83c, 0x3d980f6, 0x3d22636, 0x3cae758,
    0x3c3c3c2, 0x3bcbadc, 0x3b5cc0f, 0x3aef6c9, 0x3a83a83, 0x3a196b2, 0x39b0ad1, 0x3949660,
    0x38e38e3, 0x387f1e0, 0x381c0e0, 0x37ba570, 0x3759f21, 0x36fad87, 0x369d035, 0x36406c8,
    0x35e50d7, 0x358ae04, 0x3531dec, 0x34da034, 0x3483484, 0x342da7f, 0x33d91d3, 0x3385a29,
    0x3333333, 0x32e1c9f, 0x329161e, 0x3241f69, 0x31f3831, 0x31a6032, 0x3159722, 0x310dcbf,
    0x30c30c3, 0x30792ef, 0x3030303, 0x2fe80c0, 0x2fa0be8, 0x2f5a441, 0x2f14990, 0x2ecfb9c,
    0x2e8ba2f, 0x2e4850f, 0x2e05c0a, 0x2dc3eee, 0x2d82d83, 0x2d4279a, 0x2d02d02, 0x2cc3d8c,
    0x2c8590b, 0x2c47f50, 0x2c0b02c, 0x2bceb76, 0x2b93105, 0x2b580ae, 0x2b1da47, 0x2ae3da7,
    0x2aaaaaa, 0x2a7212a, 0x2a3a0fe, 0x2a02a02, 0x29cbc15, 0x2995710, 0x295fad4, 0x292a73d,
    0x28f5c29, 0x28c1979, 0x288df0c, 0x285acc4, 0x2828283, 0x27f6028, 0x27c4598, 0x27932b4,
    0x2762762, 0x2732386, 0x2702703, 0x26d31bf, 0x26a439f, 0x2675c8b, 0x2647c69, 0x261a320,
    0x25ed098, 0x25c04b9, 0x2593f69, 0x2568096, 0x253c825, 0x2511602, 0x24e6a17, 0x24bc44e,
    0x2492492, 0x2468acf, 0x243f6f1, 0x24168e1, 0x23ee090, 0x23c5de7, 0x239e0d5, 0x2376948,
    0x234f72c, 0x2328a6f, 0x2302302, 0x22dc0d1, 0x22b63cc, 0x2290be2, 0x226b902, 0x2246b1d,
    0x2222222, 0x21fde02, 0x21d9ead, 0x21b6416, 0x2192e2a, 0x216fcdd, 0x214d022, 0x212a7e6,
    0x2108421, 0x20e64c2, 0x20c49bb, 0x20a32ff, 0x2082082, 0x2061237, 0x204080f, 0x2020201,
};
AR_TABLE uint32_t ar_rcp_derivatives[128] = {
    0x3f50002, 0x3dd03f6, 0x3c607d3, 0x3b10b99, 0x39b0f4a, 0x38612e5, 0x373166b, 0x35f19de,
    0x34d1d3d, 0x33b2089, 0x32923c3, 0x31726ec, 0x3062a03, 0x2f62d09, 0x2e62fff, 0x2d732e5,
    0x2c735bc, 0x2b83884, 0x2aa3b3d, 0x29d3de8, 0x2904085, 0x2824315, 0x2774597, 0x26a480d,
    0x25d4a77, 0x2524cd4, 0x2464f26, 0x23c516c, 0x23153a7, 0x22555d8, 0x21c57fd, 0x2115a19,
    0x2075c2a, 0x1fe5e31, 0x1f5602f, 0x1ea6224, 0x1e2640f, 0x1da65f1, 0x1d167cb, 0x1c9699c,
    0x1c16b65, 0x1b96d26, 0x1b16edf, 0x1aa7090, 0x1a2723a, 0x19c73dc, 0x1937578, 0x18d770c,
    0x1867899, 0x17f7a20, 0x1797ba0, 0x1737d19, 0x16e7e8c, 0x1667ffa, 0x1618161, 0x15c82c2,
    0x155841e, 0x1518573, 0x14b86c4, 0x146880f, 0x1408955, 0x13c8a95, 0x1368bd1, 0x1318d08,
    0x12e8e39, 0x1298f66, 0x123908f, 0x11f91b3, 0x11b92d2, 0x11793ed, 0x1129504, 0x10f9616,
    0x10a9725, 0x107982f, 0x1029936, 0x1009a38, 0x0fb9b37, 0x0f89c32, 0x0f39d2a, 0x0f09e1e,
    0x0ed9f0e, 0x0e99ffb, 0x0e7a0e4, 0x0e2a1cb, 0x0dfa2ae, 0x0dea38d, 0x0daa46a, 0x0d6a544,
    0x0d4a61a, 0x0d0a6ee, 0x0cda7bf, 0x0cca88c, 0x0c7a958, 0x0c5aa20, 0x0c4aae5, 0x0c1aba8,
    0x0bdac69, 0x0baad27, 0x0b8ade2, 0x0b6ae9b, 0x0b4af51, 0x0b2b005, 0x0afb0b7, 0x0adb166,
    0x0abb213, 0x0a9b2be, 0x0a6b367, 0x0a5b40d, 0x0a1b4b2, 0x0a0b554, 0x09fb5f4, 0x09bb693,
    0x09ab72f, 0x099b7c9, 0x096b862, 0x095b8f8, 0x093b98d, 0x091ba20, 0x08fbab1, 0x08fbb40,
    0x08cbbce, 0x08abc5a, 0x089bce4, 0x087bd6d, 0x085bdf4, 0x084be79, 0x083befd, 0x082bf7f,
};
/* clang-format on */

/* floor(sum over set bits j of x of floor(x / 2^(16 - j)) / 2), about x^2 / 2^17, for a 16-bit x. */
AR_FN vi ar_rcp_square(vi x)
{
    const vi zero = vi_set(0);
    vi sum = zero;
    for (int j = 1; j < 16; j++) /* bit 0 adds x / 2^16 */
        sum = vi_add(sum, vi_sel(vi_eq(vi_and(x, vi_set(1u << j)), zero), zero, vi_shr(x, 16 - j)));
    return vi_shr(sum, 1);
}

/* 2^24 / (1 + mantissa / 2^23), a significand of 24 bits; 2^24 for mantissa 0.
 *
 * floor((c0 2^13 - down + up) / 2^15) with down < 2^32 and up < 2^27 (it holds the two lowest bits of c0, too), in 32
 * bits: the multiples of 2^15 are taken out of c0 and of down; what remains of down, at most 2^15 - 1, is taken from up
 * with 2^15 lent. */
AR_FN vi ar_rcp_significand(vi mantissa)
{
    vi x = vi_and(mantissa, vi_set(0xffff)), interval = vi_shr(mantissa, 16);
    vi c0 = vi_lookup(ar_rcp_value, interval), c12 = vi_lookup(ar_rcp_derivatives, interval);
    vi down = vi_mul(vi_sub(vi_set(0x10000), vi_and(c12, vi_set(0xffff))), x);
    vi up = vi_add(vi_mul(vi_shr(c12, 16), ar_rcp_square(x)), vi_shl(vi_and(c0, vi_set(3)), 13));
    vi rest = vi_sub(vi_add(up, vi_set(0x47e7 + 0x8000)), vi_and(down, vi_set(0x7fff)));
    return vi_sub(vi_sub(vi_add(vi_shr(c0, 2), vi_shr(rest, 15)), vi_shr(down, 15)), vi_set(1));
}

#ifndef AR_RARE /* a function that is not worth to be inlined */
#define AR_RARE AR_FN
#endif
AR_RARE vi ar_rcp_bits(vi u)
{
    const vi zero = vi_set(0), infinity = vi_set(0x7f800000), lowest = vi_set(0x00800000);
    vi sign = vi_and(u, vi_set(0x80000000)), magnitude = vi_and(u, vi_set(0x7fffffff));
    /* (252 - exponent) 2^23 + significand, plus 2 2^23: never negative */
    vi r = vi_sub(vi_set(254u << 23), vi_and(u, infinity));
    r = vi_add(r, ar_rcp_significand(vi_and(u, vi_set(0x7fffff))));
    r = vi_sub(vi_max(r, vi_set(2u << 23)), vi_set(2u << 23));
    r = vi_sel(vi_gt(lowest, r), zero, r);             /* results below 2^-126 */
    r = vi_sel(vi_gt(lowest, magnitude), infinity, r); /* subnormals count as zero */
    r = vi_or(vi_sel(vi_eq(magnitude, infinity), zero, r), sign);
    return vi_sel(vi_gt(magnitude, infinity), vi_set(0x7fffffff), r);
}

/* rcp~. unit: this machine's own instruction has been compared with the model for all inputs. */
AR_FN vf vf_rcp_approx(int unit, vf x)
{
#ifdef LANE_HAS_RCP_UNIT
    if (unit)
        return vf_rcp_unit(x);
#else
    (void)unit;
#endif
    return vi_float(ar_rcp_bits(vf_bits(x)));
}

#endif
