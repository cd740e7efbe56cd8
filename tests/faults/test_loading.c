/* test_loading.c: the library loaded, unloaded and loaded again, two copies of it in one process, and a backend that is
 * not there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Seen failing: with a pool of which one thread is not waited for, which then runs code that is gone; with a handle
 * that is not closed; and with a call that writes before it asks whether its backend is there. */
#define _GNU_SOURCE
#include <epiq/epiq.h>

#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { M = 37, H = 512 };

/* One loaded copy. */
typedef struct copy {
    void *handle;
    epiq_status (*quantize)(const epiq_quantize_args *, const epiq_output *, const epiq_exec *);
    epiq_pool *(*pool_create)(int32_t);
    void (*pool_destroy)(epiq_pool *);
    void (*pool_executor)(void *, int32_t, epiq_task, void *);
    const char *(*word)(int32_t);
} copy;

/* memcpy because ISO C has no conversion from an object pointer. */
#define FIND(c, field, name)                                                                                           \
    do {                                                                                                               \
        void *found_ = dlsym((c)->handle, name);                                                                       \
        assert_non_null(found_);                                                                                       \
        memcpy(&(c)->field, &found_, sizeof found_);                                                                   \
    } while (0)

static void copy_open(copy *c, const char *path)
{
    c->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (c->handle == NULL)
        fail_msg("%s", dlerror());
    FIND(c, quantize, "epiq_quantize");
    FIND(c, pool_create, "epiq_pool_create");
    FIND(c, pool_destroy, "epiq_pool_destroy");
    FIND(c, pool_executor, "epiq_pool_executor");
    FIND(c, word, "epiq_word");
}

/* Another file with the same content, which the loader takes for another library. */
static void copy_file(const char *from, const char *to)
{
    char bytes[1 << 16];
    size_t n;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in != NULL && out != NULL);
    while ((n = fread(bytes, 1, sizeof bytes, in)) > 0)
        assert_true(fwrite(bytes, 1, n, out) == n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static char folder[200], paths[2][256];

static int make_copies(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/epiq-loading-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL)
        return -1;
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/copy%d.so", folder, i);
        copy_file(EPIQ_SHARED_LIBRARY, paths[i]);
    }
    return 0;
}

static int remove_copies(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        unlink(paths[i]);
    return rmdir(folder);
}

static uint16_t x[M * H];
static uint8_t codes[M * H], expected[M * H];
static float scales[M];

/* e4m3 token by the copy, on a pool of perhaps another one: the codes of the library that this program is linked to. */
static void use(const copy *c, const copy *pool_of, int32_t threads)
{
    epiq_pool *pool = pool_of->pool_create(threads);
    assert_non_null(pool);
    epiq_quantize_args a = {.struct_size = sizeof a, .x = {.data = x, .rows = M, .cols = H, .dtype = EPIQ_DTYPE_BF16}};
    epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = codes, .scale_out = scales};
    epiq_exec exec = {.struct_size = sizeof exec, .tasks = 8};
    exec.executor = pool_of->pool_executor;
    exec.executor_data = pool;
    memset(codes, 0xaa, sizeof codes);
    assert_int_equal(c->quantize(&a, &o, &exec), EPIQ_OK);
    assert_memory_equal(codes, expected, sizeof codes);
    pool_of->pool_destroy(pool);
}

static void make_expected(void)
{
    for (int i = 0; i < M * H; i++)
        x[i] = (uint16_t)(0x3c00 + i * 40503 % 1000 + i % 2 * 0x8000);
    epiq_quantize_args a = {.struct_size = sizeof a, .x = {.data = x, .rows = M, .cols = H, .dtype = EPIQ_DTYPE_BF16}};
    epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = expected, .scale_out = scales};
    assert_int_equal(epiq_quantize(&a, &o, NULL), EPIQ_OK);
}

/* Entries of a folder of /proc/self; threads, or open files. */
static int entries(const char *of)
{
    DIR *d = opendir(of);
    assert_non_null(d);
    int count = 0;
    while (readdir(d) != NULL)
        count++;
    closedir(d);
    return count;
}

/* Mappings of the two copies. */
static int mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    char line[4096];
    int count = 0;
    while (fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, folder) != NULL;
    fclose(maps);
    return count;
}

/* A thread that was joined may still be listed for a moment. */
static int threads_are(int count)
{
    for (int i = 0; i < 200; i++) {
        if (entries("/proc/self/task") == count)
            return 1;
        usleep(5000);
    }
    return 0;
}

static void loaded_and_unloaded_a_hundred_times(void **state)
{
    (void)state;
    make_expected();
    const int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
    for (int i = 0; i < 100; i++) {
        copy c;
        copy_open(&c, paths[i % 2]);
        assert_true(mappings() > 0);
        use(&c, &c, 1 + i % 4);
        assert_int_equal(dlclose(c.handle), 0);
        assert_null(dlopen(paths[i % 2], RTLD_NOW | RTLD_NOLOAD)); /* it is gone */
        assert_int_equal(mappings(), 0);
    }
    assert_true(threads_are(threads));
    assert_int_equal(entries("/proc/self/fd"), files);
}

static void two_copies_in_one_process(void **state)
{
    (void)state;
    make_expected();
    copy a, b;
    copy_open(&a, paths[0]);
    copy_open(&b, paths[1]);
    assert_ptr_not_equal(a.quantize, b.quantize);
    assert_ptr_not_equal(a.word(EPIQ_FORMAT_E4M3), b.word(EPIQ_FORMAT_E4M3));
    assert_string_equal(a.word(EPIQ_FORMAT_E4M3), b.word(EPIQ_FORMAT_E4M3));
    for (int i = 0; i < 20; i++) {
        use(&a, &a, 3);
        use(&b, &b, 3);
        use(&a, &b, 3); /* an executor is a function like any other */
    }
    epiq_pool *pool = b.pool_create(3);
    assert_non_null(pool);
    assert_int_equal(dlclose(a.handle), 0); /* what is left works on */
    use(&b, &b, 2);
    b.pool_destroy(pool);
    assert_int_equal(dlclose(b.handle), 0);
}

/* cuda without a GPU, or in a build without it: a status with words, and nothing written. */
static void no_gpu(void **state)
{
    (void)state;
    make_expected();
    char text[512] = "", why[1024] = "";
    epiq_status usable = epiq_backend_usable(EPIQ_BACKEND_CUDA, 0, text, sizeof text);
    if (usable == EPIQ_OK)
        skip();
    assert_int_equal(usable, EPIQ_ERROR_BACKEND);
    assert_true(strlen(text) > 10);
    epiq_quantize_args a = {.struct_size = sizeof a, .x = {.data = x, .rows = M, .cols = H, .dtype = EPIQ_DTYPE_BF16}};
    epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = codes, .scale_out = scales};
    epiq_exec exec = {.struct_size = sizeof exec, .backend = EPIQ_BACKEND_CUDA};
    memset(codes, 0xaa, sizeof codes);
    assert_int_equal(epiq_quantize(&a, &o, &exec), EPIQ_ERROR_BACKEND);
    for (int i = 0; i < M * H; i++)
        assert_int_equal(codes[i], 0xaa);
    epiq_explain_quantize(&a, &o, &exec, why, sizeof why);
    assert_non_null(strstr(why, text));
    assert_non_null(strstr(why, "[backend]"));
    assert_int_equal(epiq_self_test(EPIQ_BACKEND_CUDA, 0, text, sizeof text), EPIQ_ERROR_BACKEND);
    exec.backend = 0; /* and the next call is as ever */
    assert_int_equal(epiq_quantize(&a, &o, &exec), EPIQ_OK);
    assert_memory_equal(codes, expected, sizeof codes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_and_unloaded_a_hundred_times),
        cmocka_unit_test(two_copies_in_one_process),
        cmocka_unit_test(no_gpu),
    };
    return cmocka_run_group_tests(tests, make_copies, remove_copies);
}
