/* Counts the heap blocks that ONNX Runtime's CPU allocator takes, if loaded with LD_PRELOAD.

   That allocator asks aligned_alloc (version 1.32; posix_memalign before) for blocks aligned to 64
   bytes; nothing else in the process matters here, so only these are followed. `live` and `peak` are bytes as asked for. Every block
   is kept in a table (open addressing, by address) so that free() knows its size. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define SLOTS (1 << 20)
#define LARGEST 65536
static struct { void *block; size_t size; long number; } table[SLOTS];
static long live, peak, count, sizes[LARGEST];
/* Blocks by number in time's order: n + 1 if block n was taken, -(n + 1) if it was returned. */
static long steps, log_[2 * LARGEST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *const REMOVED = (void *)1;

static size_t slot_of(void *block) { return ((uintptr_t)block >> 6) * 0x9E3779B97F4A7C15u % SLOTS; }

static void insert(void *block, size_t size)
{
    pthread_mutex_lock(&lock);
    size_t i = slot_of(block);
    while (table[i].block && table[i].block != REMOVED)
        i = (i + 1) % SLOTS;
    table[i].block = block;
    table[i].size = size;
    table[i].number = count < LARGEST ? count : -1;
    live += (long)size;
    if (live > peak)
        peak = live;
    if (count < LARGEST) {
        sizes[count] = (long)size;
        log_[steps++] = count + 1;
    }
    count++;
    pthread_mutex_unlock(&lock);
}

static void forget(void *block)
{
    pthread_mutex_lock(&lock);
    for (size_t i = slot_of(block); table[i].block; i = (i + 1) % SLOTS)
        if (table[i].block == block) {
            live -= (long)table[i].size;
            /* Blocks taken before the last reset have no number. */
            if (table[i].number >= 0)
                log_[steps++] = -table[i].number - 1;
            table[i].block = REMOVED;
            break;
        }
    pthread_mutex_unlock(&lock);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    static int (*next)(void **, size_t, size_t);
    if (!next)
        next = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    int error = next(block, alignment, size);
    if (!error && alignment == 64)
        insert(*block, size);
    return error;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    static void *(*next)(size_t, size_t);
    if (!next)
        next = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    void *block = next(alignment, size);
    if (block && alignment == 64)
        insert(block, size);
    return block;
}

void free(void *block)
{
    static void (*next)(void *);
    if (!next)
        next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    if (block && ((uintptr_t)block & 63) == 0)
        forget(block);
    next(block);
}

long heap_live(void) { return live; }
long heap_peak(void) { return peak; }
long heap_count(void) { return count < LARGEST ? count : LARGEST; }
long heap_size(long number) { return sizes[number]; }
long heap_steps(void) { return steps; }
long heap_step(long number) { return log_[number]; }
void heap_reset(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < SLOTS; i++)
        table[i].number = -1;
    peak = live;
    count = steps = 0;
    pthread_mutex_unlock(&lock);
}
