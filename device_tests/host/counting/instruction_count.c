/*
 * A QEMU user-mode plugin that counts the ARM instructions a program executes,
 * for the whole program and for each region that the program marks.
 *
 *   qemu-aarch64 -plugin instruction_count.so,output=FILE PROGRAM
 *
 * Kinds: all; SIMD and floating-point arithmetic, with the moves between register
 * files; the multiply-adds among those, fused or, on 32-bit ARM, chained; loads and
 * stores of either register file. An instruction whose condition fails still counts.
 *
 * A program marks a region by ioctl on a file descriptor that nobody has, which the
 * kernel answers with EBADF: MARK + 2 * region begins it, MARK + 2 * region + 1 ends
 * it. Regions may nest and may be entered often, but not within themselves.
 *
 * At exit FILE gets a line a region, "region entries all simd_fp multiply_add
 * load_store"; region -1 is the whole program. Threads other than the first make
 * counts inexact (additions are not atomic); forked processes are not counted.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <qemu-plugin.h>

#define MARK 0x41520000u
#define REGIONS 0x8000

enum { ALL, SIMD_FP, MULTIPLY_ADD, LOAD_STORE, KINDS };
enum { NONE = 0, S = 1 << SIMD_FP, SM = 1 << SIMD_FP | 1 << MULTIPLY_ADD, LS = 1 << LOAD_STORE };

typedef struct { uint32_t mask, value; unsigned kinds; } Pattern;
typedef struct { uint64_t entries, executed[KINDS], at_entry[KINDS]; } Region;

/* In each table the first match wins. Encodings: Arm Architecture Reference Manual, DDI 0487, C4.1, F3 and F4. */
static const Pattern a64_patterns[] = {
    { 0x0a000000, 0x08000000, LS },
    { 0xff000000, 0x1f000000, SM },     /* FMADD, FMSUB, FNMADD, FNMSUB */
    { 0xbf20fc00, 0x0e20cc00, SM },     /* FMLA, FMLS: vectors of single and double */
    { 0xbf60fc00, 0x0e400c00, SM },     /* FMLA, FMLS: vectors of half */
    { 0xaf00b400, 0x0f001000, SM },     /* FMLA, FMLS: by element */
    { 0x0e000000, 0x0e000000, S },
    { 0, 0, NONE },
};
static const Pattern a32_patterns[] = {
    { 0xff800e10, 0xf2000c10, SM },     /* VFMA, VFMS, VMLA, VMLS: vectors of single */
    { 0xfeb00000, 0xf2b00000, S },      /* VEXT, VTBL, VDUP and the two-register operations */
    { 0xfe800b50, 0xf2800140, SM },     /* VMLA, VMLS: by scalar */
    { 0xfe000000, 0xf2000000, S },
    { 0xff100000, 0xf4000000, LS },     /* VLD1 to VST4 */
    { 0xfd300000, 0xf5100000, LS },     /* PLD, PLDW */
    { 0xf0000000, 0xf0000000, NONE },
    { 0x0fe00e00, 0x0c400a00, S },      /* VMOV of two core registers, amid VLDR, VSTR, VLDM, VSTM */
    { 0x0e000e00, 0x0c000a00, LS },
    { 0x0fa00e10, 0x0e000a00, SM },     /* VMLA, VMLS, VNMLA, VNMLS */
    { 0x0fb00e10, 0x0e900a00, SM },     /* VFNMA, VFNMS */
    { 0x0fb00e10, 0x0ea00a00, SM },     /* VFMA, VFMS */
    { 0x0f000e00, 0x0e000a00, S },
    { 0x0e000000, 0x04000000, LS },     /* word and byte, immediate offset */
    { 0x0e000010, 0x06000000, LS },     /* word and byte, register offset */
    { 0x0e000000, 0x08000000, LS },     /* LDM, STM */
    { 0x0f8000f0, 0x01800090, LS },     /* exclusive, acquire and release */
    { 0x0e0000f0, 0x00000090, NONE },   /* multiplies, amid halfword, dual and signed byte */
    { 0x0e000090, 0x00000090, LS },
    { 0, 0, NONE },
};
static const Pattern t32_narrow_patterns[] = {
    { 0xf800, 0x4800, LS }, { 0xf000, 0x5000, LS }, { 0xe000, 0x6000, LS }, { 0xe000, 0x8000, LS },
    { 0xf000, 0xc000, LS }, { 0xf600, 0xb400, LS }, { 0, 0, NONE },
};

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static uint64_t executed[KINDS];
static Region regions[REGIONS];
static bool is_a64;
static int64_t ioctl_number;
static const char *output;
static pid_t counted_process;

static unsigned kinds_of(const Pattern *pattern, uint32_t code)
{
    while ((code & pattern->mask) != pattern->value)
        pattern++;
    return pattern->kinds;
}

/* A wide T32 code, first halfword on top. Its SIMD and VFP codes are those of A32 but for the prefix. */
static unsigned kinds_of_t32_wide(uint32_t code)
{
    if ((code & 0xef000000) == 0xef000000)
        code = 0xf2000000 | (code >> 4 & 0x01000000) | (code & 0x00ffffff);
    else if ((code & 0xff100000) == 0xf9000000)
        code = 0xf4000000 | (code & 0x00ffffff);
    else if ((code & 0xec000000) != 0xec000000)
        return (code & 0xee000000) == 0xe8000000 ? LS : NONE;
    return kinds_of(a32_patterns, code);
}

/* The first four bytes of an instruction. QEMU's data can go on into the next instruction at the end of a page. */
static uint32_t code_of(const struct qemu_plugin_insn *insn)
{
    size_t nbytes = qemu_plugin_insn_size(insn);
    uint32_t code = 0;
    memcpy(&code, qemu_plugin_insn_data(insn), nbytes < sizeof code ? nbytes : sizeof code);
    return code;
}

static bool is_t32_narrow(uint32_t code) { return (code & 0xffff) < 0xe800; }

/* The API does not tell A32 from T32. What is two bytes long or off a word boundary is T32; else what does not look
   like a wide T32 code is A32, save at a page's end, where a narrow one can seem four bytes long; a block that tells
   nothing is taken for what was last around it. */
static bool is_t32(const struct qemu_plugin_tb *tb)
{
    static bool a32_around[0x10000];
    bool *a32 = &a32_around[qemu_plugin_tb_vaddr(tb) >> 8 & 0xffff];

    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        bool t32 = qemu_plugin_insn_size(insn) == 2 || address % 4 != 0;
        if (t32 || (is_t32_narrow(code_of(insn)) && address % 0x1000 != 0xffc)) {
            *a32 = !t32;
            break;
        }
    }
    return !*a32;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    uint64_t count[KINDS] = { qemu_plugin_tb_n_insns(tb) };
    bool t32 = !is_a64 && is_t32(tb);

    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        uint32_t code = code_of(qemu_plugin_tb_get_insn(tb, i));
        unsigned kinds = is_a64 ? kinds_of(a64_patterns, code)
            : !t32 ? kinds_of(a32_patterns, code)
            : is_t32_narrow(code) ? kinds_of(t32_narrow_patterns, code & 0xffff)
            : kinds_of_t32_wide(code << 16 | code >> 16);
        for (int kind = SIMD_FP; kind < KINDS; kind++)
            count[kind] += kinds >> kind & 1;
    }
    for (int kind = ALL; kind < KINDS; kind++)
        if (count[kind])
            qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &executed[kind], count[kind]);
}

static void on_syscall(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, uint64_t fd, uint64_t a2, uint64_t a3,
                       uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    if (number != ioctl_number || (uint32_t)fd - MARK >= 2 * REGIONS)
        return;
    Region *region = &regions[((uint32_t)fd - MARK) / 2];
    if (fd % 2 == 0) {
        region->entries++;
        memcpy(region->at_entry, executed, sizeof executed);
    } else {
        for (int kind = ALL; kind < KINDS; kind++)
            region->executed[kind] += executed[kind] - region->at_entry[kind];
    }
}

static void print_counts(FILE *file, int region, uint64_t entries, const uint64_t *counts)
{
    fprintf(file, "%d %" PRIu64, region, entries);
    for (int kind = ALL; kind < KINDS; kind++)
        fprintf(file, " %" PRIu64, counts[kind]);
    fputc('\n', file);
}

static void on_exit_of_program(qemu_plugin_id_t id, void *data)
{
    FILE *file = getpid() == counted_process ? fopen(output, "w") : NULL;
    if (!file)
        return;
    print_counts(file, -1, 1, executed);
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].entries)
            print_counts(file, i, regions[i].entries, regions[i].executed);
    fclose(file);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    static const char option[] = "output=";
    if (argc != 1 || strncmp(argv[0], option, strlen(option)) != 0) {
        fputs("instruction_count: give output=FILE\n", stderr);
        return -1;
    }
    output = argv[0] + strlen(option);
    is_a64 = strcmp(info->target_name, "aarch64") == 0;
    ioctl_number = is_a64 ? 29 : 54;
    counted_process = getpid();
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
    return 0;
}
