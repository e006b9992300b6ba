/* SPDX-License-Identifier: Apache-2.0 */
/* See real_nccl.h. */
#include "config.h"

#include "runtime/nccl/real_nccl.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/nccl_library.h"

static struct real_nccl real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Where its code is; constant once it has been found. */
static uintptr_t code_begin, code_end;

static const char *wanted_file(void)
{
	const char *wanted = getenv("BELAY_NCCL_LIBRARY");

	return wanted ? wanted : "";
}

/* All are pointers to functions, which POSIX lets one store as dlsym() returns them. */
static void find_functions(void)
{
#define FIND(name) {&real.name, "nccl" #name},
	const struct {
		void *place;
		const char *name;
	} wanted[] = {REAL_NCCL_FUNCTIONS(FIND)};
#undef FIND

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		void *function = dlsym(real.handle, wanted[i].name);

		memcpy(wanted[i].place, &function, sizeof(function));
	}
}

/* Stops at the object that holds the address, and keeps where its segments begin and end. */
static int keep_range(struct dl_phdr_info *object, size_t size, void *address)
{
	uintptr_t begin = UINTPTR_MAX, end = 0;

	(void)size;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		uintptr_t at = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;

		if (object->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		begin = at < begin ? at : begin;
		end = at + object->dlpi_phdr[i].p_memsz > end ? at + object->dlpi_phdr[i].p_memsz
							      : end;
	}
	if ((uintptr_t)address < begin || (uintptr_t)address >= end)
		return 0;
	code_begin = begin;
	code_end = end;
	return 1;
}

static void find(void)
{
	struct nccl_library library;

	if (nccl_library_find(wanted_file(), &library, real.why, sizeof(real.why)))
		return;
	/* It is in the process now: only another reference. */
	real.handle = dlopen(library.file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	if (!real.handle) {
		snprintf(real.why, sizeof(real.why), "cannot open NCCL a second time: %s",
			 dlerror());
		return;
	}
	real.version = library.version;
	snprintf(real.file, sizeof(real.file), "%s", library.file);
	find_functions();
	(void)dl_iterate_phdr(keep_range, dlsym(real.handle, "ncclGetVersion"));
}

const struct real_nccl *real_nccl(void)
{
	(void)pthread_once(&once, find);
	return &real;
}

bool real_nccl_holds(const void *address)
{
	return (uintptr_t)address >= code_begin && (uintptr_t)address < code_end;
}

void *real_nccl_function(const char *name)
{
	const struct real_nccl *nccl = real_nccl();

	return nccl->handle ? dlsym(nccl->handle, name) : NULL;
}

static bool alone;

static void read_switch(void)
{
	const char *value = getenv("BELAY_DISABLE");

	alone = value && *value && strcmp(value, "0") != 0;
}

bool real_nccl_alone(void)
{
	static pthread_once_t read_once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&read_once, read_switch);
	return alone;
}
