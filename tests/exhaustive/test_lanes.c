/* test_lanes.c: every operation of every lane header that runs here against lane_c.h, bit for bit, in every lane, with
 * other operands in the other lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program of its own, without a test library, so that it also runs where only a cross compiler is at hand. */
#include "lanes.h"

#include <epiq/epiq.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 40000 };

static int failures;

static uint64_t random_64(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Any bits, or a special value, or a number near one of the thresholds of conversions. */
static uint32_t operand(void)
{
    static const uint32_t special[] = {
        0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x00800001, 0x33000000, 0x33800000, 0x387fe000, 0x38800000,
        0x3c800000, 0x3e800000, 0x3f000000, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x3fffffff, 0x40000000, 0x40c00000,
        0x42dc0000, 0x43e00000, 0x43e80000, 0x43f00000, 0x47600000, 0x477fefff, 0x477ff000, 0x4b000000, 0x7e800000,
        0x7f000000, 0x7f7f7fff, 0x7f7f8000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff,
    };
    const uint64_t r = random_64();
    const uint32_t sign = (uint32_t)(r >> 8) & 0x80000000u, bits = (uint32_t)(r >> 32);
    switch (r % 8) {
    case 0:
        return special[bits % (sizeof special / sizeof *special)] | sign;
    case 1:
        return (special[bits % (sizeof special / sizeof *special)] + (uint32_t)(r >> 16) % 5 - 2) ^ sign;
    case 2:
        return bits & 0xffff0000u; /* bf16 */
    case 3:
        return bits & 0xffffe000u;
    case 4:
    case 5: /* exponents from 2^-20 to 2^20 */
        return (bits & 0x807fffffu) | (107 + (uint32_t)(r >> 16) % 41) << 23;
    default:
        return bits;
    }
}

static int is_nan(uint32_t u)
{
    return (u & 0x7fffffff) > 0x7f800000;
}

static void fail(const char *which, const char *what, int lane, uint32_t got, uint32_t want)
{
    if (failures++ < 20)
        printf("%s: %s, lane %d: %08x, with c %08x\n", which, what, lane, got, want);
}

static void operations(const char *which, const lanes *l)
{
    static const char *const names[] = {
#define X(name, kind, expression) #name,
        LANE_OPERATIONS(X)
#undef X
    };
    static const int kinds[] = {
#define X(name, kind, expression) kind,
        LANE_OPERATIONS(X)
#undef X
    };
    for (int op = 0; op < LANE_COUNT; op++)
        for (int round = 0; round < ROUNDS; round += l->width) {
            uint32_t a[MOST_LANES], b[MOST_LANES], c[MOST_LANES], got[MOST_LANES], want;
            for (int i = 0; i < l->width; i++) {
                a[i] = operand();
                b[i] = random_64() % 8 ? operand() : a[i];
                c[i] = operand();
            }
            l->operation[op](a, b, c, got);
            for (int i = 0; i < l->width; i++) {
                lanes_c.operation[op](&a[i], &b[i], &c[i], &want);
                if (got[i] != want && !(kinds[op] == FLOAT && is_nan(got[i]) && is_nan(want))) {
                    fail(which, names[op], i, got[i], want);
                    printf("    of %08x %08x %08x\n", a[i], b[i], c[i]);
                    return;
                }
            }
        }
}

/* Every 16-bit gate, for which lanes may divide by other means. */
static void gates(const char *which, const lanes *l)
{
    static const struct {
        int op;
        const char *name;
    } ops[] = {{LANES_gate_silu, "gate_silu"},
               {LANES_gate_gelu_tanh, "gate_gelu_tanh"},
               {LANES_gate_gelu_erf, "gate_gelu_erf"}};
    for (uint32_t first = 0; first < 0x20000; first += (uint32_t)l->width)
        for (int k = 0; k < 3; k++) {
            uint32_t a[MOST_LANES], got[MOST_LANES], want;
            for (int i = 0; i < l->width; i++)
                a[i] = first + (uint32_t)i;
            l->operation[ops[k].op](a, a, a, got);
            for (int i = 0; i < l->width; i++) {
                lanes_c.operation[ops[k].op](&a[i], &a[i], &a[i], &want);
                if (got[i] != want && !(is_nan(got[i]) && is_nan(want)))
                    fail(which, ops[k].name, i, got[i], want);
            }
        }
}

static float c_of(int op, float a)
{
    uint32_t u, result;
    memcpy(&u, &a, sizeof u);
    lanes_c.operation[op](&u, &u, &u, &result);
    memcpy(&a, &result, sizeof a);
    return a;
}

/* What a lane may rely on that divides by approximation (lane_cuda.h): a seed up to 4 ulp from 1 / b, on either side,
 * makes the quotients of silu and gelu_tanh of 16-bit gates. */
static void seeds(void)
{
    for (uint32_t i = 0; i < 0x20000; i++) {
        float g, a, z;
        uint32_t u = i << 16;
        memcpy(&g, &u, sizeof g);
        if (i > 0xffff) {
            u = i & 0xffff;
            lanes_c.operation[LANES_f16_value](&u, &u, &u, &u);
            memcpy(&g, &u, sizeof g);
        }
        if (g != g)
            continue;
        for (int gelu = 0; gelu < 2; gelu++) {
            const float most = gelu ? 11.5f : 110.0f;
            a = fabsf(g) < most ? fabsf(g) : most;
            z = gelu ? a * fmaf(0x1.2444f2p-4f, a * a, 0x1.988454p+0f) : a;
            const float e = c_of(LANES_exp_neg, z), b = 1.0f + e, n = a * e, want = n / b;
            float s = 1.0f / b;
            memcpy(&u, &s, sizeof u);
            for (uint32_t seed = u - 4; seed <= u + 4; seed++) {
                memcpy(&s, &seed, sizeof s);
                float q = n * s;
                q = fmaf(fmaf(-b, q, n), s, q);
                if (memcmp(&q, &want, sizeof q) != 0)
                    fail("seeds", gelu ? "gelu_tanh of a gate" : "silu of a gate", (int)(seed - u), i, u);
            }
        }
    }
}

static void pairs(const char *which, const lanes *l)
{
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t ab[2 * MOST_LANES], positive[2 * MOST_LANES], got[4][MOST_LANES], want[4];
        for (int i = 0; i < 2 * l->width; i++) {
            ab[i] = operand();
            positive[i] = ab[i] & 0x7fffffff;
            positive[i] = positive[i] > 0x7f800000 ? 0 : positive[i];
        }
        l->even(ab, got[0]);
        l->odd(ab, got[1]);
        l->pair_add(ab, got[2]);
        l->pair_max(positive, got[3]);
        for (int i = 0; i < l->width; i++) {
            want[0] = ab[2 * i];
            want[1] = ab[2 * i + 1];
            lanes_c.pair_add(ab + 2 * i, &want[2]);
            lanes_c.pair_max(positive + 2 * i, &want[3]);
            for (int k = 0; k < 4; k++)
                if (got[k][i] != want[k] && !(k == 2 && is_nan(got[k][i]) && is_nan(want[k])))
                    fail(which,
                         k == 0   ? "even"
                         : k == 1 ? "odd"
                         : k == 2 ? "pair_add"
                                  : "pair_max",
                         i, got[k][i], want[k]);
        }
    }
    uint32_t none[MOST_LANES] = {0};
    if (l->any(none))
        fail(which, "any of none", 0, 1, 0);
    for (int i = 0; i < l->width; i++) {
        none[i] = 1;
        if (!l->any(none))
            fail(which, "any", i, 0, 1);
        none[i] = 0;
    }
}

/* Bytes around what is stored must stay. */
static void stored(const char *which, const char *what, void (*store)(const uint32_t *, void *), const uint32_t *a,
                   int count, int bytes)
{
    for (int at = 0; at < 64; at++) {
        unsigned char memory[64 + 4 * MOST_LANES * 4 + 64], want[sizeof memory];
        for (size_t i = 0; i < sizeof memory; i++)
            memory[i] = want[i] = (unsigned char)(i * 7 + 1);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < bytes; k++)
                want[at + i * bytes + k] = (unsigned char)(a[i] >> (8 * k));
        store(a, memory + at);
        for (size_t i = 0; i < sizeof memory; i++)
            if (memory[i] != want[i])
                fail(which, what, (int)i - at, memory[i], want[i]);
    }
}

static void memory(const char *which, const lanes *l)
{
    const int w = l->width;
    for (int round = 0; round < 200; round++) {
        uint32_t a[4 * MOST_LANES], bytes[4 * MOST_LANES], halves[4 * MOST_LANES];
        for (int i = 0; i < 4 * w; i++) {
            a[i] = (uint32_t)random_64();
            bytes[i] = random_64() % 4 ? a[i] & 0xff : 0xff;
            halves[i] = random_64() % 4 ? a[i] & 0xffff : 0xffff;
        }
        stored(which, "store", l->store, a, w, 4);
        stored(which, "store_u8", l->store_u8, a, w, 1);
        stored(which, "store_u16", l->store_u16, a, w, 2);
        stored(which, "store2_u16", l->store2_u16, halves, 2 * w, 2);
        stored(which, "store4_u8", l->store4_u8, bytes, 4 * w, 1);
        for (int at = 0; at < 64; at++) {
            unsigned char from[64 + 4 * MOST_LANES];
            uint32_t got[4][MOST_LANES];
            for (size_t i = 0; i < sizeof from; i++)
                from[i] = (unsigned char)random_64();
            l->load(from + at, got[0]);
            l->load_u8(from + at, got[1]);
            l->load_u16(from + at, got[2]);
            l->load_upper(from + at, got[3]);
            for (int i = 0; i < w; i++) {
                uint32_t want[4] = {0};
                memcpy(&want[0], from + at + 4 * i, 4);
                want[1] = from[at + i];
                memcpy(&want[2], from + at + 2 * i, 2);
                want[3] = want[2] << 16;
                for (int k = 0; k < 4; k++)
                    if (got[k][i] != want[k])
                        fail(which,
                             k == 0   ? "load"
                             : k == 1 ? "load_u8"
                             : k == 2 ? "load_u16"
                                      : "load_upper",
                             i, got[k][i], want[k]);
            }
        }
    }
}

/* Codes of numbers made four vectors at a time. */
static void codes(const char *which, const lanes *l)
{
    static const struct {
        const char *name;
        int op;
    } formats[] = {{"e4m3", LANES_e4m3_code}, {"e5m2", LANES_e5m2_code}, {"e2m1", LANES_e2m1_code}};
    void (*const store4[])(const uint32_t *, void *) = {l->store4_e4m3, l->store4_e5m2, l->store4_e2m1};
    for (int f = 0; f < 3 && store4[f] != NULL; f++)
        for (int round = 0; round < ROUNDS; round++) {
            uint32_t a[4 * MOST_LANES], want;
            unsigned char got[4 * MOST_LANES];
            for (int i = 0; i < 4 * l->width; i++)
                do
                    a[i] = operand();
                while (is_nan(a[i]));
            store4[f](a, got);
            for (int i = 0; i < 4 * l->width; i++) {
                lanes_c.operation[formats[f].op](&a[i], &a[i], &a[i], &want);
                if (got[i] != want) {
                    fail(which, formats[f].name, i, got[i], want);
                    printf("    of %08x\n", a[i]);
                    return;
                }
            }
        }
}

int main(void)
{
    static const struct {
        epiq_backend backend;
        const char *name;
        const lanes *lanes;
    } all[] = {
        {EPIQ_BACKEND_C, "c", &lanes_c},
#if defined(__x86_64__)
        {EPIQ_BACKEND_AVX2, "avx2", &lanes_avx2},
        {EPIQ_BACKEND_AVX512, "avx512", &lanes_avx512},
#elif defined(__aarch64__)
        {EPIQ_BACKEND_NEON, "neon", &lanes_neon},
#endif
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char why[200];
        if (epiq_backend_usable(all[i].backend, 0, why, sizeof why) != EPIQ_OK) {
            printf("%s: not compared: %s\n", all[i].name, why);
            continue;
        }
        const int before = failures;
        operations(all[i].name, all[i].lanes);
        pairs(all[i].name, all[i].lanes);
        memory(all[i].name, all[i].lanes);
        codes(all[i].name, all[i].lanes);
        gates(all[i].name, all[i].lanes);
        printf("%s: %d lanes, %d operations, %s\n", all[i].name, all[i].lanes->width, LANE_COUNT + 14,
               failures == before ? "the bits of c" : "DIFFERENT");
    }
    seeds();
    return failures != 0;
}
