/* Counts blocks that are taken with an alignment of 64 bytes, as ONNX Runtime and PyTorch ask for
   them on the CPU (aligned_alloc or posix_memalign). There are two ways to get between a library
   and the heap:

   - LD_PRELOAD: the functions below take the place of those of libc, for the whole process.
   - heap_attach(NAME): in a process that runs already, the calls of one loaded library lead here,
     by its relocation table. Then blocks are counted from heap_begin() to heap_end(), if the
     thread that began takes them, and those named by heap_hold(), whoever took them. Blocks of
     further libraries may be counted apart, in `all_live` and `all_peak` only.

   `live` and `peak` are bytes as asked for. Every block is kept in a table (open addressing, by
   address) so that free() knows its size. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS (1 << 20)
#define LARGEST 65536
static struct { void *block; size_t size; long number; int apart; } table[SLOTS];
static long live, peak, all_live, all_peak, count, sizes[LARGEST];
/* Blocks by number in time's order: n + 1 if block n was taken, -(n + 1) if it was returned. */
static long steps, log_[2 * LARGEST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *const REMOVED = (void *)1;
static int attached, active;
static __thread int counting;

static void *next_of(const char *name)
{
    /* Attached, this library is not in the search order of the others: theirs is the first one. */
    return dlsym(attached ? RTLD_DEFAULT : RTLD_NEXT, name);
}

static size_t slot_of(void *block) { return ((uintptr_t)block >> 6) * 0x9E3779B97F4A7C15u % SLOTS; }

enum origin { TAKEN, TAKEN_APART, HELD };

static void insert(void *block, size_t size, enum origin origin)
{
    pthread_mutex_lock(&lock);
    size_t i = slot_of(block);
    while (table[i].block && table[i].block != REMOVED)
        i = (i + 1) % SLOTS;
    table[i].block = block;
    table[i].size = size;
    table[i].apart = origin == TAKEN_APART;
    table[i].number = count < LARGEST && origin != TAKEN_APART ? count : -1;
    if (table[i].number >= 0) {
        sizes[count] = (long)size;
        if (origin == TAKEN)
            log_[steps++] = count + 1;
    }
    count += origin != TAKEN_APART;
    /* A block from before is live already: only its end changes the counts. */
    live += origin == TAKEN ? (long)size : 0;
    all_live += origin != HELD ? (long)size : 0;
    if (live > peak)
        peak = live;
    if (all_live > all_peak)
        all_peak = all_live;
    pthread_mutex_unlock(&lock);
}

static void forget(void *block)
{
    pthread_mutex_lock(&lock);
    for (size_t i = slot_of(block); table[i].block; i = (i + 1) % SLOTS)
        if (table[i].block == block) {
            live -= table[i].apart ? 0 : (long)table[i].size;
            all_live -= (long)table[i].size;
            /* Blocks taken before the last reset have no number. */
            if (table[i].number >= 0)
                log_[steps++] = -table[i].number - 1;
            table[i].block = REMOVED;
            break;
        }
    pthread_mutex_unlock(&lock);
}

static int memalign_from(enum origin origin, void **block, size_t alignment, size_t size)
{
    static int (*next)(void **, size_t, size_t);
    if (!next)
        next = (int (*)(void **, size_t, size_t))next_of("posix_memalign");
    int error = next(block, alignment, size);
    if (!error && alignment == 64 && ((counting && active) || !attached))
        insert(*block, size, origin);
    return error;
}

static int memalign_and_count(void **block, size_t alignment, size_t size)
{
    return memalign_from(TAKEN, block, alignment, size);
}

static int memalign_apart(void **block, size_t alignment, size_t size)
{
    return memalign_from(TAKEN_APART, block, alignment, size);
}

static void *alloc_and_count(size_t alignment, size_t size)
{
    static void *(*next)(size_t, size_t);
    if (!next)
        next = (void *(*)(size_t, size_t))next_of("aligned_alloc");
    void *block = next(alignment, size);
    if (block && alignment == 64 && ((counting && active) || !attached))
        insert(block, size, TAKEN);
    return block;
}

static void free_and_count(void *block)
{
    static void (*next)(void *);
    if (!next)
        next = (void (*)(void *))next_of("free");
    if (block && ((uintptr_t)block & 63) == 0 && (active || !attached))
        forget(block);
    next(block);
}

/* For LD_PRELOAD. heap_attach() needs the functions above: within a library that is loaded later,
   the names below mean those of libc. */
int posix_memalign(void **block, size_t alignment, size_t size)
{
    return memalign_and_count(block, alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return alloc_and_count(alignment, size); }
void free(void *block) { free_and_count(block); }

#if defined(__x86_64__)
#define IS_FUNCTION(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_FUNCTION(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#define IS_FUNCTION(type) 0
#endif

static int apart;

/* Lead the calls that a table of relocations resolves to the functions of this library. */
static int redirect(ElfW(Addr) base, const ElfW(Rela) *entry, size_t bytes,
                    const ElfW(Sym) *symbols, const char *names)
{
    int found = 0;
    long page = sysconf(_SC_PAGESIZE);
    for (const ElfW(Rela) *end = entry + bytes / sizeof *entry; entry < end; entry++) {
        if (!IS_FUNCTION(ELF64_R_TYPE(entry->r_info)))
            continue;
        const char *name = names + symbols[ELF64_R_SYM(entry->r_info)].st_name;
        void *ours = !strcmp(name, "free")             ? (void *)free_and_count
                     : !strcmp(name, "posix_memalign") ? (void *)(apart ? memalign_apart : memalign_and_count)
                     : !strcmp(name, "aligned_alloc")  ? (void *)alloc_and_count
                                                       : NULL;
        if (!ours)
            continue;
        void **slot = (void **)(base + entry->r_offset);
        /* The loader may have made the table read-only. */
        if (mprotect((void *)((uintptr_t)slot & -page), (size_t)page, PROT_READ | PROT_WRITE))
            return -1;
        *slot = ours;
        found++;
    }
    return found;
}

static int attach(struct dl_phdr_info *library, size_t size, void *wanted)
{
    (void)size;
    const char *name = strrchr(library->dlpi_name, '/');
    if (!name || strcmp(name + 1, (const char *)wanted))
        return 0;
    const ElfW(Dyn) *entry = NULL;
    for (int i = 0; i < library->dlpi_phnum; i++)
        if (library->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
    ElfW(Addr) at[DT_JMPREL + 1] = {0};
    for (; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag >= 0 && entry->d_tag <= DT_JMPREL)
            at[entry->d_tag] = entry->d_un.d_ptr;
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)at[DT_SYMTAB];
    const char *names = (const char *)at[DT_STRTAB];
    int calls = redirect(library->dlpi_addr, (const ElfW(Rela) *)at[DT_JMPREL], at[DT_PLTRELSZ],
                         symbols, names);
    int others = redirect(library->dlpi_addr, (const ElfW(Rela) *)at[DT_RELA], at[DT_RELASZ],
                          symbols, names);
    return calls < 0 || others < 0 ? -1 : calls + others;
}

/* Returns how many entries of the library's tables lead here now; none or less is a failure. */
int heap_attach(const char *library, int counts_apart)
{
    attached = 1;
    apart = counts_apart;
    return dl_iterate_phdr(attach, (void *)library);
}

void heap_begin(void)
{
    pthread_mutex_lock(&lock);
    memset(table, 0, sizeof table);
    live = peak = all_live = all_peak = count = steps = 0;
    active = 1;
    pthread_mutex_unlock(&lock);
    counting = 1;
}

void heap_end(void) { active = counting = 0; }
void heap_hold(void *block, size_t size) { insert(block, size, HELD); }

long heap_live(void) { return live; }
long heap_peak(void) { return peak; }
long heap_all_peak(void) { return all_peak; }
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
