/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that go to the real NCCL unchanged, whatever their parameters are: each is a jump
 * through a slot. At the first call the slot leads to the resolver, which keeps all registers that
 * may hold arguments, has nccl_forward_find() fill the slot, and jumps on.
 *
 * A function that the real NCCL lacks returns ncclInvalidUsage, which all but those of newer
 * versions can have as a result; its name is the last error then.
 */
#include "config.h"

#include <stdatomic.h>
#include <stddef.h>

#include "runtime/nccl/forward_list.h"
#include "runtime/nccl/last_error.h"
#include "runtime/nccl/real_nccl.h"

#define TEXT(name) #name,
static const char *const names[] = {FORWARDED_FUNCTIONS(TEXT)};
#undef TEXT

/* What the code below jumps to, in the order of the names; changed from the resolver's entry to the
 * function, once. */
extern _Atomic(void *) nccl_forward_slots[sizeof(names) / sizeof(names[0])]
	__attribute__((visibility("hidden")));
void *nccl_forward_find(_Atomic(void *) *slot) __attribute__((visibility("hidden"), used));

static ncclResult_t missing_function(void)
{
	return ncclInvalidUsage;
}

/* Called by the code below. */
void *nccl_forward_find(_Atomic(void *) *slot)
{
	const char *name = names[slot - nccl_forward_slots];
	void *function = real_nccl_function(name);
	const char *why = real_nccl()->why;

	if (!function) {
		/* Asked again at the next call: each is an error of its own. */
		last_error_set("libbelay-nccl: %s: %s", name,
			       why[0] ? why : "the NCCL in use has no such function");
		return (void *)(size_t)missing_function;
	}
	/* Relaxed: the function has been there since before. */
	atomic_store_explicit(slot, function, memory_order_relaxed);
	return function;
}

#if defined(__x86_64__)

/* r11 holds the slot's address; it and rax are free to use, but rax counts vector arguments. */
__asm__(".text\n"
	".p2align 4\n"
	".type nccl_forward_resolve, @function\n"
	"nccl_forward_resolve:\n"
	"	.cfi_startproc\n"
	"	pushq %rax\n	pushq %rdi\n	pushq %rsi\n	pushq %rdx\n"
	"	pushq %rcx\n	pushq %r8\n	pushq %r9\n"
	"	.cfi_adjust_cfa_offset 56\n"
	"	subq $128, %rsp\n"
	"	.cfi_adjust_cfa_offset 128\n"
	"	movups %xmm0, (%rsp)\n	movups %xmm1, 16(%rsp)\n"
	"	movups %xmm2, 32(%rsp)\n	movups %xmm3, 48(%rsp)\n"
	"	movups %xmm4, 64(%rsp)\n	movups %xmm5, 80(%rsp)\n"
	"	movups %xmm6, 96(%rsp)\n	movups %xmm7, 112(%rsp)\n"
	"	movq %r11, %rdi\n"
	"	call nccl_forward_find\n"
	"	movq %rax, %r11\n"
	"	movups (%rsp), %xmm0\n	movups 16(%rsp), %xmm1\n"
	"	movups 32(%rsp), %xmm2\n	movups 48(%rsp), %xmm3\n"
	"	movups 64(%rsp), %xmm4\n	movups 80(%rsp), %xmm5\n"
	"	movups 96(%rsp), %xmm6\n	movups 112(%rsp), %xmm7\n"
	"	addq $128, %rsp\n"
	"	.cfi_adjust_cfa_offset -128\n"
	"	popq %r9\n	popq %r8\n	popq %rcx\n"
	"	popq %rdx\n	popq %rsi\n	popq %rdi\n	popq %rax\n"
	"	.cfi_adjust_cfa_offset -56\n"
	"	jmp *%r11\n"
	"	.cfi_endproc\n"
	".size nccl_forward_resolve, .-nccl_forward_resolve\n"
	".section .data.rel.local, \"aw\"\n"
	".p2align 3\n"
	".globl nccl_forward_slots\n"
	".hidden nccl_forward_slots\n"
	".type nccl_forward_slots, @object\n"
	"nccl_forward_slots:\n"
	".text\n");

#define FORWARD(name)                                                                              \
	__asm__(".text\n"                                                                          \
		".p2align 4\n"                                                                     \
		".globl " #name "\n"                                                               \
		".type " #name ", @function\n" #name ":\n"                                         \
		"	.cfi_startproc\n"                                                                \
		"	endbr64\n"                                                                       \
		"	jmp *.Lslot_" #name "(%rip)\n"                                             \
		".Lfirst_" #name ":\n"                                                             \
		"	endbr64\n"                                                                       \
		"	leaq .Lslot_" #name "(%rip), %r11\n"                                       \
		"	jmp nccl_forward_resolve\n"                                                      \
		"	.cfi_endproc\n"                                                                  \
		".size " #name ", .-" #name "\n"                                                   \
		".section .data.rel.local, \"aw\"\n"                                               \
		".Lslot_" #name ":\n"                                                              \
		"	.quad .Lfirst_" #name "\n"                                                 \
		".text\n");

#elif defined(__aarch64__)

/* x17 holds the slot's address; it and x16 are free to use. */
__asm__(".text\n"
	".p2align 4\n"
	".type nccl_forward_resolve, %function\n"
	"nccl_forward_resolve:\n"
	"	.cfi_startproc\n"
	"	stp x29, x30, [sp, #-224]!\n"
	"	.cfi_adjust_cfa_offset 224\n"
	"	.cfi_offset x29, -224\n"
	"	.cfi_offset x30, -216\n"
	"	mov x29, sp\n"
	"	stp x0, x1, [sp, #16]\n	stp x2, x3, [sp, #32]\n"
	"	stp x4, x5, [sp, #48]\n	stp x6, x7, [sp, #64]\n"
	"	str x8, [sp, #80]\n"
	"	stp q0, q1, [sp, #96]\n	stp q2, q3, [sp, #128]\n"
	"	stp q4, q5, [sp, #160]\n	stp q6, q7, [sp, #192]\n"
	"	mov x0, x17\n"
	"	bl nccl_forward_find\n"
	"	mov x16, x0\n"
	"	ldp q0, q1, [sp, #96]\n	ldp q2, q3, [sp, #128]\n"
	"	ldp q4, q5, [sp, #160]\n	ldp q6, q7, [sp, #192]\n"
	"	ldp x0, x1, [sp, #16]\n	ldp x2, x3, [sp, #32]\n"
	"	ldp x4, x5, [sp, #48]\n	ldp x6, x7, [sp, #64]\n"
	"	ldr x8, [sp, #80]\n"
	"	ldp x29, x30, [sp], #224\n"
	"	.cfi_adjust_cfa_offset -224\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size nccl_forward_resolve, .-nccl_forward_resolve\n"
	".section .data.rel.local, \"aw\"\n"
	".p2align 3\n"
	".globl nccl_forward_slots\n"
	".hidden nccl_forward_slots\n"
	".type nccl_forward_slots, %object\n"
	"nccl_forward_slots:\n"
	".text\n");

#define FORWARD(name)                                                                              \
	__asm__(".text\n"                                                                          \
		".p2align 4\n"                                                                     \
		".globl " #name "\n"                                                               \
		".type " #name ", %function\n" #name ":\n"                                         \
		"	.cfi_startproc\n"                                                                \
		"	bti c\n"                                                                         \
		"	adrp x16, .Lslot_" #name "\n"                                              \
		"	ldr x16, [x16, :lo12:.Lslot_" #name "]\n"                                  \
		"	br x16\n"                                                                        \
		".Lfirst_" #name ":\n"                                                             \
		"	bti j\n"                                                                         \
		"	adrp x17, .Lslot_" #name "\n"                                              \
		"	add x17, x17, :lo12:.Lslot_" #name "\n"                                    \
		"	b nccl_forward_resolve\n"                                                        \
		"	.cfi_endproc\n"                                                                  \
		".size " #name ", .-" #name "\n"                                                   \
		".section .data.rel.local, \"aw\"\n"                                               \
		".Lslot_" #name ":\n"                                                              \
		"	.quad .Lfirst_" #name "\n"                                                 \
		".text\n");

#else
#error "libbelay-nccl is written for x86-64 and AArch64, where NCCL is: configure --without-nccl"
#endif

FORWARDED_FUNCTIONS(FORWARD)
